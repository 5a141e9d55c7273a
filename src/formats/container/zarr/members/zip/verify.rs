//! The sums of stored members, which reading them does not compare: chunks have their own, or none,
//! and a part of a member has none at all. Used by [`super`].

use super::entry::Method;
use super::{ZipArchive, ZipEntry};
use crate::codec::checksum::Checksum;
use crate::error::{Error, Fault, Result};
use crate::memory::fallible;

/// Bytes that are read at once.
const STEP: u64 = 1 << 20;

pub(super) fn verify(archive: &ZipArchive, report: &mut dyn FnMut(Fault)) -> Result<()> {
    let mut buffer = Vec::new();
    for number in 0..archive.sorted.len() {
        let checked = archive
            .entry(number)
            .and_then(|entry| check(archive, &entry, &mut buffer));
        match checked {
            Err(Error::Fault(fault)) => report(*fault),
            other => other?,
        }
    }
    Ok(())
}

fn check(archive: &ZipArchive, entry: &ZipEntry, buffer: &mut Vec<u8>) -> Result<()> {
    if entry.is_directory() || entry.method != Method::Stored {
        return Ok(());
    }
    let range = archive.stored(entry)?;
    let (mut at, mut crc) = (range.start, Checksum::Crc32.hasher());
    while at < range.end {
        let len = STEP.min(range.end - at) as usize;
        fallible::lengthen(buffer, len, "cannot check a zip file")?;
        let part = &mut buffer[..len];
        archive.source.fetch_one(at, part)?;
        crc.update(part);
        at += len as u64;
    }
    let found = crc.finish();
    if found.as_bytes() == entry.crc.to_le_bytes() {
        return Ok(());
    }
    let fault = Fault::new("the member's sum does not match").bytes(range);
    let fault = fault.file(&String::from_utf8_lossy(entry.name));
    Err(fault
        .expected(format_args!("{:08x}", entry.crc.swap_bytes()))
        .found(found)
        .into())
}
