//! Ways of encoding that a commit takes and none before it in this mount has taken: a chunk of each
//! is read back, and the file has to say of it what it was given.
//!
//! What a filter makes of a chunk, and whether it skips it, has to be what its readers think. Used
//! by [`super::edit_recipe`] and [`super::chunks`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::chunks::ChangedChunks;
use crate::codec::filters::FilterError;
use crate::container::chunked_write::memory::spaces_in_turn;
use crate::container::hdf5::edit::StoredChunk;
use crate::container::hdf5::index::ChunkEntry;
use crate::container::hdf5::left::{Encoding, LeftInFile};
use crate::container::hdf5::worker;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::memory::room;
use crate::source::Source;

/// A chunk is read back if that takes no more of the budget than one of so many parts.
const READ_BACK_PART: u64 = 4;

pub(super) struct TriedEncodings<'f> {
    left: &'f LeftInFile,
    /// Those of this commit, with the number of a chunk that has been decoded.
    now: BTreeMap<Encoding, u64>,
}

impl<'f> TriedEncodings<'f> {
    pub(super) fn new(left: &'f LeftInFile) -> TriedEncodings<'f> {
        TriedEncodings {
            left,
            now: BTreeMap::new(),
        }
    }

    /// Whether a chunk that was encoded so is to be read back.
    pub(super) fn is_new(&self, encoding: Encoding) -> bool {
        !self.now.contains_key(&encoding) && !self.left.is_proven(encoding)
    }

    /// This chunk of it has been decoded.
    pub(super) fn add(&mut self, encoding: Encoding, number: u64) {
        self.now.insert(encoding, number);
    }

    /// Whether the file as it is going to be says of these chunks where they were put, and how they
    /// were encoded. `moved`: those that got another place.
    pub(super) fn check(
        &self,
        after: &Arc<dyn Source>,
        moved: &HashMap<u64, Vec<ChunkEntry>>,
        budget: &Arc<Budget>,
    ) -> Result<()> {
        let mut table = None;
        for ((token, _), number) in &self.now {
            let moved = moved.get(token).into_iter().flatten();
            let Some(expected) = moved.rev().find(|chunk| chunk.number == *number) else {
                continue;
            };
            let known = table.take().filter(|(of, _)| of == token);
            let (_, chunks) = match known {
                Some(known) => known,
                None => {
                    let chunks = worker::chunks(&**after, *token, budget)?;
                    (*token, chunks.checked(u64::MAX)?)
                }
            };
            if chunks.get(*number).as_ref() != Some(expected) {
                let fault = Fault::new("the file would say something else of a chunk than it is");
                return Err(Error::from(fault.block(*number)));
            }
            table = Some((*token, chunks));
        }
        Ok(())
    }

    pub(super) fn prove(&self) {
        let tried = self.now.keys();
        tried.for_each(|encoding| self.left.prove(*encoding));
    }
}

impl ChangedChunks<'_> {
    /// Whether an encoded chunk has been decoded, and is what it was made of; false if there is no
    /// memory for that now.
    pub(super) fn read_back(
        &self,
        chunk: &StoredChunk,
        bytes: &[u8],
        budget: &Arc<Budget>,
    ) -> Result<bool> {
        let pipeline = &self.place.pipeline;
        let scratch = self.reading().max(pipeline.scratch(chunk.mask));
        let beside = room(self.place.stored).saturating_add(scratch);
        if self.place.stored.saturating_add(beside) > budget.limit() / READ_BACK_PART {
            return Ok(false);
        }
        let mut spaces = spaces_in_turn((self.place.stored, beside), 1, budget)?;
        let Some(space) = spaces.first_mut() else {
            return Ok(false);
        };
        let (decoded, mut scratch) = space.parts();
        let expected = scratch.take(self.place.stored)?;
        self.read_chunk(chunk.number, expected, scratch.lend())?;
        let fault = match pipeline.decode(chunk.mask, bytes, decoded, scratch) {
            Ok(len) if len == expected.len() && !pipeline.keeps_every_bit(chunk.mask) => {
                return Ok(true);
            }
            Ok(len) if decoded[..len] == *expected => return Ok(true),
            Ok(_) => Fault::new("an encoded chunk is read as something else"),
            Err(FilterError::Damage(why)) => {
                Fault::new(format!("an encoded chunk cannot be read: {why}"))
            }
            Err(FilterError::Failed(e)) => return Err(e),
        };
        let found = format_args!("mask {:#x}", chunk.mask);
        Err(fault.block(chunk.number).found(found).into())
    }
}
