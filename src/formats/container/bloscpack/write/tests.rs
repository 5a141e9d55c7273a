//! Changed files: with little memory, and how fast.

use std::ops::Range;

use serde_json::json;

use super::*;
use crate::array::uncached::read_all;
use crate::container::bloscpack::{Bloscpack, open};
use crate::container::creation::{
    Creation, GivenContent, GivenDescription, RawArray, RecipeInMemory,
};
use crate::container::writable::MemberNumber;
use crate::container::{Container, Preferences};
use crate::source::BytesSource;

fn raw(bytes: &[u8]) -> Arc<dyn Array> {
    Arc::new(RawArray::new(
        "data",
        Arc::new(BytesSource::new(bytes.to_vec())),
    ))
}

fn created(plain: &[u8], codec: &str, chunk_size: usize) -> Vec<u8> {
    let elements = plain.len() / 8;
    let array = json!({"name": "data", "dtype": "int64", "shape": [elements], "codec": codec});
    let attributes = json!({"chunk_size": chunk_size, "nchunks": 2, "checksum": "sha1"});
    let given = json!({"format": "bloscpack", "arrays": [array], "attributes": attributes});
    let given = given.to_string();
    let given = GivenDescription::parse(given.as_bytes()).unwrap();
    let mut recipe = RecipeInMemory::default();
    let budget = Budget::by_default();
    let content = GivenContent::of_arrays(vec![raw(plain)], Some(given));
    Bloscpack
        .recipe(&content, Preferences::default(), &budget, &mut recipe)
        .unwrap();
    recipe.0.into_values().next().unwrap()
}

fn opened(bytes: Vec<u8>) -> Container {
    let source = Arc::new(BytesSource::new(bytes));
    open("bloscpack", (source, false), &Budget::by_default()).unwrap()
}

fn changed(plain: &[u8], ranges: Vec<Range<u64>>) -> ChangedArray {
    ChangedArray {
        container: ContainerNumber::OUTERMOST,
        shown: raw(plain),
        len: plain.len() as u64,
        ranges,
        visible: plain.len() as u64,
        done_before: None,
    }
}

/// A recipe carried out in memory.
struct Changed<'a> {
    old: &'a [u8],
    new: Vec<u8>,
    budget: &'a Budget,
    /// The most that was taken of the budget.
    most: u64,
}

impl Recipe for Changed<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let bytes = &self.old[from.start as usize..from.end as usize];
        self.put(file, to, bytes)
    }

    fn put(&mut self, _: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        let range = at as usize..at as usize + bytes.len();
        self.new.resize(self.new.len().max(range.end), 0);
        self.new[range].copy_from_slice(bytes);
        self.most = self.most.max(self.budget.used());
        Ok(())
    }

    /// It began with a copy of the file.
    fn keep_rest(&mut self, _: MemberNumber) -> Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _: MemberNumber, len: u64) -> Result<()> {
        self.new.resize(len as usize, 0);
        Ok(())
    }
}

#[test]
fn a_chunk_larger_than_the_memory_becomes_the_same_in_parts() {
    const LEN: usize = 24 << 20;
    let number = |at: usize| (at * at % 1000 + at / 300_000).to_le_bytes();
    let plain: Vec<u8> = (0..LEN / 8).flat_map(number).collect();
    let mut edited = plain.clone();
    edited[5 << 20..6 << 20].fill(3);
    edited[17 << 20] ^= 1;
    for codec in ["blosc lz4 shuffle", "blosc zlib bitshuffle", "blosc snappy"] {
        let file = created(&plain, codec, 10 << 20);
        let container = opened(file.clone());
        let writable = container.writable.unwrap();
        for way in [CommitWay::Replaced, CommitWay::InPlace] {
            let carried_out = |budget: &Arc<Budget>| {
                let ranges = vec![5 << 20..6 << 20, 17 << 20..(17 << 20) + 1];
                let mut recipe = Changed {
                    old: &file,
                    new: file.clone(),
                    budget,
                    most: 0,
                };
                let changed = [changed(&edited, ranges)];
                writable.recipe(&changed, way, budget, &mut recipe).unwrap();
                (recipe.new, recipe.most)
            };
            let (whole, much) = carried_out(&Budget::new(256 << 20));
            let (in_parts, little) = carried_out(&Budget::new(8 << 20));
            assert!(whole == in_parts, "{codec}, {way:?}");
            assert!(much > 10 << 20 && little < 6 << 20, "{much}, {little}");
            let reopened = opened(in_parts);
            let data = reopened.array("data").unwrap();
            assert!(read_all(&**data).unwrap() == edited, "{codec}, {way:?}");
        }
    }
}

/// Printed, not judged: `cargo test --release -- --ignored --nocapture rates`.
#[test]
#[ignore = "a measurement"]
fn rates() {
    const LEN: u64 = 256 << 20;
    let number = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52).to_le_bytes();
    let plain: Vec<u8> = (0..LEN / 8).flat_map(number).collect();
    let container = opened(created(&plain, "blosc lz4 shuffle", 1 << 20));
    let writable = container.writable.unwrap();
    let time = |what: &str, changed: ChangedArray, way| {
        let changed = [changed];
        for _ in 0..3 {
            let began = std::time::Instant::now();
            writable
                .recipe(&changed, way, &Budget::by_default(), &mut Nowhere)
                .unwrap();
            println!("{what}: {:?}", began.elapsed());
        }
    };
    let some = |n, len| (0..n).map(|i| i * (LEN / n)..i * (LEN / n) + len).collect();
    let all = || changed(&plain, some(1, LEN));
    time("all, replaced", all(), CommitWay::Replaced);
    time("all, in place", all(), CommitWay::InPlace);
    time(
        "ten, replaced",
        changed(&plain, some(10, 8)),
        CommitWay::Replaced,
    );
    time(
        "ten, in place",
        changed(&plain, some(10, 8)),
        CommitWay::InPlace,
    );
    let zeros = vec![0; LEN as usize];
    time("zeros", changed(&zeros, some(1, LEN)), CommitWay::Replaced);
}

struct Nowhere;

impl Recipe for Nowhere {
    fn copy(&mut self, _: MemberNumber, _: Range<u64>, _: u64) -> Result<()> {
        Ok(())
    }

    fn put(&mut self, _: MemberNumber, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn keep_rest(&mut self, _: MemberNumber) -> Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _: MemberNumber, _: u64) -> Result<()> {
        Ok(())
    }
}
