//! How a container stores what it shows, as `arrays.json` spells it: types, layouts, filters, fill
//! values, dimensions and links.
//!
//! Both written (by `describe`) and read (by formats that make a container from the `arrays.json`
//! of another), so every part goes both ways. What is left out is the usual: see docs/formats.md.
//! Formats fill these in while they open a container; what a file makes large has a weight.

mod type_names;
mod types;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use type_names::TYPE_DEPTH_MOST;
pub use types::{
    BitOrder, Charset, FloatNorm, NoOfBits, Padding, StoredFloat, StoredInteger, StoredType,
};

/// What an entry of a map takes, beside its name and what it holds.
const ENTRY: usize = 64;

/// Of an array, a type without data, a group, or a dataset that cannot be shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArrayDetails {
    /// Names of its dimensions; paths from the outermost container, as
    /// [`FileDetails::dimensions`] has them. Any other name is but a label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dims: Vec<Option<String>>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub stored_type: Option<StoredType>,
    /// None for an unlimited dimension; empty where no dimension may change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maxshape: Vec<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutName>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterDetails>,
    /// `null`: explicitly none; left out: zeros.
    #[serde(with = "given_value", skip_serializing_if = "Option::is_none")]
    pub fill: Option<Box<Value>>,
    #[serde(flatten)]
    pub rare: RareDetails,
    /// Place of its link among those of its group, by age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_order: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attribute_types: BTreeMap<String, AttributeType>,
}

/// What few arrays have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RareDetails {
    /// Bytes of the fill value in the stored type, as hexadecimal digits, where the value does not
    /// tell them exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill_stored: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill_time: Option<FillTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alloc_time: Option<AllocationTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_chunks: Option<PartialChunks>,
    /// It is a dimension scale of this title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Box<str>>,
    /// All scales of each dimension, where one has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scales: Vec<Vec<String>>,
    /// Names of files that hold the data; never opened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub external: Vec<String>,
}

/// A value that may be `null`, which is not the same as none.
mod given_value {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Box<Value>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Box<Value>>, D::Error> {
        Box::<Value>::deserialize(from).map(Some)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayoutName {
    Compact,
    Contiguous,
    Chunked,
    External,
    Virtual,
}

impl LayoutName {
    pub fn name(self) -> &'static str {
        match self {
            LayoutName::Compact => "compact",
            LayoutName::Contiguous => "contiguous",
            LayoutName::Chunked => "chunked",
            LayoutName::External => "external",
            LayoutName::Virtual => "virtual",
        }
    }
}

/// When the fill value is written; left out: where one is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FillTime {
    Alloc,
    Never,
}

/// When data get their place; left out: as usual for the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AllocationTime {
    Early,
    Late,
    Incremental,
}

/// How chunks are stored that stick out of the array; left out: as all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartialChunks {
    Unfiltered,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilterDetails {
    pub id: u32,
    pub name: Cow<'static, str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<u32>,
    /// Where it cannot encode a chunk, it is skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// How an attribute is stored whose value alone does not tell it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttributeType {
    #[serde(rename = "type")]
    pub stored_type: StoredType,
    /// None for a scalar, or where the value tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Vec<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<NoSpace>,
    /// Its elements as they are stored, as hexadecimal digits, where the value does not tell them
    /// exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<Box<str>>,
    /// Why the value is not shown, or not as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Box<str>>,
}

/// Of what has a type and no elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NoSpace {
    Null,
}

/// What a file says beside its arrays. Paths are those of the outermost container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileDetails {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dimensions: BTreeMap<String, DimensionDetails>,
    /// Further names of arrays, groups and types, and the first one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hard_links: BTreeMap<String, String>,
    /// As they are stored, wherever they lead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub soft_links: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub external_links: BTreeMap<String, ExternalTarget>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netcdf4: Option<NetCdf4Details>,
    /// Version of a classic NetCDF file that is a container of another format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classic: Option<String>,
    /// Bytes before the file proper.
    #[serde(skip_serializing_if = "is_zero")]
    pub user_block: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DimensionDetails {
    pub length: u64,
    #[serde(default)]
    pub unlimited: bool,
    /// Its number in NetCDF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalTarget {
    pub file: String,
    pub path: String,
}

/// Of a NetCDF-4 file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetCdf4Details {
    /// Which libraries made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub properties: Option<String>,
    /// It keeps to what classic NetCDF can hold.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
}

impl ArrayDetails {
    pub fn is_empty(&self) -> bool {
        *self == ArrayDetails::default()
    }

    /// About the bytes that it takes in memory, and its lines in `arrays.json`.
    pub fn weight(&self) -> usize {
        let names = |names: &[String]| {
            names
                .iter()
                .map(|name| of_text(name) + ENTRY)
                .sum::<usize>()
        };
        let dims = self.dims.iter().flatten();
        let dims = dims.map(|name| of_text(name) + ENTRY).sum::<usize>();
        let numbers = self.maxshape.len() + self.chunks.len() + self.dims.len();
        let filters = self.filters.iter();
        let filters = filters.map(|one| 2 * ENTRY + of_text(&one.name) + 16 * one.values.len());
        let rare = &self.rare;
        let texts = [&rare.fill_stored, &rare.scale];
        let texts = texts.iter().copied().flatten().map(|text| of_text(text));
        let scales = rare.scales.iter().map(|scales| ENTRY + names(scales));
        let types = self.attribute_types.iter();
        let types = types.map(|(name, one)| of_text(name) + ENTRY + one.weight());
        size_of::<ArrayDetails>()
            + 4 * ENTRY
            + 40 * numbers
            + dims
            + self.stored_type.as_ref().map_or(0, StoredType::weight)
            + self.fill.as_ref().map_or(0, |fill| value_weight(fill))
            + names(&rare.external)
            + filters
                .chain(texts)
                .chain(scales)
                .chain(types)
                .sum::<usize>()
    }
}

impl AttributeType {
    fn weight(&self) -> usize {
        let texts = [&self.stored, &self.omitted].into_iter().flatten();
        let shape = self.shape.as_ref().map_or(0, Vec::len);
        size_of::<AttributeType>()
            + 2 * ENTRY
            + self.stored_type.weight()
            + 32 * shape
            + texts.map(|text| of_text(text)).sum::<usize>()
    }
}

impl FileDetails {
    /// About the bytes that it takes in memory, and its lines in `arrays.json`.
    pub fn weight(&self) -> usize {
        let dimensions = self.dimensions.keys().map(|name| of_text(name) + 3 * ENTRY);
        let links = self.hard_links.iter().chain(&self.soft_links);
        let links = links.map(|(name, to)| of_text(name) + of_text(to) + 2 * ENTRY);
        let elsewhere = self.external_links.iter();
        let elsewhere = elsewhere
            .map(|(name, to)| of_text(name) + of_text(&to.file) + of_text(&to.path) + 3 * ENTRY);
        let properties = self.netcdf4.iter().flat_map(|own| &own.properties);
        let properties = properties.map(|text| of_text(text));
        let version = self.classic.iter().map(|text| of_text(text) + ENTRY);
        size_of::<FileDetails>()
            + dimensions
                .chain(links)
                .chain(elsewhere)
                .chain(properties)
                .chain(version)
                .sum::<usize>()
    }
}

/// A text in memory and as it is written: a control character is spelled with six.
fn of_text(text: &str) -> usize {
    3 * text.len() + 5 * text.bytes().filter(u8::is_ascii_control).count()
}

/// A fill value and its text.
fn value_weight(value: &Value) -> usize {
    let inner = match value {
        Value::String(text) => of_text(text),
        Value::Array(items) => items.iter().map(value_weight).sum(),
        Value::Object(members) => {
            let members = members.iter();
            members
                .map(|(name, value)| of_text(name) + ENTRY + value_weight(value))
                .sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    };
    2 * size_of::<Value>() + inner
}

#[cfg(test)]
mod tests;
