//! How the stored form of an element differs from the shown one: not at all, in the order of its
//! bytes, in bits that do not count, in padding, or in the places of its members.
//!
//! A cast works on runs of units; an element is one unit or, for arrays of something, several. What
//! is shown as it is stored has units of one byte, so that it can be cut anywhere. Made by
//! [`super`]; [`read`] converts what was stored, for `dataset`, and [`write`](mod@write) back.

mod read;
mod write;

use std::ops::Range;

/// How to convert, and the size of a unit before and after.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cast {
    from: usize,
    to: usize,
    how: How,
}

#[derive(Debug, Clone, PartialEq)]
enum How {
    Same,
    Swap,
    Bits(BitRange),
    Text(TextPadding),
    Members(Vec<MemberPlace>),
}

/// What follows a string in its room, to be replaced by NULs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TextPadding {
    /// A NUL and anything.
    Terminated,
    Spaces,
}

/// An integer that does not fill its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BitRange {
    /// 1, 2, 4 or 8 bytes.
    pub(super) size: usize,
    pub(super) big_endian: bool,
    /// The topmost bit is a sign.
    pub(super) signed: bool,
    /// BitRange, from bit `offset` on; at least one, all within the size.
    pub(super) precision: u32,
    pub(super) offset: u32,
}

/// A member of a compound: where it lies, where it goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MemberPlace {
    pub(super) from: Range<usize>,
    pub(super) to: Range<usize>,
    pub(super) cast: Cast,
}

impl Cast {
    pub(crate) fn same() -> Cast {
        Cast::sized(1, How::Same)
    }

    /// Reverses every `size` bytes: 2, 4 or 8.
    pub(super) fn swap(size: usize) -> Cast {
        match size {
            2 | 4 | 8 => Cast::sized(size, How::Swap),
            _ => Cast::same(),
        }
    }

    pub(super) fn bits(bits: BitRange) -> Cast {
        Cast::sized(bits.size, How::Bits(bits))
    }

    /// Strings of `size` bytes, not 0.
    pub(super) fn text(size: usize, text: TextPadding) -> Cast {
        Cast::sized(size, How::Text(text))
    }

    /// Members of a compound of `from` bytes, packed into `to`. Places lie within these and do not
    /// overlap, in rising order.
    pub(super) fn members(from: usize, to: usize, places: Vec<MemberPlace>) -> Cast {
        let how = How::Members(joined(places));
        Cast { from, to, how }
    }

    fn sized(size: usize, how: How) -> Cast {
        Cast {
            from: size,
            to: size,
            how,
        }
    }

    /// Bytes of a unit as stored ...
    pub(crate) fn from(&self) -> usize {
        self.from
    }

    /// ... and as shown.
    pub(crate) fn to(&self) -> usize {
        self.to
    }

    pub(crate) fn is_same(&self) -> bool {
        matches!(self.how, How::Same)
    }

    /// Whether what is shown says all that is stored.
    pub(crate) fn is_lossless(&self) -> bool {
        matches!(self.how, How::Same | How::Swap)
    }

    /// Whether the shown bytes take the place of the stored ones.
    pub(crate) fn in_place(&self) -> bool {
        !matches!(self.how, How::Members(_))
    }
}

/// Neighbours that are only copied become one.
fn joined(places: Vec<MemberPlace>) -> Vec<MemberPlace> {
    let mut joined: Vec<MemberPlace> = Vec::with_capacity(places.len());
    for place in places {
        match joined.last_mut() {
            Some(last)
                if last.cast.is_same()
                    && place.cast.is_same()
                    && last.from.end == place.from.start =>
            {
                (last.from.end, last.to.end) = (place.from.end, place.to.end);
            }
            _ => joined.push(place),
        }
    }
    joined
}
