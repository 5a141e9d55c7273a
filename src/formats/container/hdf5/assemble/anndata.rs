//! Groups of AnnData's: which arrays of the file they are made of. Used by `assemble`.
//!
//! Their attribute `encoding-type` says what they are. A group that lacks something of what it says
//! it is has no rules: its arrays are arrays like any others.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Draft, ShownGroup, attributes};
use crate::array::Array;
use crate::container::hdf5::index::{AttributeValue, FileIndex, GroupEntry, LinkTarget};
use crate::container::hdf5::write::{CategoricalColumn, CompressedMatrix, Dataframe, GroupRules};
use crate::container::inside::join;
use crate::container::names;

/// The arrays of a draft, by their names.
type ByName<'a> = HashMap<&'a str, &'a Arc<dyn Array>>;

/// Adds the rules of all such groups to the drafts that they lie in.
pub(super) fn add_rules(index: &FileIndex, places: &[ShownGroup], drafts: &mut [Draft]) {
    for (number, draft) in drafts.iter_mut().enumerate() {
        let groups = index.groups.iter().zip(places);
        let mut encoded = groups
            .filter(|(group, place)| place.draft == number && encoding(group).is_some())
            .peekable();
        if draft.container.format != super::super::NAME || encoded.peek().is_none() {
            continue;
        }
        let arrays = draft.container.arrays.iter();
        let encoded_in = EncodedIn {
            index,
            places,
            arrays: arrays.map(|array| (array.name(), array)).collect(),
        };
        let rules = encoded.filter_map(|(group, place)| encoded_in.rules(group, place));
        draft.rules = rules.collect();
    }
}

fn encoding(group: &GroupEntry) -> Option<&str> {
    let text = attributes::text(&group.attributes, b"encoding-type")?;
    std::str::from_utf8(text).ok()
}

/// What the groups of a draft are made of.
struct EncodedIn<'a> {
    index: &'a FileIndex,
    places: &'a [ShownGroup],
    arrays: ByName<'a>,
}

impl EncodedIn<'_> {
    fn rules(&self, group: &GroupEntry, place: &ShownGroup) -> Option<Box<dyn GroupRules>> {
        match encoding(group)? {
            "csr_matrix" => Some(Box::new(self.matrix(group, place, 0)?)),
            "csc_matrix" => Some(Box::new(self.matrix(group, place, 1)?)),
            "dataframe" => Some(Box::new(self.dataframe(group, place))),
            _ => None,
        }
    }

    fn array(&self, place: &ShownGroup, name: &str) -> Option<Arc<dyn Array>> {
        let array = self.arrays.get(&*join(&place.path, name))?;
        Some(Arc::clone(array))
    }

    fn matrix(
        &self,
        group: &GroupEntry,
        place: &ShownGroup,
        major: usize,
    ) -> Option<CompressedMatrix> {
        let shape = match attributes::find(&group.attributes, b"shape")? {
            AttributeValue::Json(text) => serde_json::from_str(text).ok()?,
            _ => return None,
        };
        Some(CompressedMatrix {
            path: place.path.clone(),
            group: group.token,
            major,
            shape,
            data: self.array(place, "data")?,
            indices: self.array(place, "indices")?,
            indptr: self.array(place, "indptr")?,
        })
    }

    fn dataframe(&self, group: &GroupEntry, place: &ShownGroup) -> Dataframe {
        let mut frame = Dataframe {
            columns: Vec::new(),
            categorical: Vec::new(),
        };
        for (at, link) in group.links.iter().enumerate() {
            match &link.target {
                LinkTarget::Dataset(_) => {
                    let name = names::shown_as(&link.name, at, place.path.is_empty());
                    frame.columns.extend(self.array(place, &name));
                }
                LinkTarget::Group(number) => self.add_column(*number as usize, &mut frame),
                _ => {}
            }
        }
        frame
    }

    /// A column that is a group.
    fn add_column(&self, number: usize, frame: &mut Dataframe) {
        let (Some(group), Some(place)) = (self.index.groups.get(number), self.places.get(number))
        else {
            return;
        };
        let parts: &[&str] = match encoding(group) {
            Some("categorical") => &["codes"],
            Some("nullable-integer" | "nullable-boolean" | "nullable-string-array") => {
                &["values", "mask"]
            }
            _ => &[],
        };
        let columns = parts.iter().filter_map(|name| self.array(place, name));
        frame.columns.extend(columns);
        if let (Some("categorical"), Some(codes), Some(categories)) = (
            encoding(group),
            self.array(place, "codes"),
            self.array(place, "categories"),
        ) {
            frame
                .categorical
                .push(CategoricalColumn { codes, categories });
        }
    }
}
