//! Scale-offset (filter 6): numbers less their minimum, in as few bits as the largest needs.
//!
//! Client values: scale type (0 decimal floats, 2 integers), scale factor, elements of the chunk,
//! class, size, sign, byte order, whether there is a fill value, and from the ninth on that value,
//! little-endian. A chunk begins with 21 bytes: bits per number (4), size of the minimum (1), the
//! minimum (8), unused (8). Then come the numbers, or all of them raw if they need all bits. The
//! number of all ones stands for the fill value. Floats are stored as integers, multiplied by a
//! power of ten; their minimum is a float.

use super::FilterDescription;
use super::bits::BitReader;
use super::error::{FilterError, Unsupported};
use super::nbit::write;

/// Bytes in front of the numbers.
pub(super) const HEADER: usize = 21;
const VALUES: usize = 20;
/// First value of the fill value.
const FILL: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// The chunk is stored as it is.
    None,
    Integers,
    /// Floats, of this number of decimals.
    Decimals(i32),
}

/// The filter's client values, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScaleOffset {
    pub(super) scale: Scale,
    /// Bits per number; 0 where each chunk has what its values need.
    pub(super) minbits: u32,
    pub(super) elements: usize,
    /// Bytes per element: 1, 2, 4 or 8, and for floats 4 or 8.
    pub(super) size: usize,
    pub(super) signed: bool,
    pub(super) big_endian: bool,
    pub(super) fill: Option<u64>,
}

impl ScaleOffset {
    pub(super) fn new(filter: &FilterDescription) -> Result<Self, Unsupported> {
        let refuse = |what: &str| Unsupported::new(filter.id, what);
        let values: &[u32; VALUES] = filter
            .values
            .as_slice()
            .try_into()
            .map_err(|_| refuse("a number of client values other than 20"))?;
        let size = values[4] as usize;
        let fill = u64::from(values[FILL]) | u64::from(values[FILL + 1]) << 32;
        Ok(Self {
            scale: scale(values).map_err(refuse)?,
            minbits: values[1],
            elements: values[2] as usize,
            size,
            signed: values[5] != 0,
            big_endian: values[6] != 0,
            fill: (values[7] != 0).then_some(fill & ones(8 * size as u32)),
        })
    }

    /// Whether the chunk is stored as it is.
    pub(super) fn keeps_bytes(&self) -> bool {
        self.scale == Scale::None
    }

    /// Plain bytes that a chunk can have.
    pub(super) fn most(&self) -> u64 {
        (self.elements as u64).saturating_mul(self.size as u64)
    }

    /// Decodes into the front of `out`; returns the number of bytes written: numbers whose bits are
    /// all there.
    pub(super) fn decode(&self, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
        let (head, rest) = stored
            .split_first_chunk::<HEADER>()
            .ok_or_else(FilterError::truncated)?;
        let [a, b, c, d, minimum_size, minimum @ ..] = *head;
        let width = u32::from_le_bytes([a, b, c, d]);
        let full = 8 * self.size as u32;
        if width > full {
            let fault = FilterError::new("the numbers have more bits than their type");
            return Err(fault.expected(format_args!("at most {full}")).found(width));
        }
        let minimum = (0..usize::from(minimum_size).min(8))
            .fold(0, |number, i| number | u64::from(minimum[i]) << (8 * i));
        let (room, len) = (out.len(), self.elements.checked_mul(self.size));
        let out = len.and_then(|len| out.get_mut(..len));
        let out = out.ok_or_else(|| FilterError::too_long(room))?;
        Ok(match width == full {
            true => self.copy(rest, out),
            false => self.unpack(width, minimum, rest, out),
        })
    }

    /// Numbers that need all their bits are stored little-endian.
    fn copy(&self, rest: &[u8], out: &mut [u8]) -> usize {
        let len = rest.len().min(out.len()) / self.size * self.size;
        let out = &mut out[..len];
        out.copy_from_slice(&rest[..len]);
        if self.big_endian {
            out.chunks_exact_mut(self.size).for_each(<[u8]>::reverse);
        }
        len
    }

    fn unpack(&self, width: u32, minimum: u64, rest: &[u8], out: &mut [u8]) -> usize {
        let mut bits = BitReader::new(rest);
        let plain = self.plain(minimum);
        for (i, element) in out.chunks_exact_mut(self.size).enumerate() {
            let Ok(number) = bits.take(width) else {
                return i * self.size;
            };
            let number = match self.fill {
                Some(fill) if number == ones(width) => fill,
                _ => plain.of(number),
            };
            write(number, self.big_endian, element);
        }
        out.len()
    }

    fn plain(&self, minimum: u64) -> Unscaled {
        match (self.scale, self.size) {
            (Scale::Decimals(decimals), 4) => Unscaled::Single {
                power: 10f32.powf(decimals as f32),
                least: f32::from_bits(minimum as u32),
            },
            (Scale::Decimals(decimals), _) => Unscaled::Double {
                power: 10f64.powf(f64::from(decimals)),
                least: f64::from_bits(minimum),
            },
            _ => Unscaled::Integer { least: minimum },
        }
    }
}

/// What gives the bits of an element for its stored number, which never needs all bits.
enum Unscaled {
    Integer { least: u64 },
    Single { power: f32, least: f32 },
    Double { power: f64, least: f64 },
}

impl Unscaled {
    #[inline]
    fn of(&self, number: u64) -> u64 {
        match *self {
            Self::Integer { least } => number.wrapping_add(least),
            Self::Single { power, least } => u64::from((number as f32 / power + least).to_bits()),
            Self::Double { power, least } => (number as f64 / power + least).to_bits(),
        }
    }
}

/// How the numbers are scaled, from type of scale, factor, class and size.
fn scale(values: &[u32; VALUES]) -> Result<Scale, &'static str> {
    let (factor, size) = (values[1].cast_signed(), values[4]);
    match (values[0], values[3], size) {
        (2, 0, 1 | 2 | 4 | 8) if factor > 8 * size.cast_signed() => Err("too many bits"),
        (2, 0, 1 | 2 | 4 | 8) if factor == 8 * size.cast_signed() => Ok(Scale::None),
        (2, 0, 1 | 2 | 4 | 8) => Ok(Scale::Integers),
        (0, 1, 4 | 8) => Ok(Scale::Decimals(factor)),
        (1, 1, _) => Err("scaling by powers of two"),
        _ => Err("a scale that does not fit the type"),
    }
}

/// A number of so many ones, at most 64.
pub(super) fn ones(bits: u32) -> u64 {
    u64::MAX.checked_shr(64 - bits).unwrap_or(0)
}
