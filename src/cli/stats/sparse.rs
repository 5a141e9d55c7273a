//! How many entries the rows of sparse matrices have: what lies between one pointer and the next.
//!
//! Pointers are found by what formats call them, beside arrays of indices; whether they are those
//! of rows or of columns the container says.

use serde_json::Value;

use super::super::Failure;
use super::super::open_array::cached;
use super::ContainerLook;
use super::told::MatrixStats;
use crate::array::read::{CachedArray, Tail};
use crate::container::inside::{Located, join};
use crate::error::Result;
use crate::look::element::ElementType;
use crate::look::figures::EntrySums;
use crate::look::value::{ElementNumber, number};

/// Names of pointers, and of an array that lies beside them.
const POINTERS: [(&str, &[&str]); 4] = [
    ("idxptr", &["index"]),
    ("indptr", &["indices"]),
    ("pointers_to_1", &["indices_1"]),
    ("row_offsets", &["col_idxs"]),
];

/// Pointers that are read at a time.
const STEP: usize = 64 << 10;

/// The matrices among the arrays that are meant.
pub(super) fn matrices(
    look: &ContainerLook<'_>,
    all: &[Located],
    is_meant: &dyn Fn(&str) -> bool,
) -> std::result::Result<Vec<MatrixStats>, Failure> {
    let paths: std::collections::HashSet<String> = all.iter().map(Located::path).collect();
    let mut matrices = Vec::new();
    for (number, located) in all.iter().enumerate() {
        let path = located.path();
        let (group, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let known = POINTERS.iter().find(|(pointers, _)| *pointers == name);
        let is_beside = |other: &&str| paths.contains(&join(group, other));
        let Some((_, beside)) = known.filter(|_| is_meant(&path)) else {
            continue;
        };
        if !beside.iter().all(is_beside) {
            continue;
        }
        let Ok(info) = located.array.info() else {
            continue;
        };
        let Some(element) = ElementType::of(&info.dtype).filter(ElementType::is_number) else {
            continue;
        };
        let array = cached(located, number, look.cache, look.found, &info);
        // What cannot be read has been told already.
        let Ok(sums) = entries(&array, &element) else {
            continue;
        };
        if let Some(entries) = sums.figures(per(look, located, group)) {
            matrices.push(MatrixStats {
                name: group.to_owned(),
                pointers: path.clone(),
                entries,
            });
        }
    }
    Ok(matrices)
}

fn entries(array: &CachedArray, element: &ElementType) -> Result<EntrySums> {
    let (mut sums, mut at) = (EntrySums::default(), 0u64);
    let size = element.size().max(1);
    loop {
        let read = array.read(at, STEP * size, Tail::Whole, |bytes| -> Result<usize> {
            let bytes = bytes?;
            for pointer in bytes.chunks_exact(size) {
                if let Some(ElementNumber::Integer(n)) = number(element, pointer) {
                    sums.add(u64::try_from(n).unwrap_or(0));
                }
            }
            Ok(bytes.len())
        })?;
        if read < size {
            return Ok(sums);
        }
        at = at.saturating_add(read as u64);
    }
}

/// Whether pointers are those of rows or columns.
fn per(look: &ContainerLook<'_>, located: &Located, group: &str) -> &'static str {
    let all = look.opened.all();
    let inner = all.get(located.container.0).map(|(_, container)| container);
    let mut said: Vec<&Value> = Vec::new();
    if let Some(container) = inner {
        let names = ["storage_order", "format", "encoding-type"];
        said.extend(
            names
                .iter()
                .filter_map(|name| container.attributes.get(*name)),
        );
        said.extend(
            container
                .attributes
                .get("binsparse")
                .and_then(|own| own.get("format")),
        );
    }
    let attributes = look.described.get(group);
    said.extend(attributes.and_then(|own| own.get("encoding-type")));
    for word in said.iter().filter_map(|value| value.as_str()) {
        match word.to_ascii_lowercase().as_str() {
            "col" | "column" | "csc" | "csc_matrix" | "dcsc" => return "column",
            "row" | "csr" | "csr_matrix" | "dcsr" => return "row",
            _ => {}
        }
    }
    "row"
}
