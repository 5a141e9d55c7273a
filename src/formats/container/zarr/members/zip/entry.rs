//! Entries of the directory of a zip file. Pure. Used by [`super`].

use super::end::{u16_at, u32_at, u64_at};
use crate::error::{Error, Fault, Result};

const SIGNATURE: [u8; 4] = *b"PK\x01\x02";

/// Bytes of an entry before its name.
pub(super) const ENTRY_LEN: usize = 46;

/// Most that deflate makes of a byte.
const DEFLATE_MOST: u64 = 1032;

/// How the bytes of a member are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
    /// Encrypted, or by another method.
    Unknown(u16),
}

/// A member as the directory has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ZipEntry<'d> {
    pub(super) name: &'d [u8],
    pub(super) method: Method,
    pub(super) crc: u32,
    pub(super) stored: u64,
    pub(super) plain: u64,
    /// Where its local header begins.
    pub(super) header: u64,
    /// Bytes of the entry.
    pub(super) len: usize,
}

impl<'d> ZipEntry<'d> {
    /// The entry with which these bytes of a directory begin.
    pub(super) fn parse(directory: &'d [u8]) -> Result<ZipEntry<'d>> {
        let broken =
            |what: &str| Error::from(Fault::new(format!("an entry of the zip directory {what}")));
        if directory.len() < ENTRY_LEN || !directory.starts_with(&SIGNATURE) {
            return Err(broken("has no signature"));
        }
        let (name_len, extra_len) = (u16_at(directory, 28).into(), u16_at(directory, 30).into());
        let name_end = ENTRY_LEN + usize::from(u16_at(directory, 28));
        let lens: [usize; 3] = [name_len, extra_len, u16_at(directory, 32).into()];
        let len = ENTRY_LEN + lens.iter().sum::<usize>();
        let entry = directory
            .get(..len)
            .ok_or_else(|| broken("ends too early"))?;
        let (flags, method) = (u16_at(entry, 8), u16_at(entry, 10));
        let mut parsed = ZipEntry {
            name: &entry[ENTRY_LEN..name_end],
            method: match (flags & 1, method) {
                (0, 0) => Method::Stored,
                (0, 8) => Method::Deflated,
                _ => Method::Unknown(method),
            },
            crc: u32_at(entry, 16),
            stored: u32_at(entry, 20).into(),
            plain: u32_at(entry, 24).into(),
            header: u32_at(entry, 42).into(),
            len,
        };
        parsed.widen(&entry[name_end..name_end + extra_len]);
        Ok(parsed)
    }

    /// Takes the sizes that 32 bits do not hold from where they stand behind the name.
    fn widen(&mut self, mut extra: &[u8]) {
        const WIDE: u64 = u32::MAX as u64;
        while extra.len() >= 4 {
            let (id, len) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
            let mut field = extra.get(4..4 + len).unwrap_or_default();
            if id == 1 {
                for value in [&mut self.plain, &mut self.stored, &mut self.header] {
                    if *value == WIDE && field.len() >= 8 {
                        *value = u64_at(field, 0);
                        field = &field[8..];
                    }
                }
            }
            extra = extra.get(4 + len..).unwrap_or_default();
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.name.ends_with(b"/")
    }

    /// Its key, if it leads nowhere else.
    pub(super) fn key(&self) -> Option<&'d [u8]> {
        let name = self.name.strip_suffix(b"/").unwrap_or(self.name);
        let leads_on = |part: &[u8]| !part.is_empty() && part != b"." && part != b"..";
        let is_key = name.split(|byte| *byte == b'/').all(leads_on) && !name.contains(&0);
        is_key.then_some(name)
    }

    /// Whether it can have as many bytes as it claims.
    pub(super) fn is_plausible(&self) -> bool {
        match self.method {
            Method::Stored => self.plain == self.stored,
            _ => self.plain <= self.stored.saturating_mul(DEFLATE_MOST),
        }
    }
}
