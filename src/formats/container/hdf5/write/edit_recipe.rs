//! The file as it is being told: bytes that are put where they lie, places that libhdf5 gives, and
//! its patches at the end.
//!
//! The library is asked when the first chunk needs another place than it has, for many of them at
//! once ([`super::gathered`]): what keeps its place needs no change of any structure. New bytes lie
//! behind the old end of the file, where a chunk was that is stored elsewhere now or not at all, or
//! in room that earlier commits have freed. Of any other place that the library gives it is found
//! out that nothing lies there ([`super::unchanged`]). Bytes that are put twice are refused. Used
//! by [`super`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::gathered::GatheredChunks;
use super::headers::ObjectHeaders;
use super::moved_chunks::MovedChunks;
use super::patched::WrittenPieces;
use super::tried::TriedEncodings;
use super::unchanged::{ChangedSizes, ExpectedChanges, UnchangedCheck};
use crate::container::hdf5::edit::{EditReply, EditStep, FinishedEdit, StoredChunk};
use crate::container::hdf5::index::ChunkEntry;
use crate::container::hdf5::left::LeftInFile;
use crate::container::hdf5::worker::{EditSession, IndexAnswer, wrong_reply};
use crate::container::writable::{CommitWay, MemberNumber, Recipe};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::{PatchedSource, Source, SourcePatches};

const FILE: MemberNumber = MemberNumber::ONLY;

/// Zeros that are put at once.
const ZEROS: usize = 64 << 10;

/// Where a chunk is, and of what.
pub(super) struct PutTo {
    pub(super) token: u64,
    /// What is stored is still what it was when the file was opened.
    pub(super) stays: bool,
    pub(super) before: Option<ChunkEntry>,
    pub(super) is_filtered: bool,
    /// Zeros may follow what is stored: a chunk need not leave its place when it gets shorter, and
    /// gets a longer one when it leaves it.
    pub(super) pads: bool,
}

/// A chunk that gets another place gets so many parts more of it.
const MORE: u64 = 8;

/// What is known of the file when all has been told.
pub(super) struct DoneEdit {
    /// Room that nothing lies in, if the file keeps no lists of it.
    pub(super) room: Option<Vec<(u64, u64)>>,
    /// Its structure, if that may be another one.
    pub(super) answer: Option<Arc<IndexAnswer>>,
    /// Chunks that got other places, by the tokens of their datasets.
    pub(super) moved: HashMap<u64, Vec<ChunkEntry>>,
    /// Where there is another structure.
    pub(super) sizes: ChangedSizes,
}

/// The file as it is.
pub(super) struct EditedFile<'f> {
    pub(super) source: &'f Arc<dyn Source>,
    pub(super) answer: &'f IndexAnswer,
    pub(super) headers: &'f ObjectHeaders,
    /// Ways in which chunks have been encoded before.
    pub(super) left: &'f LeftInFile,
    pub(super) budget: &'f Arc<Budget>,
}

pub(super) struct EditRecipe<'f, 'w> {
    file: EditedFile<'f>,
    moved: HashMap<u64, Vec<ChunkEntry>>,
    way: CommitWay,
    write: &'w mut dyn Recipe,
    session: Option<EditSession<'f>>,
    /// Chunks that have no place yet.
    gathered: GatheredChunks,
    /// What has been put.
    put: RangeSet,
    /// Room that earlier commits have left, and what this one frees.
    room: RangeSet,
    freed: RangeSet,
    /// Of what is freed: it stays the dataset's, for chunks that may come back.
    reserved: RangeSet,
    /// Places that the library gave before the old end, and nothing is known of.
    unexplained: RangeSet,
    /// The file keeps lists of its free room: new bytes lie where these say.
    is_managed: bool,
    pub(super) tried: TriedEncodings<'f>,
    /// The file is new: no chunk gets more room than it needs.
    is_new: bool,
    /// The library has been asked for something else than places of chunks.
    is_more: bool,
}

impl<'f, 'w> EditRecipe<'f, 'w> {
    pub(super) fn new(
        file: EditedFile<'f>,
        (way, write): (CommitWay, &'w mut dyn Recipe),
        offered: Vec<(u64, u64)>,
    ) -> Result<EditRecipe<'f, 'w>> {
        if way == CommitWay::InPlace {
            write.keep_rest(FILE)?;
        }
        let room = offered.iter().map(|(at, len)| *at..at + len).collect();
        Ok(EditRecipe {
            tried: TriedEncodings::new(file.left),
            file,
            moved: HashMap::new(),
            way,
            write,
            session: None,
            gathered: GatheredChunks::default(),
            put: RangeSet::default(),
            room,
            freed: RangeSet::default(),
            reserved: RangeSet::default(),
            unexplained: RangeSet::default(),
            is_managed: false,
            is_new: false,
            is_more: false,
        })
    }

    /// Of a file that has had no values.
    pub(super) fn of_new(
        file: EditedFile<'f>,
        write: &'w mut dyn Recipe,
    ) -> Result<EditRecipe<'f, 'w>> {
        Ok(EditRecipe {
            is_new: true,
            ..EditRecipe::new(file, (CommitWay::Replaced, write), Vec::new())?
        })
    }

    pub(super) fn source(&self) -> &Arc<dyn Source> {
        self.file.source
    }

    /// Has the library carry out a step.
    pub(super) fn step(&mut self, step: &EditStep) -> Result<EditReply> {
        self.place_gathered()?;
        self.is_more = true;
        self.ask(step)
    }

    fn ask(&mut self, step: &EditStep) -> Result<EditReply> {
        if self.session.is_none() {
            let mut session = EditSession::begin(&**self.file.source, self.file.budget)?;
            let room = self
                .room
                .iter()
                .map(|range| (range.start, range.end - range.start));
            let asked = EditStep::Room(room.collect());
            self.is_managed = match session.step(&asked)? {
                EditReply::Managed(is_managed) => is_managed,
                _ => return Err(wrong_reply()),
            };
            self.session = Some(session);
        }
        let session = self.session.as_mut();
        let session = session.ok_or_else(|| Error::Bug("an edit has gone".into()))?;
        session.step(step)
    }

    /// What a chunk takes is free: it is stored elsewhere, or not at all.
    pub(super) fn free(&mut self, chunk: &ChunkEntry) {
        self.freed
            .insert(chunk.address..chunk.address.saturating_add(chunk.size));
    }

    /// A chunk is stored elsewhere from now on, and nothing else gets its place.
    pub(super) fn vacate(&mut self, chunk: &ChunkEntry) {
        self.free(chunk);
        self.reserved
            .insert(chunk.address..chunk.address.saturating_add(chunk.size));
    }

    /// Puts values to a place that is theirs.
    pub(super) fn put_values(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file
            .headers
            .check(&(at..at.saturating_add(bytes.len() as u64)))?;
        self.put(at, bytes)
    }

    /// Values lie at a place that is theirs already.
    pub(super) fn values_lie(&mut self, range: Range<u64>) -> Result<()> {
        self.file.headers.check(&range)?;
        self.note_put(range.clone())?;
        self.write.lies(FILE, range)
    }

    fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.note_put(at..at.saturating_add(bytes.len() as u64))?;
        self.write.put(FILE, at, bytes)
    }

    fn note_put(&mut self, range: Range<u64>) -> Result<()> {
        if self.put.overlapping(&range).is_some() {
            let fault = Fault::new("two parts of the file have one place");
            return Err(fault.bytes(range).into());
        }
        self.put.insert(range);
        Ok(())
    }

    pub(super) fn put_chunk(&mut self, to: &PutTo, chunk: StoredChunk, bytes: &[u8]) -> Result<()> {
        if let Some(before) = to.before.filter(|_| to.stays)
            && before.mask == chunk.mask
            && (before.size == chunk.len || to.pads && before.size > chunk.len)
        {
            return self.put_padded(before.address, before.size, bytes);
        }
        let pads = to.pads && !self.is_new;
        let more = if pads { chunk.len / MORE } else { 0 };
        let most = u64::from(u32::MAX) - 1;
        let len = chunk.len.max((chunk.len + more).min(most));
        let remask = match to.before.filter(|_| to.stays) {
            Some(before) => before.size == len && before.mask != chunk.mask,
            // Another extent makes the library store chunks, which nothing is known of.
            None => !to.stays && to.is_filtered,
        };
        let chunk = StoredChunk {
            len,
            remask,
            ..chunk
        };
        if !self.gathered.takes(to, bytes, self.file.budget) {
            self.place_gathered()?;
        }
        if self.gathered.takes(to, bytes, self.file.budget) {
            self.gathered.add(to, chunk, bytes);
            return Ok(());
        }
        let at = self.places(to.token, vec![chunk])?[0];
        self.put_placed((to.token, at), (chunk, to.before), bytes)
    }

    /// Asks where chunks go; says as many places.
    fn places(&mut self, token: u64, chunks: Vec<StoredChunk>) -> Result<Vec<u64>> {
        let asked = chunks.len();
        match self.ask(&EditStep::Chunks { token, chunks })? {
            EditReply::Places(places) if places.len() == asked => Ok(places),
            _ => Err(wrong_reply()),
        }
    }

    /// Puts the chunks that wait for a place.
    pub(super) fn place_gathered(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let token = gathered.token();
        let places = self.places(token, gathered.asked())?;
        for ((chunk, before, bytes), at) in gathered.each().zip(places) {
            self.put_placed((token, at), (chunk, before), bytes)?;
        }
        gathered.clear();
        self.gathered = gathered;
        Ok(())
    }

    /// Puts a chunk to the place that it has been given.
    fn put_placed(
        &mut self,
        (token, at): (u64, u64),
        (chunk, before): (StoredChunk, Option<ChunkEntry>),
        bytes: &[u8],
    ) -> Result<()> {
        if let Some(before) = &before {
            self.free(before);
        }
        self.moved.entry(token).or_default().push(ChunkEntry {
            number: chunk.number,
            address: at,
            size: chunk.len,
            mask: chunk.mask,
        });
        self.explain(at..at.saturating_add(chunk.len));
        self.put_padded(at, chunk.len, bytes)
    }

    /// Puts bytes, and zeros behind them up to a length.
    fn put_padded(&mut self, at: u64, len: u64, bytes: &[u8]) -> Result<()> {
        self.put_values(at, bytes)?;
        let end = at.saturating_add(len);
        let mut from = at.saturating_add(bytes.len() as u64);
        while from < end {
            let n = (end - from).min(ZEROS as u64);
            self.put_values(from, &[0; ZEROS][..n as usize])?;
            from += n;
        }
        Ok(())
    }

    /// Notes a place of which it has to be found out that nothing lies there that stays.
    fn explain(&mut self, place: Range<u64>) {
        let end = place.end.min(self.file.source.len()).max(place.start);
        for part in self.freed.gaps(&(place.start..end)) {
            self.unexplained.extend(self.room.gaps(&part));
        }
    }

    /// Tells the patches and what stays.
    pub(super) fn finish(mut self, expected: &ExpectedChanges<'_>) -> Result<DoneEdit> {
        self.place_gathered()?;
        let (mut end, mut answer) = (self.file.source.len(), None);
        let mut sizes = ChangedSizes::default();
        if let Some(session) = self.session.take() {
            let FinishedEdit {
                patches,
                end: new_end,
                indices,
                ..
            } = session.finish()?;
            end = self.checked_end(new_end, &patches)?;
            let blank = std::mem::take(&mut self.unexplained);
            let pieces = WrittenPieces {
                pieces: patches,
                blank: blank.clone(),
            };
            let patched = Arc::new(PatchedSource::new(
                Arc::clone(self.file.source),
                pieces,
                end,
            ));
            let mut all = self.put.clone();
            all.extend(patched.patches().places());
            let check = UnchangedCheck {
                before: (self.file.source, self.file.answer),
                expected,
                put: &all,
                unexplained: &blank,
                took_room: self.is_managed || expected.has_texts(),
                freed: &self.freed,
                budget: self.file.budget,
            };
            let shared: Arc<dyn Source> = patched.clone();
            let moved = MovedChunks {
                check: &check,
                headers: self.file.headers,
                moved: &self.moved,
                patches: patched.patches().pieces(),
                is_alone: !self.is_more,
            };
            let found = match moved.run(&shared, &indices)? {
                Some(found) => found,
                None => {
                    self.tried.check(&shared, &self.moved, self.file.budget)?;
                    check.run(&shared)?
                }
            };
            answer = Some(Arc::new(found.answer));
            sizes = found.sizes;
            self.freed.extend(found.freed.iter());
            for (at, bytes) in patched.patches().pieces() {
                self.put(*at, bytes)?;
            }
        }
        let end = self.checked_end(end, &[])?;
        self.tell_rest(end)?;
        if self.way == CommitWay::Replaced || end != self.file.source.len() {
            self.write.set_len(FILE, end)?;
        }
        self.tried.prove();
        Ok(DoneEdit {
            room: (!self.is_managed).then(|| self.left_room(end)),
            answer,
            moved: self.moved,
            sizes,
        })
    }

    /// The new end, if everything lies before it.
    fn checked_end(&self, end: u64, patches: &[(u64, Vec<u8>)]) -> Result<u64> {
        let ends = patches
            .iter()
            .map(|(at, bytes)| at.saturating_add(bytes.len() as u64));
        let puts = self.put.iter().map(|range| range.end);
        match ends.chain(puts).max() {
            Some(last) if last > end => {
                let fault = Fault::new("data lie behind the end of the file");
                Err(fault.expected(last).found(end).into())
            }
            _ => Ok(end),
        }
    }

    /// What has not been put stays as it is stored, and is zeros behind the old end.
    fn tell_rest(&mut self, end: u64) -> Result<()> {
        let old = self.file.source.len();
        for rest in self.put.gaps(&(0..end)) {
            let stored = rest.start..rest.end.min(old);
            if self.way == CommitWay::Replaced && !stored.is_empty() {
                self.write.copy(FILE, stored.clone(), stored.start)?;
            }
            let zeros = rest.start.max(old)..rest.end;
            if !zeros.is_empty() {
                self.write.zeros(FILE, zeros)?;
            }
        }
        Ok(())
    }

    fn left_room(&self, end: u64) -> Vec<(u64, u64)> {
        let mut room = self.room.clone();
        room.extend(self.freed.iter());
        let taken = self.put.iter().chain(self.reserved.iter());
        taken.for_each(|range| room.remove(range));
        room.remove(end..u64::MAX);
        let ranges = room.iter();
        ranges
            .map(|range| (range.start, range.end - range.start))
            .collect()
    }
}
