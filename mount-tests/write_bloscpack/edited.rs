//! Random changes of one array, and the bytes that it must hold afterwards.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::Seeded;

pub struct Edited {
    path: PathBuf,
    /// Lengths are whole rows; none if the array cannot have another length.
    row: Option<u64>,
    random: Seeded,
    pub expected: Vec<u8>,
    longest: usize,
    /// The least length that it has had.
    pub shortest: usize,
}

impl Edited {
    /// An array as it is shown, that may become about twice as long.
    pub fn new(path: &Path, seed: u64) -> Self {
        let expected = std::fs::read(path).unwrap();
        Edited {
            row: row(path, expected.len() as u64),
            path: path.to_owned(),
            random: Seeded::new(seed),
            longest: 2 * expected.len() + 1000,
            shortest: expected.len(),
            expected,
        }
    }

    /// Changes it through some handles, one after another.
    pub fn edit(&mut self) {
        for _ in 0..3 {
            let mut file = self.open();
            for _ in 0..3 {
                self.change(&mut file);
            }
            self.end_at_a_row(&file);
            drop(file);
            assert_content(&self.path, &self.expected);
        }
    }

    fn open(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).open(&self.path).unwrap()
    }

    fn change(&mut self, file: &mut File) {
        let len = self.expected.len();
        match (self.random.below(6), self.row) {
            (0, Some(_)) => self.set_len(file),
            (1, Some(_)) => self.append(),
            (2, Some(_)) => {
                let at = self.random.below(self.longest.max(1));
                self.write(file, at, self.longest);
            }
            (_, None) if len == 0 => {}
            _ => {
                let at = self.random.below(len.max(1));
                self.write(file, at, len);
            }
        }
    }

    /// Bytes of one kind or another, not beyond `end`.
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = match self.random.below(3) {
            0 => self.random.below(most.min(20) + 1),
            _ => self.random.below(most + 1),
        };
        match self.random.below(3) {
            0 => self.random.noise(len),
            1 => self.random.rising(len),
            _ => vec![self.random.next() as u8; len],
        }
    }

    fn write(&mut self, file: &File, at: usize, end: usize) {
        let bytes = self.bytes(end.saturating_sub(at));
        file.write_all_at(&bytes, at as u64).unwrap();
        self.put(at, &bytes);
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if !bytes.is_empty() {
            self.expected.resize(self.expected.len().max(end), 0);
            self.expected[at..end].copy_from_slice(bytes);
        }
    }

    /// Through another handle, which is closed before this one.
    fn append(&mut self) {
        let row = self.row.unwrap() as usize;
        let missing = self.expected.len().next_multiple_of(row) - self.expected.len();
        let rows = self.random.below(1 + 3000 / row);
        let bytes = self.random.rising(missing + rows * row);
        let mut options = OpenOptions::new();
        let mut file = options.append(true).open(&self.path).unwrap();
        file.write_all(&bytes).unwrap();
        self.put(self.expected.len(), &bytes);
    }

    fn set_len(&mut self, file: &File) {
        let row = self.row.unwrap() as usize;
        let len = self.random.below(self.longest) / row * row;
        file.set_len(len as u64).unwrap();
        self.expected.resize(len, 0);
        self.shortest = self.shortest.min(len);
    }

    fn end_at_a_row(&mut self, file: &File) {
        if let Some(row) = self.row {
            let len = self.expected.len().next_multiple_of(row as usize);
            if len != self.expected.len() {
                file.set_len(len as u64).unwrap();
                self.expected.resize(len, 0);
            }
        }
    }
}

/// What the length of an array grows and shrinks by.
pub fn row(path: &Path, len: u64) -> Option<u64> {
    let of = |name: &str| xattr(path, &format!("user.arrayfs.{name}")).unwrap();
    let shape: Vec<u64> = serde_json::from_str(&of("shape")).unwrap();
    let (_, rest) = shape.split_first()?;
    let fortran = of("order") == "F" && !rest.is_empty();
    let elements: u64 = shape.iter().product();
    match (fortran, elements) {
        (true, _) => None,
        (false, 0) => (of("dtype") == "uint8" && rest.is_empty()).then_some(1),
        (false, elements) => Some(len / elements * rest.iter().product::<u64>()),
    }
}
