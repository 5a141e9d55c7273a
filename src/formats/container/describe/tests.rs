//! Tests of descriptions: their lines, and their weight.

use serde_json::json;

use super::*;
use crate::array::Order;
use crate::array::direct::DirectArray;
use crate::container::stored::{DimensionDetails, StoredType};
use crate::container::{Inner, Text};

fn with_attribute(value: Value) -> Arc<Container> {
    let mut container = Container::new("x", "1");
    container.attributes.insert("a".into(), value);
    Arc::new(container)
}

#[test]
fn what_a_file_makes_large_weighs() {
    let empty = weight(&Arc::new(Container::new("x", "1")));
    assert!(empty < 1000, "{empty}");
    let mut inner = Container::new("x", "1");
    inner.texts.push(Text {
        name: "t".into(),
        content: Arc::new(vec![0; 5000]),
    });
    let mut outer = Container::new("x", "1");
    outer.inner.push(Inner {
        path: "g".into(),
        container: Arc::new(inner),
    });
    assert!((5000..6000).contains(&weight(&Arc::new(outer))));
}

#[test]
fn the_weight_covers_arrays_json() {
    let nested = (0..100).fold(json!([0, 0, "\u{1}\u{1}"]), |inner, _| json!([inner, 0]));
    let mut lines = json!(vec![0; 1000]);
    for _ in 0..100 {
        lines = json!([lines]);
    }
    for value in [
        nested,
        lines,
        json!("\u{1}".repeat(1000)),
        json!({"b": {"c": [1.5e300]}}),
    ] {
        let container = with_attribute(value);
        let text = arrays_json(&container).unwrap().len();
        assert!(
            weight(&container) >= text,
            "{} < {text}",
            weight(&container)
        );
    }
}

/// A container of one array of which much is told.
fn detailed() -> Container {
    let mut container = Container::new("x", "1");
    let array = Arc::new(DirectArray::new(
        "a".into(),
        Info {
            dtype: Dtype::U8,
            shape: vec![4, 3],
            order: Order::C,
            bytes: 12,
            stored_bytes: 12,
            blocks: 1,
            codec: "none".into(),
        },
        |_, _: &mut [u8]| Ok(()),
    ));
    container.arrays.push(array);
    let details = ArrayDetails {
        dims: vec![Some("t".into()), None],
        stored_type: Some(StoredType::named("H5T_STD_U8LE")),
        maxshape: vec![None, Some(3)],
        chunks: vec![1, 3],
        ..ArrayDetails::default()
    };
    container.detail("a", details);
    container.describe("a", json!({"n": [1, 2]}).as_object().unwrap().clone());
    let dimension = DimensionDetails {
        length: 2,
        unlimited: true,
        id: None,
    };
    Arc::make_mut(&mut container.file)
        .dimensions
        .insert("t".into(), dimension);
    container
}

#[test]
fn an_entry_has_a_line_for_each_key() {
    let text = arrays_json(&Arc::new(detailed())).unwrap();
    let text = String::from_utf8(text).unwrap();
    let expected = r#"{
  "format": "x",
  "version": "1",
  "arrays": [
    {
      "name": "a",
      "dtype": "uint8",
      "shape": [4, 3],
      "order": "C",
      "bytes": 12,
      "stored_bytes": 12,
      "blocks": 1,
      "codec": "none",
      "dims": ["t", null],
      "type": "H5T_STD_U8LE",
      "maxshape": [null, 3],
      "chunks": [1, 3],
      "attributes": {"n": [1, 2]}
    }
  ],
  "attributes": {},
  "dimensions": {
    "t": {
      "length": 4,
      "unlimited": true
    }
  }
}
"#;
    assert_eq!(
        text, expected,
        "an unlimited dimension is as long as its array"
    );
}

#[test]
fn details_that_would_make_it_too_long_are_left_out() {
    let container = Arc::new(detailed());
    let whole = describe(&container, TextsToRead::All)
        .unwrap()
        .text(1 << 20);
    assert_eq!(whole, arrays_json(&container).unwrap());
    let short = describe(&container, TextsToRead::All)
        .unwrap()
        .text(whole.len() - 1);
    let short: Value = serde_json::from_slice(&short).unwrap();
    assert!(short["omitted"].as_str().unwrap().contains("bytes"));
    let array = &short["arrays"][0];
    assert_eq!(array["attributes"]["n"], json!([1, 2]));
    assert_eq!(
        (&array["type"], &short["dimensions"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn the_weight_covers_details() {
    let container = Arc::new(detailed());
    let text = arrays_json(&container).unwrap();
    let without = Arc::new(Container::new("x", "1"));
    assert!(weight(&container) - weight(&without) >= text.len());
}
