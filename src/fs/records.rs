//! Records of logs, and their bytes: of the log of a stage, of a scratch file's, and of that of a
//! conversion.
//!
//! ```text
//! 0   u16   magic
//! 2   u8    kind
//! 3   u8    version of the log
//! 4   u32   length of the payload; zeros follow it to the next multiple of 8
//! 8   u32   CRC-32 of the payload and those zeros
//! 12  u32   CRC-32 of the header, with zeros here
//! 16  u64   sequence number
//! 24  u64   how much of the log was known to be on the disk when this was written
//! ```
//!
//! All numbers are little-endian. CRC-32 because it notices every error of up to 32 bits in a row,
//! runs at memory speed and is here already; what it must tell apart is a record that was written
//! from one that was not, or in part, where the sequence number has to fit as well. It is no
//! protection against malice: the file's mode is. The header has its own, so that headers can be
//! looked for behind damage without reading what they claim to describe; and so that a log of
//! another version is known, refused and kept: what stands before the payload is the same in every
//! version, which is another one when kinds or payloads are.
//!
//! The end is the first record that does not check. That is normal for records that were never
//! synced. But records may say how much of the log was on the disk when they were written: a record
//! below that which does not check is damage ([`Records::check_end`]).
//!
//! Payloads of bytes begin with three numbers; the others are small, and the owner's business. What
//! is read takes memory by what is there, whatever it claims. Used by `stage` and `scratch`.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::fallible;
use crate::source::Source;

const MAGIC: u16 = 0xA57A;
const VERSION: u8 = 1;

pub(crate) const HEADER: usize = 32;

/// A kind with this bit has a payload of bytes: what follows [`NUMBERS`] is not read, but where it
/// lies.
pub(crate) const BYTES: u8 = 0x80;
pub(crate) const NUMBERS: usize = 24;

/// The longest payload; no writer makes longer ones.
const LONGEST_PAYLOAD: usize = 16 << 20;

/// Bytes that are read at once.
const STEP: usize = 64 << 10;

/// Sequence numbers rise by less than this from record to record.
const MOST_RISE: u64 = 1 << 48;

const DOING: &str = "cannot read a log";

/// What a record says beside its payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordHead {
    pub(crate) kind: u8,
    pub(crate) sequence: u64,
    pub(crate) synced: u64,
}

impl RecordHead {
    /// Completes a record: behind room for its header lie so many bytes, and zeros.
    pub(crate) fn seal(&self, payload: usize, record: &mut [u8]) {
        let (header, filled) = record.split_at_mut(HEADER);
        header[..2].copy_from_slice(&MAGIC.to_le_bytes());
        (header[2], header[3]) = (self.kind, VERSION);
        header[4..8].copy_from_slice(&(payload as u32).to_le_bytes());
        header[8..12].copy_from_slice(&crc32fast::hash(filled).to_le_bytes());
        header[12..16].fill(0);
        header[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        header[24..].copy_from_slice(&self.synced.to_le_bytes());
        let crc = crc32fast::hash(header);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
    }

    /// Appends a record with a payload of these parts.
    pub(crate) fn append(&self, parts: &[&[u8]], log: &mut Vec<u8>) {
        let start = log.len();
        log.extend_from_slice(&[0; HEADER]);
        parts.iter().for_each(|part| log.extend_from_slice(part));
        let payload = log.len() - start - HEADER;
        log.resize(start + HEADER + payload.next_multiple_of(8), 0);
        self.seal(payload, &mut log[start..]);
    }
}

/// The payload of a small record.
pub(crate) fn encoded(what: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = postcard::to_allocvec(what);
    let bytes = bytes.map_err(|e| Error::Bug(format!("a record cannot be written: {e}")))?;
    match bytes.len() <= LONGEST_PAYLOAD {
        true => Ok(bytes),
        false => Err(Error::Bug("a record is too long".into())),
    }
}

/// The beginning of a payload of bytes.
pub(crate) fn numbers(of: [u64; 3]) -> [u8; NUMBERS] {
    let mut bytes = [0; NUMBERS];
    for (number, field) in of.into_iter().zip(bytes.as_chunks_mut::<8>().0) {
        *field = number.to_le_bytes();
    }
    bytes
}

/// A record that checks.
pub(crate) struct FoundRecord<'a> {
    pub(crate) kind: u8,
    /// Where its payload lies.
    pub(crate) at: u64,
    len: u64,
    /// All of it; of one of bytes the numbers.
    payload: &'a [u8],
}

impl FoundRecord<'_> {
    /// What a small one says.
    pub(crate) fn decoded<T: DeserializeOwned>(&self) -> Result<T> {
        postcard::from_bytes(self.payload).map_err(|e| self.nonsense(e))
    }

    /// Of one of bytes: its numbers, where the bytes lie, and how many.
    pub(crate) fn bytes(&self) -> ([u64; 3], u64, u64) {
        let mut numbers = [0; 3];
        for (number, field) in numbers.iter_mut().zip(self.payload.as_chunks::<8>().0) {
            *number = u64::from_le_bytes(*field);
        }
        let before = NUMBERS as u64;
        (numbers, self.at + before, self.len.saturating_sub(before))
    }

    /// It checks, and is none that is ever written.
    pub(crate) fn nonsense(&self, found: impl std::fmt::Display) -> Error {
        Fault::new("a record of the log checks and means nothing")
            .bytes(self.at - HEADER as u64..self.at + self.len)
            .found(found)
            .into()
    }
}

/// How the sequence numbers of a log go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordSequence {
    /// They rise, from the last one on that was read.
    Rising(Option<u64>),
    /// All are this one.
    Same(u64),
}

/// Goes through the records of a log.
pub(crate) struct Records<'a> {
    log: &'a dyn Source,
    at: u64,
    sequence: RecordSequence,
    /// The most that a record has said to be on the disk.
    synced: u64,
    payload: Vec<u8>,
}

struct RecordHeader {
    head: RecordHead,
    version: u8,
    payload: u32,
    payload_crc: u32,
}

impl<'a> Records<'a> {
    /// Those from an offset on.
    pub(crate) fn new(log: &'a dyn Source, at: u64, sequence: RecordSequence) -> Records<'a> {
        Records {
            log,
            at,
            sequence,
            synced: 0,
            payload: Vec::new(),
        }
    }

    /// Where the last record ends that was read.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The number of that one.
    pub(crate) fn sequence(&self) -> u64 {
        match self.sequence {
            RecordSequence::Same(last) => last,
            RecordSequence::Rising(last) => last.unwrap_or(0),
        }
    }

    /// The next record. None: there is none that checks.
    pub(crate) fn next(&mut self) -> Result<Option<FoundRecord<'_>>> {
        let mut bytes = [0; HEADER];
        if self.log.read(self.at, &mut bytes)? < HEADER {
            return Ok(None);
        }
        let Some(header) = RecordHeader::decode(&bytes) else {
            return Ok(None);
        };
        if header.version != VERSION {
            return Err(of_another_version("log", header.version, VERSION));
        }
        let (head, at, len) = (header.head, self.at + HEADER as u64, header.payload);
        if !self.fits(head.sequence) || !self.read_payload(at, &header)? {
            return Ok(None);
        }
        if let RecordSequence::Rising(last) = &mut self.sequence {
            *last = Some(head.sequence);
        }
        self.synced = self.synced.max(head.synced);
        self.at = at + u64::from(len).next_multiple_of(8);
        let kept = match head.kind & BYTES {
            0 => len as usize,
            _ => NUMBERS,
        };
        let found = FoundRecord {
            kind: head.kind,
            at,
            len: len.into(),
            payload: self.payload.get(..kept).unwrap_or(&[]),
        };
        match kept > len as usize {
            true => Err(found.nonsense(format_args!("{len} bytes"))),
            false => Ok(Some(found)),
        }
    }

    fn fits(&self, sequence: u64) -> bool {
        match self.sequence {
            RecordSequence::Same(all) => sequence == all,
            RecordSequence::Rising(None) => true,
            RecordSequence::Rising(Some(last)) => {
                let rise = sequence.checked_sub(last);
                rise.is_some_and(|rise| rise > 0 && rise < MOST_RISE)
            }
        }
    }

    /// Whether the payload checks.
    fn read_payload(&mut self, at: u64, header: &RecordHeader) -> Result<bool> {
        let (len, is_bytes) = (header.payload as usize, header.head.kind & BYTES != 0);
        if len > LONGEST_PAYLOAD {
            return Ok(false);
        }
        let (mut crc, mut done) = (crc32fast::Hasher::new(), 0);
        let filled = len.next_multiple_of(8);
        self.payload.clear();
        while done < filled {
            let n = (filled - done).min(STEP);
            let kept = match is_bytes {
                true => done.min(NUMBERS),
                false => done,
            };
            fallible::lengthen(&mut self.payload, kept + n, DOING)?;
            let part = &mut self.payload[kept..];
            if self.log.read(at + done as u64, part)? < n {
                return Ok(false);
            }
            crc.update(part);
            done += n;
        }
        Ok(crc.finalize() == header.payload_crc)
    }

    /// Whether everything has been read that was ever on the disk of a log of so many bytes. Found
    /// by looking at every place where a header could be, which takes time for its length, whatever
    /// it says.
    pub(crate) fn check_end(&mut self, len: u64) -> Result<()> {
        if self.synced > self.at {
            return Err(self.damage(self.synced));
        }
        fallible::lengthen(&mut self.payload, STEP + HEADER, DOING)?;
        let mut at = self.at;
        while len.saturating_sub(at) >= HEADER as u64 {
            let n = (len - at).min(self.payload.len() as u64) as usize;
            read_all(self.log, at, &mut self.payload[..n])?;
            for (from, header) in self.payload[..n].windows(HEADER).enumerate().step_by(8) {
                let header = header.try_into().ok().and_then(RecordHeader::decode);
                if let Some(header) = header.filter(|header| self.vouches(header)) {
                    return Err(self.damage(header.head.synced.max(at + from as u64)));
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
        self.fits(header.head.sequence) && header.head.synced > self.at
    }

    fn damage(&self, to: u64) -> Error {
        let fault = Fault::new("the log is damaged where it had reached the disk");
        let fault = fault.bytes(self.at..to.max(self.at)).expected("a record");
        fault.found("bytes that do not check").into()
    }
}

impl RecordHeader {
    /// None: it is no header.
    fn decode(bytes: &[u8; HEADER]) -> Option<RecordHeader> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if bytes[..2] != MAGIC.to_le_bytes() {
            return None;
        }
        let mut plain = *bytes;
        plain[12..16].fill(0);
        (crc32fast::hash(&plain) == u32_at(12)).then(|| RecordHeader {
            head: RecordHead {
                kind: bytes[2],
                sequence: u64_at(16),
                synced: u64_at(24),
            },
            version: bytes[3],
            payload: u32_at(4),
            payload_crc: u32_at(8),
        })
    }
}

/// What another release has written, which is left as it is; this one knows version `known`.
pub(crate) fn of_another_version(
    what: &str,
    version: impl std::fmt::Display,
    known: impl std::fmt::Display,
) -> Error {
    let why = format!("the {what} is of version {version}, and only {known} is known here");
    NotShown::new(why).into()
}

/// Refuses a log without a record if it cannot be one of which the first was torn: that begins as
/// records do, or with zeros.
pub(crate) fn check_begin(log: &dyn Source) -> Result<()> {
    let (mut head, magic) = ([0; 2], MAGIC.to_le_bytes());
    let found = log.read(0, &mut head)?;
    match head[..found] == [0; 2][..found] || head[..found] == magic[..found] {
        true => Ok(()),
        false => Err(NotShown::new("the log is of another version of arrayfs").into()),
    }
}

/// Fills `out`: who asks knows that so much is there.
pub(crate) fn read_all(log: &dyn Source, at: u64, out: &mut [u8]) -> Result<()> {
    let found = log.read(at, out)?;
    if found == out.len() {
        return Ok(());
    }
    let end = at.saturating_add(out.len() as u64);
    let fault = Fault::new("the stored bytes end early").bytes(at..end);
    Err(fault.expected(out.len()).found(found).into())
}

/// Has the first record say that it is of the next version.
#[cfg(test)]
pub(crate) fn put_next_version(log: &mut [u8]) {
    log[3] = VERSION + 1;
    log[12..16].fill(0);
    let crc = crc32fast::hash(&log[..HEADER]);
    log[12..16].copy_from_slice(&crc.to_le_bytes());
}
