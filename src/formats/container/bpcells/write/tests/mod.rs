//! Containers in memory: models, what a recipe makes of them, and changes as a stage would give
//! them.

mod blocks;
mod edits;
mod golden;
mod lengths;
mod rules;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::forms::{arrays_of, form_of};
use super::new_container::NewDirectory;
use super::*;
use crate::array::Piece;
use crate::array::uncached::read_all;
use crate::container::bpcells::MEMBERS;
use crate::container::creation::RawArray;
use crate::container::writable::MemberNumber;
use crate::source::{BytesSource, Source};

/// Arrays of a container as they are shown, by their names.
type Model = BTreeMap<String, Vec<u8>>;

/// Its files.
type Files = BTreeMap<String, Vec<u8>>;

fn le32(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn le64(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn raw(name: &str, bytes: &[u8]) -> Arc<dyn Array> {
    Arc::new(RawArray::new(
        name,
        Arc::new(BytesSource::new(bytes.to_vec())),
    ))
}

/// An array as a container of this variant shows it.
struct ShownArray {
    bytes: Arc<dyn Array>,
    form: ArrayForm,
}

impl Array for ShownArray {
    fn name(&self) -> &str {
        self.bytes.name()
    }

    fn info(&self) -> Result<Info> {
        let info = self.bytes.info()?;
        let (dtype, count) = match (self.form.number(), self.form.width()) {
            (Some(number), Some(width)) => (number.dtype(), info.bytes / width),
            _ => {
                let bytes = read_all(&*self.bytes)?;
                let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
                (Dtype::Text, lines as u64)
            }
        };
        Ok(Info {
            dtype,
            shape: vec![count],
            ..info
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        self.bytes.pieces(range, out)
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.bytes.read_direct(at, out)
    }
}

fn budget() -> Arc<Budget> {
    Budget::new(64 << 20)
}

/// What was told of a file.
#[derive(Default)]
struct ToldFile {
    bytes: Vec<u8>,
    covered: Vec<Range<u64>>,
    len: Option<u64>,
}

/// Carries out a recipe in memory.
struct RecipeInMemory<'a> {
    old: &'a Files,
    new: BTreeMap<u32, ToldFile>,
}

impl<'a> RecipeInMemory<'a> {
    fn over(old: &'a Files) -> Self {
        RecipeInMemory {
            old,
            new: BTreeMap::new(),
        }
    }

    fn write(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) {
        let new = self.new.entry(file.0).or_default();
        assert_eq!(new.len, None, "the length is told last");
        assert!(!bytes.is_empty(), "nothing is told");
        let end = at + bytes.len() as u64;
        let lies_over = |covered: &Range<u64>| covered.start < end && at < covered.end;
        assert!(!new.covered.iter().any(lies_over), "told twice");
        new.covered.push(at..end);
        new.bytes.resize(new.bytes.len().max(end as usize), 0xee);
        new.bytes[at as usize..end as usize].copy_from_slice(bytes);
    }

    /// The files that were told, which are all wholly told and other than they were.
    fn files(self) -> Files {
        let mut files = Files::new();
        for (number, file) in self.new {
            let name = MEMBERS[number as usize];
            let covered: u64 = file
                .covered
                .iter()
                .map(|covered| covered.end - covered.start)
                .sum();
            assert_eq!(file.len, Some(covered), "{name}");
            assert_eq!(file.bytes.len() as u64, covered, "{name}");
            assert_ne!(
                self.old.get(name),
                Some(&file.bytes),
                "{name} stays as it is"
            );
            files.insert(name.to_owned(), file.bytes);
        }
        files
    }
}

impl Recipe for RecipeInMemory<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let old = self.old.get(MEMBERS[file.0 as usize]);
        let bytes = old.and_then(|old| old.get(from.start as usize..from.end as usize));
        let bytes = bytes.ok_or_else(|| Error::Bug("there is nothing to copy".into()))?;
        self.write(file, to, bytes);
        Ok(())
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        self.write(file, at, bytes);
        Ok(())
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        let new = self.new.entry(file.0).or_default();
        assert_eq!(new.len, None, "told once");
        new.len = Some(len);
        Ok(())
    }
}

/// A new container.
fn created(model: &Model, wrap: u64) -> Result<Files> {
    let arrays: Vec<_> = model.iter().map(|(name, bytes)| raw(name, bytes)).collect();
    let nothing = Files::new();
    let mut covered = RecipeInMemory::over(&nothing);
    NewDirectory::given(&arrays, None, wrap)?.tell(&budget(), &mut covered)?;
    Ok(covered.files())
}

/// A container of these files, which are those of the model.
fn stored(model: &Model, files: &Files, wrap: u64) -> MemberFiles {
    let text = |name: &str| {
        let line = model.get(name).map_or(&b"col\n"[..], |line| line);
        String::from_utf8(line.strip_suffix(b"\n").unwrap().to_vec()).unwrap()
    };
    let version = text(VERSION);
    let variant = Variant::parse(&version).unwrap();
    let shown = |name: &str, bytes: &[u8]| {
        let form = form_of(variant, name).unwrap();
        let bytes = raw(name, bytes);
        Arc::new(ShownArray { bytes, form }) as Arc<dyn Array>
    };
    let mut arrays: Vec<_> = model
        .iter()
        .map(|(name, bytes)| shown(name, bytes))
        .collect();
    if let Some(end_max) = files.get("end_max") {
        arrays.push(shown("end_max", &end_max[8..]));
    }
    let source = |bytes: &Vec<u8>| Arc::new(BytesSource::new(bytes.clone())) as Arc<dyn Source>;
    let opened = files
        .iter()
        .map(|(name, bytes)| (name.clone(), source(bytes)));
    MemberFiles {
        variant,
        version,
        order: StorageOrder::named(text(ORDER).as_bytes()).unwrap(),
        arrays,
        members: StoredMembers(opened.collect()),
        wrap,
    }
}

/// The change that a stage would give of an array that has become another one, of which `visible`
/// bytes still show.
fn change(name: &str, old: &[u8], new: &[u8], visible: usize) -> ChangedArray {
    let visible = visible.min(old.len()).min(new.len());
    let written = |at: &usize| match *at < visible {
        true => old[*at] != new[*at],
        false => new[*at] != 0,
    };
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for at in (0..new.len()).filter(written) {
        let at = at as u64;
        match ranges.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => ranges.push(at..at + 1),
        }
    }
    ChangedArray {
        container: ContainerNumber::OUTERMOST,
        shown: raw(name, new),
        len: new.len() as u64,
        ranges,
        visible: visible as u64,
        done_before: None,
    }
}

/// The changes from one model to another.
fn changes(old: &Model, new: &Model) -> Vec<ChangedArray> {
    let differ = |(name, bytes): &(&String, &Vec<u8>)| old[*name] != **bytes;
    let changed = new.iter().filter(differ);
    let change = |(name, bytes): (&String, &Vec<u8>)| change(name, &old[name], bytes, usize::MAX);
    changed.map(change).collect()
}

fn with(model: &Model, edits: &[(&str, Vec<u8>)]) -> Model {
    let mut model = model.clone();
    for (name, bytes) in edits {
        assert!(
            model.insert((*name).to_owned(), bytes.clone()).is_some(),
            "{name}"
        );
    }
    model
}

/// A sound matrix with 300 values in 3 columns.
fn matrix(version: &str) -> Model {
    let variant = Variant::parse(version).unwrap();
    let width = |name| form_of(variant, name).unwrap().width().unwrap();
    let n = 300u32;
    let pointers = [0, 100, 100, n];
    let idxptr = match width("idxptr") {
        4 => le32(&pointers),
        _ => le64(&pointers.map(u64::from)),
    };
    let val: Vec<u32> = (0..n * width("val") as u32 / 4)
        .map(|i| i * i % 1000 + 1)
        .collect();
    let index: Vec<u32> = (0..n).map(|i| i % 90).collect();
    [
        (VERSION, format!("{version}\n").into_bytes()),
        (ORDER, b"col\n".to_vec()),
        ("shape", le32(&[90, 3])),
        ("row_names", Vec::new()),
        ("col_names", b"a\nb\nc\n".to_vec()),
        ("idxptr", idxptr),
        ("val", le32(&val)),
        ("index", le32(&index)),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

/// Sound fragments, 300 of 2 chromosomes, the second of which is stored first.
fn fragments(version: &str) -> Model {
    let n = 300u32;
    let start: Vec<u32> = (0..n)
        .map(|i| if i < 140 { 7 * i } else { 5 * i })
        .collect();
    let end: Vec<u32> = start.iter().map(|start| start + start % 50).collect();
    let cell: Vec<u32> = (0..n).map(|i| i % 4).collect();
    let pointers = [140, n, 0, 140];
    let chr_ptr = match version.ends_with("1") {
        true => le32(&pointers),
        false => le64(&pointers.map(u64::from)),
    };
    [
        (VERSION, format!("{version}\n").into_bytes()),
        ("chr_ptr", chr_ptr),
        ("chr_names", b"chr1\nchr2\n".to_vec()),
        ("cell_names", b"A\nB\nC\nD\n".to_vec()),
        ("cell", le32(&cell)),
        ("start", le32(&start)),
        ("end", le32(&end)),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

const MATRICES: [&str; 5] = [
    "packed-uint-matrix-v2",
    "packed-double-matrix-v1",
    "unpacked-float-matrix-v2",
    "packed-uint-matrix-v9999",
    "unpacked-uint-matrix-v1",
];

const FRAGMENTS: [&str; 4] = [
    "packed-fragments-v2",
    "packed-fragments-v1",
    "unpacked-fragments-v2",
    "unpacked-fragments-v1",
];
