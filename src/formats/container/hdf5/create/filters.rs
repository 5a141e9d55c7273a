//! Filters of a new dataset, as a description tells them: by their numbers and values, as
//! `arrays.json` has those of another file, or by the names that `arrays.json` and `arrayfs ls -l`
//! print (`gzip`, `shuffle+gzip`), with the usual values. Used by [`super::storage`].

use serde_json::{Map, Value};

use super::storage::NewShape;
use crate::container::creation::GivenArray;
use crate::container::hdf5::made::MadeFilter;

pub(super) const DEFLATE: u32 = 1;
pub(super) const SHUFFLE: u32 = 2;
pub(super) const FLETCHER32: u32 = 3;
const BZIP2: u32 = 307;
const BLOSC: u32 = 32001;
const LZ4: u32 = 32004;
const BITSHUFFLE: u32 = 32008;
const ZSTD: u32 = 32015;

/// What a description says of the filters; none if it says nothing.
pub(super) fn told(
    array: &GivenArray,
    shape: &NewShape<'_>,
) -> Result<Option<Vec<MadeFilter>>, String> {
    // What is told of the array of another file says its codec in two ways.
    let codec = array.codec.as_deref().filter(|_| !array.is_told());
    let Some(stated) = array.more.get("filters") else {
        // Chunks of another file of which no filters are told had none.
        let had_none = array.is_told() && array.more.contains_key("chunks");
        let none = had_none.then(|| Ok(Vec::new()));
        return codec
            .map(|codec| of_codec(codec, shape))
            .or(none)
            .transpose();
    };
    if let Some(codec) = codec {
        return Err(format!(
            "codec {codec} and filters both say how it is encoded"
        ));
    }
    let list = stated.as_array();
    let list = list.ok_or_else(|| format!("filters {stated} are no list"))?;
    let filters = list.iter().map(|one| filter(one, shape));
    filters.collect::<Result<_, _>>().map(Some)
}

/// Those of a codec as it is printed.
fn of_codec(codec: &str, shape: &NewShape<'_>) -> Result<Vec<MadeFilter>, String> {
    match codec {
        "none" | "compact" => Ok(Vec::new()),
        codec => codec.split('+').map(|name| named(name, shape)).collect(),
    }
}

fn filter(stated: &Value, shape: &NewShape<'_>) -> Result<MadeFilter, String> {
    let unclear = || format!("filter {stated} is not understood");
    let Some(stated_object) = stated.as_object() else {
        return named(stated.as_str().ok_or_else(unclear)?, shape);
    };
    check_keys(stated_object)?;
    let values = values(stated_object).ok_or_else(unclear)?;
    let mut made = match (stated.get("id"), stated["name"].as_str()) {
        (Some(id), _) => MadeFilter {
            id: number(id).ok_or_else(unclear)?,
            optional: false,
            values: Vec::new(),
        },
        (None, Some(name)) => named(name, shape)?,
        (None, None) => return Err(unclear()),
    };
    made.values = values.unwrap_or(made.values);
    made.optional = stated["optional"].as_bool().unwrap_or(made.optional);
    Ok(made)
}

fn check_keys(stated: &Map<String, Value>) -> Result<(), String> {
    let known = ["id", "name", "values", "optional"];
    match stated.keys().find(|key| !known.contains(&key.as_str())) {
        Some(other) => Err(format!(
            "a filter has no {other}: it has id, name, values, optional"
        )),
        None => Ok(()),
    }
}

/// The values that are said, if they are numbers.
fn values(stated: &Map<String, Value>) -> Option<Option<Vec<u32>>> {
    match stated.get("values") {
        None => Some(None),
        Some(values) => {
            let values = values.as_array()?.iter().map(number);
            values.collect::<Option<_>>().map(Some)
        }
    }
}

fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

/// A filter of this name, with the values that its own programs take.
fn named(name: &str, shape: &NewShape<'_>) -> Result<MadeFilter, String> {
    let element = u32::try_from(shape.element).unwrap_or(u32::MAX);
    let bitshuffle = |code: u32| (BITSHUFFLE, vec![0, 3, element, 0, code]);
    let (id, values) = match name {
        "gzip" | "deflate" => (DEFLATE, vec![1]),
        "shuffle" => (SHUFFLE, Vec::new()),
        "fletcher32" => (FLETCHER32, Vec::new()),
        "bzip2" => (BZIP2, vec![9]),
        "lz4" => (LZ4, Vec::new()),
        "zstd" => (ZSTD, vec![3]),
        "blosc" => (BLOSC, vec![2, 2, element, 0, 5, 1, 0]),
        "bitshuffle" => bitshuffle(0),
        "bitshuffle-lz4" => bitshuffle(2),
        "bitshuffle-zstd" => bitshuffle(3),
        other => {
            return Err(format!(
                "there is no encoder for {other}; there are gzip, shuffle, fletcher32, bzip2, \
                 lz4, zstd, blosc, bitshuffle, bitshuffle-lz4 and bitshuffle-zstd, also one \
                 behind the other (shuffle+gzip)"
            ));
        }
    };
    Ok(MadeFilter {
        id,
        optional: true,
        values,
    })
}

/// What every reader has.
pub(super) fn usual() -> Vec<MadeFilter> {
    let filter = |id, values: &[u32]| MadeFilter {
        id,
        optional: true,
        values: values.to_vec(),
    };
    vec![filter(SHUFFLE, &[]), filter(DEFLATE, &[1])]
}
