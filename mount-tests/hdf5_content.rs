//! What datasets of HDF5 files are shown as: every type, shape and storage, with its NumPy header.
//!
//! `write_hdf5.py` writes them with h5py; random ones are compared in `oracles.rs`.

use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::python::Written;
use crate::harness::reads::{assert_content, assert_same, walk};
use crate::harness::scratch_directory;
use crate::harness::tools::shell;

/// A mounted file and what its `arrays.json` says.
struct Shown {
    written: Written,
    mounted: Mounted,
    file: &'static str,
    described: Value,
}

impl Shown {
    fn new(kind: &str, file: &'static str) -> Self {
        let written = Written::new(kind);
        let mounted = Mounted::new(written.source(), &["views"]);
        let text = std::fs::read(mounted.join(file).join("arrays.json")).unwrap();
        let described = serde_json::from_slice(&text).unwrap();
        Shown {
            written,
            mounted,
            file,
            described,
        }
    }

    /// The array, its view and its description.
    fn assert_array(&self, name: &str, dtype: &str, descr: &str, shape: &[u64], bytes: &[u8]) {
        let directory = self.mounted.join(self.file);
        assert_content(&directory.join(name), bytes);
        self.assert_view(
            &directory.join(format!("views/{name}.npy")),
            descr,
            shape,
            bytes,
        );
        let arrays = self.described["arrays"].as_array().unwrap();
        let array = arrays.iter().find(|array| array["name"] == name);
        let array = array.unwrap_or_else(|| panic!("{name} is missing in {}", self.described));
        assert_eq!(array["dtype"], dtype, "{name}");
        assert_eq!(array["shape"], json!(shape), "{name}");
        assert_eq!(array["order"], "C", "{name}");
        assert_eq!(array["bytes"], bytes.len(), "{name}");
    }

    fn assert_view(&self, path: &Path, descr: &str, shape: &[u64], bytes: &[u8]) {
        let view = std::fs::read(path).unwrap();
        let (header, data) = view.split_at(view.len() - bytes.len());
        assert_same(path, data, bytes);
        assert_eq!(header.len() % 64, 0);
        let header = String::from_utf8_lossy(header);
        let shape = match shape {
            [one] => format!("({one},)"),
            all => format!("{all:?}").replace('[', "(").replace(']', ")"),
        };
        for part in [
            &format!("'descr': {descr}"),
            "'fortran_order': False",
            &format!("'shape': {shape}"),
        ] {
            assert!(header.contains(part), "{part} is missing in {header}");
        }
    }
}

/// The numbers 0 to 5 as NumPy's little-endian type of this name.
fn six(kind: &str) -> Vec<u8> {
    let size: usize = kind[1..].parse().unwrap();
    let number = |n: u8| -> Vec<u8> {
        match &kind[..1] {
            "f" | "c" => {
                let single = matches!(kind, "f4" | "c8");
                let part = |n: u8| match single {
                    true => f32::from(n).to_le_bytes().to_vec(),
                    false => f64::from(n).to_le_bytes().to_vec(),
                };
                let imaginary = if kind.starts_with('c') {
                    part(0)
                } else {
                    Vec::new()
                };
                [part(n), imaginary].concat()
            }
            _ => u64::from(n).to_le_bytes()[..size].to_vec(),
        }
    };
    (0..6).flat_map(number).collect()
}

#[test]
fn numbers_of_either_byte_order_are_shown_little_endian() {
    let shown = Shown::new("types", "types.h5");
    let kinds = [
        ("i2", "int16"),
        ("i4", "int32"),
        ("i8", "int64"),
        ("u2", "uint16"),
        ("u4", "uint32"),
        ("u8", "uint64"),
        ("f4", "float32"),
        ("f8", "float64"),
        ("c8", "complex64"),
        ("c16", "complex128"),
    ];
    for (kind, dtype) in kinds {
        for order in ["little", "big"] {
            let (name, descr) = (format!("{order}/{kind}"), format!("'<{kind}'"));
            shown.assert_array(&name, dtype, &descr, &[6], &six(kind));
        }
    }
}

#[test]
fn shapes_of_any_rank_are_in_the_numpy_header() {
    let shown = Shown::new("types", "types.h5");
    let cube: Vec<u8> = (0..60i32).flat_map(i32::to_le_bytes).collect();
    shown.assert_array("cube", "int32", "'<i4'", &[3, 4, 5], &cube);
    shown.assert_array("scalar", "float64", "'<f8'", &[], &2.5f64.to_le_bytes());
    shown.assert_array("zero", "float32", "'<f4'", &[0, 7], &[]);
    shown.assert_array("nothing", "int32", "'<i4'", &[0], &[]);
    shown.assert_array("bool", "bool", "'|b1'", &[6], &[0, 1, 0, 1, 0, 1]);
    let colors: Vec<u8> = [0u16, 300, 0]
        .into_iter()
        .flat_map(u16::to_le_bytes)
        .collect();
    shown.assert_array("enum", "uint16", "'<u2'", &[3], &colors);
}

#[test]
fn compounds_and_opaque_bytes_are_packed_as_numpy_spells_them() {
    let shown = Shown::new("types", "types.h5");
    let one = |n: i16| [&n.to_le_bytes()[..], &(f64::from(n) - 0.5).to_le_bytes()].concat();
    let bytes: Vec<u8> = (1..4).flat_map(one).collect();
    let descr = "[('a', '<i2'), ('b', '<f8')]";
    shown.assert_array("compound", descr, descr, &[3], &bytes);
    shown.assert_array("opaque", "|V3", "'|V3'", &[2], b"abcdef");
}

#[test]
fn strings_of_any_length_are_lines_and_of_one_length_are_padded() {
    let shown = Shown::new("types", "types.h5");
    shown.assert_array("strings/fixed", "|S5", "'|S5'", &[2], b"one\0\0three");
    let directory = shown.mounted.join("types.h5/strings");
    assert_content(
        &directory.join("variable"),
        "one\ngröße\n\nfour\n".as_bytes(),
    );
    assert_content(&directory.join("scalar"), b"alone\n");
}

/// They hold no data: a program that copies the directory has nothing to copy of them.
#[test]
fn committed_datatypes_stand_in_arrays_json_and_have_no_entry() {
    let shown = Shown::new("committed", "committed.h5");
    let number = json!({"dtype": "int32", "type": "H5T_STD_I32LE", "attributes": {"unit": "m"}});
    let members = json!([["a", 0, "H5T_STD_I16LE"], ["b", 2, "H5T_IEEE_F64BE"]]);
    let pair = json!({"class": "H5T_COMPOUND", "size": 10, "members": members});
    let triple = json!({"class": "H5T_ARRAY", "dims": [3], "base": "H5T_IEEE_F32LE"});
    let expected = json!({
        "number": number,
        "again": number,
        "group/pair": {"dtype": "[('a', '<i2'), ('b', '<f8')]", "type": pair},
        "group/triple": {"dtype": "float32", "shape": [3], "type": triple},
        "text": {
            "dtype": "str",
            "type": {"class": "H5T_STRING", "padding": "NULLTERM", "charset": "UTF-8"},
        },
        "lists": {
            "unreadable": "elements of type variable-length sequence of int32",
            "type": {"class": "H5T_VLEN", "base": "H5T_STD_I32LE"},
        },
    });
    assert_eq!(shown.described["types"], expected);
    assert_eq!(shown.described.get("unreadable"), None);
    let file = shown.mounted.join("committed.h5");
    for name in expected.as_object().unwrap().keys() {
        let read = std::fs::read(file.join(name)).unwrap_err();
        assert_eq!(read.raw_os_error(), Some(libc::ENOENT), "{name}");
    }
    let to = scratch_directory();
    shell(to.path(), "cp -r \"$1\" copy", &[&file]);
    assert_content(&to.path().join("copy/of"), &7i32.to_le_bytes());
    let stored = shown.written.source().join("committed.h5");
    let info = arrayfs([Path::new("info"), &stored]).success();
    let of_triple = "group/triple\n  type without data: float32 (3)";
    assert!(info.text().contains(of_triple), "{}", info.text());
    let verified = arrayfs([Path::new("verify"), &stored]).success();
    assert!(
        verified.text().ends_with(": sound\n"),
        "{}",
        verified.text()
    );
}

#[test]
fn what_cannot_be_shown_is_named_with_the_reason() {
    let shown = Shown::new("types", "types.h5");
    for (name, part) in [("not/lists", ""), ("not/references", "reference")] {
        let unreadable = shown.described["unreadable"].as_array().unwrap();
        let member = unreadable.iter().find(|member| member["name"] == name);
        let reason = member.unwrap_or_else(|| panic!("{name}: {unreadable:?}"))["reason"].as_str();
        assert!(reason.is_some_and(|reason| reason.contains(part) && reason.len() > 5));
        let read = std::fs::read(shown.mounted.join("types.h5").join(name)).unwrap_err();
        assert_eq!(read.raw_os_error(), Some(libc::EIO), "{name}");
    }
    // Nothing is wrong with it.
    assert!(!shown.mounted.join("types.h5/error.txt").exists());
    let verified = arrayfs([Path::new("verify"), &shown.written.source()]);
    assert_eq!(verified.code(), Some(0), "{verified:?}");
}

const ROWS: u16 = 100;
const COLUMNS: u16 = 70;

/// 100 x 70 numbers: the place's, where `stored` says so.
fn table(fill: u16, stored: impl Fn(u16, u16) -> bool) -> Vec<u8> {
    let places = (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |column| (row, column)));
    places
        .map(|(row, column)| match stored(row, column) {
            true => row * COLUMNS + column,
            false => fill,
        })
        .flat_map(u16::to_le_bytes)
        .collect()
}

#[test]
fn every_storage_shows_the_same_and_fills_what_was_never_written() {
    let shown = Shown::new("storage", "storage.h5");
    let shape = [u64::from(ROWS), u64::from(COLUMNS)];
    let check = |name: &str, bytes: Vec<u8>| {
        shown.assert_array(name, "uint16", "'<u2'", &shape, &bytes);
    };
    for name in ["contiguous", "chunked", "gzip", "lzf", "scale"] {
        check(name, table(0, |_, _| true));
    }
    let within = |row, column| (40..60).contains(&row) && (30..40).contains(&column);
    check("part", table(7, within));
    check("wide", table(0, |_, _| true));
    check("wide-part", table(5, within));
    check("never", table(9, |_, _| false));
    check("never-contiguous", table(11, |_, _| false));
    check("grown", table(3, |row, _| row < 50));
    let many: Vec<u8> = (0..30_000u32).flat_map(u32::to_le_bytes).collect();
    shown.assert_array("many", "uint32", "'<u4'", &[30_000], &many);
    let verified = arrayfs([Path::new("verify"), &shown.written.source()]);
    assert_eq!(verified.code(), Some(0), "{verified:?}");
}

/// `count` numbers from 0 on, of four bytes.
fn counted(count: u32) -> Vec<u8> {
    (0..count).flat_map(u32::to_le_bytes).collect()
}

#[test]
fn chunks_that_were_stored_short_are_read() {
    let shown = Shown::new("short", "short.h5");
    for name in ["gzip", "shuffle", "shuffle-gzip", "none"] {
        let line = counted(1993);
        shown.assert_array(name, "uint32", "'<u4'", &[1993], &line);
        let (name, table) = (format!("{name}-table"), counted(2000));
        shown.assert_array(&name, "uint32", "'<u4'", &[50, 40], &table);
    }
    let verified = arrayfs([
        Path::new("verify"),
        &shown.written.source().join("short.h5"),
    ]);
    assert_eq!(verified.code(), Some(0), "{verified:?}");
}

#[test]
fn bytes_that_a_chunk_lacks_cost_no_others() {
    let written = Written::new("short");
    let mounted = Mounted::new(written.source(), &[]);
    let (expected, missing) = (counted(60_000), 40_000..120_000u64);
    for kind in ["gzip", "none"] {
        let container = format!("lacking-{kind}.h5");
        let file = std::fs::File::open(mounted.join(&container).join("numbers")).unwrap();
        for at in (0..expected.len() as u64).step_by(4096) {
            let end = (at + 4096).min(expected.len() as u64);
            let mut page = vec![0; (end - at) as usize];
            let read = file.read_exact_at(&mut page, at);
            if end <= missing.start || at >= missing.end {
                read.unwrap_or_else(|e| panic!("{kind}, byte {at}: {e}"));
                assert_same(&container, &page, &expected[at as usize..end as usize]);
            } else {
                assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EIO), "{at}");
            }
        }
        let verified = arrayfs([Path::new("verify"), &written.source().join(&container)]);
        assert_eq!(verified.code(), Some(1), "{verified:?}");
        let told = &verified.stderr;
        let what = "the chunk ends before the bytes that it is to hold";
        assert_eq!(told.matches(what).count(), 1, "{told}");
    }
}

#[test]
fn a_file_behind_a_user_block_is_read() {
    let shown = Shown::new("storage", "behind.h5");
    for name in ["contiguous", "gzip"] {
        let bytes = table(0, |_, _| true);
        shown.assert_array(name, "uint16", "'<u2'", &[100, 70], &bytes);
    }
}

#[test]
fn text_on_heaps_in_a_cache_image_is_read() {
    let shown = Shown::new("cache_image", "cache_image.h5");
    let file = shown.mounted.join("cache_image.h5");
    let stored = std::fs::read(shown.written.source().join("cache_image.h5")).unwrap();
    let image = stored.windows(5).any(|bytes| bytes == b"MDCI\0");
    assert!(image, "there is no image");
    assert_content(&file.join("words"), "one\ngröße\n\nfour\n".as_bytes());
    let lines: String = (0..3000).map(|i| format!("x{i}\n")).collect();
    assert_content(&file.join("chunked"), lines.as_bytes());
    let verified = arrayfs([Path::new("verify"), &shown.written.source()]).success();
    assert!(verified.text().contains("sound"), "{verified:?}");
}

#[test]
fn what_is_stored_is_less_than_what_is_shown_and_du_says_so() {
    use std::os::unix::fs::MetadataExt;
    let shown = Shown::new("storage", "storage.h5");
    let blocks = |name: &str| {
        shown
            .mounted
            .join("storage.h5")
            .join(name)
            .metadata()
            .unwrap()
            .blocks()
    };
    assert!(blocks("gzip") < blocks("contiguous"));
    assert_eq!(blocks("never"), 1, "it has bytes, and stores none");
    let (files, failures) = walk(shown.mounted.path());
    assert!(failures.is_empty(), "{failures:?}");
    assert!(files.iter().all(|file| std::fs::read(file).is_ok()));
}
