//! What an index says of types, datasets and attributes that no reader of elements needs: for
//! `arrays.json`.
//!
//! Types are spelled by the worker, as JSON: text, since one type may be of any shape, and read by
//! those who read `arrays.json`. Written by `library`, read by `assemble`.

use serde::{Deserialize, Serialize};

use super::decoding::{bytes, text};
use super::heap::OnHeap;

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

/// A type as `arrays.json` spells it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TypeSpelling {
    /// JSON.
    #[serde(deserialize_with = "text")]
    pub(crate) text: String,
    /// Token of the committed datatype that it is.
    pub(crate) committed: Option<u64>,
}

/// Of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct DatasetDetails {
    pub(crate) spelled: TypeSpelling,
    /// How long each dimension may become, [`super::UNLIMITED`] or not.
    pub(crate) most: Vec<u64>,
    /// Names of its filters, and whether they may be left out.
    pub(crate) filters: Vec<(String, bool)>,
    pub(crate) fill: FillSpelling,
    pub(crate) fill_time: FillWritten,
    /// None where it is as usual for the layout.
    pub(crate) allocated: Option<SpaceAllocated>,
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FillWritten {
    #[default]
    WhereDefined,
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SpaceAllocated {
    Early,
    Late,
    Incrementally,
}

/// How an attribute is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AttributeStorage {
    pub(crate) spelled: TypeSpelling,
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

impl OnHeap for TypeSpelling {
    fn on_heap(&self) -> u64 {
        self.text.on_heap()
    }
}

impl OnHeap for DatasetDetails {
    fn on_heap(&self) -> u64 {
        let fill = match &self.fill {
            FillSpelling::Value { shown, stored } => shown.on_heap() + stored.on_heap(),
            FillSpelling::Default | FillSpelling::Undefined => 0,
        };
        let names = self.filters.iter().map(|(name, _)| name.on_heap() + 64);
        self.spelled.on_heap()
            + self.most.on_heap()
            + names.sum::<u64>()
            + fill
            + self.scales.on_heap()
    }
}

impl OnHeap for AttributeStorage {
    fn on_heap(&self) -> u64 {
        let told = match &self.told {
            ValueFidelity::Exactly => 0,
            ValueFidelity::Not(bytes) => bytes.on_heap(),
            ValueFidelity::Never(why) => why.on_heap(),
        };
        self.spelled.on_heap() + self.dims.on_heap() + told
    }
}
