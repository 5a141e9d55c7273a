//! The chunks of a stored file as they lie there: where each begins, and reading one.
//!
//! A file that this mount has written has a table of its chunks, which is believed as far as it can
//! be checked without reading them: places rise, and lie in the file. One of another program may
//! have none, or a wrong one; then its headers are walked. Either way a chunk is shown only if its
//! header says the right length and its digest checks. Assumes that the caller keeps others from
//! changing the file meanwhile. Uses [`super::places`]; used by all that knows chunks.
//!
//! Source: the Bloscpack format, docs/formats.md.

use super::places::ChunkPlaces;
use crate::codec::blosc::{ChunkHeader, Decoder};
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::layout::{self, FileHeader, FileStart};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::fallible;
pub(super) use crate::records::read_all;
use crate::source::Source;

/// Stored bytes of an entry of the table.
pub(super) const ENTRY: u64 = 8;

/// The most chunks that a file may have: their places take 32 MiB.
pub(super) const MOST_CHUNKS: u64 = 8 << 20;

/// Larger chunks are not held: a few bytes can claim to be gigabytes.
const LARGEST: u32 = 64 << 20;

/// Entries of the table that are read at once.
const TABLE_PART: u64 = 64 << 10;

/// Bytes of a chunk's header.
const HEADER: u64 = ChunkHeader::LEN as u64;

/// How chunks of a file are cut and checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredForm {
    /// Plain bytes of every chunk but the last; never 0.
    pub(super) chunk_size: u32,
    pub(super) checksum: Checksum,
}

impl StoredForm {
    /// Stored bytes that a chunk takes at most, with its digest: those who write keep to that, and
    /// what takes more is a fault for those who read.
    pub(super) fn most_stored(self) -> u64 {
        u64::from(self.chunk_size) + HEADER + self.checksum.digest_len() as u64
    }
}

/// What is stored of a file.
#[derive(Debug, Clone)]
pub(super) struct StoredChunks {
    pub(super) form: StoredForm,
    pub(super) typesize: u8,
    /// What the stored header says of that: of a single chunk it may say less.
    pub(super) said_size: u32,
    /// Plain bytes of the last one.
    pub(super) last: u32,
    /// Where the table begins, or would.
    pub(super) table: u64,
    /// Chunks that the table has room for; 0 if there is none.
    pub(super) entries: u64,
    /// Whether something lies between the header and the table.
    pub(super) has_metadata: bool,
    /// That says which array the bytes are.
    pub(super) describes_array: bool,
    pub(super) places: ChunkPlaces,
}

impl StoredChunks {
    /// Of a file in which nothing is stored yet.
    pub(super) fn none(form: StoredForm) -> StoredChunks {
        StoredChunks {
            form,
            typesize: 1,
            said_size: form.chunk_size,
            last: 0,
            table: layout::HEADER,
            entries: 0,
            has_metadata: false,
            describes_array: false,
            places: ChunkPlaces::from(layout::HEADER),
        }
    }

    /// Looks at a file of so many bytes. `chunk_size`: of chunks that are added to one that has a
    /// single small one.
    pub(super) fn read(source: &dyn Source, len: u64, chunk_size: u32) -> Result<StoredChunks> {
        let head = layout::read(source, len)?;
        let FileStart { header, table, .. } = head;
        let entries = match header.has_offsets {
            true => header
                .nchunks
                .unwrap_or(0)
                .saturating_add(header.max_app_chunks),
            false => 0,
        };
        let first = entries
            .checked_mul(ENTRY)
            .and_then(|bytes| bytes.checked_add(table));
        let Some(first) = first.filter(|first| *first <= len) else {
            let fault = Fault::new("the offsets section does not fit into the file");
            return Err(fault
                .expected(format_args!("{entries} entries"))
                .found(len)
                .into());
        };
        if header.nchunks.is_some_and(|chunks| chunks > MOST_CHUNKS) {
            return Err(too_many());
        }
        let digest = header.checksum.digest_len() as u64;
        let walk = HeaderWay {
            source,
            len,
            digest,
        };
        let places = match header.nchunks {
            Some(chunks) if header.has_offsets => match walk.by_table(table, first, chunks)? {
                Some(places) => places,
                None => walk.places_from(first, Some(chunks))?,
            },
            chunks => walk.places_from(first, chunks)?,
        };
        let mut found = StoredChunks {
            form: StoredForm {
                chunk_size,
                checksum: header.checksum,
            },
            typesize: header.typesize.max(1),
            said_size: header.chunk_size.unwrap_or(0),
            last: 0,
            table,
            entries,
            has_metadata: header.has_metadata,
            describes_array: head.describes_array,
            places,
        };
        found.take_sizes(&walk, &header)?;
        Ok(found)
    }

    /// The chunks of a file of ours from the first on, as far as their headers lead: what a crash
    /// has left. None if it is no such file.
    pub(super) fn read_part(source: &dyn Source, len: u64) -> Result<Option<StoredChunks>> {
        let FileStart { header, table, .. } = layout::read(source, len)?;
        let (Some(chunks), Some(size)) = (header.nchunks, header.chunk_size) else {
            return Ok(None);
        };
        let entries = chunks.saturating_add(header.max_app_chunks);
        let first = entries
            .checked_mul(ENTRY)
            .and_then(|bytes| bytes.checked_add(table));
        let is_ours = header.has_offsets && !header.has_metadata && (1..=LARGEST).contains(&size);
        let Some(first) = first.filter(|_| is_ours) else {
            return Ok(None);
        };
        let digest = header.checksum.digest_len() as u64;
        let walk = HeaderWay {
            source,
            len,
            digest,
        };
        let places = walk.places_from(first.min(len), None)?.first(chunks)?;
        let is_all = places.count() == chunks;
        Ok(Some(StoredChunks {
            form: StoredForm {
                chunk_size: size,
                checksum: header.checksum,
            },
            typesize: header.typesize.max(1),
            said_size: size,
            last: header.last_chunk.filter(|_| is_all).unwrap_or(size),
            table,
            entries,
            has_metadata: false,
            describes_array: false,
            places,
        }))
    }

    /// Sizes that the header does not say are those of the first and the last chunk.
    fn take_sizes(&mut self, walk: &HeaderWay<'_>, header: &FileHeader) -> Result<()> {
        let Some(last) = self.chunks().checked_sub(1) else {
            return Ok(());
        };
        let places = &self.places;
        let plain_of = |number: u64| {
            let (at, _) = places.slot(number).unwrap_or((places.end(), 0));
            walk.header(at).map(|header| header.nbytes())
        };
        let size = match header.chunk_size {
            Some(size) => size,
            None => plain_of(0)?,
        };
        self.last = match header.last_chunk {
            Some(size) => size,
            None => plain_of(last)?,
        };
        // The size of a single chunk was cut to what there was.
        let chunk_size = match last {
            0 if size > LARGEST => self.form.chunk_size.max(self.last),
            0 => size.max(self.form.chunk_size).max(self.last),
            _ => size.max(1),
        };
        self.form.chunk_size = chunk_size;
        if chunk_size > LARGEST {
            let why = format!("its chunks have {chunk_size} bytes; unpack it");
            return Err(NotShown::new(why).into());
        }
        if self.last > chunk_size {
            let fault = Fault::new("the last chunk is larger than the others");
            return Err(fault.expected(chunk_size).found(self.last).into());
        }
        Ok(())
    }

    pub(super) fn chunks(&self) -> u64 {
        self.places.count()
    }

    /// Plain bytes of all.
    pub(super) fn len(&self) -> u64 {
        match self.chunks() {
            0 => 0,
            chunks => {
                (chunks - 1).saturating_mul(self.form.chunk_size.into()) + u64::from(self.last)
            }
        }
    }

    /// Plain bytes of a chunk.
    pub(super) fn plain(&self, number: u64) -> usize {
        let is_last = number.saturating_add(1) == self.chunks();
        if is_last {
            self.last as usize
        } else {
            self.form.chunk_size as usize
        }
    }

    /// Where the first chunk begins.
    pub(super) fn first(&self) -> u64 {
        self.places.start()
    }

    /// Where the last chunk's digest ends.
    pub(super) fn end(&self) -> u64 {
        self.places.end()
    }

    /// Whether the file ends within its last chunk, or before it.
    pub(super) fn end_early(&self, source: &dyn Source) -> Result<bool> {
        let last = self.chunks().checked_sub(1);
        let last = last.and_then(|last| self.slot(last)).map(|(at, _)| at);
        self.is_cut_off(source, last.unwrap_or(self.end()))
    }

    /// Whether the file ends within the chunk that begins here, or before it.
    pub(super) fn is_cut_off(&self, source: &dyn Source, at: u64) -> Result<bool> {
        let way = HeaderWay {
            source,
            len: source.len(),
            digest: self.form.checksum.digest_len() as u64,
        };
        match way.end_of(at) {
            Err(Error::Fault(_)) => Ok(false),
            end => Ok(end?.is_none()),
        }
    }

    /// Where a chunk begins, and its stored bytes with the digest.
    pub(super) fn slot(&self, number: u64) -> Option<(u64, u64)> {
        self.places.slot(number)
    }

    /// The header of the file, as it is to be stored.
    pub(super) fn header(&self) -> [u8; layout::HEADER as usize] {
        self.header_that_says(self.form.chunk_size)
    }

    fn header_that_says(&self, chunk_size: u32) -> [u8; layout::HEADER as usize] {
        let header = FileHeader {
            has_offsets: self.entries > 0,
            has_metadata: self.has_metadata,
            checksum: self.form.checksum,
            typesize: self.typesize,
            chunk_size: Some(chunk_size),
            last_chunk: Some(self.last),
            nchunks: Some(self.chunks()),
            max_app_chunks: self.entries.saturating_sub(self.chunks()),
        };
        header.bytes()
    }

    /// What tells these chunks from others of the same file: of the header and all places. The same
    /// for every mount, whatever size of chunks it has been told.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.header_that_says(self.said_size));
        self.places.sum(&mut hasher);
        u64::from(hasher.finalize()) << 32 | (self.chunks() & 0xffff_ffff)
    }

    /// Decodes a chunk into `out`, which has its plain length.
    pub(super) fn decode(&self, source: &dyn Source, number: u64, out: &mut [u8]) -> Result<()> {
        self.try_decode(source, number, out)
            .map_err(|e| e.map_fault(|fault| fault.block(number)))
    }

    fn try_decode(&self, source: &dyn Source, number: u64, out: &mut [u8]) -> Result<()> {
        let checksum = self.form.checksum;
        let digest = checksum.digest_len();
        let (at, len) = self.slot(number).unwrap_or((0, 0));
        let bytes = at..at.saturating_add(len);
        if len < HEADER + digest as u64 || len > self.form.most_stored() {
            let fault = Fault::new("a chunk is too short or too long")
                .bytes(bytes)
                .found(len);
            return Err(fault.into());
        }
        let mut stored = fallible::zeros(len, "cannot read a chunk")?;
        read_all(source, at, &mut stored)?;
        let (chunk, found) = stored.split_at(stored.len() - digest);
        if checksum.digest(chunk).as_bytes() != found {
            let what = format!("the {} digest of a chunk does not fit", checksum.name());
            return Err(Fault::new(what).bytes(bytes).into());
        }
        decode_chunk(chunk, out).map_err(|e| e.map_fault(|fault| fault.bytes(bytes)))
    }
}

fn decode_chunk(chunk: &[u8], out: &mut [u8]) -> Result<()> {
    let short = || Error::from(Fault::new("a chunk is shorter than its header"));
    let header = chunk
        .first_chunk::<{ ChunkHeader::LEN }>()
        .ok_or_else(short)?;
    let refused = |what: String| Error::from(Fault::new(what));
    let header = ChunkHeader::parse(header).map_err(|e| refused(e.to_string()))?;
    if header.nbytes() as usize != out.len() {
        let fault = Fault::new("a chunk has another length than the file says");
        return Err(fault.expected(out.len()).found(header.nbytes()).into());
    }
    if out.is_empty() {
        return Ok(());
    }
    let mut scratch = fallible::zeros(header.scratch() as u64, "cannot decode a chunk")?;
    Decoder::lend(|decoder| decoder.decode_chunk(&header, chunk, out, &mut scratch))
        .map_err(|e| refused(e.to_string()))
}

/// Finds chunks in a file that may be anybody's.
struct HeaderWay<'a> {
    source: &'a dyn Source,
    len: u64,
    digest: u64,
}

impl HeaderWay<'_> {
    fn header(&self, at: u64) -> Result<ChunkHeader> {
        let mut bytes = [0; ChunkHeader::LEN];
        read_all(self.source, at, &mut bytes)?;
        let fault = |what: String| Fault::new(what).bytes(at..at.saturating_add(HEADER));
        ChunkHeader::parse(&bytes).map_err(|e| fault(e.to_string()).into())
    }

    /// Where a chunk that begins here ends, with its digest; none if that is not in the file.
    fn end_of(&self, at: u64) -> Result<Option<u64>> {
        if at.checked_add(HEADER).is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let stored = u64::from(self.header(at)?.ctbytes()) + self.digest;
        let end = at.checked_add(stored).filter(|end| *end <= self.len);
        Ok(end.filter(|_| stored >= HEADER))
    }

    /// The places that the table says, if they rise, begin where the first chunk must, and end in
    /// the file.
    fn by_table(&self, table: u64, first: u64, chunks: u64) -> Result<Option<ChunkPlaces>> {
        let least = HEADER + self.digest;
        if chunks == 0 || chunks > self.len / least {
            return Ok(None);
        }
        let mut places = ChunkPlaces::from(first);
        let (mut from, mut last) = (0, None);
        while from < chunks {
            let count = TABLE_PART.min(chunks - from);
            let mut bytes = fallible::zeros(count * ENTRY, "cannot read the places of chunks")?;
            read_all(self.source, table + from * ENTRY, &mut bytes)?;
            for entry in bytes.as_chunks::<8>().0 {
                let place = u64::from_le_bytes(*entry);
                let len = match last {
                    None => (place == first).then_some(0),
                    Some(last) => place.checked_sub(last).filter(|len| *len >= least),
                };
                let len = len.filter(|_| place < self.len);
                let Some(len) = len.and_then(|len| u32::try_from(len).ok()) else {
                    return Ok(None);
                };
                if last.is_some() {
                    places.push(len)?;
                }
                last = Some(place);
            }
            from += count;
        }
        let last = last.unwrap_or(first);
        // A last chunk whose header is damaged costs its own bytes alone.
        let end = self.end_of(last).ok().flatten().unwrap_or(self.len);
        places.push(u32::try_from(end - last).unwrap_or(u32::MAX))?;
        Ok(Some(places))
    }

    /// The places found by going from header to header; `chunks`: so many there must be.
    fn places_from(&self, first: u64, chunks: Option<u64>) -> Result<ChunkPlaces> {
        let mut places = ChunkPlaces::from(first);
        while chunks.is_none_or(|chunks| places.count() < chunks) {
            let place = places.end();
            let end = match self.end_of(place) {
                Err(Error::Fault(_)) if chunks.is_none() => None,
                end => end?,
            };
            let len = end.and_then(|end| u32::try_from(end - place).ok());
            match len {
                Some(_) if places.count() == MOST_CHUNKS => return Err(too_many()),
                Some(len) => places.push(len)?,
                None if chunks.is_none() => break,
                None => {
                    let fault = Fault::new("the file ends before its last chunk");
                    let fault = fault.bytes(place..self.len).block(places.count());
                    return Err(fault.into());
                }
            }
        }
        Ok(places)
    }
}

fn too_many() -> Error {
    NotShown::new(format!("it has more than {MOST_CHUNKS} chunks; unpack it")).into()
}
