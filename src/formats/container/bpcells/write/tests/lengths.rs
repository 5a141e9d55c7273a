//! Any lengths and ranges are an answer or an error, never a panic.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::container::writable::CommitWay;

/// An array of any length that claims to be of another.
fn any_change(
    name: String,
    len: u64,
    bytes: usize,
    ranges: Vec<Range<u64>>,
    visible: u64,
) -> ChangedArray {
    ChangedArray {
        container: ContainerNumber::OUTERMOST,
        shown: raw(&name, &vec![1; bytes]),
        len,
        ranges,
        visible,
        done_before: None,
    }
}

fn lengths() -> impl Strategy<Value = u64> {
    let large = select(vec![MOST, MOST - 3, u64::MAX, u64::from(u32::MAX) * 4 + 8]);
    prop_oneof![8 => 0u64..3000, 1 => large]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nothing_panics(
        version in select([&MATRICES[..], &FRAGMENTS[..]].concat()),
        changed in proptest::collection::vec(
            (0usize..8, 0u64..3000, proptest::collection::vec((lengths(), 0u64..600), 0..4), lengths(), any::<bool>()), 0..5),
        len in lengths(), at in lengths(),
    ) {
        let model = if version.contains("matrix") { matrix(version) } else { fragments(version) };
        let files = created(&model, WRAP).unwrap();
        let container = stored(&model, &files, WRAP);
        let names: Vec<&String> = model.keys().collect();
        let changed: Vec<ChangedArray> = changed.into_iter().map(|(name, len, ranges, visible, short)| {
            let ranges = ranges.into_iter().map(|(at, len)| at..at.saturating_add(len)).collect();
            let bytes = if short { len / 2 } else { len };
            any_change(names[name % names.len()].clone(), len, bytes as usize, ranges, visible)
        }).collect();
        let budget = budget();
        let _ = container.consistency(&changed, &budget);
        let _ = container.amount(&changed);
        let mut nowhere = RecipeInMemory::over(&files);
        let _ = container.recipe(&changed, CommitWay::Replaced, &budget, &mut nowhere);
        for name in names {
            let info = container.info(ArrayAddress::outermost(name), len).unwrap();
            prop_assert!(info.bytes == len);
            let blocks = container.blocks_ahead(ArrayAddress::outermost(name), len);
            prop_assert!(blocks.is_none_or(|blocks| blocks.bytes(0..blocks.chunks()) <= len.max(at)));
        }
        prop_assert!(budget.used() == 0);
    }

    #[test]
    fn arrays_of_any_length_make_a_container_or_an_error(
        version in select([&MATRICES[..], &FRAGMENTS[..]].concat()),
        lengths in proptest::collection::vec(0usize..40, 8), byte in any::<u8>(),
    ) {
        let mut model = if version.contains("matrix") { matrix(version) } else { fragments(version) };
        for ((name, bytes), len) in model.iter_mut().zip(lengths) {
            if name != VERSION && name != ORDER {
                *bytes = vec![byte % 3; len];
            }
        }
        let made = created(&model, WRAP);
        prop_assert!(matches!(made, Ok(_) | Err(Error::Invalid(_))));
    }
}

#[test]
fn what_is_no_whole_element_is_shown_as_bytes() {
    let m = matrix("packed-double-matrix-v1");
    let files = created(&m, WRAP).unwrap();
    let container = stored(&m, &files, WRAP);
    let shape = |name, len| {
        let info = container.info(ArrayAddress::outermost(name), len).unwrap();
        (info.dtype.name().into_owned(), info.shape)
    };
    assert_eq!(shape("val", 17), ("uint8".into(), vec![17]));
    assert_eq!(shape("val", 16).1, [2]);
    assert_eq!(shape("idxptr", 12).1, [3]);
    assert_eq!(shape("col_names", 0).1, [0]);
}
