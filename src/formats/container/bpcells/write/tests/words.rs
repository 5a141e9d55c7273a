//! Fields of a new container are what is told of files, words that are encoded when they are read,
//! too.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::container::bpcells::write::new_fields::NewFields;

/// Of one column, with values of any width in runs of any length.
fn long_matrix(version: &str, values: &[(u32, u8)]) -> Model {
    let values = values.iter().enumerate().flat_map(|(run, (value, bits))| {
        let spread = (1u64 << bits) as u32;
        let numbers = 0..200 + *value % 300;
        numbers.map(move |n| (n.wrapping_mul(*value) ^ run as u32) % spread.max(1))
    });
    let values: Vec<u32> = values.collect();
    let count = values.len() as u32;
    let pointers = match version.ends_with("v2") {
        true => le64(&[0, count.into()]),
        false => le32(&[0, count]),
    };
    with(
        &matrix(version),
        &[
            ("shape", le32(&[u32::MAX, 1])),
            ("col_names", Vec::new()),
            ("idxptr", pointers),
            ("index", le32(&values)),
            ("val", le32(&values)),
        ],
    )
}

fn fields_of(model: &Model, wrap: u64) -> NewFields {
    let arrays: Vec<_> = model.iter().map(|(name, bytes)| raw(name, bytes)).collect();
    NewFields(NewDirectory::given(&arrays, None, wrap).unwrap())
}

proptest! {
    #[test]
    fn fields_are_what_is_told(
        version in select(vec!["packed-uint-matrix-v1", "packed-uint-matrix-v2", "packed-uint-matrix-v9999",
            "packed-fragments-v1", "packed-fragments-v2"]),
        values in proptest::collection::vec((any::<u32>(), 0u8..=32), 0..30),
        wrap in select(vec![64u64, 1000, WRAP]),
        ranges in proptest::collection::vec((any::<u32>(), 0u32..40_000), 10),
    ) {
        let wrap = if version.ends_with("v1") { WRAP } else { wrap };
        let model = match version.contains("matrix") {
            true => long_matrix(version, &values),
            false => fragments(version),
        };
        let files = created(&model, wrap).unwrap();
        let fields = fields_of(&model, wrap);
        for field in fields.all("", &budget()).unwrap() {
            let header = if field.number.is_some() { 8 } else { 0 };
            let (array, told) = (field.array, &files[&field.name][header..]);
            prop_assert_eq!(array.info().unwrap().bytes, told.len() as u64);
            for (at, len) in &ranges {
                let at = *at as usize % (told.len() + 1);
                let mut read = vec![0; (*len as usize).min(told.len() - at)];
                array.read_direct(at as u64, &mut read).unwrap();
                prop_assert!(read == told[at..at + read.len()], "{} {at} {len}", field.name);
            }
        }
    }
}

/// Nothing is made of values that were not what was told.
#[test]
fn values_that_change_meanwhile_are_an_error() {
    let version = "packed-uint-matrix-v2";
    let model = long_matrix(version, &[(7, 9); 20]);
    let other = long_matrix(version, &[(7, 19); 20]);
    let mut told = fields_of(&model, WRAP).told(&budget()).unwrap();
    let fields = fields_of(&other, WRAP);
    let words = fields.words("val", "words", &told).unwrap();
    let mut read = vec![0; words.info().unwrap().bytes as usize];
    let refused = words.read_direct(0, &mut read);
    assert!(matches!(refused, Err(Error::Invalid(why)) if why.contains("changed while")));
    let short = vec![0; read.len()];
    let short = BytesSource::new([&b"UINT32v1"[..], &short].concat());
    told.0.insert("val_idx".into(), Arc::new(short));
    let none = fields.words("val", "words", &told).unwrap();
    assert_eq!(none.info().unwrap().bytes, 0);
    assert!(none.read_direct(0, &mut [0; 4]).is_err());
    assert!(fields.words("shape", "words", &told).is_err());
}
