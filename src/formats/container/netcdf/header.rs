//! The header of a classic NetCDF file: dimensions, attributes, and where the variables are.
//!
//! `[CDF version][records][dimensions][attributes][variables]`, every list a tag and a count; see
//! docs/formats.md. Only the form is checked here; whether variables fit the file is `layout`'s to
//! say. Used by `super`.

use std::ops::Range;
use std::sync::Arc;

use super::cursor::{Cursor, Parsed, Stop};
use super::kind::{ClassicVersion, ElementKind};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;
use crate::source::Source;

pub(super) const MAGIC: &[u8; 3] = b"CDF";

/// Bytes before the lists: the magic and the version.
const START: usize = 4;

/// What is read at first; most headers are shorter.
const WINDOW: u64 = 16 << 10;

/// What a header takes with what is made of it while a file is opened, as a multiple of its length.
const UNPACKED: u64 = 4;

/// What refusals of memory say.
const DOING: &str = "cannot read the header";

/// Longer headers are refused, and longer lists: no writer makes them, and they
/// are held in memory.
const LONGEST: u64 = 8 << 20;
const MOST: u64 = 64 << 10;

const DIMENSIONS: u32 = 10;
const VARIABLES: u32 = 11;
const ATTRIBUTES: u32 = 12;

#[derive(Debug)]
pub(super) struct ClassicHeader {
    pub(super) version: ClassicVersion,
    /// None while the file is being written as a stream: as many as there are.
    pub(super) records: Option<u64>,
    pub(super) dimensions: Vec<Dimension>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) variables: Vec<Variable>,
    /// Where it ends.
    pub(super) len: u64,
}

#[derive(Debug)]
pub(super) struct Dimension {
    pub(super) name: Vec<u8>,
    /// 0 for the one that grows with the records.
    pub(super) len: u64,
}

#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) name: Vec<u8>,
    pub(super) kind: ElementKind,
    /// Elements as they are stored.
    pub(super) raw: Vec<u8>,
    /// Where their number and they lie, with what fills them up; nowhere in a header that is made.
    pub(super) stored: Range<u64>,
}

#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: Vec<u8>,
    /// Numbers of its dimensions, as stored.
    pub(super) dimensions: Vec<u64>,
    pub(super) attributes: Vec<Attribute>,
    /// Code of its type, as stored.
    pub(super) kind: u32,
    pub(super) begin: u64,
    /// Where that is said; nowhere in a header that is made.
    pub(super) begin_at: u64,
}

/// Reads the header, in windows that grow until it is complete; says what it is charged, to be held
/// while it is used.
pub(super) fn read(
    source: &dyn Source,
    budget: &Arc<Budget>,
) -> Result<(ClassicHeader, Vec<Hold>)> {
    let mut len = WINDOW.min(source.len());
    let mut window = Vec::new();
    let mut holds = Vec::new();
    loop {
        let have = window.len();
        holds.push(budget.keep(UNPACKED * (len - have as u64))?);
        fallible::lengthen(&mut window, len as usize, DOING)?;
        source.fetch_one(have as u64, &mut window[have..])?;
        match parse(&window, source.len()) {
            Ok(header) => return Ok((header, holds)),
            Err(Stop::Refused(error)) => return Err(error),
            Err(Stop::Fault(fault)) => return Err(Error::Fault(fault)),
            Err(Stop::More(end)) if end > LONGEST => {
                let fault = Fault::new("the header is too long");
                let expected = format!("at most {LONGEST} bytes");
                return Err(fault
                    .expected(expected)
                    .found(format!("at least {end}"))
                    .into());
            }
            // `end` is behind the window and within the file, so the window grows.
            Err(Stop::More(end)) => len = end.max(2 * len).min(source.len()),
        }
    }
}

/// Parses the header of a file of `file_len` bytes, of which `window` is the beginning.
pub(super) fn parse(window: &[u8], file_len: u64) -> Parsed<ClassicHeader> {
    let version = window
        .strip_prefix(MAGIC)
        .and_then(|rest| ClassicVersion::from_byte(*rest.first()?))
        .ok_or_else(|| Fault::new("not a classic NetCDF file").bytes(0..START as u64))?;
    let mut cursor = Cursor::new(window, START, file_len, version);
    let records = match (cursor.size()?, version.has_long_sizes()) {
        (u64::MAX, true) => None,
        (streaming, false) if streaming == u64::from(u32::MAX) => None,
        (records, _) => Some(records),
    };
    let dimensions = list(&mut cursor, DIMENSIONS, "dimensions", dimension)?;
    let attributes = list(&mut cursor, ATTRIBUTES, "attributes", attribute)?;
    let variables = list(&mut cursor, VARIABLES, "variables", variable)?;
    Ok(ClassicHeader {
        version,
        records,
        dimensions,
        attributes,
        variables,
        len: cursor.at(),
    })
}

/// A list: its tag, or zero for none, a count, and so many things.
fn list<'a, T>(
    cursor: &mut Cursor<'a>,
    expected: u32,
    what: &str,
    one: impl Fn(&mut Cursor<'a>) -> Parsed<T>,
) -> Parsed<Vec<T>> {
    let start = cursor.at();
    let tag = cursor.word()?;
    // The smallest thing is a dimension: length of an empty name, and a size.
    let count = cursor.count(8, what)?;
    let bytes = start..cursor.at();
    if tag != expected && (tag, count) != (0, 0) {
        let fault = Fault::new(format!("the list of {what} has a wrong tag")).bytes(bytes);
        return Err(fault.expected(expected).found(tag).into());
    }
    if count > MOST {
        let fault = Fault::new(format!("the header has too many {what}")).bytes(bytes);
        return Err(fault
            .expected(format!("at most {MOST}"))
            .found(count)
            .into());
    }
    let mut list = Vec::new();
    for _ in 0..count {
        fallible::push(&mut list, one(cursor)?, DOING)?;
    }
    Ok(list)
}

fn name(cursor: &mut Cursor<'_>) -> Parsed<Vec<u8>> {
    let name = cursor.name()?;
    Ok(fallible::copy(name, DOING)?)
}

fn dimension(cursor: &mut Cursor<'_>) -> Parsed<Dimension> {
    Ok(Dimension {
        name: name(cursor)?,
        len: cursor.size()?,
    })
}

fn attribute(cursor: &mut Cursor<'_>) -> Parsed<Attribute> {
    let name = name(cursor)?;
    let start = cursor.at();
    let code = cursor.word()?;
    let kind = ElementKind::from_code(code, cursor.version).ok_or_else(|| {
        Fault::new("an attribute has an unknown type")
            .bytes(start..start + 4)
            .found(code)
    })?;
    let size = kind.size() as u64;
    let counted = cursor.at();
    let count = cursor.count(size, "elements in an attribute")?;
    let raw = fallible::copy(cursor.padded(count * size)?, DOING)?;
    Ok(Attribute {
        name,
        kind,
        raw,
        stored: counted..cursor.at(),
    })
}

fn variable(cursor: &mut Cursor<'_>) -> Parsed<Variable> {
    let name = name(cursor)?;
    let rank = cursor.count(4, "dimensions of a variable")?;
    let mut dimensions = Vec::new();
    for _ in 0..rank {
        fallible::push(&mut dimensions, cursor.size()?, DOING)?;
    }
    let attributes = list(cursor, ATTRIBUTES, "attributes", attribute)?;
    let kind = cursor.word()?;
    // The size as the writer computed it: redundant, and wrong where it does not fit.
    cursor.size()?;
    let begin_at = cursor.at();
    Ok(Variable {
        name,
        dimensions,
        attributes,
        kind,
        begin: cursor.offset()?,
        begin_at,
    })
}
