//! The lines of `arrays.json`: an entry has one for each of its keys, and what lies deeper stands
//! in its key's line. So a list of numbers takes one line, and the text is a third as long.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// From this depth on an object stands in one line: those in the entries of lists.
const OBJECT: usize = 4;

/// From this depth on a list stands in one line: all but those of entries.
const LIST: usize = 3;

/// The text of a value.
pub(super) fn text(value: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::new();
    let lines = Lines {
        depth: 0,
        is_empty: true,
    };
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, lines);
    // Writing to memory does not fail, nor have the parts keys that are no text.
    value.serialize(&mut serializer).unwrap_or_default();
    text.push(b'\n');
    text
}

struct Lines {
    /// Lists and objects that are open.
    depth: usize,
    /// The innermost has no value yet.
    is_empty: bool,
}

impl Lines {
    fn begin<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        out.write_all(bracket)
    }

    fn end<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        bracket: &[u8],
        in_line_from: usize,
    ) -> io::Result<()> {
        let in_line = self.depth >= in_line_from;
        self.depth -= 1;
        if !self.is_empty && !in_line {
            self.begin_line(out)?;
        }
        self.is_empty = false;
        out.write_all(bracket)
    }

    fn separate<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        first: bool,
        in_line_from: usize,
    ) -> io::Result<()> {
        let in_line = self.depth >= in_line_from;
        match (first, in_line) {
            (true, true) => Ok(()),
            (false, true) => out.write_all(b", "),
            (true, false) => self.begin_line(out),
            (false, false) => {
                out.write_all(b",")?;
                self.begin_line(out)
            }
        }
    }

    fn begin_line<W: Write + ?Sized>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]", LIST)
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first, LIST)
    }

    fn end_array_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}", OBJECT)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.separate(out, first, OBJECT)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_empty = false;
        Ok(())
    }
}
