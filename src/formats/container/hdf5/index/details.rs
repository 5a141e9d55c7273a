//! What an index says of types, datasets and attributes that no reader of elements needs: for
//! `arrays.json`.
//!
//! Written by `library`, read by `assemble`.

use serde::{Deserialize, Serialize};

use super::decoding::{bytes, stored_type, text};
use super::heap::OnHeap;
use crate::container::stored::{AllocationTime, FillTime, StoredType};

/// Attribute of a dataset: references to the dimension scales of each dimension.
pub(crate) const DIMENSION_LIST: &[u8] = b"DIMENSION_LIST";

/// Machinery of NetCDF-4 and of dimension scales, which says nothing to a reader of arrays: what it
/// says of dimensions stands elsewhere.
pub(crate) const MACHINERY: [&[u8]; 6] = [
    b"_NCProperties",
    b"_Netcdf4Dimid",
    b"_Netcdf4Coordinates",
    b"_nc3_strict",
    DIMENSION_LIST,
    b"REFERENCE_LIST",
];

/// Of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DatasetDetails {
    /// Token of the committed datatype that its elements have.
    pub(crate) committed: Option<u64>,
    /// How long each dimension may become, [`super::UNLIMITED`] or not.
    pub(crate) most: Vec<u64>,
    /// Names of its filters, and whether they may be left out.
    pub(crate) filters: Vec<(String, bool)>,
    pub(crate) fill: FillSpelling,
    /// None where one is defined.
    pub(crate) fill_time: Option<FillTime>,
    /// None where it is as usual for the layout.
    pub(crate) allocated: Option<AllocationTime>,
    /// Tokens of the dimension scales of each dimension.
    pub(crate) scales: Vec<Vec<u64>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum FillSpelling {
    /// Zeros.
    #[default]
    Default,
    Undefined,
    Value {
        /// JSON.
        #[serde(deserialize_with = "text")]
        shown: String,
        /// As it is stored, where that does not tell it.
        stored: Option<Vec<u8>>,
    },
}

/// How an attribute is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttributeStorage {
    #[serde(with = "stored_type")]
    pub(crate) element: StoredType,
    /// Token of the committed datatype that it is.
    pub(crate) committed: Option<u64>,
    /// None for one without space.
    pub(crate) dims: Option<Vec<u64>>,
    pub(crate) told: ValueFidelity,
}

/// Whether the value that is shown of an attribute tells what is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ValueFidelity {
    Exactly,
    /// No; these are its elements as they are stored.
    Not(#[serde(deserialize_with = "bytes")] Vec<u8>),
    /// No, and they cannot be told; why.
    Never(#[serde(deserialize_with = "text")] String),
}

impl OnHeap for DatasetDetails {
    fn on_heap(&self) -> u64 {
        let fill = match &self.fill {
            FillSpelling::Value { shown, stored } => shown.on_heap() + stored.on_heap(),
            FillSpelling::Default | FillSpelling::Undefined => 0,
        };
        let names = self.filters.iter().map(|(name, _)| name.on_heap() + 64);
        self.most.on_heap() + names.sum::<u64>() + fill + self.scales.on_heap()
    }
}

impl OnHeap for AttributeStorage {
    fn on_heap(&self) -> u64 {
        let told = match &self.told {
            ValueFidelity::Exactly => 0,
            ValueFidelity::Not(bytes) => bytes.on_heap(),
            ValueFidelity::Never(why) => why.on_heap(),
        };
        self.element.on_heap() + self.dims.on_heap() + told
    }
}
