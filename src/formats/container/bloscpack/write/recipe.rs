//! The changed file, told in order: runs of chunks that stay, chunks encoded anew, and the sections
//! before them.
//!
//! Chunks lie back to back. In place, as long as every chunk so far has fitted where it was, those
//! between the changed ones are not even looked at; as soon as one has not, everything behind it
//! moves. Used by [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::layout::FileLayout;
use super::{BloscpackFile, shape};
use crate::container::bloscpack::chunks::{FoundChunk, UNKNOWN, read_entries};
use crate::container::bloscpack::header::{self, FileHeader};
use crate::container::bloscpack::sections::ENTRY;
use crate::container::chunked_write::memory::EncodeMemory;
use crate::container::chunked_write::{
    BatchCounts, ChunkWriter, EncodedBatch, PutPart, write_chunks,
};
use crate::container::writable::{ChangedArray, CommitWay, MemberNumber, Recipe};
use crate::error::{Fault, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;

const FILE: MemberNumber = MemberNumber::ONLY;

/// OffsetEntries of the offsets section that are told at once.
const ENTRIES: usize = 8 << 10;

pub(super) struct Plan<'a> {
    pub(super) file: &'a BloscpackFile,
    pub(super) changed: &'a ChangedArray,
    pub(super) old: FileLayout,
    pub(super) new: FileLayout,
    pub(super) dirty: RangeSet,
    pub(super) metadata: Option<Vec<u8>>,
    pub(super) way: CommitWay,
}

impl Plan<'_> {
    pub(super) fn tell(&self, budget: &Arc<Budget>, write: &mut dyn Recipe) -> Result<BatchCounts> {
        let mut memory = EncodeMemory::for_array(self, self.dirty.len(), budget)?;
        let mut recipe = BloscpackWriter {
            plan: self,
            write,
            at: self.new.first,
            entries: OffsetEntries::default(),
            fills_in: self.is_left_open()?,
        };
        let counts = write_chunks(self, &mut memory, &mut recipe)?;
        log::debug!("{}: {counts:?}", self.changed.shown.name());
        recipe.end()?;
        Ok(counts)
    }

    /// Whether entries are those of an interrupted writer, which are right only as long as none is
    /// filled in.
    fn is_left_open(&self) -> Result<bool> {
        if !self.file.header.has_offsets || self.old.chunks == 0 {
            return Ok(false);
        }
        let first = read_entries(&*self.file.data.source, self.old.offsets, 0, 1)?;
        Ok(first == [UNKNOWN])
    }

    /// A chunk as it is stored.
    pub(super) fn stored(&self, number: u64) -> Result<FoundChunk> {
        let extent = self.file.data.chunks.sizes().extent(number);
        self.file.data.chunk(&extent)
    }

    /// What a chunk and its digest take in the file as it is.
    pub(super) fn place(&self, number: u64) -> Result<Range<u64>> {
        let chunk = self.stored(number)?;
        let digest = self.file.header.checksum.digest_len() as u64;
        Ok(chunk.at..chunk.stored().end + digest)
    }

    /// Whether a chunk is there before and after, with as many bytes.
    pub(super) fn keeps_its_place(&self, number: u64) -> bool {
        let same = |layout: &FileLayout| layout.plain(number);
        number < self.old.chunks && same(&self.old) == same(&self.new)
    }

    fn header(&self) -> FileHeader {
        let size = |bytes: u64| u32::try_from(bytes).ok();
        FileHeader {
            chunk_size: size(self.new.chunk_size),
            last_chunk: size(self.new.last),
            nchunks: Some(self.new.chunks),
            has_metadata: self.metadata.is_some() || self.file.header.has_metadata,
            max_app_chunks: self.new.spare,
            ..self.file.header.clone()
        }
    }
}

/// How far the file has been told.
struct BloscpackWriter<'a, 'w> {
    plan: &'a Plan<'a>,
    write: &'w mut dyn Recipe,
    /// Where the next chunk begins.
    at: u64,
    entries: OffsetEntries,
    /// Also those of chunks that stay.
    fills_in: bool,
}

impl ChunkWriter for BloscpackWriter<'_, '_> {
    /// A chunk with its digest.
    fn put(&mut self, chunks: Range<u64>, batch: &EncodedBatch<'_>) -> Result<()> {
        self.entry(chunks.start, self.at)?;
        self.write.put(FILE, self.at, batch.bytes)?;
        self.at += batch.bytes.len() as u64;
        Ok(())
    }

    fn put_in_parts(
        &mut self,
        chunks: Range<u64>,
        encode: &mut dyn FnMut(PutPart<'_>) -> Result<()>,
    ) -> Result<()> {
        self.entry(chunks.start, self.at)?;
        encode(&mut |part| {
            self.write.put(FILE, self.at, part)?;
            self.at += part.len() as u64;
            Ok(())
        })
    }

    fn keep(&mut self, chunks: Range<u64>) -> Result<()> {
        let from = self.plan.place(chunks.start)?.start;
        let end = self.plan.place(chunks.end - 1)?.end;
        if from >= end {
            let fault = Fault::new("chunks do not follow each other").block(chunks.end - 1);
            return Err(fault.bytes(end..from).into());
        }
        self.write.copy(FILE, from..end, self.at)?;
        // Where nothing moves, the entries hold.
        if self.plan.way == CommitWay::Replaced || self.at != from || self.fills_in {
            for number in chunks {
                let old = self.plan.place(number)?.start;
                self.entry(number, self.at + (old - from))?;
            }
        }
        self.at += end - from;
        Ok(())
    }
}

impl BloscpackWriter<'_, '_> {
    fn entry(&mut self, number: u64, at: u64) -> Result<()> {
        if self.plan.file.header.has_offsets {
            let section = self.plan.new.offsets;
            self.entries.add(section, number, at, self.write)?;
        }
        Ok(())
    }

    /// What lies before the chunks.
    fn end(mut self) -> Result<()> {
        let plan = self.plan;
        if plan.file.header.has_offsets && (plan.way == CommitWay::Replaced || plan.old != plan.new)
        {
            for number in plan.new.chunks..plan.new.chunks + plan.new.spare {
                self.entry(number, u64::MAX)?;
            }
        }
        self.entries.flush(plan.new.offsets, self.write)?;
        self.metadata()?;
        let header = plan.header();
        if plan.way == CommitWay::Replaced || header != plan.file.header {
            self.write.put(FILE, 0, &header.bytes())?;
        }
        self.write.set_len(FILE, self.at)
    }

    fn metadata(&mut self) -> Result<()> {
        let at = header::LEN as u64;
        match &self.plan.metadata {
            Some(section) => {
                debug_assert_eq!(shape::end_of(section), self.plan.new.offsets);
                self.write.put(FILE, at, section)
            }
            None if self.plan.file.after_metadata > at => {
                self.write.copy(FILE, at..self.plan.file.after_metadata, at)
            }
            None => Ok(()),
        }
    }
}

/// OffsetEntries of the offsets section, many at a time.
#[derive(Default)]
struct OffsetEntries {
    first: u64,
    bytes: Vec<u8>,
}

impl OffsetEntries {
    fn add(&mut self, section: u64, number: u64, at: u64, write: &mut dyn Recipe) -> Result<()> {
        let held = (self.bytes.len() as u64) / ENTRY;
        if self.first + held != number || self.bytes.len() >= ENTRIES * ENTRY as usize {
            self.flush(section, write)?;
            self.first = number;
        }
        self.bytes.extend_from_slice(&at.to_le_bytes());
        Ok(())
    }

    fn flush(&mut self, section: u64, write: &mut dyn Recipe) -> Result<()> {
        if !self.bytes.is_empty() {
            write.put(FILE, section + self.first * ENTRY, &self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }
}
