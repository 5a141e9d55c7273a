//! New files, told into memory and opened again.

use serde_json::json;

use super::*;
use crate::array::Info;
use crate::array::uncached::read_all;
use crate::container::Container;
use crate::container::bloscpack::open;
use crate::container::creation::{RecipeInMemory, empty_container};

fn told(plain: &[u8], description: Option<Value>) -> Result<Vec<u8>> {
    let source = Arc::new(BytesSource::new(plain.to_vec()));
    let arrays: Vec<Arc<dyn Array>> = vec![Arc::new(RawArray::new(ARRAY, source))];
    let given = description.map(|value| GivenDescription::parse(value.to_string().as_bytes()));
    let given = given.transpose()?;
    let mut told = RecipeInMemory::default();
    let content = GivenContent::of_arrays(arrays, given);
    let budget = Budget::by_default();
    Bloscpack.recipe(&content, Preferences::default(), &budget, &mut told)?;
    Ok(told.0.into_values().next().unwrap_or_default())
}

fn opened(bytes: Vec<u8>) -> Container {
    let source = Arc::new(BytesSource::new(bytes));
    let container = open("bloscpack", (source, false), &Budget::by_default()).unwrap();
    assert!(container.faults.is_empty(), "{:?}", container.faults);
    assert!(container.writable.is_some(), "it can be written");
    container
}

fn info(container: &Container) -> Info {
    container.array(ARRAY).unwrap().info().unwrap()
}

fn plain(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 8 % 251) as u8).collect()
}

#[test]
fn an_empty_file_is_what_the_real_program_makes_but_for_its_chunk_size() {
    let files = empty_container(&Bloscpack, &Budget::by_default()).unwrap();
    let bytes = files.into_values().next().unwrap();
    let mut expected =
        b"blpk\x03\x01\x01\x08\0\0\x10\0\0\0\0\0\x01\0\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0".to_vec();
    expected.extend(120u64.to_le_bytes());
    expected.extend([0xff; 80]);
    expected.extend(b"\x02\x01\x13\x08\0\0\0\0\x01\0\0\0\x10\0\0\0\x30\0\xf9\x01");
    assert_eq!(bytes, expected);
    assert_eq!(info(&opened(bytes)).bytes, 0);
}

#[test]
fn bytes_are_packed_in_chunks_as_usual() {
    for len in [0, 1, 1000, 1 << 20, (5 << 20) + 3] {
        let plain = plain(len);
        let container = opened(told(&plain, None).unwrap());
        let found = info(&container);
        assert_eq!(found.bytes, len as u64);
        assert_eq!(found.codec, "blosc blosclz shuffle");
        assert_eq!(container.attributes["chunk_size"], 1 << 20);
        let chunks = len.div_ceil(1 << 20).max(1);
        assert_eq!(container.attributes["max_app_chunks"], 10 * chunks);
        let data = container.array(ARRAY).unwrap();
        assert!(read_all(&**data).unwrap() == plain, "{len} bytes");
    }
}

/// What `arrays.json` says of a container, given to make another one, makes the same.
#[test]
fn a_description_makes_a_container_that_is_described_so() {
    let numpy = |dtype: &str, shape: &[u64], order: &str| json!({"dtype": dtype, "shape": shape, "order": order, "container": "numpy"});
    let cases = [
        (
            "float64",
            json!([6]),
            "C",
            "blosc zstd shuffle",
            Some(numpy("'<f8'", &[6], "C")),
        ),
        (
            ">i4",
            json!([3, 4]),
            "F",
            "blosc lz4 bitshuffle",
            Some(numpy("'>i4'", &[3, 4], "F")),
        ),
        (
            "[('a', '<f4'), ('b', '|S4')]",
            json!([2, 3]),
            "C",
            "blosc zlib",
            Some(numpy("[('a', '<f4'), ('b', '|S4')]", &[2, 3], "C")),
        ),
        (
            "|S48",
            json!([]),
            "C",
            "blosc blosclz shuffle",
            Some(numpy("'|S48'", &[], "C")),
        ),
        ("uint8", json!([48]), "C", "blosc lz4 shuffle", None),
        (
            "uint8",
            json!([48]),
            "C",
            "blosc lz4",
            Some(json!({"mine": [1, "ä"]})),
        ),
    ];
    for (dtype, shape, order, codec, metadata) in cases {
        let array =
            json!({"name": "data", "dtype": dtype, "shape": shape, "order": order, "codec": codec});
        let mut attributes =
            json!({"typesize": 4, "checksum": "sha256", "chunk_size": 20, "nchunks": 3});
        if let Some(metadata) = &metadata {
            attributes["metadata"] = metadata.clone();
        }
        let given = json!({"format": "bloscpack", "arrays": [array], "attributes": attributes});
        let container = opened(told(&plain(48), Some(given)).unwrap());
        let found = info(&container);
        assert_eq!(found.dtype.name(), dtype);
        assert_eq!(
            (json!(found.shape), found.order.name()),
            (shape, order),
            "{dtype}"
        );
        assert_eq!(found.codec, codec, "{dtype}");
        assert_eq!(container.attributes["checksum"], "sha256");
        assert_eq!(container.attributes["nchunks"], 3);
        assert_eq!(
            container.attributes.get("metadata"),
            metadata.as_ref(),
            "{dtype}"
        );
        assert!(read_all(&**container.array(ARRAY).unwrap()).unwrap() == plain(48));
    }
}

#[test]
fn who_describes_an_array_by_hand_gets_its_metadata() {
    let given = json!({"arrays": [{"name": "data", "dtype": "int16", "shape": [4, 6]}]});
    let container = opened(told(&plain(48), Some(given)).unwrap());
    let expected = json!({"dtype": "'<i2'", "shape": [4, 6], "order": "C", "container": "numpy"});
    assert_eq!(container.attributes["metadata"], expected);
    assert_eq!(container.attributes["typesize"], 2);
}

#[test]
fn what_cannot_be_is_refused() {
    let array = |dtype: &str, shape: Value| json!({"name": "data", "dtype": dtype, "shape": shape});
    let cases = [
        json!({"arrays": [array("float64", json!([5]))]}),
        json!({"arrays": [array("str", json!([48]))]}),
        json!({"arrays": [array("uint8", json!([u64::MAX, 2]))]}),
        json!({"arrays": []}),
        json!({"arrays": [array("uint8", json!([48])), array("uint8", json!([48]))]}),
        json!({"arrays": [{"name": "val", "dtype": "uint8", "shape": [48]}]}),
        json!({"format": "bpcells", "arrays": [array("uint8", json!([48]))]}),
        json!({"arrays": [{"name": "data", "dtype": "uint8", "shape": [48], "codec": "bp128"}]}),
        json!({"arrays": [{"name": "data", "dtype": "uint8", "shape": [48], "codec": "blosc x"}]}),
    ];
    for given in cases {
        let refused = told(&plain(48), Some(given.clone()));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{given}");
    }
}

/// When `arrays.json` is closed, by their names.
#[test]
fn what_it_has_no_place_for_is_refused_by_name() {
    let array = |more: Value| {
        let mut array = json!({"name": "data", "dtype": "f8", "shape": [6]});
        array
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        array
    };
    let accepted = |of_array: Value, attributes: Value| {
        let text = json!({"arrays": [array(of_array)], "attributes": attributes}).to_string();
        GivenDescription::parse(text.as_bytes()).and_then(|given| Bloscpack.accepts(&given))
    };
    accepted(
        json!({"codec": "blosc zstd shuffle"}),
        json!({"checksum": "md5"}),
    )
    .unwrap();
    for (of_array, attributes, name) in [
        (json!({"codec": "zstd"}), json!({}), "codec zstd"),
        (json!({"chunks": [1]}), json!({}), "chunks"),
        (json!({"chunk": [1]}), json!({}), "chunk"),
        (json!({}), json!({"checksum": "md6"}), "md6"),
        (json!({}), json!({"units": "m"}), "units"),
    ] {
        let refused = accepted(of_array, attributes).unwrap_err().to_string();
        assert!(refused.contains(name), "{refused}");
    }
}

#[test]
fn tiny_chunks_are_refused_where_there_would_be_many() {
    let accepted = |elements: u64| {
        let array = json!({"name": "data", "dtype": "int16", "shape": [elements]});
        let attributes = json!({"chunk_size": 1, "nchunks": 2});
        let text = json!({"arrays": [array], "attributes": attributes}).to_string();
        GivenDescription::parse(text.as_bytes()).and_then(|given| Bloscpack.accepts(&given))
    };
    accepted(1 << 15).unwrap();
    let refused = accepted((1 << 15) + 1);
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

#[test]
fn chunks_of_zeros_are_encoded_once() {
    let mut bytes = vec![0; (9 << 20) + 5];
    bytes[4 << 20] = 1;
    let len = bytes.len() as u64;
    let data = Arc::new(RawArray::new(
        ARRAY,
        Arc::new(BytesSource::new(bytes.clone())),
    ));
    let mut told = RecipeInMemory::default();
    let counts = FileSettings::usual()
        .tell(data, len, &Budget::by_default(), &mut told)
        .unwrap();
    // The one with a byte, the last one, which is shorter, and the first of the others.
    let expected = BatchCounts {
        encoded: 3,
        ahead: 0,
        zeros: 7,
    };
    assert_eq!(counts, expected);
    let container = opened(told.0.into_values().next().unwrap());
    assert!(read_all(&**container.array(ARRAY).unwrap()).unwrap() == bytes);
}
