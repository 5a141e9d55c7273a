//! A cast carried out, from the stored form to the shown one. Used by `dataset` for whole chunks.

use super::{BitRange, Cast, How, TextPadding};

impl Cast {
    /// Converts whole units where they stand, if [`Cast::in_place`].
    pub(crate) fn apply(&self, units: &mut [u8]) {
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
    pub(crate) fn run(&self, stored: &[u8], shown: &mut [u8]) {
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

pub(super) fn swap(size: usize, bytes: &mut [u8]) {
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

impl TextPadding {
    pub(super) fn pad(self, string: &mut [u8]) {
        let end = match self {
            TextPadding::Terminated => memchr::memchr(0, string),
            TextPadding::Spaces => string
                .iter()
                .rposition(|&b| b != b' ')
                .map(|last| last + 1)
                .or(Some(0)),
        };
        let end = end.unwrap_or(string.len());
        string[end..].fill(0);
    }
}

impl BitRange {
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

    pub(super) fn value(self, raw: u64) -> u64 {
        let unused = 64 - self.precision;
        let top = (raw >> self.offset) << unused;
        if self.signed {
            (top.cast_signed() >> unused).cast_unsigned()
        } else {
            top >> unused
        }
    }
}
