//! The values of text arrays: the first ones, the last ones, those of a slice.
//!
//! Values are lines, unless the array says how long they are: then they may have line feeds of
//! their own. Where a line begins is known only from the lines before it, or, counted from the end,
//! from those behind it: whichever is nearer is read. Long values are cut. Used by the command
//! `show` and by the figures of text.

use memchr::memchr_iter;

use crate::array::read::{CachedArray, Tail};
use crate::error::{Error, Fault, Result};

/// Bytes that are read at a time.
const STEP: usize = 256 << 10;

/// Bytes of a value that are kept.
pub const KEPT: usize = 4096;

/// Hands every value, without the line feed behind it and cut to [`KEPT`] bytes, to `each` with its
/// number and whole length, until that says no.
pub fn each_text(array: &CachedArray, each: &mut dyn FnMut(u64, &[u8], u64) -> bool) -> Result<()> {
    let mut window = TextWindow::of(array);
    let mut visit = |number: u64, at: u64, len: u64| -> Result<bool> {
        Ok(each(number, window.beginning(at, len)?, len))
    };
    match each_place(array, &mut visit)? {
        true => Ok(()),
        false => each_line(array, each),
    }
}

/// Visits number, first byte and length of every value, until `visit` says no; says whether the
/// array knows them. If it does not, its values are its lines.
fn each_place(
    array: &CachedArray,
    visit: &mut dyn FnMut(u64, u64, u64) -> Result<bool>,
) -> Result<bool> {
    let (size, mut number, mut at, mut is_enough) = (array.size(), 0u64, 0u64, false);
    let visited = array.array.value_lengths(&mut |len| {
        let end = at.checked_add(len).filter(|end| *end <= size);
        let end = end.ok_or_else(|| Fault::new("the values are longer than the text"))?;
        if !visit(number, at, len)? {
            is_enough = true;
            // Only an error ends the visit; this one goes no further than here.
            return Err(Error::Bug("enough values were visited".into()));
        }
        (number, at) = (number.saturating_add(1), end.saturating_add(1));
        Ok(())
    });
    match visited {
        Err(_) if is_enough => Ok(true),
        visited => visited.map_err(|e| array.locate(e)),
    }
}

/// A part of a text, which is moved on from value to value.
struct TextWindow<'a> {
    array: &'a CachedArray,
    start: u64,
    bytes: Vec<u8>,
}

impl TextWindow<'_> {
    fn of(array: &CachedArray) -> TextWindow<'_> {
        TextWindow {
            array,
            start: 0,
            bytes: Vec::new(),
        }
    }

    /// The bytes of a value that are kept.
    fn beginning(&mut self, at: u64, len: u64) -> Result<&[u8]> {
        let len = len.min(KEPT as u64) as usize;
        if self.part(at, len).is_none() {
            let array = self.array;
            self.bytes.clear();
            self.start = at;
            array.read(at, STEP, Tail::Whole, |bytes| -> Result<()> {
                self.bytes.extend_from_slice(bytes?);
                Ok(())
            })?;
        }
        let missing = || Fault::new("the text ends within a value");
        Ok(self.part(at, len).ok_or_else(missing)?)
    }

    fn part(&self, at: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

/// Hands every line, without its end and cut to [`KEPT`] bytes, to `each` with its number and whole
/// length, until that says no.
pub fn each_line(array: &CachedArray, each: &mut dyn FnMut(u64, &[u8], u64) -> bool) -> Result<()> {
    let (mut at, mut number, mut len) = (0u64, 0u64, 0u64);
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let goes_on = array.read(at, STEP, Tail::Whole, |bytes| -> Result<Option<usize>> {
            let bytes = bytes?;
            let mut from = 0;
            for end in memchr_iter(b'\n', bytes) {
                let part = bytes.get(from..end).unwrap_or_default();
                keep(&mut begun, part);
                len += part.len() as u64;
                if !each(number, &begun, len) {
                    return Ok(None);
                }
                begun.clear();
                (number, len, from) = (number + 1, 0, end + 1);
            }
            let rest = bytes.get(from..).unwrap_or_default();
            keep(&mut begun, rest);
            len += rest.len() as u64;
            Ok(Some(bytes.len()))
        })?;
        match goes_on {
            None => return Ok(()),
            Some(0) => break,
            Some(n) => at += n as u64,
        }
    }
    // A last line without an end.
    if len > 0 {
        each(number, &begun, len);
    }
    Ok(())
}

fn keep(begun: &mut Vec<u8>, part: &[u8]) {
    let room = KEPT.saturating_sub(begun.len()).min(part.len());
    begun.extend_from_slice(part.get(..room).unwrap_or_default());
}

/// The last lines, the last one first, until `each` says no: with the number counted from the end.
fn each_line_back(array: &CachedArray, each: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<()> {
    let (mut end, mut number) = (array.size(), 0u64);
    // What is known of the line in which the bytes read so far begin.
    let mut begun: Vec<u8> = Vec::new();
    let mut is_last = true;
    while end > 0 {
        let start = end.saturating_sub(STEP as u64);
        let len = (end - start) as usize;
        let goes_on = array.read(start, len, Tail::Whole, |bytes| -> Result<bool> {
            let mut rest = bytes?;
            if is_last {
                // The end of the last line is no beginning of another.
                rest = rest.strip_suffix(b"\n").unwrap_or(rest);
                is_last = false;
            }
            while let Some(at) = memchr::memrchr(b'\n', rest) {
                begun = front(rest.get(at + 1..).unwrap_or_default(), &begun);
                if !each(number, &begun) {
                    return Ok(false);
                }
                begun.clear();
                (number, rest) = (number + 1, rest.get(..at).unwrap_or_default());
            }
            begun = front(rest, &begun);
            Ok(true)
        })?;
        if !goes_on {
            return Ok(());
        }
        end = start;
    }
    if !is_last {
        each(number, &begun);
    }
    Ok(())
}

/// The first bytes of a line whose beginning has been found to be longer.
fn front(before: &[u8], behind: &[u8]) -> Vec<u8> {
    let mut all = before
        .get(..before.len().min(KEPT))
        .unwrap_or_default()
        .to_vec();
    keep(&mut all, behind);
    all
}

/// The values of these numbers, out of `count`, in any order; those that are not there are empty.
pub fn texts_at(array: &CachedArray, count: u64, wanted: &[u64]) -> Result<Vec<Vec<u8>>> {
    let mut places: Vec<(u64, usize)> = wanted.iter().copied().zip(0..).collect();
    places.sort_unstable();
    match texts_of_known_lengths(array, &places)? {
        Some(found) => Ok(found),
        None => lines_at(array, count, &places),
    }
}

/// The values of these numbers, which rise, each at its place; none if the array does not know how
/// long they are.
fn texts_of_known_lengths(
    array: &CachedArray,
    places: &[(u64, usize)],
) -> Result<Option<Vec<Vec<u8>>>> {
    let mut found: Vec<Vec<u8>> = vec![Vec::new(); places.len()];
    let mut next = places.iter().copied().peekable();
    let mut window = TextWindow::of(array);
    let are_known = each_place(array, &mut |number, at, len| {
        while let Some((_, place)) = next.next_if(|(wanted, _)| *wanted == number) {
            if let Some(found) = found.get_mut(place) {
                *found = window.beginning(at, len)?.to_vec();
            }
        }
        Ok(next.peek().is_some())
    })?;
    Ok(are_known.then_some(found))
}

/// The lines of these numbers, which rise, each at its place.
fn lines_at(array: &CachedArray, count: u64, places: &[(u64, usize)]) -> Result<Vec<Vec<u8>>> {
    let mut found: Vec<Vec<u8>> = vec![Vec::new(); places.len()];
    let split = places.partition_point(|(number, _)| *number <= count / 2);
    let (first, last) = places.split_at(split);
    let mut next = first.iter().copied().peekable();
    let mut take = |number: u64, line: &[u8]| {
        while let Some((_, place)) = next.next_if(|(wanted, _)| *wanted == number) {
            if let Some(found) = found.get_mut(place) {
                *found = line.to_vec();
            }
        }
        next.peek().is_some()
    };
    if !first.is_empty() {
        each_line(array, &mut |number, line, _| take(number, line))?;
    }
    let mut next = last.iter().rev().copied().peekable();
    if !last.is_empty() {
        each_line_back(array, &mut |from_end, line| {
            let number = count.checked_sub(from_end + 1);
            while let Some((_, place)) = next.next_if(|(wanted, _)| Some(*wanted) == number) {
                if let Some(found) = found.get_mut(place) {
                    *found = line.to_vec();
                }
            }
            next.peek().is_some()
        })?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
