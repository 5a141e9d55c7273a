//! New files, told into memory and opened again.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::array::Array;
use crate::array::uncached::read_all;
use crate::container::creation::{RawArray, RecipeInMemory, empty_container};
use crate::container::{Container, Dialect, open_as};
use crate::source::local::LocalStore;
use crate::source::{BytesSource, Store};

type Raw<'a> = (&'a str, Vec<u8>);

fn made(arrays: &[Raw<'_>], description: Option<Value>, dialect: Dialect) -> Result<Vec<u8>> {
    let raw = |(name, bytes): &Raw<'_>| {
        let source = Arc::new(BytesSource::new(bytes.clone()));
        Arc::new(RawArray::new(name, source)) as Arc<dyn Array>
    };
    let given = description.map(|value| GivenDescription::parse(value.to_string().as_bytes()));
    let content = GivenContent::of_arrays(arrays.iter().map(raw).collect(), given.transpose()?);
    let (budget, mut told) = (Budget::by_default(), RecipeInMemory::default());
    Daphne.recipe(
        &content,
        Preferences {
            dialect,
            ..Preferences::default()
        },
        &budget,
        &mut told,
    )?;
    Ok(told.0.into_values().next().unwrap_or_default())
}

fn opened(bytes: &[u8]) -> Container {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x.dbdf"), bytes).unwrap();
    let store = LocalStore::open(directory.path(), directory.path()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let container = open_as(&Daphne, &store, Path::new("x.dbdf"), Preferences::default()).unwrap();
    assert!(container.faults.is_empty(), "{:?}", container.faults);
    assert!(container.writable.is_some(), "it can be written");
    container
}

fn shown(container: &Container, name: &str) -> (String, Vec<u64>, Vec<u8>) {
    let array = container.array(name).unwrap();
    let info = array.info().unwrap();
    let dtype = info.dtype.name().into_owned();
    (dtype, info.shape, read_all(&**array).unwrap())
}

fn dialect(container: &Container) -> &str {
    container.attributes["dialect"].as_str().unwrap()
}

fn labels(container: &Container) -> Vec<u8> {
    read_all(&*container.lines[0]).unwrap()
}

fn numbers(of: &[u64]) -> Vec<u8> {
    of.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn array(name: &str, dtype: &str, shape: &[u64]) -> Value {
    json!({"name": name, "dtype": dtype, "shape": shape})
}

fn described(arrays: &[Value]) -> Option<Value> {
    Some(json!({"format": "daphne", "arrays": arrays}))
}

const TYPES: [(&str, usize); 10] = [
    ("uint8", 1),
    ("uint16", 2),
    ("uint32", 4),
    ("uint64", 8),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("float32", 4),
    ("float64", 8),
];

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8).collect()
}

/// An empty file has to be the same whenever it is made.
#[test]
fn without_anything_it_is_a_matrix_without_cells() {
    let files = empty_container(&Daphne, &Budget::by_default()).unwrap();
    let file = files.into_values().next().unwrap();
    assert_eq!(file.len(), 19);
    let expected = ("float64".into(), vec![0, 0], Vec::new());
    assert_eq!(shown(&opened(&file), VALUES), expected);
}

#[test]
fn values_alone_are_a_column_of_bytes_in_the_form_of_the_program() {
    let made = made(&[(VALUES, bytes(300))], None, Dialect::Auto).unwrap();
    let container = opened(&made);
    assert_eq!(
        shown(&container, VALUES),
        ("uint8".into(), vec![300, 1], bytes(300))
    );
    assert_eq!((dialect(&container), made.len()), ("daphne", 345));
}

#[test]
fn the_form_is_the_programs_unless_the_other_is_needed_or_asked_for() {
    let of = |dtype: &str, size: usize, dialect: Dialect, more: Value| {
        let mut description = described(&[array(VALUES, dtype, &[2, 3])]).unwrap();
        description["attributes"] = more;
        let made = made(&[(VALUES, bytes(6 * size))], Some(description), dialect).unwrap();
        let container = opened(&made);
        assert_eq!(
            shown(&container, VALUES),
            (dtype.into(), vec![2, 3], bytes(6 * size))
        );
        container.attributes["dialect"].as_str().unwrap().to_owned()
    };
    for (dtype, size) in TYPES {
        let needed = if size == 2 { "spec" } else { "daphne" };
        assert_eq!(of(dtype, size, Dialect::Auto, json!({})), needed, "{dtype}");
        assert_eq!(
            of(dtype, size, Dialect::Daphne, json!({})),
            needed,
            "{dtype}"
        );
        assert_eq!(of(dtype, size, Dialect::Spec, json!({})), "spec");
        assert_eq!(
            of(dtype, size, Dialect::Auto, json!({"dialect": "spec"})),
            "spec"
        );
    }
}

#[test]
fn entries_are_a_matrix_of_as_many_columns_as_are_said_or_needed() {
    let arrays = [
        (VALUES, numbers(&[5, 6, 7])),
        (COLUMNS, numbers(&[0, 4, 2])),
        (OFFSETS, numbers(&[0, 2, 2, 3])),
    ];
    let types = [
        array(VALUES, "int64", &[3]),
        array(COLUMNS, "uint64", &[3]),
        array(OFFSETS, "uint64", &[4]),
    ];
    for (form, name) in [(Dialect::Auto, "daphne"), (Dialect::Spec, "spec")] {
        for (said, columns) in [(None, 5), (Some(9), 9)] {
            let mut description = described(&types).unwrap();
            if let Some(said) = said {
                description["attributes"] = json!({"columns": said});
            }
            let container = opened(&made(&arrays, Some(description), form).unwrap());
            assert_eq!(dialect(&container), name);
            assert_eq!(container.attributes["columns"], columns);
            for (name, raw) in &arrays {
                assert_eq!(shown(&container, name).2, *raw, "{name}");
            }
        }
    }
    let untyped = made(&arrays[1..], None, Dialect::Auto);
    assert!(
        matches!(untyped, Err(Error::Invalid(_))),
        "values are missing"
    );
}

#[test]
fn arrays_that_make_no_matrix_are_refused() {
    let csr = |values: &[u64], columns: &[u64], offsets: &[u64], form| {
        let arrays = [
            (VALUES, numbers(values)),
            (COLUMNS, numbers(columns)),
            (OFFSETS, numbers(offsets)),
        ];
        let mut said = described(&[array(VALUES, "int64", &[values.len() as u64])]).unwrap();
        said["attributes"] = json!({"columns": 4});
        made(&arrays, Some(said), form)
    };
    let auto = Dialect::Auto;
    csr(&[1, 2], &[3, 1], &[0, 2], auto).unwrap();
    for refused in [
        csr(&[1, 2], &[3], &[0, 2], auto),
        csr(&[1, 2], &[3, 4], &[0, 2], auto),
        csr(&[1, 2], &[3, 1], &[0, 1], auto),
        csr(&[1, 2], &[3, 1], &[1, 2], auto),
        csr(&[1, 2], &[3, 1], &[], auto),
        csr(&[1, 2], &[3, 1], &[0, 2], Dialect::Spec),
    ] {
        assert!(matches!(refused, Err(Error::Invalid(_))));
    }
    for (arrays, said) in [
        (
            vec![(VALUES, bytes(12))],
            vec![array(VALUES, "int32", &[2, 2])],
        ),
        (
            vec![(VALUES, bytes(8))],
            vec![array(VALUES, "uint8", &[2, 2, 2])],
        ),
        (
            vec![(VALUES, bytes(8))],
            vec![array(VALUES, "complex64", &[1])],
        ),
        (vec![(VALUES, bytes(8)), ("columns/a", bytes(8))], vec![]),
        (
            vec![("columns/a", bytes(8)), ("columns/b", bytes(9))],
            vec![],
        ),
        (
            vec![("columns/a", bytes(8)), (LABELS, b"b\n".to_vec())],
            vec![],
        ),
        (
            vec![("columns/a", bytes(8)), (LABELS, b"a\nb\n".to_vec())],
            vec![],
        ),
    ] {
        let refused = made(&arrays, described(&said), Dialect::Auto);
        assert!(matches!(refused, Err(Error::Invalid(_))), "{arrays:?}");
    }
}

#[test]
fn columns_are_a_frame_in_the_order_of_their_labels() {
    let columns: [Raw<'_>; 3] = [
        ("columns/col_0", bytes(4)),
        ("columns/col_1", bytes(8)),
        ("columns/col_10", bytes(32)),
    ];
    let types = [
        array("columns/col_10", "float64", &[4]),
        array("columns/col_1", "int16", &[4]),
    ];
    let container = opened(&made(&columns, described(&types), Dialect::Auto).unwrap());
    assert_eq!(
        (dialect(&container), labels(&container)),
        ("spec", b"col_10\ncol_1\ncol_0\n".to_vec())
    );
    for (name, raw) in &columns {
        assert_eq!(shown(&container, name).2, *raw, "{name}");
    }
    // Those that the program would give, of types that it has.
    let two = made(&columns[..1], None, Dialect::Auto).unwrap();
    assert_eq!(dialect(&opened(&two)), "daphne");
    let mut said = columns.to_vec();
    said.push((LABELS, b"col_1\ncol_0\ncol_10\n".to_vec()));
    let container = opened(&made(&said, described(&types), Dialect::Auto).unwrap());
    assert_eq!(labels(&container), b"col_1\ncol_0\ncol_10\n");
    assert_eq!(shown(&container, "columns/col_1").2, bytes(8));
}

#[test]
fn labels_of_any_bytes_come_back() {
    let wide = "x".repeat(300);
    for all in [
        vec![&b"a/b"[..], b"", b"100%", b"\xff"],
        vec![b"same", b"same"],
        vec![b"two\nlines", b"one"],
        vec![wide.as_bytes()],
    ] {
        let names = crate::container::names::shown(&all, false).unwrap();
        let paths: Vec<String> = names.iter().map(|name| format!("columns/{name}")).collect();
        let mut arrays: Vec<Raw<'_>> = paths.iter().map(|path| (&**path, bytes(5))).collect();
        arrays.sort();
        let text = all.iter().flat_map(|label| [label, &b"\n"[..]].concat());
        arrays.push((LABELS, text.collect()));
        let types: Vec<Value> = paths
            .iter()
            .map(|path| array(path, "uint8", &[5]))
            .collect();
        let container = opened(&made(&arrays, described(&types), Dialect::Auto).unwrap());
        assert_eq!(labels(&container), arrays.last().unwrap().1);
        let shown: Vec<&str> = container.arrays.iter().map(|array| array.name()).collect();
        assert_eq!(shown, paths);
    }
}

#[test]
fn a_description_of_something_else_is_not_accepted() {
    let accepts = |value: Value| {
        GivenDescription::parse(value.to_string().as_bytes())
            .and_then(|given| Daphne.accepts(&given))
    };
    accepts(json!({"arrays": []})).unwrap();
    accepts(
        described(&[
            array("columns/a", "<i2", &[1]),
            array("labels", "str", &[1]),
        ])
        .unwrap(),
    )
    .unwrap();
    for bad in [
        json!({"format": "bloscpack", "arrays": []}),
        described(&[array("data", "uint8", &[1])]).unwrap(),
        described(&[array("columns/a/b", "uint8", &[1])]).unwrap(),
        described(&[array(VALUES, "float16", &[1])]).unwrap(),
    ] {
        assert!(
            matches!(accepts(bad.clone()), Err(Error::Invalid(_))),
            "{bad}"
        );
    }
}

proptest! {
    #[test]
    fn matrices_come_back(
        kind in 0usize..10, rows in 0u64..40, cols in 0u64..40, spec in any::<bool>(), seed in any::<u8>(),
    ) {
        let (dtype, size) = TYPES[kind];
        let raw: Vec<u8> = bytes(rows as usize * cols as usize * size);
        let raw: Vec<u8> = raw.into_iter().map(|byte| byte.wrapping_add(seed)).collect();
        let form = if spec { Dialect::Spec } else { Dialect::Auto };
        let said = described(&[array(VALUES, dtype, &[rows, cols])]);
        let container = opened(&made(&[(VALUES, raw.clone())], said, form).unwrap());
        prop_assert_eq!(shown(&container, VALUES), (dtype.to_owned(), vec![rows, cols], raw));
    }

    #[test]
    fn entries_come_back(
        rows in proptest::collection::vec(proptest::collection::btree_set(0u64..50, 0..9), 0..30),
        spec in any::<bool>(), kind in 0usize..10,
    ) {
        let (dtype, size) = TYPES[kind];
        let columns: Vec<u64> = rows.iter().flatten().copied().collect();
        let ends = rows.iter().scan(0, |at, row| { *at += row.len() as u64; Some(*at) });
        let offsets: Vec<u64> = std::iter::once(0).chain(ends).collect();
        let values = bytes(columns.len() * size);
        let arrays = [
            (VALUES, values.clone()),
            (COLUMNS, numbers(&columns)),
            (OFFSETS, numbers(&offsets)),
        ];
        let mut said = described(&[array(VALUES, dtype, &[columns.len() as u64])]).unwrap();
        said["attributes"] = json!({"columns": 50});
        let form = if spec { Dialect::Spec } else { Dialect::Auto };
        let container = opened(&made(&arrays, Some(said), form).unwrap());
        for (name, raw) in &arrays {
            prop_assert_eq!(&shown(&container, name).2, raw);
        }
    }

    #[test]
    fn frames_come_back(
        kinds in proptest::collection::vec(0usize..10, 1..6), rows in 0usize..300, spec in any::<bool>(),
    ) {
        let path = |number: usize| format!("columns/col_{number}");
        let paths: Vec<String> = (0..kinds.len()).map(path).collect();
        let columns = paths.iter().zip(&kinds);
        let said = columns.clone().map(|(path, kind)| array(path, TYPES[*kind].0, &[rows as u64]));
        let said: Vec<Value> = said.collect();
        let raw: Vec<Raw<'_>> = columns.map(|(path, kind)| (&**path, bytes(rows * TYPES[*kind].1))).collect();
        let form = if spec { Dialect::Spec } else { Dialect::Auto };
        let container = opened(&made(&raw, described(&said), form).unwrap());
        for ((path, raw), kind) in raw.iter().zip(&kinds) {
            let expected = (TYPES[*kind].0.to_owned(), vec![rows as u64], raw.clone());
            prop_assert_eq!(shown(&container, path), expected);
        }
    }
}
