//! Filters that there is no decoder for, or whose values are none of theirs: refused where they
//! were applied, and nowhere else.

use super::encode::{FilterWriter, WriterKind};
use super::*;

#[test]
fn an_unknown_filter_is_named_and_refused_where_it_was_applied() {
    let filters = [2, 32013].map(|id| {
        let values = vec![1];
        FilterDescription { id, values }
    });
    let pipeline = Pipeline::new(&filters, 8).unwrap();
    assert_eq!(pipeline.name(), "shuffle+filter-32013");
    let why = "filter 32013 (zfp): there is no decoder for it";
    for mask in [0, 1] {
        assert_eq!(pipeline.unusable(mask).unwrap().to_string(), why);
        let mut region = Region::default();
        let scratch = region.scratch(pipeline.scratch(mask)).unwrap();
        let refused = pipeline.decode(mask, b"abcdefgh", &mut [0; 8], scratch);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    for mask in [2, 3] {
        assert!(pipeline.unusable(mask).is_none());
        let plain = decoded(&pipeline, mask, b"abcdefgh", 8).unwrap();
        assert_eq!(plain, b"abcdefgh");
    }
    let many = vec![FilterWriter::new(WriterKind::Fletcher32); 33];
    let filters: Vec<_> = many.into_iter().map(|writer| writer.filter).collect();
    assert!(Pipeline::new(&filters, 8).is_err());
}

#[test]
fn a_filter_with_wrong_values_is_refused_where_it_was_applied() {
    for values in [&[][..], &[0]] {
        let shuffle = single(2, values, 8).unwrap();
        assert!(!shuffle.unusable(0).unwrap().is_unknown);
        assert_eq!(shuffle.name(), "shuffle");
        let refused = decoded(&shuffle, 0, b"abcdefgh", 8).unwrap_err();
        assert_eq!(refused.filter, "shuffle");
        assert!(shuffle.unusable(1).is_none());
        assert_eq!(decoded(&shuffle, 1, b"abcdefgh", 8).unwrap(), b"abcdefgh");
    }
}
