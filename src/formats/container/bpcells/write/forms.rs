//! How the arrays of a variant are stored, and in which files (docs/formats.md).
//!
//! The same facts that `matrix` and `fragments` open a container by, as a table: what a writer has
//! to know of an array before there is anything stored. Pure. Used by everything beside it.

use crate::codec::bp128::Transform;
use crate::container::bpcells::MEMBERS;
use crate::container::bpcells::fields::Number;
use crate::container::bpcells::version::{Generation, Holds, Variant};
use crate::container::writable::MemberNumber;
use crate::error::{Error, Result};

/// How an array is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrayForm {
    /// As it is shown, behind a header.
    Plain(Number),
    /// As a stream of packed values.
    Packed(StreamForm),
    /// `end` of packed fragments: as such a stream of what is left when `start` is subtracted.
    Lengths(StreamForm),
    /// `end_max`, which follows from others.
    Maxima,
    /// As text, one name per line.
    Lines,
    /// As one line, of a few that there are.
    Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamForm {
    pub(super) transform: Transform,
    pub(super) generation: Generation,
}

impl StreamForm {
    pub(super) fn has_offsets(self) -> bool {
        self.generation != Generation::V1
    }

    /// What the names of its files end with.
    pub(super) fn parts(self) -> impl Iterator<Item = &'static str> {
        let offsets = self.has_offsets().then_some("idx_offsets");
        let starts = self.transform.has_starts().then_some("starts");
        ["data", "idx"].into_iter().chain(offsets).chain(starts)
    }
}

impl ArrayForm {
    /// Bytes of an element as it is shown; none for text.
    pub(super) fn width(self) -> Option<u64> {
        self.number().map(Number::width)
    }

    /// What the values of an array that is shown are; none for text. Bytes mean the same in two
    /// variants if this is the same.
    pub(super) fn number(self) -> Option<Number> {
        match self {
            ArrayForm::Plain(number) => Some(number),
            ArrayForm::Packed(_) | ArrayForm::Lengths(_) | ArrayForm::Maxima => Some(Number::U32),
            ArrayForm::Lines | ArrayForm::Word => None,
        }
    }

    /// The files of an array of this name, and what is in them; none for text.
    pub(super) fn files(self, name: &str) -> Vec<(String, Option<Number>)> {
        let part = |part| {
            let number = match part {
                "idx_offsets" => Number::U64,
                _ => Number::U32,
            };
            (format!("{name}_{part}"), Some(number))
        };
        match self {
            ArrayForm::Packed(stream) | ArrayForm::Lengths(stream) => {
                stream.parts().map(part).collect()
            }
            other => vec![(name.to_owned(), other.number())],
        }
    }
}

const OF_MATRIX: &[&str] = &[
    "version",
    "val",
    "index",
    "idxptr",
    "shape",
    "row_names",
    "col_names",
    "storage_order",
];

const OF_FRAGMENTS: &[&str] = &[
    "end_max",
    "version",
    "cell",
    "start",
    "end",
    "chr_ptr",
    "cell_names",
    "chr_names",
];

/// The arrays that a container of this variant has, in the order in which they are told.
pub(super) fn arrays_of(variant: Variant) -> &'static [&'static str] {
    match variant.content {
        Holds::Matrix(_) => OF_MATRIX,
        Holds::Fragments => OF_FRAGMENTS,
    }
}

/// Whether a container of any variant has an array of this name.
pub(crate) fn is_array(name: &str) -> bool {
    OF_MATRIX.contains(&name) || OF_FRAGMENTS.contains(&name)
}

/// How an array is stored; none if a container of this variant has none of this name.
pub(super) fn form_of(variant: Variant, name: &str) -> Option<ArrayForm> {
    match name {
        "version" => Some(ArrayForm::Word),
        _ => match variant.content {
            Holds::Matrix(values) => of_matrix(variant, values, name),
            Holds::Fragments => of_fragments(variant, name),
        },
    }
}

fn of_matrix(variant: Variant, values: Number, name: &str) -> Option<ArrayForm> {
    let pointers_are_packed = variant.generation == Generation::SparseColumns;
    Some(match name {
        "val" if variant.packed && values == Number::U32 => packed(variant, Transform::MinusOne),
        "val" => ArrayForm::Plain(values),
        "index" => u32s(variant, Transform::DeltaZigzag),
        "idxptr" if pointers_are_packed => packed(variant, Transform::Delta),
        "idxptr" => ArrayForm::Plain(variant.generation.pointer()),
        "shape" => ArrayForm::Plain(Number::U32),
        "row_names" | "col_names" => ArrayForm::Lines,
        "storage_order" => ArrayForm::Word,
        _ => return None,
    })
}

fn of_fragments(variant: Variant, name: &str) -> Option<ArrayForm> {
    Some(match name {
        "cell" => u32s(variant, Transform::Plain),
        "start" => u32s(variant, Transform::Delta),
        "end" => match u32s(variant, Transform::Plain) {
            ArrayForm::Packed(stream) => ArrayForm::Lengths(stream),
            plain => plain,
        },
        "end_max" => ArrayForm::Maxima,
        "chr_ptr" => ArrayForm::Plain(variant.generation.pointer()),
        "cell_names" | "chr_names" => ArrayForm::Lines,
        _ => return None,
    })
}

/// Packed if the variant packs.
fn u32s(variant: Variant, transform: Transform) -> ArrayForm {
    match variant.packed {
        true => packed(variant, transform),
        false => ArrayForm::Plain(Number::U32),
    }
}

fn packed(variant: Variant, transform: Transform) -> ArrayForm {
    ArrayForm::Packed(StreamForm {
        transform,
        generation: variant.generation,
    })
}

/// The file that holds most of an array, if it holds numbers.
pub(crate) fn stored_first(variant: Variant, name: &str) -> Option<String> {
    match form_of(variant, name)? {
        ArrayForm::Packed(_) | ArrayForm::Lengths(_) => Some(format!("{name}_data")),
        ArrayForm::Plain(_) | ArrayForm::Maxima => Some(name.to_owned()),
        ArrayForm::Lines | ArrayForm::Word => None,
    }
}

/// The number of a file.
pub(super) fn member(name: &str) -> Result<MemberNumber> {
    let number = MEMBERS.iter().position(|member| *member == name);
    let number = number.and_then(|number| u32::try_from(number).ok());
    let number = number.map(MemberNumber);
    number.ok_or_else(|| Error::Bug(format!("BPCells has no file {name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_array_of_every_variant_has_files() {
        for packing in ["packed", "unpacked"] {
            for rest in [
                "uint-matrix-v1",
                "float-matrix-v2",
                "double-matrix-v9999",
                "fragments-v2",
            ] {
                let Some(variant) = Variant::parse(&format!("{packing}-{rest}")) else {
                    continue;
                };
                for name in arrays_of(variant) {
                    let files = form_of(variant, name).expect("a form").files(name);
                    assert!(
                        files.iter().all(|(file, _)| member(file).is_ok()),
                        "{files:?}"
                    );
                }
            }
        }
        assert!(member("data").is_err());
    }
}
