//! A store that is a zip file: its members are those of the archive, stored or deflated.
//!
//! The directory is read when the store is opened, kept as it is, and its entries are found by
//! their names in order; of two members of one name the later one counts. A deflated member is
//! decoded as a whole. Members whose names lead elsewhere are none. Used by [`super::super`].

mod end;
mod entry;
mod recognise;
mod verify;

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub(in super::super) use recognise::{holds_store, is_zip};

use super::{DecodedBlocks, DecodesWhole, MemberKind, Members};
use crate::array::nested::NestedBlocks;
use crate::codec::checksum::Checksum;
use crate::codec::numcodecs::inflate;
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::{Arena, fallible, no_memory, room};
use crate::source::{Fetch, Source, SourceIdentity};
use end::u16_at;
use entry::{ENTRY_LEN, Method, ZipEntry};

const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// Bytes of a local header before the name.
const LOCAL_LEN: u64 = 30;
/// What a local header may have more than its entry in the directory.
const SLACK: u64 = 64;
/// Documents are deflated to a part of their bytes that is not much smaller.
const LIKELY: u64 = 64;

pub(in super::super) struct ZipMembers {
    archive: Arc<ZipArchive>,
    deflated: Arc<DecodedBlocks>,
}

/// The file, and its directory.
struct ZipArchive {
    source: Arc<dyn Source>,
    directory: Vec<u8>,
    /// Where entries begin in the directory, in order of their keys.
    sorted: Vec<u32>,
    _charge: Hold,
}

impl ZipMembers {
    /// Reads the directory. A fault: it cannot be trusted.
    pub(in super::super) fn open(
        source: Arc<dyn Source>,
        nested: &Arc<NestedBlocks>,
        budget: &Arc<Budget>,
    ) -> Result<ZipMembers> {
        let place = end::find(&*source)?;
        let len = place.end - place.start;
        let most = place.entries.min(len / ENTRY_LEN as u64);
        if u32::try_from(len).is_err() {
            return Err(NotShown::new("a zip file with a directory of more than 4 GiB").into());
        }
        let charge = budget.keep(len.saturating_add(most.saturating_mul(4)))?;
        let mut directory = fallible::zeros(len, "cannot read the directory of a zip file")?;
        source.fetch_one(place.start, &mut directory)?;
        let sorted = sorted(&directory, most, place.entries)?;
        let archive = Arc::new(ZipArchive {
            source,
            directory,
            sorted,
            _charge: charge,
        });
        let inflating = Arc::clone(&archive) as Arc<dyn DecodesWhole>;
        Ok(ZipMembers {
            deflated: DecodedBlocks::new(inflating, nested),
            archive,
        })
    }
}

/// The entries with keys, by these; of several with one key the last.
fn sorted(directory: &[u8], most: u64, expected: u64) -> Result<Vec<u32>> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut sorted: Vec<u32> = fallible::room_for(most, "cannot sort the members of a zip file")?;
    let (mut at, mut found) = (0, 0u64);
    while at < directory.len() {
        let rest = directory.get(at..).unwrap_or_default();
        let entry = ZipEntry::parse(rest)?;
        found += 1;
        if entry.key().is_some() && sorted.len() < most {
            sorted.push(u32::try_from(at).unwrap_or(u32::MAX));
        }
        at += entry.len;
    }
    if found != expected {
        let fault = Fault::new("the zip file has another number of members");
        return Err(fault.expected(expected).found(found).into());
    }
    let key = |at: &u32| key_at(directory, *at);
    sorted.sort_unstable_by(|a, b| key(a).cmp(key(b)).then(b.cmp(a)));
    sorted.dedup_by(|a, b| key(a) == key(b));
    Ok(sorted)
}

/// The key of an entry that has one.
fn key_at(directory: &[u8], at: u32) -> &[u8] {
    let rest = directory.get(at as usize..).unwrap_or_default();
    let name = ENTRY_LEN + usize::from(u16_at(rest, 28));
    let name = rest.get(ENTRY_LEN..name).unwrap_or_default();
    name.strip_suffix(b"/").unwrap_or(name)
}

impl ZipArchive {
    /// The place of a key among the sorted ones, or where it would be.
    fn search(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        self.sorted
            .binary_search_by(|at| key_at(&self.directory, *at).cmp(key))
    }

    fn entry(&self, number: usize) -> Result<ZipEntry<'_>> {
        let at = self
            .sorted
            .get(number)
            .map_or(usize::MAX, |at| *at as usize);
        let entry = ZipEntry::parse(self.directory.get(at..).unwrap_or_default())?;
        Ok(entry)
    }

    /// The first place behind all keys that begin so.
    fn behind(&self, prefix: &[u8]) -> usize {
        let below = |at: &u32| {
            let key = key_at(&self.directory, *at);
            key < prefix || key.starts_with(prefix)
        };
        self.sorted.partition_point(below)
    }

    /// Where the stored bytes of a member lie.
    fn stored(&self, entry: &ZipEntry) -> Result<Range<u64>> {
        let fault = |what: &str| {
            let end = entry.header.saturating_add(LOCAL_LEN);
            let fault = Fault::new(what).bytes(entry.header..end);
            fault.file(&String::from_utf8_lossy(entry.name))
        };
        let mut header = [0; LOCAL_LEN as usize];
        let end = entry.header.checked_add(LOCAL_LEN);
        if end.is_none_or(|end| end > self.source.len()) {
            return Err(fault("the member lies behind the end of the zip file").into());
        }
        self.source.fetch_one(entry.header, &mut header)?;
        if !header.starts_with(&LOCAL) {
            return Err(fault("the member has no local header").into());
        }
        let beside = u64::from(u16_at(&header, 26)) + u64::from(u16_at(&header, 28));
        let start = entry.header + LOCAL_LEN + beside;
        match start.checked_add(entry.stored) {
            Some(end) if end <= self.source.len() => Ok(start..end),
            _ => Err(fault("the member lies behind the end of the zip file").into()),
        }
    }

    /// The bytes that [`ZipArchive::stored`] and the member lie in, as far as the directory tells.
    fn around(&self, entry: &ZipEntry) -> Range<u64> {
        let beside = LOCAL_LEN + (entry.len - ENTRY_LEN) as u64 + SLACK;
        let end = entry
            .header
            .saturating_add(beside)
            .saturating_add(entry.stored);
        entry.header..end.min(self.source.len())
    }

    fn identity(&self, entry: &ZipEntry) -> SourceIdentity {
        self.source.identity().resized(entry.plain)
    }
}

impl DecodesWhole for ZipArchive {
    fn most(&self, number: u64) -> u64 {
        let entry = usize::try_from(number)
            .ok()
            .map(|number| self.entry(number));
        entry.and_then(Result::ok).map_or(0, |entry| entry.plain)
    }

    fn scratch(&self, number: u64) -> u64 {
        let entry = usize::try_from(number)
            .ok()
            .map(|number| self.entry(number));
        entry
            .and_then(Result::ok)
            .map_or(0, |entry| room(entry.stored))
    }

    fn is_far(&self) -> bool {
        self.source.is_far()
    }

    fn expect(&self, number: u64) {
        let entry = usize::try_from(number)
            .ok()
            .map(|number| self.entry(number));
        if let Some(Ok(entry)) = entry {
            self.source
                .expect(std::slice::from_ref(&self.around(&entry)));
        }
    }

    fn decode(&self, number: u64, out: &mut [u8], mut scratch: Arena<'_>) -> Result<u64> {
        let entry = self.entry(usize::try_from(number).unwrap_or(usize::MAX))?;
        let stored = scratch.take(entry.stored)?;
        self.inflate(&entry, stored, out)
    }
}

impl ZipArchive {
    /// A whole member, in room for what it is likely to have: what it claims it need not have.
    fn inflated(&self, entry: &ZipEntry) -> Result<Vec<u8>> {
        const DOING: &str = "cannot read a member of a zip file";
        let likely = entry
            .stored
            .saturating_mul(LIKELY)
            .saturating_add(LIKELY << 10);
        let mut stored = fallible::zeros(entry.stored, DOING)?;
        let mut out = fallible::zeros(entry.plain.min(likely), DOING)?;
        match self.inflate(entry, &mut stored, &mut out) {
            Err(Error::Fault(_)) if likely < entry.plain => {
                out = fallible::zeros(entry.plain, DOING)?;
                self.inflate(entry, &mut stored, &mut out).map(|_| out)
            }
            other => other.map(|_| out),
        }
    }

    /// Decodes a deflated member, which must be as long as `out`.
    fn inflate(&self, entry: &ZipEntry, stored: &mut [u8], out: &mut [u8]) -> Result<u64> {
        let named = |fault: Fault| fault.file(&String::from_utf8_lossy(entry.name));
        let range = self.stored(entry)?;
        self.source.fetch_one(range.start, stored)?;
        let inflated = inflate(stored, out).map_err(super::super::damage::error);
        let len = inflated.map_err(|e| e.map_fault(|fault| named(fault).bytes(range.clone())))?;
        let sum = Checksum::Crc32.digest(out.get(..len).unwrap_or_default());
        if len != out.len() || sum.as_bytes() != entry.crc.to_le_bytes() {
            let fault = named(Fault::new("the member's sum or length does not match"));
            let fault = fault.bytes(range);
            let fault = fault.expected(format_args!("{:08x}", entry.crc.swap_bytes()));
            return Err(fault.found(sum).into());
        }
        Ok(len as u64)
    }
}

impl Members for ZipMembers {
    fn open(&self, key: &Path) -> Result<Option<Arc<dyn Source>>> {
        let Ok(number) = self.archive.search(key.as_os_str().as_bytes()) else {
            return Ok(None);
        };
        let entry = self.archive.entry(number)?;
        if entry.is_directory() {
            return Ok(None);
        }
        let named = |fault: Fault| fault.file(&key.display().to_string());
        let end = entry
            .header
            .saturating_add(LOCAL_LEN)
            .saturating_add(entry.stored);
        match entry.method {
            _ if end > self.archive.source.len() => {
                let fault = Fault::new("the member lies behind the end of the zip file");
                Err(named(fault.found(end)).into())
            }
            _ if !entry.is_plausible() => {
                let fault = Fault::new("the member has fewer stored bytes than it needs");
                Err(named(fault.expected(entry.plain).found(entry.stored)).into())
            }
            Method::Stored => Ok(Some(Arc::new(StoredMember {
                number,
                start: OnceLock::new(),
                around: self.archive.around(&entry),
                identity: self.archive.identity(&entry),
                archive: Arc::clone(&self.archive),
            }))),
            Method::Deflated => {
                let identity = self.archive.identity(&entry);
                self.deflated.sized(number as u64, identity).map(Some)
            }
            Method::Unknown(method) => {
                let why = format!("a member of the zip file by method {method}, or encrypted");
                Err(NotShown::new(why).into())
            }
        }
    }

    fn whole(&self, key: &Path, source: &dyn Source) -> Result<Vec<u8>> {
        let number = self.archive.search(key.as_os_str().as_bytes());
        match number.map(|number| self.archive.entry(number)) {
            Ok(Ok(entry)) if entry.method == Method::Deflated => self.archive.inflated(&entry),
            _ => {
                let mut bytes = fallible::zeros(source.len(), "cannot read a document")?;
                source.fetch_one(0, &mut bytes)?;
                Ok(bytes)
            }
        }
    }

    fn identity(&self, key: &Path) -> Result<Option<SourceIdentity>> {
        let number = self.archive.search(key.as_os_str().as_bytes()).ok();
        let entry = number
            .map(|number| self.archive.entry(number))
            .transpose()?;
        let entry = entry.filter(|entry| !entry.is_directory());
        Ok(entry.map(|entry| self.archive.identity(&entry)))
    }

    fn list(&self, directory: &Path, each: &mut dyn FnMut(&[u8], MemberKind)) -> Result<()> {
        let mut prefix = directory.as_os_str().as_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        let archive = &self.archive;
        let mut at = archive.search(&prefix).unwrap_or_else(|at| at);
        while let Some(key) = archive
            .sorted
            .get(at)
            .map(|at| key_at(&archive.directory, *at))
        {
            let Some(rest) = key.strip_prefix(&prefix[..]) else {
                break;
            };
            let name = rest.split(|byte| *byte == b'/').next().unwrap_or_default();
            if name.len() < rest.len() {
                // What lies in it is passed over at once.
                let below = [&prefix[..], name, b"/"].concat();
                at = archive.behind(&below).max(at + 1);
                // A directory that has an entry of its own was told by that.
                let own = archive.search(&below[..below.len() - 1]);
                let own = own.ok().map(|at| archive.entry(at)).transpose()?;
                if !own.is_some_and(|own| own.is_directory()) {
                    each(name, MemberKind::Directory);
                }
                continue;
            }
            each(
                name,
                match archive.entry(at)?.is_directory() {
                    true => MemberKind::Directory,
                    false => MemberKind::File,
                },
            );
            // Names that follow may lie before those of what is in it: `a b` before `a/x`.
            at += 1;
        }
        Ok(())
    }

    fn is_looked_through(&self, _directory: &Path) -> Result<bool> {
        Ok(true)
    }

    fn is_far(&self) -> bool {
        self.archive.source.is_far()
    }

    fn place(&self, _directory: &Path) -> Option<SourceIdentity> {
        None
    }

    fn stored_below(&self, directory: &Path) -> Option<u64> {
        let mut prefix = directory.as_os_str().as_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        let first = self.archive.search(&prefix).unwrap_or_else(|at| at);
        let last = match prefix.is_empty() {
            true => self.archive.sorted.len(),
            false => self.archive.behind(&prefix),
        };
        let entries = (first..last).filter_map(|number| self.archive.entry(number).ok());
        Some(entries.fold(0, |sum, entry| sum.saturating_add(entry.stored)))
    }

    fn verify(&self, report: &mut dyn FnMut(Fault)) -> Result<()> {
        verify::verify(&self.archive, report)
    }
}

/// A member that is stored as it is. Its local header says where it begins, and is read when the
/// first bytes are.
struct StoredMember {
    archive: Arc<ZipArchive>,
    number: usize,
    start: OnceLock<u64>,
    around: Range<u64>,
    identity: SourceIdentity,
}

impl StoredMember {
    fn start(&self) -> Result<u64> {
        if let Some(start) = self.start.get() {
            return Ok(*start);
        }
        let start = self
            .archive
            .stored(&self.archive.entry(self.number)?)?
            .start;
        Ok(*self.start.get_or_init(|| start))
    }
}

impl Source for StoredMember {
    fn len(&self) -> u64 {
        self.identity.size()
    }

    fn identity(&self) -> SourceIdentity {
        self.identity
    }

    fn is_far(&self) -> bool {
        self.archive.source.is_far()
    }

    fn expect(&self, ranges: &[Range<u64>]) {
        let source = &self.archive.source;
        let Some(start) = self.start.get() else {
            // The header, and what is wanted wherever that begins.
            let last = ranges.last().map_or(0, |range| range.end);
            let beside = self.around.end - self.around.start;
            let beside = beside.saturating_sub(self.len());
            let end = self
                .around
                .start
                .saturating_add(beside)
                .saturating_add(last);
            source.expect(std::slice::from_ref(
                &(self.around.start..end.min(self.around.end)),
            ));
            return;
        };
        let at = |at: u64| start.saturating_add(at).min(self.around.end);
        let ranges = ranges.iter().map(|range| at(range.start)..at(range.end));
        source.expect(&ranges.collect::<Vec<_>>());
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        let end = |range: &Fetch| range.offset.checked_add(range.buf.len() as u64);
        let is_within = |range: &Fetch| end(range).is_some_and(|end| end <= self.len());
        if !ranges.iter().all(is_within) {
            let fault = Fault::new("the member ends too early");
            return Err(fault.bytes(self.around.clone()).into());
        }
        let start = self.start()?;
        let mut within: Vec<Fetch<'_>> = Vec::new();
        let reserved = within.try_reserve(ranges.len());
        reserved.map_err(|_| no_memory("cannot read a member"))?;
        within.extend(ranges.iter_mut().map(|range| Fetch {
            offset: start + range.offset,
            buf: &mut *range.buf,
        }));
        self.archive.source.fetch(&mut within)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let left = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        self.fetch_one(offset, &mut buf[..left])?;
        Ok(left)
    }
}
