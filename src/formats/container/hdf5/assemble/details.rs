//! How the parts of a file are stored, for `arrays.json`: types, layouts, filters, dimensions,
//! further names. Used by `assemble`.
//!
//! What a worker spelled is read here, within the memory that is set aside for it; what cannot be
//! read is a type that is not known.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::ShownGroup;
use super::attributes::{self, find, is_scale, text};
use super::dimensions::{self, Dimensions};
use super::names::{FirstNames, LinkPlace};
use crate::array::dtype::Dtype;
use crate::container::CommittedType;
use crate::container::describe::value_room;
use crate::container::hdf5::element::Element;
use crate::container::hdf5::index::details::{
    AttributeStorage, FillSpelling, MACHINERY, ValueFidelity,
};
use crate::container::hdf5::index::{
    AttributeEntry, DatasetEntry, FileIndex, LinkEntry, LinkTarget, StorageLayout, TypeEntry,
    UNLIMITED,
};
use crate::container::names::{escape, escaped_path};
use crate::container::stored::{
    ArrayDetails, AttributeType, DimensionDetails, ExternalTarget, FileDetails, FilterDetails,
    LayoutName, NetCdf4Details, NoSpace, PartialChunks, RareDetails, StoredType,
};
use crate::error::Result;
use crate::memory::set_aside;

/// What details take beside their texts.
const DETAILS: u64 = 1 << 10;

pub(super) struct StoredNames<'a> {
    index: &'a FileIndex,
    pub(super) first: FirstNames,
    /// Numbers of the committed datatypes, by token.
    types: HashMap<u64, u32>,
    dimensions: Dimensions,
    pub(super) netcdf4: Option<NetCdf4Details>,
}

impl<'a> StoredNames<'a> {
    pub(super) fn of(index: &'a FileIndex) -> StoredNames<'a> {
        let types = (0..).zip(&index.types);
        StoredNames {
            index,
            first: FirstNames::of(index),
            types: types.map(|(number, of)| (of.token, number)).collect(),
            dimensions: Dimensions::of(index),
            netcdf4: netcdf4(index),
        }
    }

    /// What the file says beside its arrays; links are added while groups are.
    pub(super) fn file(&self, places: &[ShownGroup]) -> FileDetails {
        let scales = self.dimensions.scales().into_iter();
        let named = scales.filter_map(|number| {
            let scale = self.index.datasets.get(number as usize)?;
            let details = DimensionDetails {
                length: *scale.dims.as_ref()?.first()?,
                unlimited: self.limit(*scale.details.most.first()?).is_none(),
                id: dimensions::netcdf_number(scale),
            };
            Some((self.scale_name(number, places)?, details))
        });
        FileDetails {
            dimensions: named.collect(),
            netcdf4: self.netcdf4.clone(),
            user_block: self.index.base,
            ..FileDetails::default()
        }
    }

    /// Notes a further name of something.
    pub(super) fn add_link(
        &self,
        file: &mut FileDetails,
        (path, place, link): (&str, LinkPlace, &LinkEntry),
        places: &[ShownGroup],
    ) {
        let path = path.to_owned();
        match (&link.soft, &link.target) {
            (Some(soft), _) | (None, LinkTarget::Dangling { path: soft }) => {
                file.soft_links.insert(path, escaped_path(soft));
            }
            (None, LinkTarget::External { file: of, path: to }) => {
                let (of, to) = (escaped_path(of), escaped_path(to));
                let target = ExternalTarget { file: of, path: to };
                file.external_links.insert(path, target);
            }
            (None, LinkTarget::Group(to)) => {
                let target = places.get(*to as usize);
                let target = target.map(|target| target.full.clone());
                file.hard_links.extend(target.map(|target| (path, target)));
            }
            (None, target) => {
                let first = self.first.to(target).filter(|first| *first != place);
                let first = first.and_then(|first| first.path(self.index, places));
                file.hard_links.extend(first.map(|first| (path, first)));
            }
        }
    }

    pub(super) fn dataset(
        &self,
        link: &LinkEntry,
        dataset: &DatasetEntry,
        places: &[ShownGroup],
    ) -> Result<ArrayDetails> {
        let fill = match &dataset.details.fill {
            FillSpelling::Value { shown, stored } => {
                value_room(shown.as_bytes()) + 3 * stored.as_ref().map_or(0, Vec::len) as u64
            }
            FillSpelling::Default | FillSpelling::Undefined => 0,
        };
        let room = fill + type_room(&dataset.element) + attributes_room(&dataset.attributes);
        set_aside(room, "cannot show how a dataset is stored", || {
            let details = ArrayDetails {
                stored_type: Some(self.type_of(
                    &dataset.element,
                    dataset.details.committed,
                    places,
                )),
                maxshape: self.maxshape(dataset),
                filters: filters(dataset),
                fill: fill_value(dataset),
                creation_order: link.age,
                attribute_types: self.attributes(&dataset.attributes, places),
                ..self.layout(dataset)
            };
            self.with_dimensions(details, dataset, places)
        })
    }

    pub(super) fn committed(
        &self,
        link: &LinkEntry,
        committed: &TypeEntry,
        places: &[ShownGroup],
    ) -> Result<ArrayDetails> {
        let room = type_room(&committed.element) + attributes_room(&committed.attributes);
        set_aside(room, "cannot show a committed datatype", || ArrayDetails {
            stored_type: Some(committed.element.clone()),
            creation_order: link.age,
            attribute_types: self.attributes(&committed.attributes, places),
            ..ArrayDetails::default()
        })
    }

    /// Of a group that this link leads to; none to the root.
    pub(super) fn group(
        &self,
        link: Option<&LinkEntry>,
        attributes: &[AttributeEntry],
        places: &[ShownGroup],
    ) -> Result<ArrayDetails> {
        let room = attributes_room(attributes);
        set_aside(room, "cannot show how attributes are stored", || {
            ArrayDetails {
                creation_order: link.and_then(|link| link.age),
                attribute_types: self.attributes(attributes, places),
                ..ArrayDetails::default()
            }
        })
    }

    fn attributes(
        &self,
        attributes: &[AttributeEntry],
        places: &[ShownGroup],
    ) -> BTreeMap<String, AttributeType> {
        let is_scale = is_scale(attributes);
        let kept = attributes.iter().filter(|attribute| {
            let name = &attribute.name[..];
            let is_machinery =
                MACHINERY.contains(&name) || is_scale && attributes::OF_SCALES.contains(&name);
            !is_machinery
        });
        let kept = kept.filter_map(|attribute| {
            let name = escape(&attribute.name);
            Some((name, self.attribute(attribute.stored.as_ref()?, places)))
        });
        kept.collect()
    }

    fn attribute(&self, stored: &AttributeStorage, places: &[ShownGroup]) -> AttributeType {
        let shape = stored.dims.clone().filter(|dims| !dims.is_empty());
        let (bytes, omitted) = match &stored.told {
            ValueFidelity::Exactly => (None, None),
            ValueFidelity::Not(bytes) => (Some(hexadecimal(bytes)), None),
            ValueFidelity::Never(why) => (None, Some(why.as_str().into())),
        };
        AttributeType {
            stored_type: self.type_of(&stored.element, stored.committed, places),
            shape,
            space: stored.dims.is_none().then_some(NoSpace::Null),
            stored: bytes,
            omitted,
        }
    }

    /// The type, by its name if it has one.
    fn type_of(
        &self,
        stored: &StoredType,
        committed: Option<u64>,
        places: &[ShownGroup],
    ) -> StoredType {
        let number = committed.and_then(|token| self.types.get(&token));
        let first = number.and_then(|number| self.first.to(&LinkTarget::Type(*number)));
        match first.and_then(|first| first.path(self.index, places)) {
            Some(name) => StoredType::Committed { name },
            None => stored.clone(),
        }
    }

    /// None for what has no limit.
    fn limit(&self, most: u64) -> Option<u64> {
        // With lengths of four bytes no number is longer.
        let short = self.index.length_size == 4 && most >= u64::from(u32::MAX);
        (most != UNLIMITED && !short).then_some(most)
    }

    fn maxshape(&self, dataset: &DatasetEntry) -> Vec<Option<u64>> {
        let most = &dataset.details.most;
        match dataset.dims.as_ref() == Some(most) {
            true => Vec::new(),
            false => most.iter().map(|most| self.limit(*most)).collect(),
        }
    }

    /// What the layout says, and when it was given its place and filled.
    fn layout(&self, dataset: &DatasetEntry) -> ArrayDetails {
        let mut details = ArrayDetails::default();
        details.layout = match &dataset.layout {
            StorageLayout::Compact(_) | StorageLayout::Texts(..) => Some(LayoutName::Compact),
            StorageLayout::Contiguous { .. } => Some(LayoutName::Contiguous),
            StorageLayout::Chunked { .. } => Some(LayoutName::Chunked),
            StorageLayout::External(_) => Some(LayoutName::External),
            StorageLayout::Virtual(_) => Some(LayoutName::Virtual),
            StorageLayout::Unknown(_) => None,
        };
        details.rare = RareDetails {
            fill_time: dataset.details.fill_time,
            alloc_time: dataset.details.allocated,
            fill_stored: match &dataset.details.fill {
                FillSpelling::Value { stored, .. } => stored.as_deref().map(hexadecimal),
                FillSpelling::Default | FillSpelling::Undefined => None,
            },
            ..RareDetails::default()
        };
        match &dataset.layout {
            StorageLayout::Chunked {
                chunk, plain_edges, ..
            } => {
                details.chunks.clone_from(chunk);
                let unfiltered = plain_edges.then_some(PartialChunks::Unfiltered);
                details.rare.partial_chunks = unfiltered;
            }
            StorageLayout::External(files) => {
                let names = files.iter().map(|name| String::from_utf8_lossy(name));
                details.rare.external = names.map(|name| name.into_owned()).collect();
            }
            _ => {}
        }
        details
    }

    fn with_dimensions(
        &self,
        mut details: ArrayDetails,
        dataset: &DatasetEntry,
        places: &[ShownGroup],
    ) -> ArrayDetails {
        let name = |number: &u32| self.scale_name(*number, places);
        let scales = self.dimensions.scales_of(dataset).into_iter();
        let scales: Vec<Vec<String>> = scales
            .map(|scales| scales.iter().filter_map(name).collect())
            .collect();
        let labels = dimensions::labels(dataset);
        let label = |at: usize| labels.get(at).filter(|label| !label.is_empty()).cloned();
        let first =
            |(at, scales): (usize, &Vec<String>)| scales.first().cloned().or_else(|| label(at));
        let dims: Vec<Option<String>> = scales.iter().enumerate().map(first).collect();
        if dims.iter().any(Option::is_some) {
            details.dims = dims;
        }
        if scales.iter().any(|scales| scales.len() > 1) {
            details.rare.scales = scales;
        }
        if is_scale(&dataset.attributes) {
            let title = text(&dataset.attributes, b"NAME").unwrap_or_default();
            details.rare.scale = Some(escape(title).into());
        }
        details
    }

    fn scale_name(&self, number: u32, places: &[ShownGroup]) -> Option<String> {
        let first = self.first.to(&LinkTarget::Dataset(number))?;
        first.path(self.index, places)
    }
}

/// Whether a file is one of NetCDF-4, and what it says of that.
fn netcdf4(index: &FileIndex) -> Option<NetCdf4Details> {
    let root = index.groups.first()?;
    let properties = text(&root.attributes, b"_NCProperties");
    let strict = find(&root.attributes, b"_nc3_strict").is_some();
    let numbered = |dataset: &DatasetEntry| find(&dataset.attributes, b"_Netcdf4Dimid").is_some();
    let is_one = properties.is_some() || strict || index.datasets.iter().any(numbered);
    is_one.then(|| NetCdf4Details {
        properties: properties.map(|text| String::from_utf8_lossy(text).into_owned()),
        strict,
    })
}

fn type_room(of: &StoredType) -> u64 {
    DETAILS + of.weight() as u64
}

fn attributes_room(attributes: &[AttributeEntry]) -> u64 {
    let room = attributes.iter().map(|attribute| {
        let kept = match &attribute.stored {
            Some(AttributeStorage {
                told: ValueFidelity::Not(bytes),
                ..
            }) => 3 * bytes.len(),
            _ => 0,
        };
        let of_type = attribute.stored.as_ref().map(|of| type_room(&of.element));
        of_type.unwrap_or(0) + (kept + 3 * attribute.name.len()) as u64
    });
    room.sum()
}

/// Of an array that is packed into datasets: how one of these is stored.
pub(crate) fn of_packed(dataset: &DatasetEntry) -> Result<ArrayDetails> {
    let values = dataset.filters.iter().map(|filter| 4 * filter.values.len());
    let room = DETAILS + values.sum::<usize>() as u64;
    set_aside(room, "cannot show how a dataset is stored", || {
        let chunks = match &dataset.layout {
            StorageLayout::Chunked { chunk, .. } => chunk.clone(),
            _ => Vec::new(),
        };
        ArrayDetails {
            chunks,
            filters: filters(dataset),
            ..ArrayDetails::default()
        }
    })
}

fn filters(dataset: &DatasetEntry) -> Vec<FilterDetails> {
    let mut names = dataset.details.filters.iter();
    let filters = dataset.filters.iter().map(|filter| {
        let (name, optional) = names.next().cloned().unwrap_or_default();
        FilterDetails {
            id: filter.id,
            name: name.into(),
            values: filter.values.clone(),
            optional,
        }
    });
    filters.collect()
}

fn fill_value(dataset: &DatasetEntry) -> Option<Box<Value>> {
    match &dataset.details.fill {
        FillSpelling::Default => None,
        FillSpelling::Undefined => Some(Box::new(Value::Null)),
        FillSpelling::Value { shown, .. } => {
            Some(Box::new(serde_json::from_str(shown).unwrap_or_default()))
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> Box<str> {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.into()
}

/// A committed datatype, as arrays of it would be shown.
pub(super) fn committed_type(name: String, committed: &TypeEntry) -> CommittedType {
    let dtype = match committed.element {
        // Arrays of it are lines of text.
        StoredType::Text { size: None, .. } => Ok((Dtype::Text, Vec::new())),
        _ => Element::of(&committed.element).map(|element| (element.dtype, element.dims)),
    };
    CommittedType { name, dtype }
}
