//! Words that are encoded when they are read are those that are told.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::array::direct::DirectArray;
use crate::container::bpcells::write::new_fields::{NewFieldContent, NewFields};

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

fn words_of(fields: &NewFields, files: &Files, of: &str) -> Arc<dyn Array> {
    let part = |part: &str| {
        let file = files.get(&format!("{of}_{part}"))?;
        Some(raw(part, &file[8..]))
    };
    let index = (part("idx").unwrap(), part("idx_offsets"));
    fields.words(of, "words", index).unwrap()
}

proptest! {
    #[test]
    fn words_are_those_that_are_told(
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
        for field in fields.all() {
            if !matches!(field.content, NewFieldContent::Words) {
                continue;
            }
            let (words, told) = (words_of(&fields, &files, field.of), &files[&field.name][8..]);
            prop_assert_eq!(words.info().unwrap().bytes, told.len() as u64);
            for (at, len) in &ranges {
                let at = *at as usize % (told.len() + 1);
                let mut read = vec![0; (*len as usize).min(told.len() - at)];
                words.read_direct(at as u64, &mut read).unwrap();
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
    let files = created(&model, WRAP).unwrap();
    let other = long_matrix(version, &[(7, 19); 20]);
    let fields = fields_of(&other, WRAP);
    let words = words_of(&fields, &files, "val");
    let mut read = vec![0; words.info().unwrap().bytes as usize];
    let refused = words.read_direct(0, &mut read);
    assert!(matches!(refused, Err(Error::Invalid(why)) if why.contains("changed while")));
    let short = DirectArray::new("idx".into(), words.info().unwrap(), |_, _| Ok(()));
    let none = fields
        .words("val", "words", (Arc::new(short), None))
        .unwrap();
    assert_eq!(none.info().unwrap().bytes, 0);
    assert!(none.read_direct(0, &mut [0; 4]).is_err());
    assert!(
        fields
            .words("shape", "words", (raw("idx", &[0; 4]), None))
            .is_err()
    );
}
