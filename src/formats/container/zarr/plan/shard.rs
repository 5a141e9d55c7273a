//! Shards as a codec of version 3 configures them: which chunks lie in one, and how its index is
//! stored. Pure. Used by [`super`].

use serde_json::Value;

use super::{DecodePlan, ENTRY, INDEX_MOST, PlanDraft, ShardLevel};
use crate::array::grid::{CHUNK_MOST, product};
use crate::codec::numcodecs::{Chain, Length};
use crate::container::zarr::document::{DocumentRefusal, chunk_shape, configuration};
use crate::container::zarr::element::{Kind, ZarrElement};

/// A level of shards, and the shape of the chunks in them.
pub(super) fn shard(
    (chunk, order): (Vec<u64>, &[usize]),
    configured: &Value,
    around: &[(&str, &Value)],
) -> Result<(ShardLevel, Vec<u64>), DocumentRefusal> {
    let given = chunk_shape(configuration(configured, "chunk_shape"), &chunk)?;
    let mut inner = chunk.clone();
    for (len, dim) in given.iter().zip(order) {
        if let Some(inner) = inner.get_mut(*dim) {
            *inner = *len;
        }
    }
    if chunk
        .iter()
        .zip(&inner)
        .any(|(outer, inner)| outer % inner != 0)
    {
        let fault = DocumentRefusal::fault("the chunks do not divide their shard");
        return Err(fault
            .expected(format_args!("{chunk:?}"))
            .found(format_args!("{inner:?}")));
    }
    let counts: Vec<u64> = chunk
        .iter()
        .zip(&inner)
        .map(|(outer, inner)| outer / inner)
        .collect();
    let entries = product(&counts, 1);
    let large = || DocumentRefusal::not_shown(format!("shards of {counts:?} chunks"));
    let entries = entries.filter(|n| n.saturating_mul(ENTRY as u64) <= INDEX_MOST);
    let entries = entries.ok_or_else(large)?;
    let is_index_at_end = match configuration(configured, "index_location").map(Value::as_str) {
        None | Some(Some("end")) => true,
        Some(Some("start")) => false,
        Some(_) => {
            return Err(DocumentRefusal::fault(
                "the index of the shards lies nowhere",
            ));
        }
    };
    let index = index(&counts, order, configured)?;
    let Length::Exactly(index_bytes) = index.stored() else {
        return Err(DocumentRefusal::not_shown("a compressed index of shards"));
    };
    let none = ZarrElement {
        kind: Kind::Void(1),
        is_big: false,
    };
    let mut draft = PlanDraft::new(&[], &none)?;
    draft.plain = Length::AtMost(usize::try_from(CHUNK_MOST).unwrap_or(usize::MAX));
    for (name, configured) in around {
        draft.add(name, configured)?;
    }
    let level = ShardLevel {
        entries,
        counts,
        order: order.to_vec(),
        index,
        index_bytes: index_bytes as u64,
        is_index_at_end,
        around: Chain::new(draft.codecs, draft.plain),
        chunk,
    };
    Ok((level, inner))
}

/// The codecs of an index: two numbers for each chunk, in the order in which chunks are stored.
fn index(counts: &[u64], order: &[usize], configured: &Value) -> Result<Chain, DocumentRefusal> {
    let codecs = configuration(configured, "index_codecs").and_then(Value::as_array);
    let codecs =
        codecs.ok_or_else(|| DocumentRefusal::fault("the index of the shards has no codecs"))?;
    let mut shape: Vec<u64> = order
        .iter()
        .filter_map(|dim| counts.get(*dim).copied())
        .collect();
    shape.push(2);
    let number = ZarrElement {
        kind: Kind::Unsigned(8),
        is_big: false,
    };
    let plan = DecodePlan::of_version_3(shape, &number, codecs)?;
    match plan.shards.is_empty() {
        true => Ok(plan.chain),
        false => Err(DocumentRefusal::not_shown("an index of shards in shards")),
    }
}
