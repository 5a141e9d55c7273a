//! From a stored HDF5 type to what is shown: a NumPy type, further dimensions, and the way to
//! convert.
//!
//! Shown elements are little-endian and packed, in the order in which they are stored. What NumPy
//! has no number for but is whole by itself (other float layouts, opaque bytes) is shown as raw
//! bytes; what points elsewhere (references, sequences of variable length) is refused with a
//! reason. The type comes from an untrusted file: sizes, offsets and members are checked here. Used
//! by `dataset`.

pub(super) mod cast;
mod compound;
mod float;

use crate::array::dtype::Dtype;
use crate::array::grid::product;
use crate::container::stored::{BitOrder, Padding, StoredInteger, StoredType, TYPE_DEPTH_MOST};
use cast::{BitRange, Cast, TextPadding};

/// HDF5 itself has no larger elements.
const SIZE_MOST: u64 = u32::MAX as u64;

/// Members of a type, all levels together; NumPy gets slow long before.
const MEMBERS_MOST: usize = 65_536;

/// Longest string of fixed length whose padding is converted, in bytes.
const TEXT_MOST: u64 = 1 << 20;

/// Dimensions that array types may add: as many as NumPy has.
const DIMS_MOST: usize = 64;

/// The element of a dataset.
#[derive(Debug, Clone)]
pub(super) struct Element {
    /// Without the dimensions below.
    pub(super) dtype: Dtype,
    /// Dimensions of array types; they follow the dataset's own.
    pub(super) dims: Vec<u64>,
    /// Size in bytes as stored and as shown, further dimensions included; never 0, shown at most
    /// stored.
    pub(super) stored: u64,
    pub(super) shown: u64,
    pub(super) cast: Cast,
}

impl Element {
    /// Refuses what cannot be shown, with a reason that completes "not shown: ".
    pub(super) fn of(stored: &StoredType) -> Result<Element, String> {
        let part = MemberCount::default().part(stored, 0)?;
        let each = part.shown / product(&part.dims, 1).unwrap_or(1).max(1);
        Ok(Element {
            dtype: Dtype::numpy(part.descr, each),
            dims: part.dims,
            stored: part.stored,
            shown: part.shown,
            cast: part.cast,
        })
    }

    /// Makes stored elements of as many whole shown ones, over stored ones as they were (see
    /// [`Cast::store`]). Fails with the number of the first element that cannot be stored; `stored`
    /// is then rubbish from that element on, and may be as it was before it.
    pub(super) fn store(&self, shown: &[u8], stored: &mut [u8]) -> Result<(), u64> {
        let stored = self.cast.store(shown, stored);
        stored.map_err(|unit| (unit * self.cast.to()) as u64 / self.shown)
    }

    /// Whether there are shown values that [`Element::store`] refuses.
    pub(super) fn refuses(&self) -> bool {
        self.cast.refuses()
    }
}

/// A type or a part of one.
struct ElementPart {
    /// As NumPy spells it; a list for compounds.
    descr: String,
    dims: Vec<u64>,
    stored: u64,
    shown: u64,
    cast: Cast,
}

impl ElementPart {
    /// An element that is shown as it is stored.
    fn same(descr: String, size: u64) -> Result<ElementPart, String> {
        ElementPart::sized(descr, size, Cast::same())
    }

    /// An element that is shown in as many bytes as it is stored in.
    fn sized(descr: String, size: u64, cast: Cast) -> Result<ElementPart, String> {
        if size == 0 || size > SIZE_MOST {
            return Err(format!("elements of {size} bytes"));
        }
        Ok(ElementPart {
            descr,
            dims: Vec::new(),
            stored: size,
            shown: size,
            cast,
        })
    }
}

/// Counts members while a type is described.
#[derive(Default)]
struct MemberCount {
    members: usize,
}

impl MemberCount {
    fn part(&mut self, stored: &StoredType, depth: u32) -> Result<ElementPart, String> {
        if depth > TYPE_DEPTH_MOST {
            return Err("a type nested too deeply".into());
        }
        match stored {
            StoredType::Integer(number) => integer(number, number.signed),
            StoredType::BitField(number) => integer(number, false),
            StoredType::Float(number) => float::part(number),
            StoredType::Complex { base } => match &**base {
                StoredType::Float(number) => float::complex(number),
                _ => Err(not_shown(stored)),
            },
            StoredType::Enumeration { base, .. } => match &**base {
                StoredType::Integer(number) if number.is_whole() && stored.is_boolean() => {
                    ElementPart::same("|b1".into(), 1)
                }
                // Shown as the numbers that it stores. As in HDF5 itself any number of the base
                // type is a value, whether or not it has a name.
                StoredType::Integer(number) => integer(number, number.signed),
                _ => Err(not_shown(stored)),
            },
            StoredType::Text {
                size: Some(size),
                padding,
                ..
            } => text(*size, *padding),
            StoredType::Opaque { size, .. } => ElementPart::same(format!("|V{size}"), *size),
            StoredType::Compound { size, members } => self.compound(*size, members, depth),
            StoredType::Array { dims, base } => self.array(dims, base, depth),
            StoredType::Text { size: None, .. } => {
                Err("variable-length strings as parts of elements".into())
            }
            _ => Err(not_shown(stored)),
        }
    }

    fn array(
        &mut self,
        dims: &[u64],
        base: &StoredType,
        depth: u32,
    ) -> Result<ElementPart, String> {
        let part = self.part(base, depth + 1)?;
        let size = |each: u64| product(dims, each).filter(|&n| 0 < n && n <= SIZE_MOST);
        let (Some(stored), Some(shown)) = (size(part.stored), size(part.shown)) else {
            return Err(format!("an array type of dimensions {dims:?}"));
        };
        let mut all = dims.to_vec();
        all.extend(&part.dims);
        if all.len() > DIMS_MOST {
            return Err(format!("an array type of {} dimensions", all.len()));
        }
        Ok(ElementPart {
            dims: all,
            stored,
            shown,
            ..part
        })
    }
}

fn not_shown(of: &StoredType) -> String {
    format!("elements of type {}", type_name(of))
}

fn integer(number: &StoredInteger, signed: bool) -> Result<ElementPart, String> {
    let StoredInteger {
        size,
        byte_order,
        precision,
        offset,
        ..
    } = *number;
    let big_endian = byte_order == BitOrder::Big;
    if !matches!(size, 1 | 2 | 4 | 8) {
        return Err(format!("integers of {size} bytes"));
    }
    let width = 8 * size as u32;
    if precision == 0 || offset.checked_add(precision).is_none_or(|end| end > width) {
        let bits = format_args!("{precision} bits from bit {offset} on");
        return Err(format!("integers of {size} bytes with {bits}"));
    }
    let cast = match (precision == width, big_endian && size > 1) {
        (true, false) => Cast::same(),
        (true, true) => Cast::swap(size as usize),
        (false, big_endian) => Cast::bits(BitRange {
            size: size as usize,
            big_endian,
            signed,
            precision,
            offset,
        }),
    };
    let order = if size == 1 { '|' } else { '<' };
    let kind = if signed { 'i' } else { 'u' };
    ElementPart::sized(format!("{order}{kind}{size}"), size, cast)
}

/// NumPy pads strings with NULs, so other padding becomes that.
fn text(size: u64, padding: Padding) -> Result<ElementPart, String> {
    let cast = match padding {
        Padding::Zeros => Cast::same(),
        // What is behind a single byte is nothing.
        Padding::Terminated if size == 1 => Cast::same(),
        // They are converted one by one.
        _ if size > TEXT_MOST => Cast::same(),
        Padding::Terminated => Cast::text(size as usize, TextPadding::Terminated),
        Padding::Spaces => Cast::text(size as usize, TextPadding::Spaces),
    };
    ElementPart::sized(format!("|S{size}"), size, cast)
}

/// A short name for messages.
pub(super) fn type_name(of: &StoredType) -> String {
    match of {
        StoredType::Integer(of) if of.signed => format!("int{}", of.precision),
        StoredType::Integer(of) => format!("uint{}", of.precision),
        StoredType::Float(of) => format!("float{}", of.precision),
        StoredType::Complex { base } => match &**base {
            StoredType::Float(_) => format!("complex of {}", type_name(base)),
            _ => "complex of an odd type".into(),
        },
        StoredType::BitField(of) => format!("bit field of {}", of.precision),
        StoredType::Text { .. } => "string".into(),
        StoredType::Enumeration { base, .. } => match &**base {
            StoredType::Integer(_) => "enumeration".into(),
            _ => "an enumeration of an odd type".into(),
        },
        StoredType::Compound { .. } => "compound".into(),
        StoredType::Array { base, .. } => format!("array of {}", type_name(base)),
        StoredType::Opaque { .. } => "opaque".into(),
        StoredType::Sequence { base } => format!("variable-length sequence of {}", type_name(base)),
        StoredType::Time { .. } => "time".into(),
        StoredType::Named(_) => "reference".into(),
        StoredType::Unknown { name, .. } if name.starts_with("nested ") => format!("a type {name}"),
        // One within another type has no name.
        StoredType::Unknown { name, .. } if name.starts_with("a reference ") => "reference".into(),
        StoredType::Committed { name } | StoredType::Unknown { name, .. } => name.clone(),
    }
}

#[cfg(test)]
mod tests;
