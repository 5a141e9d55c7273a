//! The files of a packed stream, told in order: runs of chunks that stay, chunks that were encoded
//! anew, and the index of both.
//!
//! An index entry counts words from the start of the stream, modulo 2^32, so behind a chunk that
//! takes more or fewer words than before every entry moves by as much. `idx_offsets` says which
//! entry is the first behind each 2^32. Used by `stream`.

use std::ops::Range;

use super::blocks::EncodedChunks;
use super::forms::member;
use super::member_writer::MemberWriter;
use super::stored_index::StoredIndex;
use super::stream::StreamPlan;
use crate::array::chunking::Chunking;
use crate::container::bpcells::fields::Number;
use crate::container::bpcells::header;
use crate::container::chunked_write::{ChunkWriter, EncodedBatch};
use crate::container::writable::Recipe;
use crate::error::{Error, Result};

pub(super) struct FieldWriter<'a, 'w> {
    plan: &'a StreamPlan<'a>,
    write: &'w mut dyn Recipe,
    data: MemberWriter,
    idx: MemberWriter,
    starts: Option<MemberWriter>,
    old_idx: Option<StoredIndex<'a>>,
    /// Words of the chunks so far.
    words: u64,
    /// Number of the first index entry, and of the first behind each wrap.
    firsts: Vec<u64>,
}

/// A run of chunks that stay.
struct KeptRun {
    chunks: Range<u64>,
    /// Where their words lie.
    words: Range<u64>,
    /// The index entry before the first of them, as it is stored.
    low: u32,
}

impl ChunkWriter for FieldWriter<'_, '_> {
    fn put(&mut self, chunks: Range<u64>, batch: &EncodedBatch<'_>) -> Result<()> {
        let in_all = batch.chunks as usize;
        let encoded = EncodedChunks::of(batch.bytes, in_all, self.starts.is_some());
        let encoded = encoded.ok_or_else(not_encoded)?;
        let first = batch.before as usize;
        let of_batch = first..first + (chunks.end - chunks.start) as usize;
        let words = encoded.words(of_batch.clone()).ok_or_else(not_encoded)?;
        self.data.put(words, self.write)?;
        if let Some(starts) = &mut self.starts {
            starts.put(encoded.starts(of_batch.clone()), self.write)?;
        }
        let before = self.words;
        for (number, end) in (chunks.start + 1..).zip(encoded.ends(of_batch)) {
            self.words = before.saturating_add(end.into());
            self.note(number, self.words);
            self.idx
                .put(&low(self.words, self.plan.wrap).to_le_bytes(), self.write)?;
        }
        Ok(())
    }

    fn keep(&mut self, chunks: Range<u64>) -> Result<()> {
        let run = KeptRun::find(self.old_idx()?, chunks)?;
        let data = bytes_of(&run.words);
        self.data.copy(data, self.write)?;
        if let Some(starts) = &mut self.starts {
            starts.copy(bytes_of(&run.chunks), self.write)?;
        }
        self.kept_entries(&run)?;
        self.words = self.words.saturating_add(run.words.end - run.words.start);
        Ok(())
    }
}

impl<'a, 'w> FieldWriter<'a, 'w> {
    pub(super) fn begin(
        plan: &'a StreamPlan<'a>,
        write: &'w mut dyn Recipe,
    ) -> Result<FieldWriter<'a, 'w>> {
        let part = |part: &'static str| {
            let file = member(&format!("{}_{part}", plan.name))?;
            MemberWriter::new(file, plan.source(part))
        };
        let has_starts = plan.has_starts();
        let mut writer = FieldWriter {
            plan,
            write,
            data: part("data")?,
            idx: part("idx")?,
            starts: has_starts.then(|| part("starts")).transpose()?,
            old_idx: plan.old.as_ref().map(StoredIndex::new),
            words: 0,
            firsts: vec![0],
        };
        let parts = [
            Some(&mut writer.data),
            Some(&mut writer.idx),
            writer.starts.as_mut(),
        ];
        for part in parts.into_iter().flatten() {
            part.header(Number::U32, writer.write)?;
        }
        writer.idx.put(&0u32.to_le_bytes(), writer.write)?;
        Ok(writer)
    }

    fn old_idx(&mut self) -> Result<&mut StoredIndex<'a>> {
        let old = self.old_idx.as_mut();
        old.ok_or_else(|| Error::Bug("a new stream has nothing that stays".into()))
    }

    /// Their index entries, each of which stands behind its chunk.
    fn kept_entries(&mut self, run: &KeptRun) -> Result<()> {
        let (wrap, entries) = (self.plan.wrap, run.chunks.start + 1..run.chunks.end + 1);
        let end = self.words.saturating_add(run.words.end - run.words.start);
        let wraps = self.words / wrap != end / wrap;
        if !wraps && run.low == low(self.words, wrap) {
            return self.idx.copy(bytes_of(&entries), self.write);
        }
        let entries = match wraps || run.wraps(wrap) {
            true => entries,
            false => self.moved_entries(run, entries)?,
        };
        for number in entries {
            let old = self.old_idx()?.word(number)?;
            let new = old.wrapping_sub(run.words.start).wrapping_add(self.words);
            self.note(number, new);
            self.idx.put(&low(new, wrap).to_le_bytes(), self.write)?;
        }
        Ok(())
    }

    /// The entries of a run in which none begins again from 0: all of them move alike. Says which
    /// are left: those behind one that cannot be right.
    fn moved_entries(&mut self, run: &KeptRun, mut entries: Range<u64>) -> Result<Range<u64>> {
        let wrap = self.plan.wrap;
        let by = low(self.words, wrap).wrapping_sub(run.low);
        let range = run.low..=low(run.words.end, wrap);
        let mut moved = [[0; 4]; 256];
        while !entries.is_empty() {
            let old = self.old_idx()?.seen_from(entries.start)?;
            let count = (entries.end - entries.start).min(moved.len() as u64) as usize;
            let old = &old[..count.min(old.len())];
            if !old.iter().all(|old| range.contains(old)) {
                return Ok(entries);
            }
            for (moved, old) in moved.iter_mut().zip(old) {
                *moved = old.wrapping_add(by).to_le_bytes();
            }
            entries.start += old.len() as u64;
            let moved = &moved[..old.len()];
            self.idx.put(moved.as_flattened(), self.write)?;
        }
        Ok(entries)
    }

    /// Notes the entries that begin again from 0.
    fn note(&mut self, entry: u64, word: u64) {
        // Words never go back by more than a damaged chunk takes them.
        while word / self.plan.wrap >= self.firsts.len() as u64 && self.firsts.len() < MOST_FIRSTS {
            self.firsts.push(entry);
        }
    }

    /// What follows from all chunks.
    pub(super) fn end(mut self) -> Result<()> {
        let plan = self.plan;
        self.data.end(self.write)?;
        self.idx.end(self.write)?;
        if let Some(starts) = self.starts {
            starts.end(self.write)?;
        }
        if !plan.form.has_offsets() {
            return match self.firsts.len() {
                1 => Ok(()),
                _ => Err(Error::Invalid(format!(
                    "{}: a container of version 1 has at most 2^32 packed words",
                    plan.name
                ))),
            };
        }
        self.firsts.push(plan.values_chunking().chunks() + 1);
        let file = member(&format!("{}_idx_offsets", plan.name))?;
        let mut offsets = MemberWriter::new(file, plan.source("idx_offsets"))?;
        offsets.header(Number::U64, self.write)?;
        for first in &self.firsts {
            offsets.put(&first.to_le_bytes(), self.write)?;
        }
        offsets.end(self.write)
    }
}

/// More than the reader takes, which is more than a file holds.
const MOST_FIRSTS: usize = 4096;

impl KeptRun {
    /// Whether an entry of it begins again from 0, as it is stored.
    fn wraps(&self, wrap: u64) -> bool {
        self.words.start / wrap != self.words.end / wrap
    }

    fn find(old: &mut StoredIndex<'_>, chunks: Range<u64>) -> Result<KeptRun> {
        let (start, end) = (old.word(chunks.start)?, old.word_alone(chunks.end)?);
        if start > end {
            return Err(old.stream.goes_back(chunks).into());
        }
        let low = old.low(chunks.start)?;
        let words = start..end;
        Ok(KeptRun { chunks, words, low })
    }
}

/// An index entry as it is stored.
fn low(word: u64, wrap: u64) -> u32 {
    // A wrap is at most 2^32.
    (word % wrap) as u32
}

/// Where elements of 32 bits lie in a file.
fn bytes_of(elements: &Range<u64>) -> Range<u64> {
    let at = |element: u64| element.saturating_mul(4).saturating_add(header::LEN as u64);
    at(elements.start)..at(elements.end)
}

fn not_encoded() -> Error {
    Error::Bug("chunks are not what was encoded".into())
}
