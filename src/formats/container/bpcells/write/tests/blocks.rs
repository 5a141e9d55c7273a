//! Many blocks: encoded by several threads, ahead, and with little memory.

use crate::sync::Mutex;

use super::*;
use crate::container::chunked_write::{BatchCounts, ChunkedArray};
use crate::container::writable::{CommitWay, DoneBefore};

const N: u32 = 300_000;

fn large(seed: u32) -> Model {
    let val: Vec<u32> = (0..N)
        .map(|i| i.wrapping_mul(2654435761 ^ seed) % 1000)
        .collect();
    let index: Vec<u32> = (0..N).map(|i| i % 30_000).collect();
    let small = matrix("packed-uint-matrix-v2");
    let edits = [
        ("val", le32(&val)),
        ("index", le32(&index)),
        ("idxptr", le64(&[0, 5, 10, N.into()])),
        ("shape", le32(&[30_000, 3])),
    ];
    with(&small, &edits)
}

fn block_of_val(number: u64) -> ChunkId {
    ChunkId {
        shape: BLOCK_BYTES,
        number,
    }
}

/// Blocks of one array, of which it notes those that are taken.
#[derive(Default)]
struct AheadOf {
    blocks: BTreeMap<u64, Vec<u8>>,
    taken: Mutex<Vec<u64>>,
}

impl DoneBefore for AheadOf {
    fn take(&self, block: ChunkId, take: &mut dyn FnMut(&[u8])) -> bool {
        let found = self.blocks.get(&block.number);
        if let Some(bytes) = found {
            take(bytes);
            self.taken.lock().push(block.number);
        }
        found.is_some()
    }
}

#[test]
fn blocks_that_were_encoded_ahead_are_taken() {
    let (old, new) = (large(0), large(77));
    let files = created(&old, WRAP).unwrap();
    let expected = created(&new, WRAP).unwrap();
    let container = stored(&old, &files, WRAP);
    let mut changed = change("val", &old["val"], &new["val"], 0);
    let mut ahead = AheadOf::default();
    let blocks = container
        .blocks_ahead(ArrayAddress::outermost("val"), changed.len)
        .unwrap();
    for number in 0..blocks.chunks() {
        let encoded = container.encode_block(&changed, block_of_val(number), &budget());
        ahead.blocks.insert(number, encoded.unwrap().unwrap());
    }
    assert_eq!(ahead.blocks.len(), 4);
    // One is lost, one is not what it should be.
    ahead.blocks.remove(&1);
    ahead.blocks.insert(2, vec![1; 5000]);
    let ahead = Arc::new(ahead);
    changed.done_before = Some(Arc::clone(&ahead) as _);
    let mut recipe = RecipeInMemory::over(&files);
    container
        .recipe(&[changed], CommitWay::Replaced, &budget(), &mut recipe)
        .unwrap();
    for (name, bytes) in recipe.files() {
        assert!(bytes == expected[&name], "{name}");
    }
    let taken = &mut *ahead.taken.lock();
    taken.sort_unstable();
    assert_eq!(*taken, [0, 2, 3]);
}

#[test]
fn only_whole_blocks_of_packed_arrays_are_encoded_ahead() {
    let f = fragments("packed-fragments-v2");
    let files = created(&f, WRAP).unwrap();
    let container = stored(&f, &files, WRAP);
    let blocks = |name, len| {
        container
            .blocks_ahead(ArrayAddress::outermost(name), len)
            .map(|blocks| blocks.chunks())
    };
    assert_eq!(blocks("start", 3 * BLOCK_BYTES - 1), Some(2));
    assert_eq!(blocks("cell", 3 * BLOCK_BYTES), Some(3));
    for name in ["end", "end_max", "chr_ptr", "chr_names", "nothing"] {
        assert_eq!(blocks(name, 3 * BLOCK_BYTES), None, "{name}");
    }
    assert_eq!(blocks("cell", u64::MAX), Some(u64::MAX / BLOCK_BYTES));
    let changed = change("end", &[], &vec![0; 1 << 19], 0);
    assert!(
        container
            .encode_block(&changed, block_of_val(0), &budget())
            .unwrap()
            .is_none()
    );
    let changed = change("cell", &[], &vec![0; 1 << 19], 0);
    assert!(
        container
            .encode_block(&changed, block_of_val(2), &budget())
            .unwrap()
            .is_none()
    );
    let little = Budget::new(1 << 20);
    assert!(
        container
            .encode_block(&changed, block_of_val(0), &little)
            .unwrap()
            .is_none()
    );
}

#[test]
fn little_memory_is_enough() {
    let (old, new) = (large(0), large(5));
    let files = created(&old, WRAP).unwrap();
    let container = stored(&old, &files, WRAP);
    let budget = Budget::new(1 << 20);
    let _others = budget.reserve(900 << 10);
    let changed = changes(&old, &new);
    assert_eq!(
        container.consistency(&changed, &budget).unwrap(),
        Consistency::Now
    );
    let mut recipe = RecipeInMemory::over(&files);
    container
        .recipe(&changed, CommitWay::InPlace, &budget, &mut recipe)
        .unwrap();
    assert!(recipe.files()["val_data"] == created(&new, WRAP).unwrap()["val_data"]);
    assert_eq!(budget.used(), 900 << 10);
}

#[test]
fn scattered_changes_copy_what_is_between() {
    let old = large(0);
    let mut val = old["val"].clone();
    for at in (1000..val.len() - 4).step_by(40_000) {
        let at = at - at % 4;
        val[at..at + 4].copy_from_slice(&0x12345u32.to_le_bytes());
    }
    let new = with(&old, &[("val", val)]);
    let files = created(&old, WRAP).unwrap();
    let container = stored(&old, &files, WRAP);
    let changed = changes(&old, &new);
    let amount = container.amount(&changed).unwrap();
    assert!(amount.changed < amount.stored / 20, "{amount:?}");
    let mut recipe = RecipeInMemory::over(&files);
    container
        .recipe(&changed, CommitWay::Replaced, &budget(), &mut recipe)
        .unwrap();
    let expected = created(&new, WRAP).unwrap();
    for (name, bytes) in recipe.files() {
        assert!(bytes == expected[&name], "{name}");
    }
}

#[test]
fn blocks_of_zeros_are_encoded_once() {
    let old = large(0);
    let files = created(&old, WRAP).unwrap();
    let container = stored(&old, &files, WRAP);
    for (name, ones) in [("index", 0), ("index", 1)] {
        let mut bytes = vec![0; old[name].len()];
        bytes[..ones].fill(1);
        let new = with(&old, &[(name, bytes)]);
        let len = new[name].len() as u64;
        let whole = [ChangedArray {
            container: ContainerNumber::OUTERMOST,
            shown: raw(name, &new[name]),
            ranges: std::iter::once(0..len).collect(),
            len,
            visible: 0,
            done_before: None,
        }];
        let merged = MergedContainer::new(&container, &whole).ok().unwrap();
        let array = merged.array(name).unwrap();
        let ArrayForm::Packed(form) = array.form else {
            panic!("{name} is packed");
        };
        let plan = recipe::stream(&merged, array, None, form, true).unwrap();
        let needs = plan.needs(1).unwrap();
        let mut memory = spaces::encode_memory(needs, 9, &budget()).unwrap();
        let mut recipe = RecipeInMemory::over(&files);
        let counts = plan.tell(&mut memory, &mut recipe).unwrap();
        // Five blocks, the last of which is shorter.
        let encoded = 2 + ones as u64;
        let expected = BatchCounts {
            encoded,
            ahead: 0,
            zeros: 5 - encoded,
        };
        assert_eq!(counts, expected);
        for (file, bytes) in recipe.files() {
            assert!(bytes == created(&new, WRAP).unwrap()[&file], "{file}");
        }
    }
}

/// Printed, not judged: `cargo test --release -- --ignored --nocapture rates`.
#[test]
#[ignore = "a measurement"]
fn rates() {
    const MANY: usize = 20_000_000;
    let values = |seed: u32| {
        let bytes = (0..MANY as u32).map(|i| i.wrapping_mul(2654435761 ^ seed) >> 24);
        bytes.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    };
    let index: Vec<u32> = (0..MANY as u32).map(|i| i % 30_000).collect();
    let edits = [
        ("val", values(0)),
        ("index", le32(&index)),
        ("idxptr", le64(&[0, 5, 10, MANY as u64])),
        ("shape", le32(&[30_000, 3])),
    ];
    let old = with(&matrix("packed-uint-matrix-v2"), &edits);
    let files = created(&old, WRAP).unwrap();
    let container = stored(&old, &files, WRAP);
    let time = |what: &str, changed: &[ChangedArray]| {
        for _ in 0..3 {
            let began = std::time::Instant::now();
            container.consistency(changed, &budget()).unwrap();
            let judged = began.elapsed();
            container
                .recipe(changed, CommitWay::Replaced, &budget(), &mut Nowhere)
                .unwrap();
            println!("{what}: {judged:?}, then {:?}", began.elapsed() - judged);
        }
    };
    let new = values(1);
    let whole = |name: &str, bytes: &[u8]| ChangedArray {
        container: ContainerNumber::OUTERMOST,
        shown: raw(name, bytes),
        len: bytes.len() as u64,
        ranges: std::iter::once(0..bytes.len() as u64).collect(),
        visible: 0,
        done_before: None,
    };
    time("all values", &[whole("val", &new)]);
    let rows: Vec<u32> = (0..MANY as u32).map(|i| i % 29_999).collect();
    time("all indices", &[whole("index", &le32(&rows))]);
    let mut some = old["val"].clone();
    for at in (0..1000).map(|i| i * 20_000 * 4) {
        some[at + 1] ^= 1;
    }
    time(
        "some values",
        &[change("val", &old["val"], &some, usize::MAX)],
    );
}

struct Nowhere;

impl Recipe for Nowhere {
    fn copy(&mut self, _: MemberNumber, _: Range<u64>, _: u64) -> Result<()> {
        Ok(())
    }

    fn put(&mut self, _: MemberNumber, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn set_len(&mut self, _: MemberNumber, _: u64) -> Result<()> {
        Ok(())
    }
}
