//! An index read out of a worker's answer, and charged to the budget as it is built.
//!
//! The answer is what serde makes of [`FileIndex`]: its parts one behind the other, lists with
//! their lengths before them. Here they are read one at a time, so that no file is charged for more
//! than it takes, and no list is made of a length that the budget has no room for. Used by
//! [`super::index`].

use std::sync::Arc;

use serde::Deserialize;

use super::MADE;
use super::wire::WorkerAnswer;
use crate::container::hdf5::index::decoding::{bytes, was_refused};
use crate::container::hdf5::index::heap::{OnHeap, allocated};
use crate::container::hdf5::index::{FileIndex, GroupEntry};
use crate::error::{Error, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::no_memory;

/// Small parts are charged together, so much at a time.
const STEP: u64 = 64 << 10;

/// How many times longer than in an answer an index is in memory, to say how much is needed where
/// there is too little. Measured: 11 where 20,000 datasets are a number each, 13.5 where 5,000 have
/// chunks and two attributes.
const BUILT: u64 = 10;

const NO_MEMORY: &str = "no memory for the structure of a file";

/// Why there is no index.
enum NoIndex {
    /// The answer is none.
    Unreadable,
    Refused(Error),
}

impl From<Error> for NoIndex {
    fn from(error: Error) -> NoIndex {
        NoIndex::Refused(error)
    }
}

/// Reads an answer; none if it is not one.
pub(super) fn read(
    encoded: &[u8],
    budget: &Arc<Budget>,
) -> Result<Option<WorkerAnswer<(FileIndex, Hold)>>> {
    let mut reader = IndexReader {
        rest: encoded,
        budget,
        charged: budget.keep(0)?,
        built: 0,
        empty: 0,
    };
    match reader.answer() {
        Ok(Ok(index)) => Ok(Some(Ok((index, reader.charged)))),
        Ok(Err(reason)) => Ok(Some(Err(reason))),
        Err(NoIndex::Unreadable) => Ok(None),
        Err(NoIndex::Refused(error)) => Err(error),
    }
}

/// Of a group: it may be long.
#[derive(Deserialize)]
struct Name(#[serde(deserialize_with = "bytes")] Vec<u8>);

impl OnHeap for Name {
    fn on_heap(&self) -> u64 {
        self.0.on_heap()
    }
}

struct IndexReader<'a> {
    rest: &'a [u8],
    budget: &'a Arc<Budget>,
    charged: Hold,
    /// Bytes that are charged, or will be soon.
    built: u64,
    /// Part of them: room in lists for what has not been read.
    empty: u64,
}

impl<'a> IndexReader<'a> {
    fn answer(&mut self) -> std::result::Result<WorkerAnswer<FileIndex>, NoIndex> {
        const SOUND: u32 = 0;
        let answer = match self.item::<u32>()? {
            SOUND => Ok(self.index()?),
            _ => Err(self.item()?),
        };
        self.charge_rest()?;
        match self.rest {
            [] => Ok(answer),
            _ => Err(NoIndex::Unreadable),
        }
    }

    fn index(&mut self) -> std::result::Result<FileIndex, NoIndex> {
        Ok(FileIndex {
            superblock: 0,
            offset_size: self.item()?,
            length_size: self.item()?,
            base: self.item()?,
            cache_image: self.item()?,
            groups: self.list(IndexReader::group)?,
            datasets: self.list(IndexReader::item)?,
            types: self.list(IndexReader::item)?,
            problems: self.list(IndexReader::item)?,
            left_out: self.list(IndexReader::item)?,
        })
    }

    fn group(&mut self) -> std::result::Result<GroupEntry, NoIndex> {
        Ok(GroupEntry {
            token: self.item()?,
            parent: self.item()?,
            name: self.item::<Name>()?.0,
            attributes: self.list(IndexReader::item)?,
            links: self.list(IndexReader::item)?,
        })
    }

    fn item<T: Deserialize<'a> + OnHeap>(&mut self) -> std::result::Result<T, NoIndex> {
        let read = postcard::take_from_bytes::<T>(self.rest);
        let (item, rest) = read.map_err(|_| match was_refused() {
            true => NoIndex::Refused(no_memory(NO_MEMORY)),
            false => NoIndex::Unreadable,
        })?;
        self.rest = rest;
        self.charge(item.on_heap())?;
        Ok(item)
    }

    fn list<T>(
        &mut self,
        read: fn(&mut Self) -> std::result::Result<T, NoIndex>,
    ) -> std::result::Result<Vec<T>, NoIndex> {
        let count: usize = self.item()?;
        // Each takes a byte at least.
        if count > self.rest.len() {
            return Err(NoIndex::Unreadable);
        }
        let bytes = count.saturating_mul(size_of::<T>());
        self.empty = self.empty.saturating_add(bytes as u64);
        self.charge(allocated(bytes))?;
        let mut list = Vec::new();
        let reserved = list.try_reserve_exact(count);
        reserved.map_err(|_| no_memory(NO_MEMORY))?;
        for _ in 0..count {
            list.push(read(self)?);
            self.empty -= size_of::<T>() as u64;
        }
        Ok(list)
    }

    fn charge(&mut self, bytes: u64) -> std::result::Result<(), NoIndex> {
        self.built = self.built.saturating_add(bytes);
        match self.built - self.charged.bytes() < STEP {
            true => Ok(()),
            false => self.charge_rest(),
        }
    }

    /// Charges what is not charged yet.
    fn charge_rest(&mut self) -> std::result::Result<(), NoIndex> {
        let charged = self.charged.bytes();
        let more = self.charged.keep_more(self.built - charged);
        more.map_err(|_| NoIndex::Refused(self.budget.no_room(self.all() - charged)))
    }

    /// About what all of it will take, and what is made of it.
    fn all(&self) -> u64 {
        let rest = (self.rest.len() as u64).saturating_mul(BUILT);
        let more = rest.saturating_sub(self.empty);
        self.built.saturating_add(more).saturating_mul(1 + MADE)
    }
}
