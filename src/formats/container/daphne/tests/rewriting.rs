//! Files that have changed: what they are told to become shows the changed arrays.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::encoder::*;
use crate::array::direct::DirectArray;
use crate::array::uncached::read_all;
use crate::container::Container;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::writable::{
    Change, ChangedArray, CommitWay, Consistency, MemberNumber, Recipe,
};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

/// The file as it is told.
struct ToldFile<'a> {
    old: &'a [u8],
    new: Vec<u8>,
}

impl ToldFile<'_> {
    fn place(&mut self, at: u64, bytes: &[u8]) {
        let (at, end) = (at as usize, at as usize + bytes.len());
        self.new.resize(self.new.len().max(end), 0xaa);
        self.new[at..end].copy_from_slice(bytes);
    }
}

impl Recipe for ToldFile<'_> {
    fn copy(&mut self, _: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let old = self.old;
        self.place(to, &old[from.start as usize..from.end as usize]);
        Ok(())
    }

    fn put(&mut self, _: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        self.place(at, bytes);
        Ok(())
    }

    fn keep_rest(&mut self, _: MemberNumber) -> Result<()> {
        self.new = self.old.to_vec();
        Ok(())
    }

    fn set_len(&mut self, _: MemberNumber, len: u64) -> Result<()> {
        self.new.resize(len as usize, 0xaa);
        Ok(())
    }
}

/// An array with other bytes in these ranges, or of another length.
fn changed(
    container: &Container,
    name: &str,
    bytes: Vec<u8>,
    ranges: Vec<Range<u64>>,
) -> ChangedArray {
    let (info, len) = (array(container, name).info().unwrap(), bytes.len() as u64);
    let visible = info.bytes.min(len);
    let read = move |at: u64, out: &mut [u8]| {
        out.copy_from_slice(&bytes[at as usize..at as usize + out.len()]);
        Ok(())
    };
    let info = crate::array::Info { bytes: len, ..info };
    ChangedArray {
        container: ContainerNumber::OUTERMOST,
        shown: Arc::new(DirectArray::new(name.to_owned(), info, read)),
        len,
        ranges,
        visible,
        done_before: None,
    }
}

fn judged(container: &Container, changed: &[ChangedArray]) -> Consistency {
    let writable = container.writable.as_ref().unwrap();
    writable
        .consistency(changed, &Budget::by_default())
        .unwrap()
}

fn told(container: &Container, old: &[u8], changed: &[ChangedArray], way: CommitWay) -> Vec<u8> {
    assert_eq!(judged(container, changed), Consistency::Now);
    let writable = container.writable.as_ref().unwrap();
    let new = Vec::new();
    let mut told = ToldFile { old, new };
    let budget = Budget::by_default();
    writable.recipe(changed, way, &budget, &mut told).unwrap();
    told.new
}

/// The file that both ways give, opened.
fn told_alike(container: &Container, old: &[u8], changed: &[ChangedArray]) -> (Vec<u8>, Container) {
    let new = told(container, old, changed, CommitWay::Replaced);
    assert!(new == told(container, old, changed, CommitWay::InPlace));
    let container = File::new(&new).open();
    assert!(container.faults.is_empty(), "{:?}", container.faults);
    assert!(verify(&container).is_empty());
    (new, container)
}

/// Two columns and rows of two, in a block each.
fn small(labels: &[&[u8]]) -> Vec<u8> {
    let head = frame_header(2, &[1, 8], labels);
    let rect = |cols: Range<u64>, code| Rect {
        rows: 0..2,
        cols,
        kind: 1,
        code,
        reversed: false,
    };
    let cell = |row: u64, col: u64| Some((row * 2 + col) as i64);
    let blocks = [rect(0..1, 1), rect(1..2, 8)];
    let blocks = blocks.iter().map(|rect| block(rect, &cell));
    blocks.fold(head, |all, block| [all, block].concat())
}

/// In the form of the program they are not even stored.
#[test]
fn labels_are_only_read() {
    let mut old = header(3, 2, 1, &[3]);
    old.extend([3, 0, 9, 9, 9]);
    old.extend([0; 16]);
    old.extend([5, 6]);
    for (file, text) in [(&old, &b"col_0\n"[..]), (&small(&[b"a", b"b"]), b"a\nb\n")] {
        let container = File::new(file).open();
        assert_eq!(read_all(&*container.lines[0]).unwrap(), text);
        let writable = container.writable.as_ref().unwrap();
        let labels = ArrayAddress::outermost("labels");
        let nothing = Change::Write { offset: 0, len: 0 };
        let refused = writable.permits(labels, nothing);
        assert!(matches!(refused, Err(Error::Computed(_))), "{refused:?}");
        assert!(container.only_read.arrays.contains_key("labels"));
    }
}

/// A value that every type holds; none: bits of this type.
fn element(code: u8, small: bool, of: u8) -> Vec<u8> {
    match small {
        true => value(code, i64::from(of % 100)),
        false => vec![of; SIZES[usize::from(code)]],
    }
}

proptest! {
    /// Blocks stay where dense ones hold the changes; else there are those of a new file.
    #[test]
    fn cells_become_what_is_shown(
        (rows, more) in (0u64..20, prop::option::of(0u64..30)), is_frame in any::<bool>(),
        codes in prop::collection::vec(1u8..=10, 1..6), cuts in prop::collection::vec(any::<u16>(), 1..20),
        all_dense in any::<bool>(), small in any::<bool>(),
        changes in prop::collection::vec((any::<usize>(), any::<usize>(), any::<u8>()), 0..6),
    ) {
        let cols = codes.len() as u64;
        let mut rects = partition(0..rows, 0..cols, &cuts);
        rects.retain(|rect| !rect.rows.is_empty());
        rects.iter_mut().filter(|_| all_dense).for_each(|rect| rect.kind = 1);
        let (head, names, codes) = match is_frame {
            true => {
                let names: Vec<String> = (0..cols).map(|col| format!("columns/{col}")).collect();
                let labels: Vec<&[u8]> = names.iter().map(|name| &name.as_bytes()[8..]).collect();
                (frame_header(rows, &codes, &labels), names, codes)
            }
            false => (header(1, rows, cols, &codes[..1]), vec!["values".into()], codes[..1].to_vec()),
        };
        let cell = |row: u64, col: u64| Some(((row * 7 + col) % 5) as i64).filter(|n| *n > 1);
        let blocks = rects.iter().map(|rect| block(rect, &cell));
        let old = blocks.fold(head, |all, block| [all, block].concat());
        let container = File::new(&old).open_as(crate::container::Dialect::Spec);
        prop_assert!(container.faults.is_empty(), "{:?}", container.faults);
        let across = if is_frame { 1 } else { cols as usize };
        let now = more.unwrap_or(rows) as usize;
        let mut expected: Vec<Vec<u8>> = names.iter().map(|name| all(&container, name)).collect();
        let mut ranges = vec![Vec::new(); names.len()];
        for (bytes, code) in expected.iter_mut().zip(&codes) {
            bytes.resize(now * across * SIZES[usize::from(*code)], 0);
        }
        let mut is_kept = now as u64 == rows;
        for (number, at, of) in changes.into_iter().filter(|_| now > 0) {
            let number = number % names.len();
            let (at, size) = (at % (now * across), SIZES[usize::from(codes[number])]);
            let place = at * size..(at + 1) * size;
            expected[number][place.clone()].copy_from_slice(&element(codes[number], small, of));
            ranges[number].push(place.start as u64..place.end as u64);
            let (row, col) = ((at / across) as u64, (number + at % across) as u64);
            let rect = rects.iter().find(|rect| rect.rows.contains(&row) && rect.cols.contains(&col));
            is_kept &= small && rect.is_some_and(|rect| rect.kind == 1);
        }
        let each = names.iter().zip(&expected).zip(ranges);
        let changes = each.map(|((name, bytes), ranges)| changed(&container, name, bytes.clone(), ranges));
        let changes: Vec<_> = changes.collect();
        let (new, after) = told_alike(&container, &old, &changes);
        for (name, bytes) in names.iter().zip(&expected) {
            prop_assert!(all(&after, name) == *bytes, "{name}");
        }
        if is_kept {
            prop_assert_eq!(new.len(), old.len());
            let others = new.iter().zip(&old).filter(|(new, old)| new != old).count();
            prop_assert!(others <= 6 * 8, "{others}");
        }
    }

    #[test]
    fn entries_become_what_is_shown(
        rows in 0u64..20, (cols, code) in (1u64..30, 1u8..=10), cuts in prop::collection::vec(any::<u16>(), 1..20),
        sets in prop::option::of(prop::collection::vec(prop::collection::btree_set(0u64..30, 0..9), 0..20)),
    ) {
        let mut rects = partition(0..rows, 0..cols, &cuts);
        rects.retain(|rect| !rect.rows.is_empty());
        let cell = |row: u64, col: u64| Some(((row * 7 + col) % 5) as i64).filter(|n| *n > 1);
        let blocks = rects.iter().map(|rect| block(rect, &cell));
        let old = blocks.fold(header(2, rows, cols, &[code]), |all, block| [all, block].concat());
        let container = File::new(&old).open_as(crate::container::Dialect::Spec);
        let numbers = |of: Vec<u64>| of.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        let (mut offsets, mut columns) = (all(&container, "row_offsets"), all(&container, "col_idxs"));
        if let Some(sets) = &sets {
            let rows: Vec<Vec<u64>> = sets
                .iter()
                .map(|set| set.iter().copied().filter(|col| *col < cols).collect())
                .collect();
            let ends = rows.iter().scan(0, |at, row| { *at += row.len() as u64; Some(*at) });
            offsets = numbers(std::iter::once(0).chain(ends).collect());
            columns = numbers(rows.concat());
        }
        let values: Vec<u8> = (0..columns.len() / 8).flat_map(|n| value(code, n as i64 % 90)).collect();
        let arrays = [("values", values), ("col_idxs", columns), ("row_offsets", offsets)];
        let changes = arrays.iter().filter(|(name, _)| *name == "values" || sets.is_some());
        let changes: Vec<_> = changes
            .map(|(name, bytes)| {
                let all = std::iter::once(0..bytes.len() as u64).collect();
                changed(&container, name, bytes.clone(), all)
            })
            .collect();
        let (_, after) = told_alike(&container, &old, &changes);
        for (name, bytes) in &arrays {
            prop_assert!(all(&after, name) == *bytes, "{name}");
        }
    }
}
