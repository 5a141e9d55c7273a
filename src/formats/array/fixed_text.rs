//! Text as NumPy's arrays of fixed width: `S` if all of it is ASCII, else `U`.
//!
//! A text array is shown as one value per line. Its `.npy` view has all values as wide as the
//! longest, behind each NULs: NumPy takes those off again. The width is known when all of the text
//! has been read once ([`TextForm::of`]); a second pass puts the values at their places
//! ([`FixedText::fill`]). Where the values are longer than their lines, because they have line
//! feeds of their own, the array says how long they are
//! ([`value_lengths`](super::Array::value_lengths)). Text that is no UTF-8 is `S`: the bytes as
//! they are. Used by `live::shown`.

use super::Info;
use crate::error::{Fault, Result};

/// Most stored bytes of a text that is shown so.
const STORED_MOST: u64 = 16 << 20;

/// Most bytes of its values at one width.
pub const MOST: u64 = 256 << 20;

/// How the view of a text array shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextForm {
    /// As its bytes: it is too large, or nobody knows where a value ends.
    Bytes,
    Fixed(FixedText),
}

/// Values of one width.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedText {
    pub encoding: TextEncoding,
    /// Of a value: bytes of `S`, characters of `U`. At least 1, as NumPy has it.
    pub width: u64,
    pub shape: Vec<u64>,
    /// No value has a line feed of its own.
    pub lines_are_values: bool,
    count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// `S`
    Bytes,
    /// `U`: UTF-32, little-endian.
    Unicode,
}

impl TextEncoding {
    /// Bytes of a unit of the width.
    pub fn unit(self) -> u64 {
        match self {
            TextEncoding::Bytes => 1,
            TextEncoding::Unicode => 4,
        }
    }
}

/// Gives all bytes of a text, in order and in parts of any length.
pub trait TextParts {
    fn each(&self, visit: &mut dyn FnMut(&[u8]) -> Result<TextDemand>) -> Result<()>;
}

/// Whether more of a text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextDemand {
    GoesOn,
    Ends,
}

/// Where the values of a text end.
pub enum ValueEnds {
    /// At each line feed, and at the end.
    Feeds,
    /// Behind so many bytes each, with a line feed that is no part of them.
    Lengths(Vec<u32>),
}

/// What takes the values of a text one after another, in parts.
trait ValueSink {
    fn part(&mut self, bytes: &[u8]) -> Result<()>;

    fn end(&mut self) -> Result<TextDemand>;
}

impl TextForm {
    /// Whether a text may be shown at one width, as far as can be told without reading it.
    pub fn may_be_fixed(info: &Info) -> bool {
        let values = info
            .shape
            .iter()
            .try_fold(1u64, |n, len| n.checked_mul(*len));
        // At one width no value is shorter than now, but for its line feed.
        let least = values.map(|values| info.bytes.saturating_sub(values));
        info.stored().unwrap_or(info.bytes) <= STORED_MOST
            && least.is_some_and(|least| least <= MOST)
    }

    /// The form of a text that ends its values so. None if it has another number of values than its
    /// shape says.
    pub fn of(info: &Info, text: &dyn TextParts, ends: &ValueEnds) -> Result<Option<TextForm>> {
        let mut measure = WidthMeasure::default();
        each_value(text, ends, &mut measure)?;
        if measure.is_too_much() {
            return Ok(Some(TextForm::Bytes));
        }
        let values = info
            .shape
            .iter()
            .try_fold(1u64, |n, len| n.checked_mul(*len));
        if values != Some(measure.count) {
            return Ok(None);
        }
        Ok(Some(TextForm::Fixed(measure.fixed(
            info.shape.clone(),
            matches!(ends, ValueEnds::Feeds),
        ))))
    }

    /// The form of a text that is its lines, however many there are.
    pub fn of_lines(text: &dyn TextParts) -> Result<TextForm> {
        let mut measure = WidthMeasure::default();
        each_value(text, &ValueEnds::Feeds, &mut measure)?;
        Ok(match measure.is_too_much() {
            true => TextForm::Bytes,
            false => TextForm::Fixed(measure.fixed(vec![measure.count], true)),
        })
    }
}

impl FixedText {
    /// Bytes of all values.
    pub fn bytes(&self) -> u64 {
        let value = self.width.saturating_mul(self.encoding.unit());
        self.count.saturating_mul(value)
    }

    /// Puts the values of a text of this form to their places in `out`, zeros as long as
    /// [`FixedText::bytes`].
    pub fn fill(&self, text: &dyn TextParts, ends: &ValueEnds, out: &mut [u8]) -> Result<()> {
        let mut places = ValuePlaces {
            form: self,
            out,
            value: 0,
            at: 0,
            pending: Pending::default(),
        };
        each_value(text, ends, &mut places)?;
        match places.value == self.count {
            true => Ok(()),
            false => Err(changed()),
        }
    }
}

fn changed() -> crate::error::Error {
    Fault::new("the text is not as it was when its width was found").into()
}

/// Cuts a text into its values.
fn each_value(text: &dyn TextParts, ends: &ValueEnds, values: &mut dyn ValueSink) -> Result<()> {
    match ends {
        ValueEnds::Feeds => {
            let mut open = false;
            text.each(&mut |bytes| each_line(bytes, &mut open, values))?;
            match open {
                true => values.end().map(drop),
                false => Ok(()),
            }
        }
        ValueEnds::Lengths(lengths) => {
            let mut lengths = lengths.iter().map(|len| *len as usize);
            let mut left = lengths.next();
            text.each(&mut |bytes| each_of_length(bytes, &mut left, &mut lengths, values))?;
            match left {
                None => Ok(()),
                Some(_) => Err(changed()),
            }
        }
    }
}

/// `open`: whether a value has begun.
fn each_line(bytes: &[u8], open: &mut bool, values: &mut dyn ValueSink) -> Result<TextDemand> {
    let mut rest = bytes;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        values.part(&rest[..end])?;
        *open = false;
        rest = &rest[end + 1..];
        if values.end()? == TextDemand::Ends {
            return Ok(TextDemand::Ends);
        }
    }
    if !rest.is_empty() {
        values.part(rest)?;
        *open = true;
    }
    Ok(TextDemand::GoesOn)
}

/// `left`: bytes that the value still has before its line feed; none if there is no further one.
fn each_of_length(
    bytes: &[u8],
    left: &mut Option<usize>,
    lengths: &mut dyn Iterator<Item = usize>,
    values: &mut dyn ValueSink,
) -> Result<TextDemand> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let here = left.ok_or_else(changed)?.min(rest.len());
        let (part, others) = rest.split_at(here);
        values.part(part)?;
        *left = left.map(|left| left - here);
        rest = others;
        if let Some((feed, others)) = rest.split_first() {
            if *feed != b'\n' {
                return Err(changed());
            }
            rest = others;
            *left = lengths.next();
            if values.end()? == TextDemand::Ends {
                *left = None;
                return Ok(TextDemand::Ends);
            }
        }
    }
    Ok(TextDemand::GoesOn)
}

/// The beginning of a character, whose other bytes come with the next part.
#[derive(Default)]
struct Pending {
    bytes: [u8; 4],
    len: usize,
}

impl Pending {
    /// Visits the characters of a part; says whether it is UTF-8 as far as it goes.
    fn chars(&mut self, mut part: &[u8], visit: &mut dyn FnMut(char)) -> bool {
        while self.len > 0 {
            let Some((first, rest)) = part.split_first() else {
                return true;
            };
            self.bytes[self.len] = *first;
            (self.len, part) = (self.len + 1, rest);
            match std::str::from_utf8(&self.bytes[..self.len]) {
                Ok(whole) => {
                    whole.chars().for_each(&mut *visit);
                    self.len = 0;
                }
                Err(e) if e.error_len().is_none() && self.len < self.bytes.len() => {}
                Err(_) => return false,
            }
        }
        let (whole, rest) = match std::str::from_utf8(part) {
            Ok(whole) => (whole, &[][..]),
            Err(e) if e.error_len().is_none() => {
                let (whole, rest) = part.split_at(e.valid_up_to());
                (std::str::from_utf8(whole).unwrap_or_default(), rest)
            }
            Err(_) => return false,
        };
        whole.chars().for_each(visit);
        self.bytes[..rest.len()].copy_from_slice(rest);
        self.len = rest.len();
        true
    }
}

/// Finds the longest value.
#[derive(Default)]
struct WidthMeasure {
    count: u64,
    bytes: u64,
    chars: u64,
    most_bytes: u64,
    most_chars: u64,
    has_others: bool,
    is_no_utf8: bool,
    pending: Pending,
}

impl WidthMeasure {
    /// Whether it is more than is shown at one width, whatever comes.
    fn is_too_much(&self) -> bool {
        let width = match self.has_others && !self.is_no_utf8 {
            true => self.most_chars.saturating_mul(4),
            false => self.most_bytes,
        };
        self.count.saturating_mul(width.max(1)) > MOST
    }

    fn fixed(&self, shape: Vec<u64>, lines_are_values: bool) -> FixedText {
        let (encoding, width) = match self.has_others && !self.is_no_utf8 {
            true => (TextEncoding::Unicode, self.most_chars),
            false => (TextEncoding::Bytes, self.most_bytes),
        };
        FixedText {
            encoding,
            width: width.max(1),
            shape,
            lines_are_values,
            count: self.count,
        }
    }
}

impl ValueSink for WidthMeasure {
    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if bytes.is_ascii() && self.pending.len == 0 {
            self.chars += bytes.len() as u64;
        } else if !self.is_no_utf8 {
            self.has_others = true;
            let mut chars = 0;
            self.is_no_utf8 = !self.pending.chars(bytes, &mut |_| chars += 1);
            self.chars += chars;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<TextDemand> {
        self.is_no_utf8 |= self.pending.len > 0;
        self.pending.len = 0;
        self.count += 1;
        self.most_bytes = self.most_bytes.max(self.bytes);
        self.most_chars = self.most_chars.max(self.chars);
        (self.bytes, self.chars) = (0, 0);
        // Text that turns out to be no UTF-8 is narrower than what it was taken for.
        let least = self.count.saturating_mul(self.most_chars.max(1));
        Ok(match least > MOST {
            true => TextDemand::Ends,
            false => TextDemand::GoesOn,
        })
    }
}

/// Where the values go.
struct ValuePlaces<'a> {
    form: &'a FixedText,
    out: &'a mut [u8],
    /// Number of the value.
    value: u64,
    /// Units of it that have been put.
    at: u64,
    pending: Pending,
}

impl ValuePlaces<'_> {
    /// Room for so many more units of the value.
    fn room(&mut self, units: usize) -> Result<&mut [u8]> {
        let end = self.at.saturating_add(units as u64);
        if self.value >= self.form.count || end > self.form.width {
            return Err(changed());
        }
        // No more than the form's bytes, which the caller has room for.
        let unit = self.form.encoding.unit();
        let from = (self.value * self.form.width + self.at) * unit;
        self.at = end;
        let room = self.out.get_mut(from as usize..);
        let room = room.and_then(|room| room.get_mut(..units * unit as usize));
        room.ok_or_else(changed)
    }
}

impl ValueSink for ValuePlaces<'_> {
    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        if self.form.encoding == TextEncoding::Bytes {
            self.room(bytes.len())?.copy_from_slice(bytes);
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pending);
        let mut put = Ok(());
        let is_text = pending.chars(bytes, &mut |c| {
            if put.is_ok() {
                let room = self.room(1);
                put = room.map(|room| room.copy_from_slice(&u32::from(c).to_le_bytes()));
            }
        });
        self.pending = pending;
        match is_text {
            true => put,
            false => Err(changed()),
        }
    }

    fn end(&mut self) -> Result<TextDemand> {
        (self.value, self.at) = (self.value + 1, 0);
        Ok(TextDemand::GoesOn)
    }
}

#[cfg(test)]
mod tests;
