//! The values of a new file: its datasets are told as if all of them had been written to, over the
//! file without values, whose own bytes are new bytes as well. Used by [`super`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::objects::MadeFile;
use crate::array::nested::NestedBlocks;
use crate::container::hdf5::dataset::{self, OpenedDataset};
use crate::container::hdf5::worker;
use crate::container::hdf5::write::{self, WrittenDataset};
use crate::container::inside::ContainerNumber;
use crate::container::writable::{ChangedArray, MemberNumber, Recipe};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::{BytesSource, Source};

pub(super) fn tell(made: MadeFile, budget: &Arc<Budget>, write: &mut dyn Recipe) -> Result<()> {
    let bytes = Arc::clone(&made.skeleton.source);
    let source: Arc<dyn Source> = Arc::clone(&bytes) as _;
    let (answer, (index, _hold)) = worker::index(&*source, budget)?;
    let (nested, tables) = (NestedBlocks::new(budget), worker::tables(&source, budget));
    let by_token: HashMap<u64, _> = index.datasets.iter().map(|one| (one.token, one)).collect();
    let mut written: Vec<(WrittenDataset, ChangedArray)> = Vec::new();
    for (token, array) in made.arrays {
        let lost = || Error::from(Fault::new("a dataset that was made is not there"));
        let entry = by_token.get(&token).ok_or_else(lost)?;
        let name = array.name().to_owned();
        let tables = Arc::clone(&tables);
        let dataset = match dataset::open(&name, &source, &index, entry, &nested, tables)? {
            OpenedDataset::Array {
                dataset: Some(dataset),
                ..
            } => dataset,
            OpenedDataset::NotShown(why) => {
                return Err(Error::Invalid(format!("{name}: {why}")));
            }
            OpenedDataset::Array { .. } => continue,
        };
        let len = array.info()?.bytes;
        let changed = ChangedArray {
            container: ContainerNumber::OUTERMOST,
            shown: array,
            len,
            ranges: std::iter::once(0..len).collect(),
            visible: 0,
            done_before: None,
        };
        let fixed = WrittenDataset::of(&dataset, entry, false);
        written.push((fixed.ok_or_else(lost)?, changed));
    }
    let mut from_skeleton = FromSkeleton {
        skeleton: &bytes,
        write,
    };
    write::tell_new(&written, (&source, &answer), budget, &mut from_skeleton)
}

/// What is copied from the file without values are new bytes of the other one.
struct FromSkeleton<'a> {
    skeleton: &'a BytesSource,
    write: &'a mut dyn Recipe,
}

impl Recipe for FromSkeleton<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let bytes = self.skeleton.bytes();
        let bytes = bytes.get(from.start as usize..from.end as usize);
        let bytes = bytes.ok_or_else(|| Error::Bug("a new file is shorter than it is".into()))?;
        self.write.put(file, to, bytes)
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        self.write.put(file, at, bytes)
    }

    fn zeros(&mut self, file: MemberNumber, range: Range<u64>) -> Result<()> {
        self.write.zeros(file, range)
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        self.write.set_len(file, len)
    }
}
