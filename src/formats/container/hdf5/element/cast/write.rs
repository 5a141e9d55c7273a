//! A cast carried out backwards, from the shown form to the stored one. Used by [`super::super`]
//! for what is written to a dataset.

use super::{BitRange, Cast, How, TextPadding, read::swap};

impl Cast {
    /// Makes stored units of as many shown ones, over stored units as they were: what is not shown
    /// (gaps of compounds, bits beside the precision) stays. Of a new unit these are to be 0.
    ///
    /// Fails with the number of the first unit that has a value which the stored type cannot hold;
    /// those before it are stored, and its own bytes are rubbish.
    pub(crate) fn store(&self, shown: &[u8], stored: &mut [u8]) -> Result<(), usize> {
        let units = (stored.len() / self.from).min(shown.len() / self.to);
        let (shown, stored) = (&shown[..units * self.to], &mut stored[..units * self.from]);
        match &self.how {
            How::Same => stored.copy_from_slice(shown),
            How::Swap => {
                stored.copy_from_slice(shown);
                swap(self.from, stored);
            }
            How::Bits(bits) => return bits.store(shown, stored),
            How::Text(text) => {
                stored.copy_from_slice(shown);
                for string in stored.chunks_exact_mut(self.from) {
                    text.unpad(string);
                }
            }
            How::Members(places) => {
                let shown = shown.chunks_exact(self.to);
                let units = shown.zip(stored.chunks_exact_mut(self.from));
                for (unit, (shown, stored)) in units.enumerate() {
                    for place in places {
                        let (shown, stored) =
                            (&shown[place.to.clone()], &mut stored[place.from.clone()]);
                        place.cast.store(shown, stored).map_err(|_| unit)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether there are shown values that [`Cast::store`] refuses.
    pub(crate) fn refuses(&self) -> bool {
        match &self.how {
            How::Same | How::Swap | How::Text(_) => false,
            How::Bits(_) => true,
            How::Members(places) => places.iter().any(|place| place.cast.refuses()),
        }
    }
}

impl TextPadding {
    /// Puts the stored padding in the place of NULs.
    fn unpad(self, string: &mut [u8]) {
        match self {
            // A string ends at its first NUL, also for those who show what is behind it.
            TextPadding::Terminated => self.pad(string),
            TextPadding::Spaces => {
                let last = string.iter().rposition(|&byte| byte != 0);
                let end = last.map_or(0, |last| last + 1);
                string[end..].fill(b' ');
            }
        }
    }
}

impl BitRange {
    fn store(self, shown: &[u8], stored: &mut [u8]) -> Result<(), usize> {
        let shown = shown.chunks_exact(self.size);
        let units = shown.zip(stored.chunks_exact_mut(self.size));
        for (unit, (shown, stored)) in units.enumerate() {
            let (value, old) = (wide(shown), self.load(stored));
            let raw = value << self.offset & self.mask() | old & !self.mask();
            if self.value(raw).to_le_bytes()[..self.size] != *shown {
                return Err(unit);
            }
            stored.copy_from_slice(&raw.to_le_bytes()[..self.size]);
            if self.big_endian {
                stored.reverse();
            }
        }
        Ok(())
    }

    /// A stored unit with all its bits.
    fn load(self, stored: &[u8]) -> u64 {
        match self.big_endian {
            true => wide(stored).swap_bytes() >> (64 - 8 * self.size),
            false => wide(stored),
        }
    }

    /// The bits that count.
    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.precision) << self.offset
    }
}

/// Up to eight bytes as a number.
fn wide(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}
