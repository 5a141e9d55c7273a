//! New files, looked at through the worker's index and as arrays.

mod packed;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::array::Array;
use crate::array::nested::NestedBlocks;
use crate::container::creation::{RawArray, RecipeInMemory};
use crate::container::hdf5::dataset::{self, OpenedDataset};
use crate::container::hdf5::index::{
    DatasetEntry, FileIndex, LinkTarget, StorageLayout, UNLIMITED,
};
use crate::container::hdf5::worker;
use crate::source::{BytesSource, Source};

pub(super) struct NewFile {
    source: Arc<dyn Source>,
    index: FileIndex,
    budget: Arc<Budget>,
}

fn raw(name: &str, bytes: Vec<u8>) -> Arc<dyn Array> {
    Arc::new(RawArray::new(name, Arc::new(BytesSource::new(bytes))))
}

fn content(
    arrays: Vec<Arc<dyn Array>>,
    groups: &[&str],
    description: Option<Value>,
) -> GivenContent {
    let text = description.map(|description| description.to_string());
    let parsed = text.map(|text| GivenDescription::parse(text.as_bytes()).unwrap());
    GivenContent {
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..GivenContent::of_arrays(arrays, parsed)
    }
}

fn told(kind: NewFileKind, content: &GivenContent) -> Result<Vec<u8>> {
    let budget = Budget::new(256 << 20);
    let mut files = RecipeInMemory::default();
    tell(kind, content, &budget, &mut files)?;
    let bytes = files.0.remove(&FILE).unwrap();
    if let Some(directory) = std::env::var_os("ARRAYFS_KEEP_NEW") {
        let thread = std::thread::current();
        let name = thread
            .name()
            .unwrap_or("x")
            .rsplit("::")
            .next()
            .unwrap()
            .to_owned();
        std::fs::write(std::path::Path::new(&directory).join(name + ".h5"), &bytes).unwrap();
    }
    Ok(bytes)
}

fn made(kind: NewFileKind, content: &GivenContent) -> NewFile {
    let source: Arc<dyn Source> = Arc::new(BytesSource::new(told(kind, content).unwrap()));
    let budget = Budget::new(256 << 20);
    let (_, (index, _)) = worker::index(&*source, &budget).unwrap();
    assert_eq!(
        (&index.problems[..], &index.left_out[..]),
        (&[][..], &[][..])
    );
    NewFile {
        source,
        index,
        budget,
    }
}

impl NewFile {
    fn entry(&self, path: &str) -> &DatasetEntry {
        match self.index.find(path.as_bytes()) {
            Some(LinkTarget::Dataset(number)) => &self.index.datasets[*number as usize],
            other => panic!("{path}: {other:?}"),
        }
    }

    fn bytes(&self, path: &str) -> Vec<u8> {
        let nested = NestedBlocks::new(&self.budget);
        let (entry, tables) = (self.entry(path), worker::tables(&self.source, &self.budget));
        let opened = dataset::open(path, &self.source, &self.index, entry, &nested, tables);
        let opened = opened.unwrap();
        let OpenedDataset::Array {
            array,
            trouble: None,
            ..
        } = opened
        else {
            panic!("{path} is not shown");
        };
        let mut bytes = vec![0; array.info().unwrap().bytes as usize];
        nested.array(array).read(0, &mut bytes).unwrap();
        bytes
    }
}

#[test]
fn an_empty_file_is_small_and_always_the_same() {
    let nothing = GivenContent::default();
    let first = told(NewFileKind::Hdf5, &nothing).unwrap();
    assert!(first.len() <= 1024, "{}", first.len());
    assert_eq!(told(NewFileKind::Hdf5, &nothing).unwrap(), first);
    assert_eq!(made(NewFileKind::Hdf5, &nothing).index.groups.len(), 1);
}

#[test]
fn arrays_without_a_description_are_bytes() {
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n / 1000) as u8).collect();
    let arrays = vec![raw("a", b"abc".to_vec()), raw("g/large", large.clone())];
    let file = made(NewFileKind::Hdf5, &content(arrays, &["g", "g/empty"], None));
    assert_eq!(
        (file.bytes("a"), file.bytes("g/large")),
        (b"abc".to_vec(), large)
    );
    assert_eq!(file.entry("a").dims, Some(vec![3]));
    let StorageLayout::Chunked { chunk, .. } = &file.entry("g/large").layout else {
        panic!();
    };
    assert_eq!(chunk, &[1 << 20]);
    let filters = &file.entry("g/large").filters;
    assert_eq!(
        filters.iter().map(|filter| filter.id).collect::<Vec<_>>(),
        [2, 1]
    );
    assert!(file.source.len() < 100_000);
    assert!(matches!(
        file.index.find(b"g/empty"),
        Some(LinkTarget::Group(_))
    ));
}

#[test]
fn what_is_described_is_made() {
    let member = json!(["kind", 8, {"class": "H5T_ENUM", "base": "H5T_STD_I8LE", "members": [["A", 0], ["B", 1]]}]);
    let compound = json!({"class": "H5T_COMPOUND", "size": 16, "members": [["x", 0, "H5T_IEEE_F64BE"], member]});
    let odd = json!({"class": "H5T_INTEGER", "size": 4, "byte_order": "BE", "signed": true, "precision": 17, "offset": 3});
    let description = json!({"format": "hdf5", "version": "superblock 0", "arrays": [
        {"name": "big", "dtype": "int16", "shape": [3, 4], "type": "H5T_STD_I16BE", "maxshape": [null, 4], "layout": "chunked",
         "chunks": [2, 3], "filters": [{"id": 2, "values": [2], "optional": true}, {"id": 1, "values": [4]}, {"id": 3}], "fill": -7},
        {"name": "c", "dtype": "?", "shape": [2], "type": compound, "fill": {"x": 1.5, "kind": 1},
         "attributes": {"scale": 1.5, "one": {"x": 2.0, "kind": 0}},
         "attribute_types": {"one": {"type": compound}, "scale": {"type": "H5T_IEEE_F32LE", "shape": [1]}}},
        {"name": "odd", "dtype": "int32", "shape": [2], "type": odd, "layout": "compact"},
        {"name": "t", "dtype": "str", "shape": [2, 2], "type": {"class": "H5T_STRING", "padding": "NULLTERM", "charset": "UTF-8"},
         "chunks": [1, 2], "filters": [{"id": 1, "values": [9]}]},
        {"name": "nothing", "dtype": "float32", "shape": [0], "space": "null", "type": "H5T_IEEE_F32LE"},
        {"name": "same", "dtype": "int32", "shape": [2], "type": odd},
    ], "attributes": {"title": "x", "n": 3, "l": [1, 2], "bad": null},
       "hard_links": {"same": "odd"}, "soft_links": {"gone": "no/where"}});
    let numbers = |n: std::ops::Range<i16>| n.flat_map(i16::to_le_bytes).collect::<Vec<u8>>();
    let mut compounds = 1.25f64.to_le_bytes().to_vec();
    compounds.extend([1]);
    compounds.extend(2.5f64.to_le_bytes());
    compounds.extend([0]);
    let small = [5i32, -9].map(i32::to_le_bytes).concat();
    let arrays = vec![
        raw("big", numbers(-5..7)),
        raw("c", compounds.clone()),
        raw("nothing", Vec::new()),
        raw("odd", small.clone()),
        raw("same", small.clone()),
        raw("t", "a\nbb\n\nd\u{e9}\n".into()),
    ];
    let file = made(NewFileKind::Hdf5, &content(arrays, &[], Some(description)));
    assert_eq!(file.bytes("big"), numbers(-5..7));
    assert_eq!(file.bytes("c"), compounds);
    assert_eq!(
        (file.bytes("odd"), file.bytes("same")),
        (small.clone(), small)
    );
    assert_eq!(file.bytes("t"), "a\nbb\n\nd\u{e9}\n".as_bytes());
    assert_eq!(file.entry("nothing").dims, None);
    assert_eq!(file.entry("odd").token, file.entry("same").token);
    assert_eq!(
        file.entry("big").fill.as_deref(),
        Some(&(-7i16).to_be_bytes()[..])
    );
    let names: Vec<&[u8]> = file.index.groups[0]
        .attributes
        .iter()
        .map(|one| &one.name[..])
        .collect();
    assert_eq!(names, [&b"l"[..], b"n", b"title"]);
    let there = file.index.find(b"gone");
    assert_eq!(
        there,
        Some(&LinkTarget::Dangling {
            path: b"no/where".to_vec()
        })
    );
}

#[test]
fn dimensions_of_netcdf_have_scales() {
    let description = json!({"format": "hdf5", "arrays": [
        {"name": "t", "dtype": "float32", "shape": [2, 3], "dims": ["time", "x"], "maxshape": [null, 3], "chunks": [1, 3]},
        {"name": "time", "dtype": "float64", "shape": [2], "dims": ["time"], "maxshape": [null], "chunks": [8]},
        {"name": "plain", "dtype": "int32", "shape": [5]},
    ], "dimensions": {"time": {"length": 2, "unlimited": true, "id": 0}, "x": {"length": 3, "unlimited": false, "id": 1}}});
    let arrays = vec![
        raw("plain", vec![1; 20]),
        raw("t", vec![2; 24]),
        raw("time", vec![3; 16]),
    ];
    let file = made(
        NewFileKind::NetCdf4,
        &content(arrays, &[], Some(description)),
    );
    assert_eq!(
        (file.bytes("t"), file.bytes("time")),
        (vec![2; 24], vec![3; 16])
    );
    let has = |path: &str, name: &[u8]| {
        file.entry(path)
            .attributes
            .iter()
            .any(|one| one.name == name)
    };
    for (path, name) in [
        ("t", &b"DIMENSION_LIST"[..]),
        ("time", b"REFERENCE_LIST"),
        ("time", b"CLASS"),
        ("x", b"NAME"),
        ("phony_dim_0", b"_Netcdf4Dimid"),
    ] {
        assert!(has(path, name), "{path}");
    }
}

#[test]
fn arrays_have_the_lengths_of_their_dimensions() {
    let accepted = |arrays: Value, dimensions: Value| {
        let text = json!({"arrays": arrays, "dimensions": dimensions}).to_string();
        let given = GivenDescription::parse(text.as_bytes())?;
        NETCDF4.accepts(&given)
    };
    let array = |name: &str, shape: &[u64], dims: &[&str]| json!({"name": name, "dtype": "float32", "shape": shape, "dims": dims});
    let two = json!([array("t", &[3], &["x"]), array("v", &[3, 4], &["t", "x"])]);
    let why = accepted(two, json!({})).unwrap_err().to_string();
    assert!(why.contains("v: x has length 3, not 4"), "{why}");
    for (length, unlimited, fits) in [(5, false, false), (2, false, false), (5, true, true)] {
        let x = json!({"x": {"length": length, "unlimited": unlimited}});
        let of = accepted(json!([array("v", &[3, 4], &["t", "x"])]), x);
        assert_eq!(of.is_ok(), fits, "{length}");
    }
    for wrong in [json!([]), json!({"x": 4})] {
        let why = accepted(json!([]), wrong).unwrap_err().to_string();
        assert!(why.contains("no object"), "{why}");
    }
}

#[test]
fn arrays_grow_with_dimensions_without_end() {
    let description = json!({"arrays": [
        {"name": "v", "dtype": "float32", "shape": [2, 3], "dims": ["time", "x"]},
        {"name": "x", "dtype": "int32", "shape": [3], "dims": ["x"]},
    ], "dimensions": {"time": {"length": 2, "unlimited": true}}});
    let arrays = vec![raw("v", vec![2; 24]), raw("x", vec![1; 12])];
    let file = made(
        NewFileKind::NetCdf4,
        &content(arrays, &[], Some(description)),
    );
    let most = |path: &str| file.entry(path).details.most.clone();
    assert_eq!((most("v"), most("x")), (vec![UNLIMITED, 3], vec![3]));
}

#[test]
fn hostile_descriptions_are_refused_or_told() {
    let refused = |array: Value, bytes: usize| {
        let description = json!({"arrays": [array]});
        let given = content(vec![raw("x", vec![0; bytes])], &[], Some(description));
        told(NewFileKind::Hdf5, &given).unwrap_err().to_string()
    };
    let array = |more: Value| {
        let mut array = json!({"name": "x", "dtype": "uint8", "shape": [4]});
        array
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        array
    };
    let mut deep = json!("H5T_STD_I8LE");
    for _ in 0..40 {
        deep = json!({"class": "H5T_ARRAY", "dims": [], "base": deep});
    }
    for more in [
        json!({"shape": [1u64 << 62, 1u64 << 62]}),
        json!({"shape": vec![1; 1000]}),
        json!({"shape": [5]}),
        json!({"type": {"class": "H5T_COMPOUND", "size": 1u64 << 40, "members": [["a", 0, "H5T_STD_I8LE"]]}}),
        json!({"type": {"class": "H5T_OPAQUE", "size": u64::MAX, "tag": ""}}),
        json!({"type": {"class": "H5T_INTEGER", "size": 1 << 30, "precision": 1, "offset": 0}}),
        json!({"type": {"class": "H5T_COMMITTED", "name": "/"}}),
        json!({"type": deep}),
        json!({"dtype": "nonsense"}),
        json!({"dtype": "str", "shape": [7]}),
    ] {
        let why = refused(array(more.clone()), 4);
        assert!(!why.contains("signal"), "{more}: {why}");
    }
}
