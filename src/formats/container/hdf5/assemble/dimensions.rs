//! Named dimensions: dimension scales, and what NetCDF-4 says beside them. Used by `details`.
//!
//! A dimension is named as the dataset that is its scale. Where a dataset does not list its scales,
//! NetCDF-4 has numbers of dimensions, and a scale is its own.

use std::collections::HashMap;

use super::attributes::{find, is_scale, numbers};
use crate::container::hdf5::index::details::ValueFidelity;
use crate::container::hdf5::index::{AttributeValue, DatasetEntry, FileIndex};
use crate::container::names;

pub(super) struct Dimensions {
    /// Numbers of the scales among the datasets, by token.
    scales: HashMap<u64, u32>,
    /// Numbers of the scales by the number that NetCDF-4 gives a dimension.
    numbered: HashMap<u64, u32>,
}

impl Dimensions {
    pub(super) fn of(index: &FileIndex) -> Dimensions {
        let mut dimensions = Dimensions {
            scales: HashMap::new(),
            numbered: HashMap::new(),
        };
        for (number, dataset) in (0..).zip(&index.datasets) {
            if is_scale(&dataset.attributes) {
                dimensions.scales.insert(dataset.token, number);
                let id = netcdf_number(dataset);
                dimensions.numbered.extend(id.map(|id| (id, number)));
            }
        }
        dimensions
    }

    /// Numbers of the datasets that are scales, in their order.
    pub(super) fn scales(&self) -> Vec<u32> {
        let mut scales: Vec<u32> = self.scales.values().copied().collect();
        scales.sort_unstable();
        scales
    }

    /// The scales of each dimension of a dataset.
    pub(super) fn scales_of(&self, dataset: &DatasetEntry) -> Vec<Vec<u32>> {
        let rank = dataset.dims.as_ref().map_or(0, Vec::len);
        let numbered = find(&dataset.attributes, b"_Netcdf4Coordinates");
        let numbered = numbered.map(numbers).unwrap_or_default();
        let own = self.scales.get(&dataset.token);
        let of_dimension = |at: usize| {
            let listed = dataset.details.scales.get(at).into_iter().flatten();
            let listed = listed.filter_map(|token| self.scales.get(token));
            let listed: Vec<u32> = listed.copied().collect();
            let by_number = || numbered.get(at).and_then(|id| self.numbered.get(id));
            let of_itself = || own.filter(|_| at == 0);
            match listed.is_empty() {
                true => by_number()
                    .or_else(of_itself)
                    .copied()
                    .into_iter()
                    .collect(),
                false => listed,
            }
        };
        (0..rank).map(of_dimension).collect()
    }
}

/// The number that NetCDF-4 gives the dimension of a scale.
pub(super) fn netcdf_number(scale: &DatasetEntry) -> Option<u64> {
    numbers(find(&scale.attributes, b"_Netcdf4Dimid")?)
        .first()
        .copied()
}

fn is_nul(byte: &u8) -> bool {
    *byte == 0
}

/// What dimensions are called that need not have scales.
pub(super) fn labels(dataset: &DatasetEntry) -> Vec<String> {
    const LABELS: &[u8] = b"DIMENSION_LABELS";
    let mut named = dataset.attributes.iter().filter(|of| of.name == LABELS);
    // Those that are no UTF-8 are shown otherwise.
    let stored = named.next().and_then(|of| of.stored.as_ref());
    if let Some(ValueFidelity::Not(texts)) = stored.map(|stored| &stored.told)
        && dataset.dims.as_ref().map(Vec::len) == Some(texts.split_inclusive(is_nul).count())
    {
        let texts = texts.split_inclusive(is_nul);
        return texts
            .map(|text| names::escape(text.strip_suffix(b"\0").unwrap_or(text)))
            .collect();
    }
    match find(&dataset.attributes, LABELS) {
        Some(AttributeValue::Json(list)) => {
            let labels: Vec<String> = serde_json::from_str(list).unwrap_or_default();
            let labels = labels.iter().map(|label| names::escape(label.as_bytes()));
            labels.collect()
        }
        Some(AttributeValue::Text(one)) => vec![names::escape(one)],
        _ => Vec::new(),
    }
}
