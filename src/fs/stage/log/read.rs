//! Reads a log: which records it has, where they end, and whether that is an end or damage.
//!
//! The end is the first record that does not check. That is normal for records that were never
//! synced. But records say how much of the log was on the disk when they were written: a record
//! below that which does not check is damage, and the log is refused. Whether there are such
//! records behind the end is found by looking at every place where a header could be, which takes
//! time for the length of the file, whatever it says. After each sync a record says so, which
//! reaches the disk when the system likes: so after a power loss damage to the records synced last
//! may look like an end, and after a kill nothing does. A log is believed only if it is a regular
//! file of mode 0600 that belongs to the container's owner, and names the container. Nothing is
//! allocated by what a record claims beyond the file's own length.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::found::LogState;
use super::record::{self, BEFORE_BYTES, Begin, HEADER, LONGEST_PAYLOAD, Record, RecordHeader};
use super::{LogBytes, LogOf};
use crate::error::{Error, Fault, Result};
use crate::memory::fallible;
use crate::source::{FileKind, Source, Stat};

const DOING: &str = "cannot read the log of a stage";

/// Bytes that are read at once.
const STEP: usize = 64 << 10;

/// Sequence numbers rise by less than this from record to record. After a recovery they rise by
/// [`RECOVERED`], which is more than any number of records that a crash left behind.
const MOST_RISE: u64 = 1 << 48;
pub(super) const RECOVERED: u64 = 1 << 32;

/// A record that checks.
pub(super) enum FoundRecord {
    Begin(Begin),
    Other(Record),
    /// Layer, index, offset; where the bytes are in the log, and how many.
    Bytes {
        redo: bool,
        layer: u64,
        index: u32,
        offset: u64,
        at: u64,
        len: u64,
    },
}

/// Goes through the records of a log.
struct Records<'a> {
    log: &'a LogBytes,
    len: u64,
    at: u64,
    /// Of the last record.
    sequence: Option<u64>,
    /// The most that a record has said to be on the disk.
    synced: u64,
    payload: Vec<u8>,
}

/// The file under a name that a log of a container may have.
pub enum FoundLog {
    /// No file, or nothing in it ever reached the disk.
    Nothing,
    /// Something that is not believed to be a log of this container, for this reason.
    Foreign(Error),
    Held(Box<LogState>),
}

/// The file under this name of the container's logs. An error if it cannot be read, or is damaged.
pub fn read_log(of: &LogOf<'_>, name: &OsStr) -> Result<FoundLog> {
    let path = of.directory.join(name);
    let stat = match of.store.stat(&path) {
        Err(e) if e.is_not_found() => return Ok(FoundLog::Nothing),
        stat => stat?,
    };
    let located = |e: Error| e.of_container(&of.store.display(&path));
    if let Err(e) = check_trust(&stat, of) {
        return Ok(FoundLog::Foreign(located(e)));
    }
    let source = of.store.open(&path)?;
    if source.id() != stat.id {
        let path = of.store.display(&path);
        return Err(Error::Changed { path });
    }
    match fold(source, of, name).map_err(located)? {
        FoundLog::Foreign(e) => Ok(FoundLog::Foreign(located(e))),
        found => Ok(found),
    }
}

fn check_trust(stat: &Stat, of: &LogOf<'_>) -> Result<()> {
    let refused =
        |what: &str| Fault::new(format!("the log of a stage is not believed: its {what}"));
    let mode = u32::from(stat.mode) & 0o7777;
    if stat.kind != FileKind::File {
        return Err(refused("kind is wrong").expected("a regular file").into());
    }
    if mode != 0o600 {
        let fault = refused("mode is wrong").expected("0600");
        return Err(fault.found(format_args!("{mode:04o}")).into());
    }
    if stat.uid != of.owner {
        let fault = refused("owner is not the container's").expected(of.owner);
        return Err(fault.found(stat.uid).into());
    }
    Ok(())
}

/// What the records of a file say that is believed to be a log.
pub(crate) fn fold(source: Arc<dyn Source>, of: &LogOf<'_>, name: &OsStr) -> Result<FoundLog> {
    let log = LogBytes::Found(Arc::clone(&source));
    let mut records = Records {
        len: source.identity().size(),
        log: &log,
        at: 0,
        sequence: None,
        synced: 0,
        payload: Vec::new(),
    };
    let Some(first) = records.next()? else {
        records.check_end()?;
        return Ok(FoundLog::Nothing);
    };
    let FoundRecord::Begin(begin) = first else {
        return Err(Fault::new("the log does not begin with what it is of")
            .bytes(0..records.at)
            .into());
    };
    if begin.container != of.container.as_bytes() {
        let shown = String::from_utf8_lossy(&begin.container).into_owned();
        let fault = Fault::new("the log is another container's");
        let fault = fault.expected(Path::new(of.container).display());
        return Ok(FoundLog::Foreign(fault.found(shown).into()));
    }
    let mut state = LogState::new(begin, name, source)?;
    loop {
        let at = records.at;
        let Some(found) = records.next()? else { break };
        let located = |fault: Fault| fault.bytes(at..records.at);
        state.add(found).map_err(|e| e.map_fault(located))?;
    }
    records.check_end()?;
    state.end_at(records.at, records.sequence.unwrap_or(0));
    state.build_layers()?;
    Ok(FoundLog::Held(Box::new(state)))
}

impl Records<'_> {
    /// The next record. None: there is none that checks.
    fn next(&mut self) -> Result<Option<FoundRecord>> {
        let Some(header) = self.header_at(self.at)? else {
            return Ok(None);
        };
        if !self.fits(header.sequence) || header.len() > self.len - self.at {
            return Ok(None);
        }
        let Some(found) = self.payload_of(&header)? else {
            return Ok(None);
        };
        self.sequence = Some(header.sequence);
        self.synced = self.synced.max(header.synced);
        self.at += header.len();
        Ok(Some(found))
    }

    fn fits(&self, sequence: u64) -> bool {
        let rise = |last: u64| sequence.checked_sub(last);
        let rise = self.sequence.map_or(Some(1), rise);
        rise.is_some_and(|rise| rise > 0 && rise < MOST_RISE)
    }

    fn header_at(&self, at: u64) -> Result<Option<RecordHeader>> {
        let mut bytes = [0; HEADER];
        if self.len.saturating_sub(at) < HEADER as u64 {
            return Ok(None);
        }
        self.log.read(at, &mut bytes)?;
        Ok(RecordHeader::decode(&bytes))
    }

    /// None: it does not check. A payload that checks and means nothing is a fault.
    fn payload_of(&mut self, header: &RecordHeader) -> Result<Option<FoundRecord>> {
        let (at, len) = (self.at + HEADER as u64, header.payload as usize);
        if len > LONGEST_PAYLOAD {
            return Ok(None);
        }
        match header.kind {
            record::EXTENT | record::REDO => self.bytes_of(header, at, len),
            record::BEGIN | record::OTHER => self.small_of(header, at, len),
            kind => Err(self
                .nonsense(header, format!("a record of kind {kind}"))
                .into()),
        }
    }

    fn nonsense(&self, header: &RecordHeader, what: String) -> Fault {
        let end = self.at + header.len();
        Fault::new("a record of the log checks and means nothing")
            .bytes(self.at..end)
            .found(what)
    }

    fn small_of(
        &mut self,
        header: &RecordHeader,
        at: u64,
        len: usize,
    ) -> Result<Option<FoundRecord>> {
        let filled = len.next_multiple_of(8);
        fallible::lengthen(&mut self.payload, filled, DOING)?;
        self.payload.truncate(filled);
        self.log.read(at, &mut self.payload)?;
        if crc32fast::hash(&self.payload) != header.payload_crc {
            return Ok(None);
        }
        self.payload.truncate(len);
        let found = match header.kind {
            record::BEGIN => postcard::from_bytes(&self.payload).map(FoundRecord::Begin),
            _ => postcard::from_bytes(&self.payload).map(FoundRecord::Other),
        };
        found
            .map(Some)
            .map_err(|e| self.nonsense(header, e.to_string()).into())
    }

    fn bytes_of(
        &mut self,
        header: &RecordHeader,
        at: u64,
        len: usize,
    ) -> Result<Option<FoundRecord>> {
        if len < BEFORE_BYTES {
            return Err(self.nonsense(header, format!("{len} bytes")).into());
        }
        let mut before = [0; BEFORE_BYTES];
        self.log.read(at, &mut before)?;
        fallible::lengthen(&mut self.payload, STEP, DOING)?;
        let (mut crc, mut done) = (crc32fast::Hasher::new(), 0);
        let filled = len.next_multiple_of(8);
        while done < filled {
            let n = (filled - done).min(STEP);
            self.log.read(at + done as u64, &mut self.payload[..n])?;
            crc.update(&self.payload[..n]);
            done += n;
        }
        if crc.finalize() != header.payload_crc {
            return Ok(None);
        }
        let (layer, index, offset) = record::read_before_bytes(&before);
        Ok(Some(FoundRecord::Bytes {
            redo: header.kind == record::REDO,
            layer,
            index,
            offset,
            at: at + BEFORE_BYTES as u64,
            len: (len - BEFORE_BYTES) as u64,
        }))
    }

    /// Whether everything that was ever on the disk has been read.
    fn check_end(&mut self) -> Result<()> {
        if self.synced > self.at {
            return Err(self.damage(self.synced));
        }
        fallible::lengthen(&mut self.payload, STEP + HEADER, DOING)?;
        let mut at = self.at;
        while self.len.saturating_sub(at) >= HEADER as u64 {
            let n = (self.len - at).min(self.payload.len() as u64) as usize;
            self.log.read(at, &mut self.payload[..n])?;
            for (from, header) in self.payload[..n].windows(HEADER).enumerate().step_by(8) {
                let header = header.try_into().ok().and_then(RecordHeader::decode);
                if let Some(header) = header.filter(|header| self.vouches(header)) {
                    return Err(self.damage(header.synced.max(at + from as u64)));
                }
            }
            // Windows overlap by a header that was not looked at as a whole.
            at += ((n - HEADER) as u64 / 8 + 1) * 8;
        }
        Ok(())
    }

    /// Whether a header that lies behind the end says that the end is none: that the missing
    /// records had reached the disk.
    fn vouches(&self, header: &RecordHeader) -> bool {
        let fits = self.sequence.is_none() || self.fits(header.sequence);
        fits && header.synced > self.at
    }

    fn damage(&self, to: u64) -> Error {
        let fault = Fault::new("the log is damaged where it had reached the disk");
        let fault = fault.bytes(self.at..to.max(self.at)).expected("a record");
        fault.found("bytes that do not check").into()
    }
}
