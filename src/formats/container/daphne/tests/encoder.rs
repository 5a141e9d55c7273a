//! A naive encoder of specification-form files, and how the tests look at containers.
//!
//! Written from the specification, cell by cell; shares no code with the reader.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use crate::array::uncached::read_all;
use crate::array::{Array, Piece};
use crate::container::daphne::Daphne;
use crate::container::{Container, Dialect, Format, OpenRequest, Preferences, open_as};
use crate::error::{Error, Fault};
use crate::memory::budget::Budget;
use crate::memory::scratch::Region;
use crate::source::Store;
use crate::source::local::LocalStore;

/// Sizes of the value types, by code.
pub(super) const SIZES: [usize; 11] = [0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8];

/// A small integer as a value of a type.
pub(super) fn value(code: u8, number: i64) -> Vec<u8> {
    match code {
        9 => (number as f32).to_le_bytes().to_vec(),
        10 => (number as f64).to_le_bytes().to_vec(),
        _ => number.to_le_bytes()[..SIZES[usize::from(code)]].to_vec(),
    }
}

/// Stored entries of a rectangle; the others are zero.
#[derive(Debug, Clone)]
pub(super) struct Rect {
    pub(super) rows: Range<u64>,
    pub(super) cols: Range<u64>,
    /// 0 empty, 1 dense, 2 sparse, 3 COO.
    pub(super) kind: u8,
    pub(super) code: u8,
    /// Whether entries stand in reverse order.
    pub(super) reversed: bool,
}

pub(super) fn header(data: u8, rows: u64, cols: u64, codes: &[u8]) -> Vec<u8> {
    let mut out = vec![1, data];
    out.extend(rows.to_le_bytes());
    out.extend(cols.to_le_bytes());
    out.extend(codes);
    out
}

/// Header of a frame with these labels.
pub(super) fn frame_header(rows: u64, codes: &[u8], labels: &[&[u8]]) -> Vec<u8> {
    let mut out = header(3, rows, codes.len() as u64, codes);
    for label in labels {
        out.extend((label.len() as u16).to_le_bytes());
        out.extend(*label);
    }
    out
}

pub(super) fn block_head(row: u64, col: u64, height: u32, width: u32, kind: u8) -> Vec<u8> {
    let mut out = row.to_le_bytes().to_vec();
    out.extend(col.to_le_bytes());
    out.extend(height.to_le_bytes());
    out.extend(width.to_le_bytes());
    out.push(kind);
    out
}

/// Encodes the cells of a rectangle; none of `cell` is a cell without an entry.
pub(super) fn block(rect: &Rect, cell: &dyn Fn(u64, u64) -> Option<i64>) -> Vec<u8> {
    let (height, width) = (
        rect.rows.end - rect.rows.start,
        rect.cols.end - rect.cols.start,
    );
    let (row, col) = (rect.rows.start, rect.cols.start);
    let mut out = block_head(row, col, height as u32, width as u32, rect.kind);
    if rect.kind == 0 {
        return out;
    }
    out.push(rect.code);
    let at = |r: u64, c: u64| cell(row + r, col + c);
    let mut entries: Vec<(u64, u64, i64)> = (0..height)
        .flat_map(|r| (0..width).filter_map(move |c| at(r, c).map(|v| (r, c, v))))
        .collect();
    if rect.reversed {
        entries.reverse();
    }
    let number = |n: u64| (n as u32).to_le_bytes();
    match rect.kind {
        1 => {
            for r in 0..height {
                (0..width).for_each(|c| out.extend(value(rect.code, at(r, c).unwrap_or(0))));
            }
        }
        2 => {
            out.extend((entries.len() as u64).to_le_bytes());
            for r in 0..height {
                let own: Vec<_> = entries.iter().filter(|entry| entry.0 == r).collect();
                out.extend(number(own.len() as u64));
                for &&(_, c, v) in &own {
                    out.extend(number(c));
                    out.extend(value(rect.code, v));
                }
            }
        }
        _ => {
            out.extend(number(entries.len() as u64));
            for &(r, c, v) in &entries {
                out.extend(number(r));
                if width != 1 {
                    out.extend(number(c));
                }
                out.extend(value(rect.code, v));
            }
        }
    }
    out
}

pub(super) struct File(TempDir);

impl File {
    pub(super) fn new(content: &[u8]) -> File {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.dbdf"), content).unwrap();
        File(dir)
    }

    pub(super) fn sidecar(self, text: &str) -> File {
        fs::write(self.0.path().join("x.dbdf.meta"), text).unwrap();
        self
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        Arc::new(LocalStore::open(self.0.path(), self.0.path()).unwrap())
    }

    pub(super) fn open_as(&self, dialect: Dialect) -> Container {
        let preferences = Preferences {
            dialect,
            ..Preferences::default()
        };
        open_as(&Daphne, &self.store(), Path::new("x.dbdf"), preferences).unwrap()
    }

    /// Opens it with so much memory.
    pub(super) fn open_within(&self, budget: &Arc<Budget>) -> crate::error::Result<Container> {
        Daphne.open(&OpenRequest {
            store: &self.store(),
            path: Path::new("x.dbdf"),
            preferences: Preferences::default(),
            budget,
            left: &Default::default(),
        })
    }

    pub(super) fn open(&self) -> Container {
        self.open_as(Dialect::Auto)
    }
}

pub(super) fn array<'a>(container: &'a Container, name: &str) -> &'a dyn Array {
    let found = container.arrays.iter().find(|array| array.name() == name);
    &**found.unwrap_or_else(|| panic!("no array {name}: {:?}", container.faults))
}

pub(super) fn all(container: &Container, name: &str) -> Vec<u8> {
    read_all(array(container, name)).unwrap()
}

/// The fault of reading a whole array.
pub(super) fn fault(container: &Container, name: &str) -> Fault {
    match read_all(array(container, name)) {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("{name} has no fault: {other:?}"),
    }
}

/// Everything that a full check finds.
pub(super) fn verify(container: &Container) -> Vec<Fault> {
    let mut faults = container.faults.clone();
    for array in &container.arrays {
        let mut pieces = Vec::new();
        let surveyed = array.survey(&mut |piece| pieces.push(piece));
        let read = |piece: Piece| match piece {
            Piece::Block { id, block_len, .. } => {
                let mut region = Region::default();
                let scratch = region.scratch(array.scratch(id)).unwrap();
                array.decode(id, &mut vec![0; block_len as usize], scratch)
            }
            Piece::Direct { at, take } => array.read_direct(at, &mut vec![0; take as usize]),
        };
        for checked in pieces.into_iter().map(read).chain([surveyed]) {
            match checked {
                Err(Error::Fault(fault)) => faults.push(*fault),
                other => other.unwrap(),
            }
        }
    }
    for check in &container.checks {
        check
            .check(&Budget::by_default(), &mut |fault| faults.push(fault))
            .unwrap();
    }
    faults
}

/// A random partition of `rows` x `cols`: cut in two until `cuts` is used up.
pub(super) fn partition(rows: Range<u64>, cols: Range<u64>, cuts: &[u16]) -> Vec<Rect> {
    let (height, width) = (rows.end - rows.start, cols.end - cols.start);
    let cut = cuts.first().copied().unwrap_or(0);
    let place = u64::from(cut >> 3);
    let rest = cuts.get(1..).unwrap_or(&[]);
    let (one, two) = rest.split_at(rest.len() / 2);
    match cut & 3 {
        1 | 3 if height > 1 => {
            let middle = rows.start + 1 + place % (height - 1);
            let upper = partition(rows.start..middle, cols.clone(), one);
            [upper, partition(middle..rows.end, cols, two)].concat()
        }
        2 if width > 1 => {
            let middle = cols.start + 1 + place % (width - 1);
            let left = partition(rows.clone(), cols.start..middle, one);
            [left, partition(rows, middle..cols.end, two)].concat()
        }
        _ => vec![Rect {
            rows,
            cols,
            kind: (cut >> 4) as u8 & 3,
            code: (cut >> 6) as u8 % 10 + 1,
            reversed: cut & 4 != 0,
        }],
    }
}
