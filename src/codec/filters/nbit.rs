//! N-bit (filter 5): only the bits of each number that mean something, packed without gaps.
//!
//! Client values: their count, a flag that nothing is packed, elements of the chunk, then the type,
//! as a tree: class (1 number, 2 array, 3 compound, 4 left as it is), size in bytes, and by class
//! byte order, precision and bit offset; or the element type; or the members, each with its offset.
//! Bits run from the highest of a number to its lowest, and on into the next number. What is not
//! stored, padding of compounds too, decodes to 0.
//!
//! The tree is checked when it is built, so that decoding stays within an element.

use super::FilterDescription;
use super::bits::BitReader;
use super::error::{FilterError, Unsupported};

/// Depth of types within types that is followed.
const DEEPEST: usize = 32;

/// The parameters of the elements.
#[derive(Debug, Clone)]
pub(super) struct Nbit {
    /// Elements of the chunk, and their type; none where the chunk is stored as it is.
    pub(super) packed: Option<(usize, NbitType)>,
}

#[derive(Debug, Clone)]
pub(super) struct NbitType {
    /// Bytes, at least 1.
    pub(super) size: usize,
    pub(super) kind: NbitKind,
}

#[derive(Debug, Clone)]
pub(super) enum NbitKind {
    /// Bits `offset..offset + precision` of a number.
    Number {
        big_endian: bool,
        precision: u32,
        offset: u32,
    },
    Array(Box<NbitType>),
    /// Members and their offsets, each within the compound.
    Compound(Vec<(usize, NbitType)>),
    Bytes,
}

impl Nbit {
    pub(super) fn new(filter: &FilterDescription) -> Result<Self, Unsupported> {
        let refuse = |what| Unsupported::new(filter.id, what);
        let [_, unpacked, elements, rest @ ..] = filter.values.as_slice() else {
            return Err(refuse("too few client values"));
        };
        if *unpacked != 0 {
            return Ok(Self { packed: None });
        }
        let kind = Values { rest }.element().map_err(refuse)?;
        Ok(Self {
            packed: Some((*elements as usize, kind)),
        })
    }

    /// Whether the chunk is stored as it is.
    pub(super) fn keeps_bytes(&self) -> bool {
        self.packed.is_none()
    }

    /// Plain bytes that `stored` can stand for at most.
    pub(super) fn most(&self, stored: u64) -> u64 {
        match &self.packed {
            None => stored,
            Some((elements, kind)) => {
                let stored = stored.saturating_mul(8).checked_div(kind.bits());
                stored
                    .unwrap_or(u64::MAX)
                    .min(*elements as u64)
                    .saturating_mul(kind.size as u64)
            }
        }
    }

    /// Decodes into the front of `out`; returns the number of bytes written: elements whose bits
    /// are all there.
    pub(super) fn decode(&self, stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
        let Some((elements, kind)) = &self.packed else {
            return Err(FilterError::new("nothing is packed"));
        };
        let room = out.len();
        let len = elements.checked_mul(kind.size);
        let out = len.and_then(|len| out.get_mut(..len));
        let out = out.ok_or_else(|| FilterError::too_long(room))?;
        out.fill(0);
        let mut bits = BitReader::new(stored);
        for (i, element) in out.chunks_exact_mut(kind.size).enumerate() {
            if kind.unpack(&mut bits, element).is_err() {
                return Ok(i * kind.size);
            }
        }
        Ok(out.len())
    }
}

impl NbitType {
    /// Bits that an element is stored in.
    fn bits(&self) -> u64 {
        match &self.kind {
            NbitKind::Number { precision, .. } => u64::from(*precision),
            NbitKind::Bytes => 8 * self.size as u64,
            NbitKind::Array(base) => base.bits().saturating_mul((self.size / base.size) as u64),
            NbitKind::Compound(members) => members.iter().map(|(_, member)| member.bits()).sum(),
        }
    }

    /// Fills one element, which has been zeroed.
    fn unpack(&self, bits: &mut BitReader, element: &mut [u8]) -> Result<(), FilterError> {
        match &self.kind {
            NbitKind::Number {
                big_endian,
                precision,
                offset,
            } if self.size <= 8 => {
                let number = bits.take(*precision)? << offset;
                write(number, *big_endian, element);
            }
            NbitKind::Number {
                big_endian,
                precision,
                offset,
            } => unpack_wide(bits, *big_endian, *offset, *precision, element)?,
            NbitKind::Array(base) => {
                for item in element.chunks_exact_mut(base.size) {
                    base.unpack(bits, item)?;
                }
            }
            NbitKind::Compound(members) => {
                for (offset, member) in members {
                    member.unpack(bits, &mut element[*offset..][..member.size])?;
                }
            }
            NbitKind::Bytes => {
                for byte in element {
                    *byte = bits.take(8)? as u8;
                }
            }
        }
        Ok(())
    }
}

/// Stores a number of at most eight bytes.
pub(super) fn write(number: u64, big_endian: bool, element: &mut [u8]) {
    let size = element.len();
    if big_endian {
        element.copy_from_slice(&number.to_be_bytes()[8 - size..]);
    } else {
        element.copy_from_slice(&number.to_le_bytes()[..size]);
    }
}

/// A stored number of at most eight bytes.
pub(super) fn read(big_endian: bool, element: &[u8]) -> u64 {
    let size = element.len();
    let mut bytes = [0; 8];
    if big_endian {
        bytes[8 - size..].copy_from_slice(element);
        u64::from_be_bytes(bytes)
    } else {
        bytes[..size].copy_from_slice(element);
        u64::from_le_bytes(bytes)
    }
}

/// Fills bits of a number of more than eight bytes, from the highest byte that has any.
fn unpack_wide(
    bits: &mut BitReader,
    big_endian: bool,
    offset: u32,
    precision: u32,
    element: &mut [u8],
) -> Result<(), FilterError> {
    let mut end = offset + precision;
    while end > offset {
        let byte = (end - 1) / 8;
        let low = offset.max(8 * byte);
        let field = bits.take(end - low)? as u8;
        let at = match big_endian {
            true => element.len() - 1 - byte as usize,
            false => byte as usize,
        };
        element[at] = field << (low - 8 * byte);
        end = low;
    }
    Ok(())
}

/// Client values that are still to be read.
struct Values<'a> {
    rest: &'a [u32],
}

impl Values<'_> {
    fn next(&mut self) -> Result<u32, &'static str> {
        let (first, rest) = self.rest.split_first().ok_or("too few client values")?;
        self.rest = rest;
        Ok(*first)
    }

    fn element(&mut self) -> Result<NbitType, &'static str> {
        self.kind(usize::MAX, 0)
    }

    /// Reads the type of something that has `room` bytes.
    fn kind(&mut self, room: usize, depth: usize) -> Result<NbitType, &'static str> {
        if depth > DEEPEST {
            return Err("types nested too deeply");
        }
        let class = self.next()?;
        let size = self.next()? as usize;
        if size == 0 || size > room {
            return Err("a type that does not fit");
        }
        let kind = match class {
            1 => self.number(size)?,
            2 => NbitKind::Array(Box::new(self.base(size, depth)?)),
            3 => self.compound(size, depth)?,
            4 => NbitKind::Bytes,
            _ => return Err("a type class that is not known"),
        };
        Ok(NbitType { size, kind })
    }

    fn number(&mut self, size: usize) -> Result<NbitKind, &'static str> {
        let (order, precision, offset) = (self.next()?, self.next()?, self.next()?);
        let bits = u64::from(precision) + u64::from(offset);
        if order > 1 || precision == 0 || bits > 8 * size as u64 || size > 1 << 16 {
            return Err("a number with bits outside of itself");
        }
        Ok(NbitKind::Number {
            big_endian: order == 1,
            precision,
            offset,
        })
    }

    /// The type of an array's items; of items that are left as they are, the array gives the size.
    fn base(&mut self, size: usize, depth: usize) -> Result<NbitType, &'static str> {
        let mut base = self.kind(size, depth + 1)?;
        if matches!(base.kind, NbitKind::Bytes) {
            base.size = size;
        }
        Ok(base)
    }

    fn compound(&mut self, size: usize, depth: usize) -> Result<NbitKind, &'static str> {
        let mut members = Vec::new();
        let mut left = size;
        for _ in 0..self.next()? {
            let offset = self.next()? as usize;
            let room = size.saturating_sub(offset).min(left);
            let member = self.kind(room, depth + 1)?;
            left -= member.size;
            members.push((offset, member));
        }
        Ok(NbitKind::Compound(members))
    }
}
