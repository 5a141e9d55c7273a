//! How many entries the rows of sparse matrices have: what lies between one pointer and the next.
//!
//! Pointers are found by what formats call them, beside arrays of indices; whether they are those
//! of rows or of columns the container says.

use serde_json::Value;

use super::super::failure::Failure;
use super::super::open_array::cached;
use super::ContainerLook;
use super::told::MatrixStats;
use crate::array::Info;
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

/// Bytes of a shape or a word beside them.
const BESIDE_MOST: usize = 64;

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
        if let Some(mut entries) = sums.figures("pointer") {
            let beside = Beside { look, all, group };
            entries.per = match name {
                "row_offsets" => "row",
                _ => beside.per(located, entries.rows),
            };
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

/// What lies beside pointers, and may say what they are of.
struct Beside<'a> {
    look: &'a ContainerLook<'a>,
    all: &'a [Located],
    group: &'a str,
}

impl Beside<'_> {
    /// Whether so many pointers are those of rows or columns, by a word or else by the shape.
    fn per(&self, located: &Located, count: u64) -> &'static str {
        let inner = self.look.opened.all();
        let inner = inner.get(located.container.0);
        let own = inner.map(|(_, container)| &container.attributes);
        let attributes: Vec<_> = own
            .into_iter()
            .chain(self.look.described.get(self.group))
            .collect();
        let said = |name: &str| -> Vec<&Value> {
            let each = attributes.iter();
            each.flat_map(|of| {
                [
                    of.get(name),
                    of.get("binsparse").and_then(|of| of.get(name)),
                ]
            })
            .flatten()
            .collect()
        };
        let names = [
            "storage_order",
            "format",
            "encoding-type",
            "h5sparse_format",
        ];
        let words = names.iter().flat_map(|name| said(name));
        let mut words = words.filter_map(Value::as_str).map(str::to_owned);
        if let Some(per) = words.find_map(|word| per_word(&word)) {
            return per;
        }
        if let Some(per) = self.word("format").and_then(|word| per_word(&word)) {
            return per;
        }
        let shapes = ["shape", "h5sparse_shape"]
            .iter()
            .flat_map(|name| said(name));
        let numbers = |shape: &Value| -> Option<Vec<u64>> {
            shape.as_array()?.iter().map(Value::as_u64).collect()
        };
        let shape = shapes.filter_map(numbers).next();
        per_shape(
            &shape.or_else(|| self.numbers("shape")).unwrap_or_default(),
            count,
        )
    }

    /// The type and the first bytes of an array.
    fn array(&self, name: &str) -> Option<(Info, Vec<u8>)> {
        let path = join(self.group, name);
        let mut numbered = self.all.iter().enumerate();
        let (number, located) = numbered.find(|(_, located)| located.path() == path)?;
        let info = located.array.info().ok()?;
        let array = cached(located, number, self.look.cache, self.look.found, &info);
        let bytes = array.read(0, BESIDE_MOST, Tail::Whole, |bytes| {
            bytes.map(<[u8]>::to_vec)
        });
        Some((info, bytes.ok()?))
    }

    /// An array that is a short word, whatever text it is stored as.
    fn word(&self, name: &str) -> Option<String> {
        let (_, bytes) = self.array(name)?;
        let letters = bytes.into_iter().filter(u8::is_ascii_alphabetic);
        Some(letters.map(char::from).collect())
    }

    fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let (info, bytes) = self.array(name)?;
        let element = ElementType::of(&info.dtype)?;
        let numbers =
            bytes
                .chunks_exact(element.size().max(1))
                .map(|bytes| match number(&element, bytes)? {
                    ElementNumber::Integer(n) => u64::try_from(n).ok(),
                    ElementNumber::Float(_) => None,
                });
        numbers.collect()
    }
}

fn per_word(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "col" | "column" | "csc" | "csc_matrix" | "dcsc" => Some("column"),
        "row" | "csr" | "csr_matrix" | "dcsr" => Some("row"),
        _ => None,
    }
}

fn per_shape(shape: &[u64], count: u64) -> &'static str {
    match *shape {
        [rows, columns] if rows == count && columns != count => "row",
        [rows, columns] if columns == count && rows != count => "column",
        _ => "pointer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_shapes_say_what_pointers_are_of() {
        assert_eq!(per_word("CSC"), Some("column"));
        assert_eq!(per_word("csf3"), None);
        assert_eq!(per_shape(&[20, 30], 30), "column");
        assert_eq!(per_shape(&[30, 20], 30), "row");
        assert_eq!(per_shape(&[30, 30], 30), "pointer");
        assert_eq!(per_shape(&[30, 20, 5], 30), "pointer");
    }
}
