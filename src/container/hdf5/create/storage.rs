//! How a new dataset is stored: as it is described, or by default. Small ones are contiguous;
//! others have chunks of about 1 MiB that go through shuffle and gzip 1, which every reader has.
//!
//! Chunks for which there is no memory, and filters without an encoder, are replaced by the
//! default, and told. Used by [`super::dataset`].

use serde_json::Value;

use crate::container::creation::GivenArray;
use crate::container::hdf5::dataset::chunked::filter_pipeline;
use crate::container::hdf5::index::{FilterEntry, UNLIMITED};
use crate::container::hdf5::made::{MadeFilter, MadeStorage};

/// What is smaller is contiguous by default.
const SMALL: u64 = 64 << 10;
/// Bytes of a chunk, about.
const CHUNK: u64 = 1 << 20;
/// Chunks may be larger than this if the dataset itself is.
const LARGE: u64 = 64 << 20;
/// A compact dataset lies in its object header.
const COMPACT_MOST: u64 = 64_000;

const DEFLATE: u32 = 1;
const SHUFFLE: u32 = 2;
const FLETCHER32: u32 = 3;

/// What is to be stored.
pub(super) struct NewShape<'a> {
    pub(super) dims: &'a [u64],
    pub(super) most: &'a [u64],
    /// Bytes of an element, and of all of them.
    pub(super) element: u64,
    pub(super) bytes: u64,
    /// libhdf5 encodes them itself: strings of variable length.
    pub(super) is_text: bool,
}

/// How it is stored; what cannot be as it is described is added to `lost`.
pub(super) fn of(
    shape: &NewShape<'_>,
    described: Option<&GivenArray>,
    lost: &mut Vec<String>,
) -> (MadeStorage, Vec<MadeFilter>) {
    let member = |key: &str| described.and_then(|array| array.more.get(key));
    let plain_edges = member("partial_chunks").is_some_and(|edges| edges == "unfiltered");
    if let Some(chunks) = member("chunks") {
        let chunk = match told_chunk(chunks, shape) {
            Ok(chunk) => chunk,
            Err(why) => {
                lost.push(why);
                usual_chunk(shape)
            }
        };
        let filters = told_filters(member("filters"), (&chunk, shape), lost);
        return (MadeStorage::Chunked { chunk, plain_edges }, filters);
    }
    let grows = shape.most != shape.dims;
    match member("layout").and_then(Value::as_str) {
        Some("compact") if !grows && shape.bytes <= COMPACT_MOST => {
            return (MadeStorage::Compact, Vec::new());
        }
        Some("contiguous") if !grows => return (MadeStorage::Contiguous, Vec::new()),
        Some(other @ ("virtual" | "external")) => {
            lost.push(format!("its data are stored in the file, not {other}"));
        }
        _ => {}
    }
    match !grows && (shape.bytes <= SMALL || shape.dims.is_empty()) {
        true => (MadeStorage::Contiguous, Vec::new()),
        false => {
            let storage = MadeStorage::Chunked {
                chunk: usual_chunk(shape),
                plain_edges: false,
            };
            (storage, usual_filters())
        }
    }
}

fn usual_filters() -> Vec<MadeFilter> {
    let filter = |id, values: &[u32]| MadeFilter {
        id,
        optional: true,
        values: values.to_vec(),
    };
    vec![filter(SHUFFLE, &[]), filter(DEFLATE, &[1])]
}

/// Bands of about [`CHUNK`] bytes along the first dimensions.
fn usual_chunk(shape: &NewShape<'_>) -> Vec<u64> {
    let mut left = (CHUNK / shape.element.max(1)).max(1);
    let mut chunk = vec![1; shape.dims.len()];
    for (len, dim) in chunk.iter_mut().zip(shape.dims).rev() {
        *len = (*dim).clamp(1, left);
        left = (left / *len).max(1);
    }
    // Of what grows along its first dimension, what comes is taken into account.
    if let (Some(first), Some(&UNLIMITED)) = (chunk.first_mut(), shape.most.first()) {
        *first = first.saturating_mul(left);
    }
    if let (Some(first), Some(most)) = (chunk.first_mut(), shape.most.first()) {
        *first = (*first).min((*most).max(1));
    }
    chunk
}

fn told_chunk(stated: &Value, shape: &NewShape<'_>) -> Result<Vec<u64>, String> {
    let list = stated.as_array().map(Vec::as_slice).unwrap_or_default();
    let chunk: Option<Vec<u64>> = list.iter().map(Value::as_u64).collect();
    let chunk = chunk.filter(|chunk| chunk.len() == shape.dims.len() && !chunk.contains(&0));
    let Some(chunk) = chunk else {
        return Err(format!("chunks {stated} do not fit its shape"));
    };
    let bytes = chunk
        .iter()
        .try_fold(shape.element, |n, &len| n.checked_mul(len));
    match bytes.filter(|bytes| *bytes <= LARGE.max(shape.bytes.saturating_mul(2))) {
        Some(_) => Ok(chunk),
        None => Err(format!("chunks {stated} are far larger than it is")),
    }
}

fn told_filters(
    stated: Option<&Value>,
    (chunk, shape): (&[u64], &NewShape<'_>),
    lost: &mut Vec<String>,
) -> Vec<MadeFilter> {
    let list = stated.and_then(Value::as_array).map(Vec::as_slice);
    let list = list.unwrap_or_default();
    let filters: Option<Vec<MadeFilter>> = list.iter().map(filter).collect();
    let why = match &filters {
        None => "filters are not understood".to_owned(),
        Some(filters) => match unfit(filters, chunk, shape) {
            None => return filters.clone(),
            Some(why) => why,
        },
    };
    lost.push(format!("{why}: shuffle and gzip instead"));
    usual_filters()
}

/// Why chunks cannot go through these filters.
fn unfit(filters: &[MadeFilter], chunk: &[u64], shape: &NewShape<'_>) -> Option<String> {
    if shape.is_text {
        let own = [DEFLATE, SHUFFLE, FLETCHER32];
        let other = filters.iter().find(|filter| !own.contains(&filter.id))?;
        return Some(format!("strings do not go through filter {}", other.id));
    }
    let elements = chunk
        .iter()
        .fold(shape.element, |n, &len| n.saturating_mul(len));
    let entries: Vec<FilterEntry> = filters
        .iter()
        .map(|filter| FilterEntry {
            id: filter.id,
            values: whole_values(filter, shape),
        })
        .collect();
    match filter_pipeline(&entries, elements) {
        Err(why) => Some(why.to_string()),
        Ok(pipeline) => {
            let unusable = pipeline.unusable(0).map(ToString::to_string);
            unusable.or_else(|| pipeline.encoder().unfiltered().map(str::to_owned))
        }
    }
}

/// Shuffle's one value is the library's to say.
fn whole_values(filter: &MadeFilter, shape: &NewShape<'_>) -> Vec<u32> {
    match filter.id {
        SHUFFLE => vec![u32::try_from(shape.element).unwrap_or(u32::MAX)],
        _ => filter.values.clone(),
    }
}

fn filter(stated: &Value) -> Option<MadeFilter> {
    let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
    let values = stated.get("values").and_then(Value::as_array);
    let values = values.map(|values| values.iter().map(number).collect());
    Some(MadeFilter {
        id: number(stated.get("id")?)?,
        optional: stated["optional"].as_bool().unwrap_or(false),
        values: values.unwrap_or_else(|| Some(Vec::new()))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::filters::{FilterDescription, has_decoder};
    use proptest::prelude::*;
    use serde_json::json;

    fn described_as(more: Value) -> GivenArray {
        let text = json!({"name": "x", "dtype": "uint8", "shape": []});
        let mut array: GivenArray = serde_json::from_value(text).unwrap();
        array.more = more.as_object().unwrap().clone();
        array
    }

    fn shape<'a>(dims: &'a [u64], most: &'a [u64]) -> NewShape<'a> {
        let bytes = dims.iter().fold(4, |n, dim| n * dim);
        NewShape {
            dims,
            most,
            element: 4,
            bytes,
            is_text: false,
        }
    }

    fn is_known(filter: &MadeFilter) -> bool {
        has_decoder(&FilterDescription {
            id: filter.id,
            values: whole_values(filter, &shape(&[1], &[1])),
        })
    }

    #[test]
    fn small_arrays_are_contiguous_and_others_have_the_usual_filters() {
        let mut lost = Vec::new();
        let (small, none) = of(&shape(&[100], &[100]), None, &mut lost);
        assert_eq!((small, none.len()), (MadeStorage::Contiguous, 0));
        let (large, filters) = of(&shape(&[1 << 20], &[1 << 20]), None, &mut lost);
        let chunk = vec![1 << 18];
        let plain_edges = false;
        assert_eq!(large, MadeStorage::Chunked { chunk, plain_edges });
        assert!(filters.iter().all(is_known));
        let (grows, _) = of(&shape(&[10], &[UNLIMITED]), None, &mut lost);
        assert!(matches!(grows, MadeStorage::Chunked { .. }) && lost.is_empty());
    }

    #[test]
    fn what_cannot_be_as_described_is_told() {
        let lzf = described_as(
            json!({"chunks": [10], "filters": [{"id": 32000, "values": [4, 261, 40]}]}),
        );
        let mut lost = Vec::new();
        let (_, filters) = of(&shape(&[100], &[100]), Some(&lzf), &mut lost);
        assert_eq!((filters, lost.len()), (usual_filters(), 1));
        let bomb = described_as(json!({"chunks": [4_000_000_000u64]}));
        let (storage, _) = of(&shape(&[100], &[100]), Some(&bomb), &mut lost);
        let chunk = vec![100];
        let plain_edges = false;
        assert_eq!(storage, MadeStorage::Chunked { chunk, plain_edges });
        assert_eq!(lost.len(), 2);
    }

    proptest! {
        #[test]
        fn chunks_are_about_a_mebibyte(
            dims in proptest::collection::vec(0u64..5000, 1..5), element in 1u64..3000,
        ) {
            let chunk = usual_chunk(&NewShape { dims: &dims, most: &dims, element, bytes: 1 << 40, is_text: false });
            let bytes = chunk.iter().product::<u64>() * element;
            prop_assert!(chunk.iter().zip(&dims).all(|(len, dim)| 1 <= *len && *len <= (*dim).max(1)));
            prop_assert!(bytes <= CHUNK.max(element));
        }
    }
}
