//! The arrays of a BPCells container as raw bytes, as a mount shows them: made at random, changed,
//! and judged by the rules between them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;

/// Every kind of container.
pub const VERSIONS: [&str; 19] = [
    "packed-uint-matrix-v1",
    "packed-uint-matrix-v2",
    "packed-uint-matrix-v9999",
    "packed-float-matrix-v1",
    "packed-float-matrix-v2",
    "packed-float-matrix-v9999",
    "packed-double-matrix-v1",
    "packed-double-matrix-v2",
    "packed-double-matrix-v9999",
    "unpacked-uint-matrix-v1",
    "unpacked-uint-matrix-v2",
    "unpacked-float-matrix-v1",
    "unpacked-float-matrix-v2",
    "unpacked-double-matrix-v1",
    "unpacked-double-matrix-v2",
    "packed-fragments-v1",
    "packed-fragments-v2",
    "unpacked-fragments-v1",
    "unpacked-fragments-v2",
];

const MATRIX: [&str; 8] = [
    "val",
    "index",
    "idxptr",
    "shape",
    "row_names",
    "col_names",
    "storage_order",
    "version",
];

const FRAGMENTS: [&str; 7] = [
    "cell",
    "start",
    "end",
    "chr_ptr",
    "cell_names",
    "chr_names",
    "version",
];

/// `end_max` is not among them: it follows from the others.
#[derive(Clone, PartialEq)]
pub struct Raw(BTreeMap<&'static str, Vec<u8>>);

/// Whether an array holds lines.
pub fn is_text(name: &str) -> bool {
    name.ends_with("_names") || name == "storage_order" || name == "version"
}

pub fn lines(what: &str, count: usize) -> Vec<u8> {
    let line = |number| format!("{what}-{number}-\u{b5}\n");
    (0..count).map(line).collect::<String>().into_bytes()
}

/// A random number below 2^`bits`.
fn bits(random: &mut Seeded, bits: u32) -> u64 {
    random.next() >> (64 - bits)
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

impl Raw {
    fn new(version: &str) -> Raw {
        let mut raw = Raw(BTreeMap::new());
        raw.set("version", format!("{version}\n").into_bytes());
        raw
    }

    /// By columns, with names for all rows, and none for columns.
    pub fn matrix(version: &str, random: &mut Seeded, shape: [usize; 2], entries: usize) -> Raw {
        let [rows, columns] = shape;
        let mut raw = Raw::new(version);
        raw.set("storage_order", b"col\n".to_vec());
        let cuts = (1..columns).map(|_| random.below(entries + 1) as u64);
        let mut pointers = sorted(cuts.collect());
        pointers.insert(0, 0);
        if columns > 0 {
            pointers.push(entries as u64);
        }
        let entries = pointers[pointers.len() - 1] as usize;
        let value = |random: &mut Seeded| match version.contains("-uint-") {
            true => u64::from(random.count()),
            false => random.next(),
        };
        let values: Vec<u64> = (0..entries).map(|_| value(random)).collect();
        let mut index = Vec::with_capacity(entries);
        for pair in pointers.windows(2) {
            let column = (pair[0]..pair[1]).map(|_| random.below(rows.max(1)) as u64);
            index.extend(sorted(column.collect()));
        }
        raw.set_numbers("val", &values);
        raw.set_numbers("index", &index);
        raw.set_numbers("idxptr", &pointers);
        raw.set_numbers("shape", &shape.map(|n| n as u64));
        raw.set("row_names", lines("gene", rows));
        raw.set("col_names", Vec::new());
        raw
    }

    /// The same stored by rows, of the transposed matrix.
    pub fn transposed(mut self) -> Raw {
        let shape = self.numbers("shape");
        self.set_numbers("shape", &[shape[1], shape[0]]);
        let (rows, columns) = (self.take("row_names"), self.take("col_names"));
        self.set("row_names", columns);
        self.set("col_names", rows);
        let by_rows = self.get("storage_order") == b"col\n";
        let order: &[u8] = if by_rows { b"row\n" } else { b"col\n" };
        self.set("storage_order", order.to_vec());
        self
    }

    /// Chromosomes of these sizes; their numbers are not in the order in which they lie.
    pub fn fragments(version: &str, random: &mut Seeded, sizes: &[usize]) -> Raw {
        const CELLS: usize = 300;
        let mut raw = Raw::new(version);
        let (mut starts, mut pairs) = (Vec::new(), Vec::new());
        for &size in sizes {
            let begin = starts.len() as u64;
            let of_one = (0..size).map(|_| bits(random, 28)).collect();
            starts.extend(sorted(of_one));
            pairs.push([begin, starts.len() as u64]);
        }
        pairs.reverse();
        let ends = starts.iter().map(|start| start + bits(random, 10));
        let ends: Vec<u64> = ends.collect();
        let cells = starts.iter().map(|_| random.below(CELLS) as u64);
        raw.set_numbers("cell", &cells.collect::<Vec<_>>());
        raw.set_numbers("start", &starts);
        raw.set_numbers("end", &ends);
        raw.set_numbers("chr_ptr", &pairs.concat());
        raw.set("cell_names", lines("cell", CELLS));
        raw.set("chr_names", lines("chr", sizes.len()));
        raw
    }

    /// Of this kind, of any size up to some thousands.
    pub fn random(version: &str, random: &mut Seeded) -> Raw {
        if version.contains("fragments") {
            // As many always: whether some may be without a name while others have one is nobody's
            // rule.
            let sizes = match random.below(5) {
                0 => [0; 7],
                1 => [100, 28, 0, 256, 5, 9, 1],
                _ => std::array::from_fn(|_| random.below(400)),
            };
            return Raw::fragments(version, random, &sizes);
        }
        let entries = match random.below(6) {
            0 => 0,
            1 => 128,
            _ => random.below(2500),
        };
        // With one, its pointers could be those of a matrix without any, of which writers disagree.
        let columns = match random.below(8) {
            0 => 0,
            _ => 2 + random.below(60),
        };
        let shape = [1 + random.below(3000), columns];
        let mut raw = Raw::matrix(version, random, shape, entries);
        if random.below(2) == 0 {
            raw.set("row_names", Vec::new());
            raw.set("col_names", lines("cell", columns));
        }
        match random.below(3) {
            0 => raw.transposed(),
            _ => raw,
        }
    }

    /// What a directory shows.
    pub fn shown(directory: &Path) -> Raw {
        let version = std::fs::read(directory.join("version")).unwrap();
        let mut raw = Raw::new(std::str::from_utf8(&version).unwrap().trim_end());
        for name in raw.names() {
            let path = directory.join(name);
            let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            raw.set(name, bytes);
        }
        raw
    }

    #[track_caller]
    pub fn assert_shown(&self, directory: &Path) {
        for (name, bytes) in &self.0 {
            assert_content(&directory.join(name), bytes);
        }
    }

    /// As files of a directory that is there.
    pub fn write_into(&self, directory: &Path) {
        for (name, bytes) in &self.0 {
            std::fs::write(directory.join(name), bytes).unwrap();
        }
    }

    pub fn version(&self) -> &str {
        std::str::from_utf8(self.get("version")).unwrap().trim_end()
    }

    pub fn is_matrix(&self) -> bool {
        !self.version().contains("fragments")
    }

    /// Of all arrays.
    pub fn names(&self) -> &'static [&'static str] {
        if self.is_matrix() {
            &MATRIX
        } else {
            &FRAGMENTS
        }
    }

    pub fn get(&self, name: &str) -> &[u8] {
        &self.0[name]
    }

    fn take(&mut self, name: &'static str) -> Vec<u8> {
        self.0.remove(name).unwrap()
    }

    pub fn set(&mut self, name: &'static str, bytes: Vec<u8>) {
        self.0.insert(name, bytes);
    }

    /// The same with another array.
    pub fn with(mut self, name: &'static str, bytes: Vec<u8>) -> Raw {
        self.set(name, bytes);
        self
    }

    /// Bytes of each number of an array.
    pub fn width(&self, name: &str) -> usize {
        match name {
            "idxptr" | "chr_ptr" if self.version().ends_with("-v2") => 8,
            "val" if self.version().contains("-double-") => 8,
            _ => 4,
        }
    }

    /// The numbers of an array; floating-point ones as their bits.
    pub fn numbers(&self, name: &str) -> Vec<u64> {
        let number = |bytes: &[u8]| {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(whole)
        };
        let width = self.width(name);
        self.get(name).chunks(width).map(number).collect()
    }

    /// Numbers as an array has them: as many bytes of each as there is room for.
    pub fn packed_numbers(&self, name: &str, numbers: &[u64]) -> Vec<u8> {
        let width = self.width(name);
        let bytes = |number: &u64| number.to_le_bytes()[..width].to_vec();
        numbers.iter().flat_map(bytes).collect()
    }

    pub fn set_numbers(&mut self, name: &'static str, numbers: &[u64]) {
        let bytes = self.packed_numbers(name, numbers);
        self.set(name, bytes);
    }

    /// One array as it would be with other numbers.
    pub fn changed(&self, name: &'static str, change: impl FnOnce(&mut Vec<u64>)) -> Vec<u8> {
        let mut numbers = self.numbers(name);
        change(&mut numbers);
        self.packed_numbers(name, &numbers)
    }

    pub fn count_lines(&self, name: &str) -> usize {
        self.get(name).iter().filter(|&&b| b == b'\n').count()
    }

    /// Whether it can be committed: the rules between arrays.
    pub fn is_consistent(&self) -> bool {
        let whole = |name: &&str| {
            let len = self.get(name).len();
            is_text(name) || len.is_multiple_of(self.width(name))
        };
        let rules = match self.is_matrix() {
            true => Raw::is_consistent_matrix,
            false => Raw::are_consistent_fragments,
        };
        self.names().iter().all(whole) && rules(self)
    }

    fn is_consistent_matrix(&self) -> bool {
        let (shape, pointers) = (self.numbers("shape"), self.numbers("idxptr"));
        let &[rows, columns] = &shape[..] else {
            return false;
        };
        let (major, minor) = match self.get("storage_order") {
            b"col\n" => (columns, rows),
            _ => (rows, columns),
        };
        let of_none = major == 0 && pointers == [0, 0];
        let entries = pointers.last().copied();
        let len = |name| Some((self.get(name).len() / self.width(name)) as u64);
        let named = |name, all: u64| [0, all].contains(&(self.count_lines(name) as u64));
        (of_none || pointers.len() as u64 == major + 1)
            && pointers[0] == 0
            && pointers.is_sorted()
            && len("val") == entries
            && len("index") == entries
            && self.numbers("index").iter().all(|&row| row < minor)
            && named("row_names", rows)
            && named("col_names", columns)
    }

    fn are_consistent_fragments(&self) -> bool {
        let (pointers, starts) = (self.numbers("chr_ptr"), self.numbers("start"));
        let total = pointers.iter().max().copied().unwrap_or_default();
        let len = |name| (self.get(name).len() / 4) as u64;
        let cells = self.count_lines("cell_names") as u64;
        let rises = |pair: &[u64]| {
            let of_one = starts.get(pair[0] as usize..pair[1] as usize);
            of_one.is_some_and(<[u64]>::is_sorted)
        };
        pointers.len().is_multiple_of(2)
            && ["cell", "start", "end"]
                .iter()
                .all(|name| len(name) == total)
            && pointers.chunks(2).all(rises)
            && self.numbers("cell").iter().all(|&cell| cell < cells)
            && self.count_lines("chr_names") <= pointers.len() / 2
    }
}
