//! What is written is read as the same.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Number, json};

use super::*;

fn bits() -> impl Strategy<Value = NoOfBits> {
    prop_oneof![
        Just(NoOfBits::Zero),
        Just(NoOfBits::One),
        Just(NoOfBits::Background)
    ]
}

fn order() -> impl Strategy<Value = BitOrder> {
    prop_oneof![
        Just(BitOrder::Little),
        Just(BitOrder::Big),
        Just(BitOrder::Vax)
    ]
}

fn integer() -> impl Strategy<Value = StoredInteger> {
    let padding = option::of([bits(), bits()]);
    let fields = (
        1u64..20,
        order(),
        any::<bool>(),
        any::<u32>(),
        any::<u32>(),
        padding,
    );
    fields.prop_map(
        |(size, byte_order, signed, precision, offset, padding)| StoredInteger {
            size,
            byte_order,
            signed,
            precision,
            offset,
            padding,
        },
    )
}

fn float() -> impl Strategy<Value = StoredFloat> {
    let norm = prop_oneof![
        Just(FloatNorm::Implied),
        Just(FloatNorm::MsbSet),
        Just(FloatNorm::None)
    ];
    let fields = (
        integer(),
        any::<[u32; 5]>(),
        any::<u64>(),
        norm,
        option::of(bits()),
    );
    fields.prop_map(
        |(integer, [sign, a, b, c, d], bias, norm, inner)| StoredFloat {
            size: integer.size,
            byte_order: integer.byte_order,
            precision: integer.precision,
            offset: integer.offset,
            sign,
            exponent: [a, b],
            mantissa: [c, d],
            bias,
            norm,
            inner,
            padding: integer.padding,
        },
    )
}

/// Of every class; within each other, but for those that hold none.
fn stored_type() -> impl Strategy<Value = StoredType> {
    let leaf = prop_oneof![
        Just(StoredType::called("H5T_STD_I32BE")),
        Just(StoredType::called("H5T_COMPLEX_IEEE_F16LE")),
        Just(StoredType::named("H5T_STD_REF_OBJ")),
        ".*".prop_map(|name| StoredType::Named(name.into())),
        integer().prop_map(StoredType::Integer),
        integer().prop_map(StoredType::BitField),
        float().prop_map(StoredType::Float),
        option::of(any::<u64>()).prop_map(|size| StoredType::Text {
            size,
            padding: Padding::Zeros,
            charset: Charset::Utf8,
        }),
        (any::<u64>(), ".*").prop_map(|(size, tag)| StoredType::Opaque { size, tag }),
        any::<u64>().prop_map(|size| StoredType::Time { size }),
        ".*".prop_map(|name| StoredType::Committed { name }),
        (any::<u64>(), ".*").prop_map(|(size, name)| StoredType::Unknown { size, name }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let number = prop_oneof![
            any::<i64>().prop_map(Number::from),
            any::<u64>().prop_map(Number::from)
        ];
        prop_oneof![
            inner.clone().prop_map(|base| StoredType::Complex {
                base: Box::new(base)
            }),
            inner.clone().prop_map(|base| StoredType::Sequence {
                base: Box::new(base)
            }),
            (vec(any::<u64>(), 0..3), inner.clone()).prop_map(|(dims, base)| StoredType::Array {
                dims,
                base: Box::new(base)
            }),
            (inner.clone(), vec((".*", number), 0..4)).prop_map(|(base, members)| {
                StoredType::Enumeration {
                    base: Box::new(base),
                    members,
                }
            }),
            (any::<u64>(), vec((".*", any::<u64>(), inner), 0..4))
                .prop_map(|(size, members)| StoredType::Compound { size, members }),
        ]
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        ".*".prop_map(Value::from),
        vec(any::<i32>(), 0..3).prop_map(Value::from),
        Just(json!({"r": 1.5, "i": [0.25]})),
    ]
}

fn attribute() -> impl Strategy<Value = AttributeType> {
    let text = || option::of(".*".prop_map(String::into_boxed_str));
    let shape = option::of(vec(any::<u64>(), 1..3));
    let fields = (stored_type(), shape, any::<bool>(), text(), text());
    fields.prop_map(
        |(stored_type, shape, no_space, stored, omitted)| AttributeType {
            stored_type,
            shape,
            space: no_space.then_some(NoSpace::Null),
            stored,
            omitted,
        },
    )
}

fn filter() -> impl Strategy<Value = FilterDetails> {
    let fields = (any::<u32>(), ".*", vec(any::<u32>(), 0..4), any::<bool>());
    fields.prop_map(|(id, name, values, optional)| FilterDetails {
        id,
        name: name.into(),
        values,
        optional,
    })
}

fn rare() -> impl Strategy<Value = RareDetails> {
    let text = || option::of(".*".prop_map(String::into_boxed_str));
    let fill_time = option::of(prop_oneof![Just(FillTime::Alloc), Just(FillTime::Never)]);
    let alloc_time = option::of(prop_oneof![
        Just(AllocationTime::Early),
        Just(AllocationTime::Late),
        Just(AllocationTime::Incremental)
    ]);
    let scales = vec(vec(".*", 0..3), 0..3);
    let fields = (
        text(),
        fill_time,
        alloc_time,
        any::<bool>(),
        text(),
        scales,
        vec(".*", 0..2),
    );
    fields.prop_map(
        |(fill_stored, fill_time, alloc_time, edges, scale, scales, external)| RareDetails {
            fill_stored,
            fill_time,
            alloc_time,
            partial_chunks: edges.then_some(PartialChunks::Unfiltered),
            scale,
            scales,
            external,
        },
    )
}

fn details() -> impl Strategy<Value = ArrayDetails> {
    let layout = option::of(prop_oneof![
        Just(LayoutName::Compact),
        Just(LayoutName::Contiguous),
        Just(LayoutName::Chunked),
        Just(LayoutName::External),
        Just(LayoutName::Virtual)
    ]);
    let shapes = (
        vec(option::of(".*"), 0..3),
        vec(option::of(any::<u64>()), 0..3),
        vec(any::<u64>(), 0..3),
    );
    let others = (
        option::of(stored_type()),
        layout,
        vec(filter(), 0..3),
        option::of(value().prop_map(Box::new)),
        rare(),
        option::of(any::<u32>()),
        btree_map(".*", attribute(), 0..3),
    );
    (shapes, others).prop_map(|((dims, maxshape, chunks), others)| {
        let (stored_type, layout, filters, fill, rare, creation_order, attribute_types) = others;
        ArrayDetails {
            dims,
            stored_type,
            maxshape,
            layout,
            chunks,
            filters,
            fill,
            rare,
            creation_order,
            attribute_types,
        }
    })
}

fn file() -> impl Strategy<Value = FileDetails> {
    let dimension = (any::<u64>(), any::<bool>(), option::of(any::<u64>()));
    let dimension = dimension.prop_map(|(length, unlimited, id)| DimensionDetails {
        length,
        unlimited,
        id,
    });
    let target = (".*", ".*").prop_map(|(file, path)| ExternalTarget { file, path });
    let netcdf4 = (option::of(".*"), any::<bool>());
    let netcdf4 = netcdf4.prop_map(|(properties, strict)| NetCdf4Details { properties, strict });
    let fields = (
        btree_map(".*", dimension, 0..3),
        btree_map(".*", ".*", 0..3),
        btree_map(".*", ".*", 0..3),
        btree_map(".*", target, 0..3),
        option::of(netcdf4),
        (option::of(".*"), any::<u64>()),
    );
    fields.prop_map(
        |(dimensions, hard_links, soft_links, external_links, netcdf4, (classic, user_block))| {
            FileDetails {
                dimensions,
                hard_links,
                soft_links,
                external_links,
                netcdf4,
                classic,
                user_block,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn details_are_read_as_they_are_written(details in details()) {
        let text = serde_json::to_string(&details).unwrap();
        prop_assert!(details.weight() >= text.len(), "{} < {}", details.weight(), text.len());
        prop_assert_eq!(&serde_json::from_str::<ArrayDetails>(&text).unwrap(), &details);
        let value: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::from_value::<ArrayDetails>(value).unwrap(), details);
    }

    #[test]
    fn what_a_file_says_is_read_as_it_is_written(file in file()) {
        let text = serde_json::to_string(&file).unwrap();
        prop_assert!(file.weight() >= text.len(), "{} < {}", file.weight(), text.len());
        prop_assert_eq!(serde_json::from_str::<FileDetails>(&text).unwrap(), file);
    }
}

#[test]
fn what_is_usual_is_left_out() {
    let text = |details: &ArrayDetails| serde_json::to_string(details).unwrap();
    assert_eq!(text(&ArrayDetails::default()), "{}");
    assert_eq!(
        serde_json::to_string(&FileDetails::default()).unwrap(),
        "{}"
    );
    let given =
        r#"{"type":{"class":"H5T_STRING","padding":"NULLTERM","charset":"ASCII"},"fill":null}"#;
    let read: ArrayDetails = serde_json::from_str(given).unwrap();
    assert_eq!(read.fill, Some(Box::new(Value::Null)));
    assert_eq!(text(&read), given);
}

#[test]
fn types_have_the_names_of_hdf5() {
    let mut names: Vec<String> = Vec::new();
    for of in [
        "STD_I8",
        "STD_U16",
        "STD_B32",
        "STD_I64",
        "IEEE_F32",
        "COMPLEX_IEEE_F64",
    ] {
        names.extend(["LE", "BE"].map(|order| format!("H5T_{of}{order}")));
    }
    names.extend(["H5T_VAX_F32", "H5T_FLOAT_F8E4M3"].map(str::to_owned));
    for name in names {
        let known = StoredType::of_name(&name).unwrap();
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(text, format!("{name:?}"));
        assert_eq!(serde_json::from_str::<StoredType>(&text).unwrap(), known);
    }
    for none in [
        "H5T_STD_I128LE",
        "H5T_STD_I8",
        "H5T_STD_",
        "H5T_STD_é",
        "H5T_IEEE_F8LE",
    ] {
        assert_eq!(StoredType::called(none), StoredType::named(none));
    }
}

#[test]
fn types_that_are_none_are_refused() {
    for wrong in [
        "3",
        "[]",
        "{}",
        r#"{"class": "H5T_ODD"}"#,
        r#"{"class": "H5T_INTEGER", "size": -4}"#,
        r#"{"class": "H5T_ENUM", "base": "H5T_STD_I8LE", "members": [["A"]]}"#,
    ] {
        assert!(
            serde_json::from_str::<StoredType>(wrong).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn types_nested_without_end_are_refused() {
    let (open, close) = (r#"{"class":"H5T_VLEN","base":"#, "}");
    let nested = |depth: usize| {
        let text = [
            &open.repeat(depth),
            r#""H5T_STD_I8LE""#,
            &close.repeat(depth),
        ]
        .concat();
        serde_json::from_str::<StoredType>(&text)
    };
    assert!(nested(30).is_ok());
    assert!(nested(40).is_err());
    assert!(nested(1_000_000).is_err());
}
