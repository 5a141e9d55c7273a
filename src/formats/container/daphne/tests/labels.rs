//! Labels of frames that are written: the file has them, and all else of it stays.

use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;

use super::encoder::*;
use crate::array::direct::DirectArray;
use crate::array::uncached::read_all;
use crate::container::Container;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::names;
use crate::container::rewrite::{
    Change, ChangedArray, CommitWay, Consistency, MemberNumber, Recipe,
};
use crate::error::Result;
use crate::memory::budget::Budget;

/// The file as it is told.
struct ToldFrame<'a> {
    old: &'a [u8],
    new: Vec<u8>,
    puts: usize,
}

impl ToldFrame<'_> {
    fn place(&mut self, at: u64, bytes: &[u8]) {
        let (at, end) = (at as usize, at as usize + bytes.len());
        self.new.resize(self.new.len().max(end), 0xaa);
        self.new[at..end].copy_from_slice(bytes);
    }
}

impl Recipe for ToldFrame<'_> {
    fn copy(&mut self, _: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let old = self.old;
        self.place(to, &old[from.start as usize..from.end as usize]);
        Ok(())
    }

    fn put(&mut self, _: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        self.puts += bytes.len();
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

/// An array with other bytes.
fn changed(container: &Container, name: &str, bytes: Vec<u8>) -> ChangedArray {
    let mut arrays = container.written();
    let array = arrays.find(|array| array.name() == name).unwrap();
    let (info, len) = (array.info().unwrap(), bytes.len() as u64);
    let read = move |at: u64, out: &mut [u8]| {
        out.copy_from_slice(&bytes[at as usize..at as usize + out.len()]);
        Ok(())
    };
    let info = crate::array::Info { bytes: len, ..info };
    ChangedArray {
        container: ContainerNumber::OUTERMOST,
        shown: Arc::new(DirectArray::new(name.to_owned(), info, read)),
        len,
        ranges: std::iter::once(0..len).collect(),
        visible: 0,
        ahead: None,
    }
}

fn text_of(labels: &[Vec<u8>]) -> Vec<u8> {
    let lines = labels.iter().flat_map(|label| [&label[..], b"\n"].concat());
    lines.collect()
}

fn judged(container: &Container, changed: &[ChangedArray]) -> Consistency {
    let rewrite = container.rewrite.as_ref().unwrap();
    rewrite.consistency(changed, &Budget::by_default()).unwrap()
}

fn told(container: &Container, old: &[u8], changed: &[ChangedArray], way: CommitWay) -> Vec<u8> {
    assert_eq!(judged(container, changed), Consistency::Now);
    let rewrite = container.rewrite.as_ref().unwrap();
    let (new, puts) = (Vec::new(), 0);
    let mut told = ToldFrame { old, new, puts };
    let budget = Budget::by_default();
    rewrite.recipe(changed, way, &budget, &mut told).unwrap();
    let amount = rewrite.amount(changed).unwrap();
    assert!(amount.moves || told.puts as u64 <= amount.changed + 8);
    told.new
}

fn columns(container: &Container) -> Vec<String> {
    let names = container.arrays.iter().map(|array| array.name().to_owned());
    names.collect()
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

#[test]
fn what_makes_no_labels_is_refused_or_waits() {
    let old = small(&[b"a", b"b"]);
    let container = File::new(&old).open();
    let of = |text: &[u8]| judged(&container, &[changed(&container, "labels", text.to_vec())]);
    for (text, why) in [
        (&b""[..], "labels has 0 lines for the 2 columns"),
        (b"a\n", "labels has 1 lines for the 2 columns"),
        (b"a\nb\nc\n", "labels has 3 lines for the 2 columns"),
    ] {
        assert_eq!(of(text), Consistency::NotYet(why.into()));
    }
    let unfit = |text: &[u8]| matches!(of(text), Consistency::Unfit(_));
    assert!(unfit(b"a\nb"), "the last line has no end");
    let longest = vec![b'x'; 65535];
    assert_eq!(of(&[&longest, &b"\n\n"[..]].concat()), Consistency::Now);
    assert!(unfit(&[&b"a\n"[..], &longest, b"y\n"].concat()));
    let rewrite = container.rewrite.as_ref().unwrap();
    let labels = ArrayAddress::outermost("labels");
    let most = (128 << 20) - 18 - 4;
    assert!(rewrite.permits(labels, Change::SetLen(most)).is_ok());
    let larger = Change::Write {
        offset: most,
        len: 1,
    };
    assert!(
        rewrite
            .permits(labels, larger)
            .is_err_and(|e| e.to_string().contains("large"))
    );
}

/// Column values that are staged beside them are in the same file.
#[test]
fn labels_and_values_are_one_file() {
    let old = small(&[b"a", b"b"]);
    let container = File::new(&old).open();
    assert_eq!(columns(&container), ["columns/a", "columns/b"]);
    let changes = [
        changed(&container, "columns/b", vec![7; 24]),
        changed(&container, "labels", b"b\nlonger/~\n".to_vec()),
        changed(&container, "columns/a", vec![3; 3]),
    ];
    for way in [CommitWay::Replaced, CommitWay::InPlace] {
        let new = told(&container, &old, &changes, way);
        let container = File::new(&new).open();
        assert_eq!(columns(&container), ["columns/b", "columns/longer%2F%7E"]);
        assert_eq!(all(&container, "columns/b"), [3; 3]);
        assert_eq!(all(&container, "columns/longer%2F%7E"), [7; 24]);
        assert!(verify(&container).is_empty());
    }
}

#[test]
fn labels_of_the_same_lengths_move_nothing() {
    let old = small(&[b"a", b"bc"]);
    let container = File::new(&old).open();
    let change = [changed(&container, "labels", b"bc\na\n".to_vec())];
    let amount = container.rewrite.as_ref().unwrap().amount(&change).unwrap();
    assert!(!amount.moves && amount.changed == 7, "{amount:?}");
    let new = told(&container, &old, &change, CommitWay::InPlace);
    assert_eq!(new, small(&[b"bc", b"a"]));
}

/// A label with a line feed makes two lines: the text that has as many as columns is taken.
#[test]
fn labels_with_line_feeds_are_replaced_by_as_many_lines_as_columns() {
    let old = small(&[b"a\nb", b""]);
    let container = File::new(&old).open();
    let shown = read_all(&*container.lines[0]).unwrap();
    assert_eq!(shown, b"a\nb\n\n");
    let same = judged(&container, &[changed(&container, "labels", shown)]);
    assert!(matches!(same, Consistency::NotYet(_)));
    let change = [changed(&container, "labels", b"\nx\n".to_vec())];
    let new = told(&container, &old, &change, CommitWay::Replaced);
    assert_eq!(new, small(&[b"", b"x"]));
}

/// The form of the program says no labels.
#[test]
fn labels_that_no_file_says_are_only_read() {
    let mut old = header(3, 2, 1, &[3]);
    old.extend([3, 0, 9, 9, 9]);
    old.extend([0; 16]);
    old.extend([5, 6]);
    let container = File::new(&old).open();
    assert_eq!(all(&container, "columns/col_0"), [5, 6]);
    assert_eq!(read_all(&*container.lines[0]).unwrap(), b"col_0\n");
    let rewrite = container.rewrite.as_ref().unwrap();
    let labels = ArrayAddress::outermost("labels");
    let nothing = Change::Write { offset: 0, len: 0 };
    assert!(rewrite.permits(labels, nothing).is_err());
}

proptest! {
    #[test]
    fn all_but_the_labels_stays(
        rows in 1u64..20, codes in proptest::collection::vec(1u8..=10, 1..8), seed in any::<u64>(),
        cuts in proptest::collection::vec(any::<u16>(), 1..20),
        labels in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6), 16),
    ) {
        let cols = codes.len() as u64;
        let without_ends = |label: &Vec<u8>| -> Vec<u8> {
            label.iter().map(|byte| if *byte == b'\n' { b'/' } else { *byte }).collect()
        };
        let labels: Vec<_> = labels.iter().map(without_ends).collect();
        let (before, after) = labels.split_at(8);
        let (before, after) = (&before[..codes.len()], &after[..codes.len()]);
        let rects = partition(0..rows, 0..cols, &cuts);
        let cell = |row: u64, col: u64| {
            let number = seed.wrapping_add(row * 31 + col) % 7;
            (number > 2).then_some(number as i64)
        };
        let with = |labels: &[Vec<u8>]| {
            let labels: Vec<&[u8]> = labels.iter().map(|label| &label[..]).collect();
            let head = frame_header(rows, &codes, &labels);
            let blocks = rects.iter().map(|rect| block(rect, &cell));
            blocks.fold(head, |all, block| [all, block].concat())
        };
        let (old, expected) = (with(before), with(after));
        let container = File::new(&old).open();
        prop_assert!(container.faults.is_empty(), "{:?}", container.faults);
        let change = [changed(&container, "labels", text_of(after))];
        for way in [CommitWay::Replaced, CommitWay::InPlace] {
            let new = told(&container, &old, &change, way);
            prop_assert_eq!(&new, &expected);
        }
        let renamed = File::new(&expected).open();
        let shown = names::shown(after, false).unwrap();
        let shown: Vec<_> = shown.iter().map(|name| format!("columns/{name}")).collect();
        prop_assert_eq!(columns(&renamed), shown);
        prop_assert_eq!(read_all(&*renamed.lines[0]).unwrap(), text_of(after));
    }
}
