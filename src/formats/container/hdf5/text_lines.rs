//! Lines of text as the values of strings of variable length: read one after another, and gathered
//! for libhdf5, which takes many at once.
//!
//! A value is a line without its line feed, or all of the text where a dataset holds one value
//! ([`TextValues`]). What lies behind the last line feed is a line, too, that has no end. Memory to
//! read in is charged; longer lines than [`LINE_MOST`] are counted and not kept. Used by `create`
//! for new files, and by `write` for what changes.

use std::sync::Arc;

use crate::array::Array;
use crate::array::uncached::PartReader;
use crate::container::chunked_write::memory::at_once;
use crate::container::hdf5::made::TextRun;
use crate::error::{Error, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::no_memory;

/// Bytes that are read at once: blocks of text are not as large.
const STEP: u64 = 1 << 20;

/// Most bytes of text that are written at once.
pub(super) const MOST: u64 = 256 << 20;

/// Longest line that is kept.
pub(super) const LINE_MOST: u64 = 64 << 20;

/// Bytes of texts, and of where they go, that are handed over at once, about: a chunk of which
/// lines change here and there is decoded and encoded for each batch.
const BATCH: usize = 1 << 20;

/// A line without its end.
pub(super) struct Line {
    /// What is kept of it.
    bytes: Vec<u8>,
    pub(super) len: u64,
    /// A line feed followed.
    pub(super) has_end: bool,
    hold: Hold,
}

impl Line {
    pub(super) fn new(budget: &Arc<Budget>) -> Result<Line> {
        Ok(Line {
            bytes: Vec::new(),
            len: 0,
            has_end: false,
            hold: budget.keep(0)?,
        })
    }

    /// All of it; none if it is too long.
    pub(super) fn text(&self) -> Option<&[u8]> {
        (self.len <= LINE_MOST).then_some(&self.bytes)
    }

    /// Whether two lines have the same bytes, as far as that is known.
    pub(super) fn is(&self, other: &Line) -> bool {
        let (own, others) = (self.text(), other.text());
        own.is_some() && own == others
    }

    fn clear(&mut self) {
        self.bytes.clear();
        (self.len, self.has_end) = (0, false);
    }

    /// Takes the line feed at its end off, which it has.
    fn end(&mut self) {
        self.len = self.len.saturating_sub(1);
        self.bytes
            .truncate(usize::try_from(self.len).unwrap_or(usize::MAX));
        self.has_end = true;
    }

    /// Becomes the next line of a text; says whether there is one.
    pub(super) fn read(&mut self, text: &mut PartReader<'_>) -> Result<bool> {
        self.clear();
        loop {
            let part = text.ahead()?;
            if part.is_empty() {
                return Ok(self.len > 0);
            }
            let end = memchr::memchr(b'\n', part);
            let len = end.unwrap_or(part.len());
            self.add(&part[..len])?;
            self.has_end = end.is_some();
            text.take(len + usize::from(self.has_end));
            if self.has_end {
                return Ok(true);
            }
        }
    }

    /// Adds a line feed, and another line.
    pub(super) fn join(&mut self, next: &Line) -> Result<()> {
        self.add(b"\n")?;
        self.add(&next.bytes)?;
        self.len = self.len.saturating_add(next.len - next.bytes.len() as u64);
        self.has_end = next.has_end;
        Ok(())
    }

    fn add(&mut self, part: &[u8]) -> Result<()> {
        let left = LINE_MOST.saturating_sub(self.bytes.len() as u64);
        self.len = self.len.saturating_add(part.len() as u64);
        let kept = &part[..left.min(part.len() as u64) as usize];
        let len = self.bytes.len().saturating_add(kept.len());
        if len > self.bytes.capacity() {
            let room = len.max(self.bytes.capacity().saturating_mul(2));
            self.hold.keep_more((room - self.bytes.capacity()) as u64)?;
            let reserved = self.bytes.try_reserve_exact(room - self.bytes.len());
            reserved.map_err(|_| no_memory("cannot hold a line"))?;
        }
        self.bytes.extend_from_slice(kept);
        Ok(())
    }
}

/// What the values of a text are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextValues {
    Lines,
    /// All of it is one value, line feeds and all but for the one at its end.
    One,
}

impl TextValues {
    /// Values of an array of so many bytes.
    pub(super) fn count(self, array: &dyn Array, len: u64, budget: &Arc<Budget>) -> Result<u64> {
        match self {
            TextValues::Lines => count(array, len, budget),
            TextValues::One => Ok(u64::from(len > 0)),
        }
    }

    /// Puts the next value of a text into `value`; says whether there is one.
    pub(super) fn read(self, text: &mut PartReader<'_>, value: &mut Line) -> Result<bool> {
        if self == TextValues::Lines {
            return value.read(text);
        }
        value.clear();
        let (mut some, mut last) = (false, None);
        while let Some(part) = text.next()? {
            last = part.last().copied();
            value.add(part)?;
            some = true;
        }
        if last == Some(b'\n') {
            value.end();
        }
        Ok(some)
    }
}

/// Reads a text of so many bytes, to be cut into [`Line`]s.
pub(super) fn reader<'a>(
    array: &'a dyn Array,
    len: u64,
    budget: &Arc<Budget>,
) -> Result<PartReader<'a>> {
    PartReader::new(array, len, STEP, |bytes| Ok(at_once(bytes, budget)))
}

/// Lines of an array of so many bytes.
pub(super) fn count(array: &dyn Array, len: u64, budget: &Arc<Budget>) -> Result<u64> {
    reader(array, len, budget)?.count_lines()
}

/// Whether two arrays have the same bytes.
pub(super) fn is_same(
    (one, one_len): (&dyn Array, u64),
    (other, other_len): (&dyn Array, u64),
    budget: &Arc<Budget>,
) -> Result<bool> {
    if one_len != other_len {
        return Ok(false);
    }
    let mut one = reader(one, one_len, budget)?;
    let mut other = reader(other, other_len, budget)?;
    while let Some(part) = one.next()? {
        if other.next()? != Some(part) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Why a line cannot be a value.
pub(super) fn objection(name: &str, line: &Line) -> Option<String> {
    match line.text() {
        None => Some(format!("{name}: a line of more than {LINE_MOST} bytes")),
        Some(text) if memchr::memchr(0, text).is_some() => Some(format!(
            "{name}: a text of variable length has no NUL in it"
        )),
        Some(_) => None,
    }
}

/// Hands over values: where they go, and each with a NUL behind it.
type Send<'s> = dyn FnMut(Vec<TextRun>, Vec<u8>) -> Result<()> + 's;

/// Values that are handed over together, wherever they lie: each call of the library has its price.
pub(super) struct TextBatch<'a, 's> {
    name: &'a str,
    send: &'a mut Send<'s>,
    runs: Vec<TextRun>,
    texts: Vec<u8>,
}

impl<'a, 's> TextBatch<'a, 's> {
    /// `name`: of the array, for messages.
    pub(super) fn new(name: &'a str, send: &'a mut Send<'s>) -> TextBatch<'a, 's> {
        TextBatch {
            name,
            send,
            runs: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// The value of this number, which is higher than those before.
    pub(super) fn put(&mut self, number: u64, line: &Line) -> Result<()> {
        if self.texts.len() + size_of_val(&*self.runs) >= BATCH {
            self.flush()?;
        }
        let text = match (objection(self.name, line), line.text()) {
            (None, Some(text)) => text,
            (why, _) => return Err(Error::Invalid(why.unwrap_or_default())),
        };
        let reserved = self.texts.try_reserve(text.len() + 1);
        reserved.map_err(|_| no_memory("cannot write text"))?;
        self.texts.extend_from_slice(text);
        self.texts.push(0);
        match self.runs.last_mut() {
            Some(run) if run.first.saturating_add(run.count) == number => run.count += 1,
            _ => self.runs.push(TextRun {
                first: number,
                count: 1,
            }),
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.runs.is_empty() {
            return Ok(());
        }
        (self.send)(
            std::mem::take(&mut self.runs),
            std::mem::take(&mut self.texts),
        )
    }

    pub(super) fn end(mut self) -> Result<()> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::held::HeldArray;
    use proptest::prelude::*;

    fn array(text: &[u8]) -> HeldArray<&[u8]> {
        HeldArray::text("x", text)
    }

    proptest! {
        #[test]
        fn lines_are_what_lies_between_line_feeds(text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b'b')], 0..60)) {
            let budget = Budget::new(1 << 30);
            let array = array(&text);
            let mut parts = reader(&array, text.len() as u64, &budget).unwrap();
            let (mut line, mut found, mut lines) = (Line::new(&budget).unwrap(), Vec::new(), 0);
            while line.read(&mut parts).unwrap() {
                found.extend_from_slice(line.text().unwrap());
                found.extend_from_slice(if line.has_end { b"\n" } else { b"" });
                lines += 1;
            }
            prop_assert_eq!(&found, &text);
            prop_assert_eq!(count(&array, text.len() as u64, &budget).unwrap(), lines);
            drop((parts, line));
            prop_assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn one_value_has_all_line_feeds_but_the_one_at_its_end() {
        let budget = Budget::new(1 << 30);
        for (text, value, has_end) in [
            ("a\nb\n", "a\nb", true),
            ("a\n\n", "a\n", true),
            ("\n", "", true),
            ("a\nb", "a\nb", false),
        ] {
            let array = array(text.as_bytes());
            let len = text.len() as u64;
            let mut parts = reader(&array, len, &budget).unwrap();
            let mut line = Line::new(&budget).unwrap();
            assert!(TextValues::One.read(&mut parts, &mut line).unwrap());
            assert_eq!(line.text(), Some(value.as_bytes()));
            assert_eq!((line.len, line.has_end), (value.len() as u64, has_end));
            assert!(!TextValues::One.read(&mut parts, &mut line).unwrap());
            assert_eq!(TextValues::One.count(&array, len, &budget).unwrap(), 1);
        }
        let none = array(b"");
        assert_eq!(TextValues::One.count(&none, 0, &budget).unwrap(), 0);
    }

    #[test]
    fn values_go_together_wherever_they_lie() {
        let budget = Budget::new(1 << 30);
        let mut line = Line::new(&budget).unwrap();
        let mut sent = Vec::new();
        let mut send = |runs: Vec<TextRun>, texts| {
            let runs = runs.iter().map(|run| (run.first, run.count));
            sent.push((runs.collect::<Vec<_>>(), texts));
            Ok(())
        };
        let mut batch = TextBatch::new("x", &mut send);
        for number in [1, 2, 5] {
            line.clear();
            line.add(format!("v{number}").as_bytes()).unwrap();
            batch.put(number, &line).unwrap();
        }
        line.add(b"\0").unwrap();
        assert!(batch.put(6, &line).is_err());
        batch.end().unwrap();
        assert_eq!(sent, [(vec![(1, 2), (5, 1)], b"v1\0v2\0v5\0".to_vec())]);
    }
}
