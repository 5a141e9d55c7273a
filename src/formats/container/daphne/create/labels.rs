//! The labels of a new frame, and which column each belongs to.
//!
//! A text `labels` says them, one to a line, in the order of the columns. Without one, or if a
//! label has a line feed in it, they follow from the names of the columns, in the order of the
//! description. Used by [`super::object`].

use std::collections::HashSet;
use std::sync::Arc;

use super::{LABELS, column};
use crate::container::creation::GivenContent;
use crate::container::names;
use crate::error::{Error, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;

/// Bytes of all labels together.
const MOST: u64 = 128 << 20;

/// As many as are shown of a file.
const MOST_COLUMNS: u64 = 1 << 20;

/// What a label takes while it is looked at, beside its bytes.
const LABEL: u64 = 256;

/// The labels of the columns, and the names by which these are shown, in one order.
#[derive(Default)]
pub(super) struct FrameNames {
    pub(super) labels: Vec<Vec<u8>>,
    pub(super) shown: Vec<String>,
    _charged: Option<Hold>,
}

impl FrameNames {
    pub(super) fn of(content: &GivenContent, budget: &Arc<Budget>) -> Result<FrameNames> {
        let names = names_of(content);
        let columns = names.len() as u64;
        if columns > MOST_COLUMNS {
            let why = format!("a frame of {columns} columns, at most {MOST_COLUMNS} are shown");
            return Err(Error::Invalid(why));
        }
        let said = content.arrays.iter().find(|array| array.name() == LABELS);
        let len = said.map_or(Ok(0), |said| said.info().map(|info| info.bytes))?;
        if len > MOST {
            let why = format!("{LABELS} has {len} bytes, a file holds at most {MOST}");
            return Err(Error::Invalid(why));
        }
        let charged = budget.keep(len.saturating_mul(2).saturating_add(columns * LABEL))?;
        let mut text = fallible::zeros(len, "cannot read the labels")?;
        let (labels, shown) = match said {
            None => (labels_by_name(&names), names),
            Some(said) => {
                said.read_direct(0, &mut text)?;
                labels_by_text(&text, names)?
            }
        };
        Ok(FrameNames {
            labels,
            shown,
            _charged: Some(charged),
        })
    }
}

/// The labels that a text says, and the names of their columns.
fn labels_by_text(text: &[u8], names: Vec<String>) -> Result<(Vec<Vec<u8>>, Vec<String>)> {
    let lines = lines_of(text);
    if lines.len() == names.len() {
        let shown = names::shown(&lines, false)?;
        let known: HashSet<&str> = names.iter().map(|name| &**name).collect();
        if shown.iter().all(|name| known.contains(&**name)) {
            let labels = lines.into_iter().map(<[u8]>::to_vec);
            return Ok((labels.collect(), shown));
        }
    }
    // A label with a line feed makes two lines.
    let labels = labels_by_name(&names);
    let text_of = labels.iter().flat_map(|label| [&label[..], b"\n"]);
    match text_of.flatten().eq(text) {
        true => Ok((labels, names)),
        false => {
            let columns = names.len();
            Err(Error::Invalid(format!(
                "{LABELS} has not one line for each of the {columns} columns, by their names"
            )))
        }
    }
}

fn lines_of(text: &[u8]) -> Vec<&[u8]> {
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    match text.is_empty() {
        true => Vec::new(),
        false => whole.split(|byte| *byte == b'\n').collect(),
    }
}

fn labels_by_name(names: &[String]) -> Vec<Vec<u8>> {
    names.iter().map(|name| names::stored(name)).collect()
}

/// The columns in the order of the description; those that it does not name follow, by their
/// numbers if DAPHNE has named them.
fn names_of(content: &GivenContent) -> Vec<String> {
    let described = content.description.iter();
    let described = described.flat_map(|description| &description.arrays);
    let there: HashSet<&str> = content.arrays.iter().map(|array| array.name()).collect();
    let described = described.filter(|array| there.contains(&*array.name));
    let mut names: Vec<String> = described
        .filter_map(|array| column(&array.name))
        .map(str::to_owned)
        .collect();
    let named: HashSet<String> = names.iter().cloned().collect();
    let all = content
        .arrays
        .iter()
        .filter_map(|array| column(array.name()));
    let mut others: Vec<&str> = all.filter(|name| !named.contains(*name)).collect();
    others.sort_by_key(|name| (number_of(name), *name));
    names.extend(others.into_iter().map(str::to_owned));
    names
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("col_")?.parse().ok()
}
