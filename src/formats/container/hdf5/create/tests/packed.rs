//! BPCells containers in groups of new files.

use super::*;
use crate::container::bpcells::version::Variant;
use crate::container::hdf5::index::AttributeValue;

fn u32s(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// Of one column and five rows, with the values 1 to 5.
fn matrix(group: &str, version: &str) -> Vec<Arc<dyn Array>> {
    let variant = Variant::parse(version).unwrap();
    let wide = variant.generation.pointer().width() == 8 && !version.ends_with("v9999");
    let pointers = match wide {
        true => [0u64, 5].into_iter().flat_map(u64::to_le_bytes).collect(),
        false => u32s(&[0, 5]),
    };
    let values: Vec<u8> = match version {
        v if v.contains("float") => (1..6u8).flat_map(|n| f32::from(n).to_le_bytes()).collect(),
        v if v.contains("double") => (1..6u8).flat_map(|n| f64::from(n).to_le_bytes()).collect(),
        _ => u32s(&[1, 2, 3, 4, 5]),
    };
    let array = |name: &str, bytes| raw(&format!("{group}/{name}"), bytes);
    vec![
        array("idxptr", pointers),
        array("index", u32s(&[0, 1, 2, 3, 4])),
        array("row_names", b"a\nb\nc\nd\n\xc3\xa9\n".to_vec()),
        array("shape", u32s(&[5, 1])),
        array("val", values),
        array("version", format!("{version}\n").into_bytes()),
    ]
}

fn fragments(group: &str, version: &str) -> Vec<Arc<dyn Array>> {
    let pointers = match version.ends_with("v2") {
        true => [0u64, 3].into_iter().flat_map(u64::to_le_bytes).collect(),
        false => u32s(&[0, 3]),
    };
    let array = |name: &str, bytes| raw(&format!("{group}/{name}"), bytes);
    vec![
        array("cell", u32s(&[0, 1, 0])),
        array("cell_names", b"x\ny\n".to_vec()),
        array("chr_names", b"one\n".to_vec()),
        array("chr_ptr", pointers),
        array("end", u32s(&[30, 20, 50])),
        // Is computed, whatever is given.
        array("end_max", u32s(&[7])),
        array("start", u32s(&[10, 10, 40])),
        array("version", format!("{version}\n").into_bytes()),
    ]
}

fn version_of(file: &NewFile, path: &str) -> Option<AttributeValue> {
    let Some(LinkTarget::Group(number)) = file.index.find(path.as_bytes()) else {
        panic!("{path} is no group");
    };
    let attributes = &file.index.groups[*number as usize].attributes;
    let named = attributes.iter().find(|one| one.name == b"version");
    named.map(|one| one.value.clone())
}

#[test]
fn every_version_is_made_of_the_same_arrays() {
    let versions = [
        "packed-uint-matrix-v1",
        "packed-uint-matrix-v2",
        "packed-uint-matrix-v9999",
        "packed-float-matrix-v2",
        "packed-double-matrix-v1",
        "unpacked-uint-matrix-v1",
        "unpacked-float-matrix-v2",
        "unpacked-double-matrix-v2",
    ];
    for version in versions {
        let file = made(
            NewFileKind::Hdf5,
            &content(matrix("g", version), &["g"], None),
        );
        let text = AttributeValue::Text(version.into());
        assert_eq!(version_of(&file, "g"), Some(text), "{version}");
        assert_eq!(file.bytes("g/storage_order"), b"col\n");
        assert_eq!(file.bytes("g/row_names"), b"a\nb\nc\nd\n\xc3\xa9\n");
        assert_eq!(file.bytes("g/col_names"), b"");
        assert_eq!(file.bytes("g/shape"), u32s(&[5, 1]));
        let is_packed = version.starts_with("packed");
        for (part, is_there) in [
            ("g/version", false),
            ("g/index", !is_packed),
            ("g/index_starts", is_packed),
            ("g/index_idx_offsets", is_packed && !version.ends_with("v1")),
            ("g/val", !version.starts_with("packed-uint")),
            ("g/idxptr_data", version.ends_with("v9999")),
        ] {
            let found = file.index.find(part.as_bytes()).is_some();
            assert_eq!(found, is_there, "{version}: {part}");
        }
        let StorageLayout::Chunked { chunk, .. } = &file.entry("g/shape").layout else {
            panic!();
        };
        assert_eq!(
            (&chunk[..], file.entry("g/shape").filters.len()),
            (&[1024][..], 0)
        );
    }
    for version in ["packed-fragments-v1", "unpacked-fragments-v2"] {
        let file = made(
            NewFileKind::Hdf5,
            &content(fragments("g", version), &["g"], None),
        );
        assert_eq!(file.bytes("g/end_max"), u32s(&[50]));
        assert_eq!(file.bytes("g/cell_names"), b"x\ny\n");
    }
}

/// The words are those of BPCells' own encoder.
#[test]
fn streams_are_packed_as_in_directories() {
    let given = matrix("g/h", "packed-uint-matrix-v2");
    let file = made(NewFileKind::Hdf5, &content(given, &["g", "g/h"], None));
    let words = [
        0x2492_4920,
        0x2492_4921,
        0x2492_4922,
        0x2492_4923,
        0x4924_9249,
        0x4924_9249,
        0x4924_9249,
        0x4924_9249,
        0x9249_2492,
        0x9249_2492,
        0x9249_2492,
        0x9249_2492,
    ];
    assert_eq!(file.bytes("g/h/val_data"), u32s(&words));
    assert_eq!(file.bytes("g/h/val_idx"), u32s(&[0, 12]));
    assert_eq!(file.bytes("g/h/index_starts"), u32s(&[0]));
    let offsets: Vec<u8> = [0u64, 2].into_iter().flat_map(u64::to_le_bytes).collect();
    assert_eq!(file.bytes("g/h/val_idx_offsets"), offsets);
}

#[test]
fn the_root_can_be_one_and_in_netcdf_a_group() {
    let plain = matrix("", "packed-uint-matrix-v2").into_iter();
    let plain = plain.map(|array| {
        let mut bytes = vec![0; array.info().unwrap().bytes as usize];
        array.read_direct(0, &mut bytes).unwrap();
        raw(array.name().trim_start_matches('/'), bytes)
    });
    let description = json!({"format": "bpcells", "version": "packed-uint-matrix-v2", "arrays": [
        {"name": "val", "dtype": "uint32", "shape": [5], "chunks": [7],
         "filters": [{"id": 2, "values": [4]}, {"id": 1, "values": [3]}]}],
        "attributes": {"kind": "matrix", "rows": 5}, "groups": {"": {"mine": 1}}});
    let file = made(
        NewFileKind::Hdf5,
        &content(plain.collect(), &[], Some(description)),
    );
    let names = file.index.groups[0].attributes.iter();
    let names: Vec<&[u8]> = names.map(|one| &one.name[..]).collect();
    assert_eq!(names, [&b"mine"[..], b"version"]);
    for part in ["val_data", "val_idx", "val_idx_offsets"] {
        let StorageLayout::Chunked { chunk, .. } = &file.entry(part).layout else {
            panic!();
        };
        assert_eq!((chunk[0], file.entry(part).filters.len()), (7, 2), "{part}");
    }
    assert!(file.entry("index_data").filters.is_empty());
    let given = matrix("g", "packed-float-matrix-v2");
    let netcdf = made(NewFileKind::NetCdf4, &content(given, &["g"], None));
    assert_eq!(netcdf.bytes("g/row_names"), b"a\nb\nc\nd\n\xc3\xa9\n");
}

#[test]
fn what_cannot_be_one_is_refused_with_its_group() {
    let with = |change: &dyn Fn(&mut GivenContent)| {
        let mut given = content(matrix("g", "packed-uint-matrix-v2"), &["g"], None);
        change(&mut given);
        told(NewFileKind::Hdf5, &given).unwrap_err().to_string()
    };
    let put = |given: &mut GivenContent, name: &str, bytes: Vec<u8>| {
        given.arrays.retain(|array| array.name() != name);
        given.arrays.push(raw(name, bytes));
    };
    let shorter = with(&|given| put(given, "g/val", u32s(&[1, 2])));
    assert!(shorter.contains("g: val has 2 values"), "{shorter}");
    let part = with(&|given| put(given, "g/index", vec![0; 19]));
    assert!(part.contains("g: index has 19 bytes"), "{part}");
    let falls = with(&|given| put(given, "g/idxptr", vec![1; 16]));
    assert!(falls.contains("g: idxptr begins with"), "{falls}");
    let names = with(&|given| put(given, "g/row_names", b"a\n".to_vec()));
    assert!(names.contains("g: row_names has 1 lines"), "{names}");
    let lacks = with(&|given| given.arrays.retain(|array| array.name() != "g/shape"));
    assert!(lacks.contains("g: shape is missing"), "{lacks}");
    let stored = with(&|given| put(given, "g/val_idx", Vec::new()));
    assert!(
        stored.contains("g: val_idx is a file of BPCells"),
        "{stored}"
    );
    let other = with(&|given| put(given, "g/cell", Vec::new()));
    assert!(
        other.contains("g: cell is no array of packed-uint-matrix-v2"),
        "{other}"
    );
    let link = with(&|given| drop(given.links.insert("l".into(), "g/val".into())));
    assert!(link.contains("l leads to g/val"), "{link}");
    let typed = with(&|given| {
        let own = br#"{"arrays": [{"name": "val", "dtype": "float32", "shape": [5]}]}"#;
        given
            .inner
            .insert("g".into(), GivenDescription::parse(own).unwrap());
    });
    assert!(typed.contains("val is of uint32, not float32"), "{typed}");
}
