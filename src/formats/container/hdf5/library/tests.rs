//! Files that the library wrote itself, described.

mod bounds;
mod types;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use hdf5::plist::dataset_create::{AllocTime, FillTime};
use hdf5::types::{FixedAscii, FixedUnicode, VarLenAscii, VarLenUnicode};
use tempfile::TempDir;

use super::*;
use crate::container::hdf5::chunk_table::PackedChunks;
use crate::container::hdf5::index::{
    AttributeValue, ChunkEntry, DatasetEntry, LinkTarget, Problem, StorageLayout,
};

struct Arena {
    _dir: TempDir,
    path: PathBuf,
}

impl Arena {
    fn new() -> Arena {
        start().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.h5");
        Arena { _dir: dir, path }
    }

    fn create(&self) -> hdf5::File {
        hdf5::File::create(&self.path).unwrap()
    }

    fn create_latest(&self) -> hdf5::File {
        let mut builder = hdf5::File::with_options();
        builder.with_fapl(|access| access.libver_latest());
        builder.create(&self.path).unwrap()
    }

    fn opened(&self) -> LibraryFile {
        LibraryFile::open(Box::new(self.bytes())).unwrap()
    }

    fn index(&self) -> FileIndex {
        self.opened().index().unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
}

/// What a link of the group with this number leads to.
fn target<'a>(index: &'a FileIndex, group: usize, name: &str) -> &'a LinkTarget {
    let mut links = index.groups[group].links.iter();
    let link = links.find(|link| link.name == name.as_bytes());
    &link.expect("no such link").target
}

fn dataset<'a>(index: &'a FileIndex, name: &str) -> &'a DatasetEntry {
    match target(index, 0, name) {
        LinkTarget::Dataset(number) => &index.datasets[*number as usize],
        other => panic!("{other:?}"),
    }
}

/// A file of one group with one dataset: 3000 elements of 2 bytes in chunks of 10.
pub(crate) fn sample(path: &Path) {
    let file = hdf5::File::create(path).unwrap();
    let values: Vec<u16> = (0..3000).collect();
    let group = file.create_group("g").unwrap();
    let builder = group.new_dataset_builder().with_data(&values);
    builder.chunk(10).shuffle().create("d").unwrap();
}

#[test]
fn every_object_is_listed_once_however_many_links_lead_to_it() {
    let scratch = Arena::new();
    let file = scratch.create();
    let deep = file.create_group("b/deep/est").unwrap();
    deep.new_dataset_builder()
        .with_data(&[1, 2])
        .create("d")
        .unwrap();
    file.link_hard("b/deep/est", "a").unwrap();
    file.link_hard("b", "b/deep/est/up").unwrap();
    file.link_soft("/b/deep/./est/up/deep/est/d", "s").unwrap();
    file.link_soft("nowhere/d", "t").unwrap();
    drop((deep, file));
    let index = scratch.index();
    assert_eq!((index.groups.len(), index.datasets.len()), (4, 1));
    assert!(index.problems.is_empty());
    // The shortest path to the deepest group is `a`.
    let LinkTarget::Group(a) = *target(&index, 0, "a") else {
        panic!()
    };
    let (name, parent) = (
        &index.groups[a as usize].name,
        index.groups[a as usize].parent,
    );
    assert_eq!((&name[..], parent), (&b"a"[..], 0));
    assert_eq!(target(&index, 0, "s"), &LinkTarget::Dataset(0));
    assert_eq!(target(&index, a as usize, "d"), &LinkTarget::Dataset(0));
    assert_eq!(target(&index, a as usize, "up"), target(&index, 0, "b"));
    assert_eq!(
        target(&index, 0, "t"),
        &LinkTarget::Dangling {
            path: b"nowhere/d".to_vec()
        }
    );
}

/// Every chunk's first element, read at its address, is the one that belongs there.
fn check_chunks(scratch: &Arena, rows: u64, columns: u64, chunk: [u64; 2], stored: usize) {
    let index = scratch.index();
    let found = dataset(&index, "d");
    let StorageLayout::Chunked {
        chunk: told, table, ..
    } = &found.layout
    else {
        panic!()
    };
    assert_eq!(told[..], chunk);
    let asked = scratch.opened().chunks(found.token).unwrap();
    let asked: Vec<ChunkEntry> = PackedChunks(&asked).iter().collect();
    assert_eq!(asked.len(), stored);
    let grid = rows.div_ceil(chunk[0]) * columns.div_ceil(chunk[1]);
    assert_eq!(table.as_ref(), (grid <= 256).then_some(&asked));
    let bytes = scratch.bytes();
    let across = columns.div_ceil(chunk[1]);
    for part in &asked {
        let at = part.address as usize;
        let value = i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let (row, column) = (
            part.number / across * chunk[0],
            part.number % across * chunk[1],
        );
        assert_eq!(value as u64, row * columns + column);
        assert_eq!((part.size, part.mask), (chunk[0] * chunk[1] * 4, 0));
    }
}

#[test]
fn chunk_tables_of_every_kind_of_index() {
    // Version 1 B-tree, then single, implicit, fixed array, fixed array in pages, extensible array
    // and version 2 B-tree.
    let numbers = |n: i32| (0..n).collect::<Vec<i32>>();
    for (latest, rows, columns, chunk, extents, early) in [
        (
            false,
            20u64,
            30u64,
            [7, 8],
            hdf5::Extents::from((20, 30)),
            false,
        ),
        (true, 20, 30, [20, 30], hdf5::Extents::from((20, 30)), false),
        (true, 20, 30, [7, 8], hdf5::Extents::from((20, 30)), true),
        (true, 20, 30, [7, 8], hdf5::Extents::from((20, 30)), false),
        (true, 60, 80, [2, 2], hdf5::Extents::from((60, 80)), false),
        (true, 20, 30, [7, 8], hdf5::Extents::from((20.., 30)), false),
        // Unlimited, but not in the first dimension: the library reports wrong offsets.
        (true, 20, 30, [7, 8], hdf5::Extents::from((20, 30..)), false),
        (
            true,
            20,
            30,
            [7, 8],
            hdf5::Extents::from((20.., 30..)),
            false,
        ),
        // Numbered along the second dimension.
        (
            true,
            20,
            30,
            [7, 8],
            hdf5::Extents::from((20..=60, 30..)),
            false,
        ),
        (true, 60, 80, [2, 2], hdf5::Extents::from((60, 80..)), true),
    ] {
        let scratch = Arena::new();
        let file = if latest {
            scratch.create_latest()
        } else {
            scratch.create()
        };
        let time = early.then_some(AllocTime::Early);
        let builder = file.new_dataset::<i32>().shape(extents).alloc_time(time);
        let made = builder.chunk((chunk[0], chunk[1])).create("d").unwrap();
        made.write_raw(&numbers((rows * columns) as i32)).unwrap();
        drop((made, file));
        let stored = rows.div_ceil(chunk[0] as u64) * columns.div_ceil(chunk[1] as u64);
        let chunk = chunk.map(|n| n as u64);
        check_chunks(&scratch, rows, columns, chunk, stored as usize);
    }
}

#[test]
fn addresses_count_from_the_beginning_of_the_file_behind_a_user_block_too() {
    let scratch = Arena::new();
    let mut builder = hdf5::File::with_options();
    builder.with_fcpl(|create| create.userblock(1024));
    let file = builder.create(&scratch.path).unwrap();
    let plain = file.new_dataset_builder().with_data(b"plainly stored");
    plain.create("p").unwrap();
    let chunked = file.new_dataset_builder().with_data(b"stored in chunks");
    chunked.chunk(8).create("c").unwrap();
    file.new_dataset::<u8>().shape(5).create("never").unwrap();
    drop((plain, file));
    let (index, bytes) = (scratch.index(), scratch.bytes());
    assert_eq!(index.base, 1024);
    let StorageLayout::Contiguous { address: Some(at) } = dataset(&index, "p").layout else {
        panic!()
    };
    assert_eq!(&bytes[at as usize..][..14], b"plainly stored");
    let StorageLayout::Chunked {
        table: Some(table), ..
    } = &dataset(&index, "c").layout
    else {
        panic!()
    };
    assert_eq!(&bytes[table[1].address as usize..][..8], b"n chunks");
    let never = &dataset(&index, "never").layout;
    assert_eq!(never, &StorageLayout::Contiguous { address: None });
}

/// The library reads such a dataset all the same.
#[test]
fn contiguous_data_that_claim_to_take_no_space_are_where_they_are() {
    let scratch = Arena::new();
    // Object headers without checksums.
    let mut builder = hdf5::File::with_options();
    builder.with_fapl(|access| access.libver_earliest());
    let file = builder.create(&scratch.path).unwrap();
    let data = file.new_dataset_builder().with_data(&[7u8; 77]);
    data.create("d").unwrap();
    drop((data, file));
    let index = scratch.index();
    let StorageLayout::Contiguous { address: Some(at) } = dataset(&index, "d").layout else {
        panic!()
    };
    let mut bytes = scratch.bytes();
    // Layout version 3, contiguous: address and size.
    let size = [&[3, 1][..], &at.to_le_bytes(), &77u64.to_le_bytes()].concat();
    let found = bytes.windows(size.len()).position(|window| window == size);
    bytes[found.unwrap() + 10] = 0;
    std::fs::write(&scratch.path, bytes).unwrap();
    let expected = StorageLayout::Contiguous { address: Some(at) };
    assert_eq!(dataset(&scratch.index(), "d").layout, expected);
}

#[test]
fn attributes_are_text_or_json() {
    let scratch = Arena::new();
    let file = scratch.create();
    let unicode = VarLenUnicode::from_str("bé").unwrap();
    let put = |name: &str| file.new_attr::<VarLenUnicode>().create(name).unwrap();
    put("scalar").write_scalar(&unicode).unwrap();
    let one = file
        .new_attr::<VarLenUnicode>()
        .shape(1)
        .create("one")
        .unwrap();
    one.write_raw(std::slice::from_ref(&unicode)).unwrap();
    let full = file.new_attr::<FixedAscii<3>>().create("full").unwrap();
    full.write_scalar(&FixedAscii::<3>::from_ascii("abc").unwrap())
        .unwrap();
    let padded = file.new_attr::<FixedUnicode<9>>().create("padded").unwrap();
    padded
        .write_scalar(&FixedUnicode::<9>::from_str("abc").unwrap())
        .unwrap();
    let list = [VarLenAscii::from_ascii("x").unwrap(), VarLenAscii::new()];
    file.new_attr_builder()
        .with_data(&list)
        .create("list")
        .unwrap();
    file.new_attr_builder()
        .with_data(&[0.1f32, f32::NAN])
        .create("floats")
        .unwrap();
    let matrix = hdf5_matrix(&file);
    file.new_attr::<bool>()
        .create("yes")
        .unwrap()
        .write_scalar(&true)
        .unwrap();
    let big = file.new_attr::<u64>().create("big").unwrap();
    big.write_scalar(&u64::MAX).unwrap();
    drop((one, full, padded, big, matrix, file));
    let index = scratch.index();
    assert!(index.problems.is_empty());
    let json = |text: &str| AttributeValue::Json(text.into());
    let expected = [
        ("big", json("18446744073709551615")),
        ("floats", json(r#"[0.1,"NaN"]"#)),
        ("full", AttributeValue::Text(b"abc".to_vec())),
        ("list", json(r#"["x",""]"#)),
        ("matrix", json("[[1,-2],[3,4]]")),
        ("one", AttributeValue::Text("bé".into())),
        ("padded", AttributeValue::Text(b"abc".to_vec())),
        ("scalar", AttributeValue::Text("bé".into())),
        ("yes", json("true")),
    ];
    let found = index.groups[0].attributes.iter();
    let found = found.map(|a| (std::str::from_utf8(&a.name).unwrap(), a.value.clone()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

fn hdf5_matrix(file: &hdf5::File) -> hdf5::Attribute {
    let matrix = file
        .new_attr::<i16>()
        .shape((2, 2))
        .create("matrix")
        .unwrap();
    matrix.write_raw(&[1i16, -2, 3, 4]).unwrap();
    matrix
}

#[test]
fn descriptors_in_datasets_are_read() {
    let scratch = Arena::new();
    let file = scratch.create();
    let text = VarLenUnicode::from_str("{}").unwrap();
    for name in ["binsparse", "other"] {
        let made = file.new_dataset::<VarLenUnicode>().create(name).unwrap();
        made.write_scalar(&text).unwrap();
    }
    drop(file);
    let index = scratch.index();
    assert_eq!(
        dataset(&index, "binsparse").text.as_deref(),
        Some(&b"{}"[..])
    );
    assert_eq!(dataset(&index, "other").text, None);
    assert!(dataset(&index, "other").element.is_text());
}

#[test]
fn filters_fill_values_and_compact_data_are_as_stored() {
    let scratch = Arena::new();
    let file = scratch.create();
    let chunked = file
        .new_dataset::<u16>()
        .shape(10)
        .chunk(5)
        .fill_value(0x1234u16);
    chunked.shuffle().fletcher32().create("c").unwrap();
    let compact = file.new_dataset_builder().with_data(&[1u16, 2]);
    compact
        .layout(hdf5::plist::dataset_create::Layout::Compact)
        .create("d")
        .unwrap();
    drop(file);
    let index = scratch.index();
    let chunked = dataset(&index, "c");
    let ids: Vec<u32> = chunked.filters.iter().map(|f| f.id).collect();
    assert_eq!(ids, [2, 3]);
    assert_eq!(chunked.filters[0].values, [2]);
    assert_eq!(chunked.fill, Some(0x1234u16.to_le_bytes().to_vec()));
    assert_eq!(
        dataset(&index, "d").layout,
        StorageLayout::Compact(vec![1, 0, 2, 0])
    );
    assert_eq!(dataset(&index, "d").fill, None);
}

#[test]
fn strings_in_an_object_header_come_as_text() {
    let scratch = Arena::new();
    let file = scratch.create();
    let texts = ["b\u{e9}", "", "c"].map(|text| VarLenUnicode::from_str(text).unwrap());
    let compact = hdf5::plist::dataset_create::Layout::Compact;
    let builder = file.new_dataset_builder().with_data(&texts);
    builder.layout(compact).create("d").unwrap();
    drop(file);
    let expected = StorageLayout::Texts("b\u{e9}\n\nc\n".into(), Vec::new());
    assert_eq!(dataset(&scratch.index(), "d").layout, expected);
}

#[test]
fn a_fill_value_that_is_never_to_be_written_is_none() {
    let scratch = Arena::new();
    let file = scratch.create();
    for (name, time) in [("d", FillTime::Never), ("e", FillTime::IfSet)] {
        let builder = file.new_dataset::<u16>().shape(10).fill_value(7u16);
        builder.fill_time(time).create(name).unwrap();
    }
    drop(file);
    let index = scratch.index();
    assert_eq!(dataset(&index, "d").fill, None);
    assert_eq!(dataset(&index, "e").fill, Some(vec![7, 0]));
}

#[test]
fn raw_data_in_other_files_is_named_and_never_opened() {
    let scratch = Arena::new();
    let file = scratch.create();
    let builder = file
        .new_dataset::<u8>()
        .shape(4)
        .external("/etc/hostname", 0, 4);
    builder.create("binsparse").unwrap();
    drop((builder, file));
    let index = scratch.index();
    let found = dataset(&index, "binsparse");
    assert_eq!(
        found.layout,
        StorageLayout::External(vec![b"/etc/hostname".to_vec()])
    );
    assert_eq!((&found.text, found.stored_bytes), (&None, 0));
}

#[test]
fn an_object_that_cannot_be_read_costs_only_its_own_entry() {
    let scratch = Arena::new();
    let file = scratch.create();
    for name in ["a", "b"] {
        file.new_dataset_builder()
            .with_data(&[1, 2])
            .create(name)
            .unwrap();
    }
    drop(file);
    let token = dataset(&scratch.index(), "a").token;
    overwrite(&scratch.path, token as usize, 77);
    let index = scratch.index();
    let LinkTarget::Unknown { reason } = target(&index, 0, "a") else {
        panic!()
    };
    assert_eq!(reason, "bad object header version number");
    let problem = Problem {
        path: vec![b"a".to_vec()],
        what: reason.clone(),
    };
    assert_eq!(index.problems, [problem]);
    assert_eq!(dataset(&index, "b").dims, Some(vec![2]));
}

#[test]
fn links_out_of_the_file_are_told_and_never_followed() {
    let scratch = Arena::new();
    let file = scratch.create();
    file.link_external("other.h5", "/there", "out").unwrap();
    file.link_soft("out", "via").unwrap();
    file.link_soft("out/on", "beyond").unwrap();
    drop(file);
    let index = scratch.index();
    let out = LinkTarget::External {
        file: b"other.h5".to_vec(),
        path: b"/there".to_vec(),
    };
    assert_eq!(target(&index, 0, "out"), &out);
    assert_eq!(target(&index, 0, "via"), &out);
    let beyond = target(&index, 0, "beyond");
    assert!(matches!(beyond, LinkTarget::NotFollowed { .. }));
}

fn overwrite(path: &Path, at: usize, byte: u8) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] = byte;
    std::fs::write(path, bytes).unwrap();
}
