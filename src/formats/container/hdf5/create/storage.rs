//! How a new dataset is stored: as it is described, or by default. Small ones are contiguous;
//! others have chunks of about 1 MiB that go through shuffle and gzip 1, which every reader has.
//!
//! Chunks for which there is no memory, and filters without an encoder, are refused; of a file that
//! is copied they are replaced by the default, and told. Used by [`super::dataset`].

use serde_json::Value;

use super::filters::{self, DEFLATE, FLETCHER32, SHUFFLE};
use crate::container::creation::GivenArray;
use crate::container::hdf5::dataset::chunked::filter_pipeline;
use crate::container::hdf5::index::{FilterEntry, UNLIMITED};
use crate::container::hdf5::made::{MadeFilter, MadeStorage};

/// What is smaller is contiguous by default.
const SMALL: u64 = 64 << 10;
/// Bytes of a chunk, about.
const CHUNK: u64 = 1 << 20;
/// What takes the place of filters that there are not.
const USUAL: &str = "shuffle and gzip";

/// Chunks may be larger than this if the dataset itself is.
const LARGE: u64 = 64 << 20;
/// A compact dataset lies in its object header.
const COMPACT_MOST: u64 = 64_000;

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

/// How it is stored. What cannot be as it is described is an error; of the array of another file,
/// which is copied, something else is taken, and added to `lost`.
pub(super) fn of(
    shape: &NewShape<'_>,
    described: Option<&GivenArray>,
    lost: &mut Vec<String>,
) -> Result<(MadeStorage, Vec<MadeFilter>), String> {
    let is_copied = described.is_some_and(GivenArray::is_told);
    let mut instead = |why: String, what: &str| match is_copied {
        true => {
            lost.push(format!("{why}: {what} instead"));
            Ok(())
        }
        false => Err(why),
    };
    let member = |key: &str| described.and_then(|array| array.more.get(key));
    let plain_edges = member("partial_chunks").is_some_and(|edges| edges == "unfiltered");
    let mut told = None;
    match described.map_or(Ok(None), |array| filters::told(array, shape)) {
        Ok(found) => told = found,
        Err(why) => instead(why, USUAL)?,
    }
    let (layout, chunks) = (described.and_then(layout_of), member("chunks"));
    let is_filtered = told.as_ref().is_some_and(|told| !told.is_empty());
    let is_scalar = shape.dims.is_empty();
    let is_one = shape.most == shape.dims && chunks.is_none() && !is_filtered;
    match layout {
        Some("compact") if is_one && shape.bytes <= COMPACT_MOST => {
            return Ok((MadeStorage::Compact, Vec::new()));
        }
        Some("contiguous") if is_one => return Ok((MadeStorage::Contiguous, Vec::new())),
        None | Some("chunked") => {}
        Some(other) => instead(format!("it cannot be {other}"), "what is usual")?,
    }
    if is_scalar && (chunks.is_some() || is_filtered) {
        instead("a scalar has no chunks and no filters".into(), "one value")?;
    }
    let is_plain = told.as_ref().is_some_and(Vec::is_empty);
    let is_small = shape.bytes <= SMALL || is_plain;
    if is_scalar || is_one && is_small && layout != Some("chunked") {
        return Ok((MadeStorage::Contiguous, Vec::new()));
    }
    let chunk = match chunks.map_or(Ok(None), |chunks| told_chunk(chunks, shape).map(Some)) {
        Ok(chunk) => chunk,
        Err(why) => {
            instead(why, "chunks of 1 MiB")?;
            None
        }
    };
    let chunk = chunk.unwrap_or_else(|| usual_chunk(shape));
    let mut filters = told.unwrap_or_else(filters::usual);
    if let (false, Some(why)) = (is_copied, never_applied(&filters, shape)) {
        return Err(why);
    }
    if let Some(why) = unfit(&filters, &chunk, shape) {
        instead(why, USUAL)?;
        filters = filters::usual();
    }
    Ok((MadeStorage::Chunked { chunk, plain_edges }, filters))
}

/// What is said to be its layout, also by a codec that is none.
fn layout_of(array: &GivenArray) -> Option<&str> {
    let is_compact = array.codec.as_deref() == Some("compact") && !array.is_told();
    let said = array.more.get("layout").and_then(Value::as_str);
    said.or(is_compact.then_some("compact"))
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

/// Why every chunk would skip one of these filters: nobody who writes that means it. What is copied
/// is stored as it was.
fn never_applied(filters: &[MadeFilter], shape: &NewShape<'_>) -> Option<String> {
    let mut is_shuffled = false;
    filters.iter().find_map(|filter| {
        // The library gives a width to the first one alone.
        if filter.id == SHUFFLE && std::mem::replace(&mut is_shuffled, true) {
            return Some("shuffle stands there twice: every chunk would skip the second".into());
        }
        let described = whole(filter, shape).described();
        (!described.is_applied()).then(|| {
            let name = described.name();
            let (id, values) = (filter.id, &filter.values);
            format!("{name} (filter {id}) does not take the values {values:?}")
        })
    })
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
    let entries: Vec<_> = filters.iter().map(|one| whole(one, shape)).collect();
    match filter_pipeline(&entries, elements) {
        Err(why) => Some(why.to_string()),
        Ok(pipeline) => {
            let unusable = pipeline.unusable(0).map(ToString::to_string);
            unusable.or_else(|| pipeline.encoder().unfiltered().map(str::to_owned))
        }
    }
}

/// A filter with all its values: shuffle's one is the library's to say.
fn whole(filter: &MadeFilter, shape: &NewShape<'_>) -> FilterEntry {
    let values = match filter.id {
        SHUFFLE => vec![u32::try_from(shape.element).unwrap_or(u32::MAX)],
        _ => filter.values.clone(),
    };
    FilterEntry {
        id: filter.id,
        values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::filters::{NAMES, has_decoder};
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
        has_decoder(&whole(filter, &shape(&[1], &[1])).described())
    }

    #[test]
    fn small_arrays_are_contiguous_and_others_have_the_usual_filters() {
        let mut lost = Vec::new();
        let (small, none) = of(&shape(&[100], &[100]), None, &mut lost).unwrap();
        assert_eq!((small, none.len()), (MadeStorage::Contiguous, 0));
        let large = of(&shape(&[1 << 20], &[1 << 20]), None, &mut lost);
        let (large, filters) = large.unwrap();
        let chunk = vec![1 << 18];
        let plain_edges = false;
        assert_eq!(large, MadeStorage::Chunked { chunk, plain_edges });
        assert!(filters.iter().all(is_known));
        let (grows, _) = of(&shape(&[10], &[UNLIMITED]), None, &mut lost).unwrap();
        assert!(matches!(grows, MadeStorage::Chunked { .. }) && lost.is_empty());
    }

    #[test]
    fn what_cannot_be_as_described_is_refused_or_told_of_a_copy() {
        for (more, why) in [
            (
                json!({"chunks": [10], "filters": [{"id": 32000, "values": [4, 261, 40]}]}),
                "lzf",
            ),
            (json!({"chunks": [4_000_000_000u64]}), "far larger"),
            (json!({"chunks": [1, 2]}), "do not fit"),
            (json!({"filters": [{"id": 999}]}), "999"),
            (json!({"filters": ["gzipp"]}), "gzipp"),
            (json!({"filters": [{"name": "gzip", "level": 9}]}), "level"),
            (json!({"filters": 1}), "no list"),
            (json!({"filters": ["szip"]}), "szip"),
            (
                json!({"filters": ["gzip"], "layout": "contiguous"}),
                "contiguous",
            ),
            (json!({"layout": "virtual"}), "virtual"),
        ] {
            let mut lost = Vec::new();
            let refused = of(
                &shape(&[100], &[100]),
                Some(&described_as(more.clone())),
                &mut lost,
            );
            assert!(refused.is_err_and(|said| said.contains(why)), "{more}");
            assert_eq!(lost, [""; 0]);
            let mut copied = described_as(more);
            copied.more.insert("stored_bytes".into(), 1.into());
            of(&shape(&[100], &[100]), Some(&copied), &mut lost).unwrap();
            assert_eq!(lost.len(), 1, "{lost:?}");
        }
    }

    #[test]
    fn filters_that_every_chunk_would_skip_are_refused_by_hand() {
        let gzip = |values: Value| json!({"filters": [{"name": "gzip", "values": values}]});
        for (more, why) in [
            (
                gzip(json!([10])),
                "gzip (filter 1) does not take the values [10]",
            ),
            (gzip(json!([])), "gzip (filter 1) does not"),
            (gzip(json!([6, 1])), "gzip (filter 1) does not"),
            (
                json!({"filters": [{"id": 1, "values": [11]}]}),
                "gzip (filter 1) does not",
            ),
            (
                json!({"filters": [{"id": 32008}]}),
                "(filter 32008) does not",
            ),
            (json!({"filters": ["shuffle", "gzip", "shuffle"]}), "twice"),
        ] {
            for is_text in [false, true] {
                let shape = NewShape {
                    is_text,
                    ..shape(&[100], &[100])
                };
                let refused = of(&shape, Some(&described_as(more.clone())), &mut Vec::new());
                assert!(refused.is_err_and(|said| said.contains(why)), "{more}");
            }
        }
        let nine = described_as(gzip(json!([9])));
        assert!(of(&shape(&[100], &[100]), Some(&nine), &mut Vec::new()).is_ok());
    }

    #[test]
    fn filters_have_names_and_codecs_are_what_is_printed() {
        let made = |codec: Option<&str>, more: Value| {
            let mut array = described_as(more);
            array.codec = codec.map(str::to_owned);
            let (storage, filters) = of(&shape(&[100], &[100]), Some(&array), &mut Vec::new())?;
            let ids: Vec<u32> = filters.iter().map(|filter| filter.id).collect();
            Ok::<_, String>((matches!(storage, MadeStorage::Chunked { .. }), ids))
        };
        let usual = Ok((true, vec![SHUFFLE, DEFLATE]));
        assert_eq!(made(None, json!({"chunks": [7]})), usual);
        assert_eq!(made(None, json!({"layout": "chunked"})), usual);
        assert_eq!(
            made(None, json!({"chunks": [7], "filters": []})),
            Ok((true, vec![]))
        );
        assert_eq!(
            made(Some("none"), json!({"chunks": [7]})),
            Ok((true, vec![]))
        );
        assert_eq!(made(Some("none"), json!({})), Ok((false, vec![])));
        assert_eq!(
            made(None, json!({"filters": ["shuffle", {"name": "gzip"}]})),
            usual
        );
        assert!(made(Some("gzip"), json!({"filters": ["gzip"]})).is_err());
        for name in NAMES {
            let made = made(Some(name), json!({}));
            match name {
                // For these there is no encoder, or nobody can say their values.
                "szip" | "lzf" | "blosc2" | "nbit" | "scaleoffset" => {
                    assert!(made.is_err_and(|why| why.contains(name)));
                }
                name => assert_eq!(
                    made.map(|(chunked, ids)| (chunked, ids.len())),
                    Ok((true, 1)),
                    "{name}"
                ),
            }
        }
        let several = made(Some("shuffle+zstd+fletcher32"), json!({}));
        assert_eq!(several, Ok((true, vec![SHUFFLE, 32015, FLETCHER32])));
        let compact = of(
            &shape(&[100], &[100]),
            Some(&GivenArray {
                codec: Some("compact".into()),
                ..described_as(json!({}))
            }),
            &mut Vec::new(),
        );
        assert_eq!(compact.unwrap().0, MadeStorage::Compact);
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
