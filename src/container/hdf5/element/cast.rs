//! Elements from their stored form to the shown one: nothing, a byte swap, bits picked out, padding, or
//! members.
//!
//! A cast works on runs of units; an element is one unit or, for arrays of something, several. What is
//! shown as it is stored has units of one byte, so that it can be cut anywhere. Used by [`super`], and by
//! `dataset` for whole chunks.

use std::ops::Range;

/// How to convert, and the size of a unit before and after.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Cast {
    from: usize,
    to: usize,
    how: How,
}

#[derive(Debug, Clone, PartialEq)]
enum How {
    Same,
    Swap,
    Bits(Bits),
    Text(Text),
    Members(Vec<Place>),
}

/// What follows a string in its room, to be replaced by NULs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Text {
    /// A NUL and anything.
    Terminated,
    Spaces,
}

/// An integer that does not fill its bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bits {
    /// 1, 2, 4 or 8 bytes.
    pub(super) size: usize,
    pub(super) big_endian: bool,
    /// The topmost bit is a sign.
    pub(super) signed: bool,
    /// Bits, from bit `offset` on; at least one, all within the size.
    pub(super) precision: u32,
    pub(super) offset: u32,
}

/// A member of a compound: where it lies, where it goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) from: Range<usize>,
    pub(super) to: Range<usize>,
    pub(super) cast: Cast,
}

impl Cast {
    pub(in super::super) fn same() -> Cast {
        Cast::sized(1, How::Same)
    }

    /// Reverses every `size` bytes: 2, 4 or 8.
    pub(super) fn swap(size: usize) -> Cast {
        match size {
            2 | 4 | 8 => Cast::sized(size, How::Swap),
            _ => Cast::same(),
        }
    }

    pub(super) fn bits(bits: Bits) -> Cast {
        Cast::sized(bits.size, How::Bits(bits))
    }

    /// Strings of `size` bytes, not 0.
    pub(super) fn text(size: usize, text: Text) -> Cast {
        Cast::sized(size, How::Text(text))
    }

    /// Members of a compound of `from` bytes, packed into `to`. Places lie within these and do not
    /// overlap, in rising order.
    pub(super) fn members(from: usize, to: usize, places: Vec<Place>) -> Cast {
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
    pub(in super::super) fn from(&self) -> usize {
        self.from
    }

    /// ... and as shown.
    pub(in super::super) fn to(&self) -> usize {
        self.to
    }

    pub(in super::super) fn is_same(&self) -> bool {
        matches!(self.how, How::Same)
    }

    /// Whether the shown bytes take the place of the stored ones.
    pub(in super::super) fn in_place(&self) -> bool {
        !matches!(self.how, How::Members(_))
    }

    /// Converts whole units where they stand, if [`Cast::in_place`].
    pub(in super::super) fn apply(&self, units: &mut [u8]) {
        match &self.how {
            How::Same | How::Members(_) => {}
            How::Swap => swap(self.from, units),
            How::Bits(bits) => bits.apply(units),
            How::Text(text) => {
                for string in units.chunks_exact_mut(self.from) {
                    text.pad(string);
                }
            }
        }
    }

    /// Converts whole units, as many as `stored` and `shown` both hold.
    pub(in super::super) fn run(&self, stored: &[u8], shown: &mut [u8]) {
        let units = (stored.len() / self.from).min(shown.len() / self.to);
        let (stored, shown) = (&stored[..units * self.from], &mut shown[..units * self.to]);
        let How::Members(places) = &self.how else {
            shown.copy_from_slice(stored);
            return self.apply(shown);
        };
        let units = stored
            .chunks_exact(self.from)
            .zip(shown.chunks_exact_mut(self.to));
        for (stored, shown) in units {
            for place in places {
                place
                    .cast
                    .run(&stored[place.from.clone()], &mut shown[place.to.clone()]);
            }
        }
    }
}

/// Neighbours that are only copied become one.
fn joined(places: Vec<Place>) -> Vec<Place> {
    let mut joined: Vec<Place> = Vec::with_capacity(places.len());
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

fn swap(size: usize, bytes: &mut [u8]) {
    macro_rules! each {
        ($of:ty) => {
            for element in bytes.as_chunks_mut::<{ size_of::<$of>() }>().0 {
                *element = <$of>::from_be_bytes(*element).to_le_bytes();
            }
        };
    }
    match size {
        2 => each!(u16),
        4 => each!(u32),
        8 => each!(u64),
        _ => {}
    }
}

impl Text {
    fn pad(self, string: &mut [u8]) {
        let end = match self {
            Text::Terminated => memchr::memchr(0, string),
            Text::Spaces => string
                .iter()
                .rposition(|&b| b != b' ')
                .map(|last| last + 1)
                .or(Some(0)),
        };
        let end = end.unwrap_or(string.len());
        string[end..].fill(0);
    }
}

impl Bits {
    fn apply(self, bytes: &mut [u8]) {
        if self.big_endian {
            swap(self.size, bytes);
        }
        for element in bytes.chunks_exact_mut(self.size) {
            let mut wide = [0; 8];
            wide[..self.size].copy_from_slice(element);
            let value = self.value(u64::from_le_bytes(wide));
            element.copy_from_slice(&value.to_le_bytes()[..self.size]);
        }
    }

    fn value(self, raw: u64) -> u64 {
        let unused = 64 - self.precision;
        let top = (raw >> self.offset) << unused;
        if self.signed {
            (top.cast_signed() >> unused).cast_unsigned()
        } else {
            top >> unused
        }
    }
}
