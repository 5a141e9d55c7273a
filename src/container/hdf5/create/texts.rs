//! Lines of text as strings of variable length: read once to count them, once to hand them over.
//! Used by [`super::objects`].

use std::sync::Arc;

use super::dataset::count;
use super::maker::{IfRefused, Maker};
use crate::array::Array;
use crate::container::hdf5::made::{MadeDataset, MakeStep};
use crate::error::{Error, Result};
use crate::memory::fallible;

/// Bytes that are read at once.
const STEP: u64 = 64 << 10;
/// Bytes of texts that are handed over at once, about.
const BATCH: usize = 192 << 10;
/// Longest line.
const LINE_MOST: usize = 64 << 20;

/// Lines of an array; what lies behind the last line feed is one, too.
pub(super) fn lines(array: &dyn Array) -> Result<u64> {
    let (mut lines, mut open) = (0u64, false);
    each_part(array, &mut |part| {
        lines += memchr::memchr_iter(b'\n', part).count() as u64;
        open = !part.ends_with(b"\n");
        Ok(())
    })?;
    Ok(lines + u64::from(open))
}

/// Hands the lines over to their dataset, which has been made.
pub(super) fn put(
    array: &Arc<dyn Array>,
    dataset: &MadeDataset,
    maker: &mut Maker<'_>,
) -> Result<()> {
    let name = array.name();
    let (elements, lines) = (
        count(dataset.dims.as_deref().unwrap_or(&[0])),
        lines(&**array)?,
    );
    if elements != lines {
        let why = format!("{name} has {lines} lines for {elements} texts");
        return Err(Error::Invalid(why));
    }
    let mut batch = TextBatch {
        path: &dataset.path,
        name,
        first: 0,
        count: 0,
        texts: Vec::new(),
        line: 0,
        maker,
    };
    each_part(&**array, &mut |part| batch.take(part))?;
    batch.end()
}

fn each_part(array: &dyn Array, visit: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let bytes = array.info()?.bytes;
    let mut buffer = fallible::zeros(STEP, "cannot read text")?;
    let mut at = 0;
    while at < bytes {
        let part = &mut buffer[..(bytes - at).min(STEP) as usize];
        array.read_direct(at, part)?;
        visit(part)?;
        at += part.len() as u64;
    }
    Ok(())
}

struct TextBatch<'a, 'm> {
    path: &'a [u8],
    name: &'a str,
    /// Of the batch: number of its first text, and how many are whole.
    first: u64,
    count: u64,
    texts: Vec<u8>,
    /// Where the line begins that is being read.
    line: usize,
    maker: &'a mut Maker<'m>,
}

impl TextBatch<'_, '_> {
    fn take(&mut self, part: &[u8]) -> Result<()> {
        if memchr::memchr(0, part).is_some() {
            let why = format!("{}: a text of variable length has no NUL in it", self.name);
            return Err(Error::Invalid(why));
        }
        let mut rest = part;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.texts.extend_from_slice(&rest[..end]);
            self.end_line()?;
            rest = &rest[end + 1..];
        }
        if self.texts.len() - self.line > LINE_MOST {
            let why = format!("{}: a line of more than {LINE_MOST} bytes", self.name);
            return Err(Error::Invalid(why));
        }
        self.texts.extend_from_slice(rest);
        Ok(())
    }

    fn end_line(&mut self) -> Result<()> {
        self.texts.push(0);
        self.line = self.texts.len();
        self.count += 1;
        match self.texts.len() >= BATCH {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        let texts = std::mem::take(&mut self.texts);
        let bytes = texts.len();
        let step = MakeStep::Texts {
            path: self.path.to_vec(),
            first: self.first,
            texts,
        };
        self.first += self.count;
        (self.count, self.line) = (0, 0);
        self.maker
            .add(step, (self.name.to_owned(), IfRefused::Ends), bytes)
    }

    fn end(mut self) -> Result<()> {
        if self.texts.len() > self.line {
            self.end_line()?;
        }
        match self.count {
            0 => Ok(()),
            _ => self.flush(),
        }
    }
}
