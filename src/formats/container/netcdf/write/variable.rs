//! A variable of a file that can be written, and how the records lie together. Used by [`super`].

use std::sync::Arc;

use super::super::header::Variable;
use super::super::kind::ElementKind;
use super::super::layout::Placement;
use super::super::swap;
use super::ROOM;
use crate::array::Array;
use crate::container::plain_write::runs::Runs;
use crate::error::Result;

/// A variable, and what its file says of it.
pub(crate) struct WrittenVariable {
    pub(crate) array: Arc<dyn Array>,
    /// As it is stored, whatever is shown.
    pub(crate) place: Placement,
    /// Records that are stored.
    pub(crate) records: u64,
    /// An element where nothing was written, as it is shown.
    pub(crate) fill: [u8; 8],
}

impl WrittenVariable {
    pub(super) fn element(&self) -> u64 {
        self.place.kind.size() as u64
    }

    /// Where its bytes lie, however many records there are.
    pub(super) fn runs(&self) -> Runs {
        match self.place.record {
            Some(record) if record.run != record.stride => Runs {
                begin: self.place.begin,
                run: record.run,
                stride: record.stride,
            },
            _ => Runs::whole(self.place.begin),
        }
    }

    /// Bytes that it is shown with as it is stored.
    pub(super) fn len(&self) -> Result<u64> {
        Ok(self.array.info()?.bytes)
    }
}

/// The records together.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordLayout {
    /// So many are stored.
    pub(super) count: u64,
    pub(super) begin: u64,
    pub(super) stride: u64,
    /// Nothing else lies where more would be.
    pub(super) grows: bool,
}

impl RecordLayout {
    /// In a file of this length, whose header ends there.
    pub(super) fn of(variables: &[WrittenVariable], (header, len): (u64, u64)) -> RecordLayout {
        let (mut stride, mut count, mut parts) = (0, 0, Vec::new());
        for variable in variables {
            if let Some(record) = variable.place.record {
                (stride, count) = (record.stride, variable.records);
                let begin = variable.place.begin;
                parts.push(begin..begin.saturating_add(record.run));
            }
        }
        parts.sort_unstable_by_key(|part| part.start);
        let begin = parts.first().map_or(u64::MAX, |part| part.start);
        let end = parts.last().map_or(begin, |part| part.end);
        let fixed = variables.iter().filter(|one| one.place.record.is_none());
        let ends_before = |one: &WrittenVariable| one.place.end() <= u128::from(begin);
        // A file without records has not been held against what its header says of them.
        let grows = parts.windows(2).all(|pair| pair[0].end <= pair[1].start)
            && end - begin <= stride
            && fixed.into_iter().all(ends_before)
            && (header..=len.saturating_add(ROOM)).contains(&begin);
        RecordLayout {
            count,
            begin,
            stride,
            grows,
        }
    }

    /// Where so many records end.
    pub(super) fn end(&self, count: u64) -> Option<u64> {
        self.begin.checked_add(count.checked_mul(self.stride)?)
    }
}

/// What readers take for "nothing was written here": the variable's own attribute, or what the
/// NetCDF library has for the type.
pub(crate) fn fill_of(variable: &Variable, kind: ElementKind) -> [u8; 8] {
    let mut own = variable.attributes.iter();
    let own = own.find(|one| one.name == b"_FillValue" && one.kind == kind);
    let mut fill = [0; 8];
    if let Some(own) = own.filter(|own| own.raw.len() == kind.size()) {
        let fill = &mut fill[..kind.size()];
        fill.copy_from_slice(&own.raw);
        swap::elements(fill, kind.size());
        return pad(fill);
    }
    match kind {
        ElementKind::Byte => pad(&(-127i8).to_le_bytes()),
        ElementKind::Char => fill,
        ElementKind::Short => pad(&(-32_767i16).to_le_bytes()),
        ElementKind::Int => pad(&(-2_147_483_647i32).to_le_bytes()),
        // 15 x 2^119
        ElementKind::Float => pad(&0x7cf0_0000u32.to_le_bytes()),
        ElementKind::Double => 0x479e_0000_0000_0000u64.to_le_bytes(),
        ElementKind::UByte => pad(&u8::MAX.to_le_bytes()),
        ElementKind::UShort => pad(&u16::MAX.to_le_bytes()),
        ElementKind::UInt => pad(&u32::MAX.to_le_bytes()),
        ElementKind::Int64 => (-9_223_372_036_854_775_806i64).to_le_bytes(),
        ElementKind::UInt64 => (u64::MAX - 1).to_le_bytes(),
    }
}

fn pad(element: &[u8]) -> [u8; 8] {
    let mut padded = [0; 8];
    padded[..element.len()].copy_from_slice(element);
    padded
}
