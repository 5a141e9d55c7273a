//! Figures against what is counted naively.

use proptest::prelude::*;

use super::*;

fn sums(values: &[f64]) -> NumberSums {
    let mut sums = NumberSums::default();
    let values = values.iter().copied().map(ElementNumber::Float);
    sums.add(values, &PhysicalScale::none());
    sums
}

#[test]
fn extremes_of_64_bits_are_exact() {
    let mut sums = NumberSums::default();
    let values = [
        i128::from(u64::MAX),
        i128::from(u64::MAX) - 1,
        i128::from(i64::MIN),
    ];
    sums.add(
        values.map(ElementNumber::Integer).into_iter(),
        &PhysicalScale::none(),
    );
    let told = serde_json::to_value(sums.figures()).unwrap();
    assert_eq!(told["minimum"], serde_json::json!(i64::MIN));
    assert_eq!(told["maximum"], serde_json::json!(u64::MAX));
    assert_eq!(told["all_integers"], serde_json::json!(true));
}

#[test]
fn what_is_no_number_is_counted_apart() {
    let attributes = serde_json::json!({"_FillValue": -9});
    let element = ElementType::Float {
        size: 8,
        big: false,
    };
    let scale = PhysicalScale::of(attributes.as_object().unwrap(), &element);
    let values = [1.0, f64::NAN, -9.0, f64::INFINITY, 0.0, -0.0, 2.5];
    let mut sums = NumberSums::default();
    sums.add(values.map(ElementNumber::Float).into_iter(), &scale);
    let told = sums.figures();
    assert_eq!((told.count, told.fill, told.nan), (7, 1, 1));
    assert_eq!((told.infinite, told.zeros), (1, 2));
    assert_eq!(told.maximum, Some(ElementNumber::Float(f64::INFINITY)));
    assert_eq!(told.mean, Some(0.875));
    assert!(!told.all_integers);
    let none = NumberSums::default().figures();
    assert_eq!(
        (none.minimum, none.mean, none.all_integers),
        (None, None, false)
    );
}

#[test]
fn compounds_texts_and_arrays_within_elements_have_figures() {
    let dtype = crate::array::dtype::Dtype::numpy("[('a', '<i2', (2,)), ('s', '|S2')]", 6);
    let columns = ElementType::of(&dtype).unwrap().columns();
    let bytes = [1, 0, 2, 0, b'x', 0, 0xff, 0xff, 7, 0, 0, 0];
    let mut told = columns.iter().map(|column| {
        let mut sums = ColumnSums::of(&column.element);
        sums.add(column, &bytes, 6, &PhysicalScale::none());
        sums.figures()
    });
    let Some(ColumnFigures::Numbers(numbers)) = told.next() else {
        panic!("no numbers");
    };
    assert_eq!((numbers.count, numbers.mean), (4, Some(2.25)));
    let texts = TextFigures {
        count: 2,
        empty: 1,
        longest: 1,
        distinct: Some(2),
    };
    assert_eq!(told.next(), Some(ColumnFigures::Texts(texts)));
}

#[test]
fn entries_of_rows_are_what_lies_between_pointers() {
    let mut sums = EntrySums::default();
    [0, 3, 3, 4, 10]
        .into_iter()
        .for_each(|pointer| sums.add(pointer));
    let told = sums.figures("row").unwrap();
    assert_eq!((told.rows, told.entries, told.empty), (4, 10, 1));
    assert_eq!((told.minimum, told.maximum), (0, 6));
    assert_eq!((told.median, told.mean), (1.0, 2.5));
    assert_eq!(EntrySums::default().figures("row"), None);
}

proptest! {
    #[test]
    fn figures_are_those_of_a_naive_count(
        values in proptest::collection::vec(prop_oneof![
            -1e6..1e6f64, Just(f64::NAN), (-5i32..5).prop_map(f64::from), 1e9..1.001e9f64
        ], 0..300),
        cuts in proptest::collection::vec(0usize..300, 0..5),
    ) {
        let mut merged = NumberSums::default();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (values.len() + 1)).collect();
        cuts.extend([0, values.len()]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            merged.merge(&sums(&values[pair[0]..pair[1]]));
        }
        let told = merged.figures();
        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        prop_assert_eq!(told.count, values.len() as u64);
        prop_assert_eq!(told.nan, (values.len() - finite.len()) as u64);
        prop_assert_eq!(told.zeros, finite.iter().filter(|v| **v == 0.0).count() as u64);
        if finite.is_empty() {
            prop_assert_eq!(told.mean, None);
            return Ok(());
        }
        let least = finite.iter().copied().fold(f64::INFINITY, f64::min);
        prop_assert_eq!(told.minimum.map(ElementNumber::as_f64), Some(least));
        let count = finite.len() as f64;
        let mean = finite.iter().sum::<f64>() / count;
        let deviation = (finite.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
        prop_assert!((told.mean.unwrap() - mean).abs() <= 1e-9 * mean.abs().max(1.0));
        let found = told.standard_deviation.unwrap();
        prop_assert!((found - deviation).abs() <= 1e-5 * deviation.max(1.0), "{found} {deviation}");
        let binned: u64 = told.histogram.iter().map(|bin| bin.count).sum();
        prop_assert_eq!(binned, finite.len() as u64);
    }
}

#[test]
fn repeated_elements_are_as_if_added_each() {
    let scale = PhysicalScale::none();
    let of = |times: usize| {
        let mut sums = NumberSums::default();
        let values = [2.0, 0.0, 2.5].map(ElementNumber::Float);
        (0..times).for_each(|_| sums.add(values.into_iter(), &scale));
        sums
    };
    let mut repeated = of(1);
    repeated.repeat(4);
    let (repeated, added) = (repeated.figures(), of(4).figures());
    assert_eq!((repeated.count, repeated.zeros), (added.count, added.zeros));
    assert_eq!(
        (repeated.mean, &repeated.histogram),
        (added.mean, &added.histogram)
    );
    assert_eq!(repeated.standard_deviation, added.standard_deviation);
}

#[test]
fn extremes_of_short_floats_are_spelled_as_such() {
    let single = ElementType::Float {
        size: 4,
        big: false,
    };
    let mut sums = NumberSums::default();
    let value = ElementNumber::Float(f64::from(0.1f32));
    sums.add([value].into_iter(), &PhysicalScale::none());
    let figures = ColumnSums::Numbers(sums).figures().spelled(&single);
    let ColumnFigures::Numbers(figures) = figures else {
        panic!("numbers");
    };
    assert_eq!(figures.minimum, Some(ElementNumber::Float(0.1)));
}
