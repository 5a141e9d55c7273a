//! Which form a new file gets, and how the object lies in it.
//!
//! The program's own, so that DAPHNE can read it, unless the specification's is asked for or is
//! needed: for types and sizes that the program does not have, for labels that it would not show,
//! and for matrices without cells, of which the program's form does not tell the type. Values lie
//! in one dense block, of a frame in one for each column; entries in sparse ones. A block has at
//! most 2^32 - 1 rows. Used by [`super`].

use std::sync::Arc;

use super::super::header::{FIXED, ObjectKind};
use super::super::program::{CSR, DENSE};
use super::super::value::ValueType;
use super::super::write::{NewEntries, dense_head, put_sparse};
use super::object::{NewArray, NewObject};
use crate::container::creation::GivenContent;
use crate::container::plain_write::runs::Runs;
use crate::container::plain_write::{PlainFile, PlainPart};
use crate::container::rewrite::{CommitWay, Recipe};
use crate::container::{Dialect, Preferences};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::{BytesSource, Source};

/// Rows or columns of a block, and of a matrix of the program's form.
const MOST: u64 = u32::MAX as u64;

/// Longest label that the program's reader has room for.
const LONGEST_LABEL: usize = 32;

/// Position, and block header with the value type.
const BLOCK: u64 = 26;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Spec,
    Program,
}

/// Tells the file of an object.
pub(super) fn tell(
    object: &NewObject,
    content: &GivenContent,
    preferences: Preferences,
    budget: &Arc<Budget>,
    write: &mut dyn Recipe,
) -> Result<()> {
    let description = content.description.as_ref();
    let said = description.and_then(|said| said.attributes.get("dialect")?.as_str());
    let asks_spec = preferences.dialect == Dialect::Spec || said == Some("spec");
    let form = match asks_spec || needs_spec(object) {
        true => Form::Spec,
        false => Form::Program,
    };
    let head = head(object, form)?;
    if form == Form::Spec && object.data == ObjectKind::CsrMatrix {
        let [values, columns, offsets] = &object.arrays[..] else {
            return Err(Error::Bug("a CSRMatrix has three arrays".into()));
        };
        let entries = NewEntries {
            values: (&*values.shown, values.value, values.len),
            columns: (&*columns.shown, columns.len),
            offsets: (&*offsets.shown, offsets.len),
            rows: object.rows,
            cols: object.cols,
        };
        return put_sparse(&head, entries, budget, write);
    }
    let nothing: Arc<dyn Source> = Arc::new(BytesSource::new(Vec::new()));
    let places = match form {
        Form::Program => program(object, head.len() as u64)?,
        Form::Spec => spec(object, head.len() as u64)?,
    };
    let mut literals = vec![(0, head)];
    literals.extend(places.literals);
    let file = PlainFile {
        start: None,
        parts: places
            .runs
            .into_iter()
            .map(|(array, runs)| part(array, runs))
            .collect(),
        literals,
        stored: &nothing,
        len: places.len,
    };
    file.tell(CommitWay::Replaced, budget, write)
}

/// Whether the program's form could not hold an object, or would not show it as it is.
fn needs_spec(object: &NewObject) -> bool {
    let is_known = |array: &NewArray| array.value.program_code().is_some();
    let arrays = match object.data {
        ObjectKind::CsrMatrix => &object.arrays[..1],
        ObjectKind::DenseMatrix | ObjectKind::Frame => &object.arrays[..],
    };
    let is_shown = |(number, label): (usize, &Vec<u8>)| {
        label.len() <= LONGEST_LABEL && *label == format!("col_{number}").into_bytes()
    };
    let is_ambiguous = object.data != ObjectKind::CsrMatrix && !object.has_cells();
    !arrays.iter().all(is_known)
        || object.rows > MOST
        || object.cols > MOST
        || is_ambiguous
        || !object.labels.labels.iter().enumerate().all(is_shown)
}

/// What a file begins with: its header, with the labels.
fn head(object: &NewObject, form: Form) -> Result<Vec<u8>> {
    let data = match object.data {
        ObjectKind::DenseMatrix => 1,
        ObjectKind::CsrMatrix => 2,
        ObjectKind::Frame => 3,
    };
    let mut head = Vec::with_capacity(FIXED as usize + 1);
    head.extend([1, data]);
    head.extend(object.rows.to_le_bytes());
    head.extend(object.cols.to_le_bytes());
    let code = |value: ValueType| match form {
        Form::Spec => value.spec_code(),
        Form::Program => value.program_code().unwrap_or(0),
    };
    let types = match object.data {
        ObjectKind::CsrMatrix => &object.arrays[..1],
        ObjectKind::DenseMatrix | ObjectKind::Frame => &object.arrays[..],
    };
    head.extend(types.iter().map(|array| code(array.value)));
    for label in &object.labels.labels {
        let len = u16::try_from(label.len()).map_err(|_| {
            let len = label.len();
            Error::Invalid(format!("a label has {len} bytes, a file holds 65535"))
        })?;
        head.extend(len.to_le_bytes());
        head.extend(label);
    }
    Ok(head)
}

/// Where the arrays lie, and what lies between them.
struct ObjectLayout<'a> {
    runs: Vec<(&'a NewArray, Runs)>,
    literals: Vec<(u64, Vec<u8>)>,
    len: u64,
}

fn part(array: &NewArray, runs: Runs) -> PlainPart<'_> {
    PlainPart {
        shown: &*array.shown,
        len: array.len,
        stored: array.len,
        runs,
        dirty: RangeSet::from(0..array.len),
        element: array.value.size() as u64,
        to_stored: None,
        fill: &[0],
    }
}

/// In the program's form, behind a head of this length: one implicit block.
fn program(object: &NewObject, head: u64) -> Result<ObjectLayout<'_>> {
    // At row 0, column 0.
    let mut block = vec![0; 16];
    let mut runs = Vec::new();
    if object.data == ObjectKind::Frame {
        let sizes = object.arrays.iter().map(|array| array.value.size() as u64);
        let (record, mut first) = (sizes.sum(), head + 16);
        for array in &object.arrays {
            let run = array.value.size() as u64;
            runs.push((array, strided(first, run, record)));
            first += run;
        }
        let len = object.rows.checked_mul(record);
        let len = len
            .and_then(|len| len.checked_add(head + 16))
            .ok_or_else(too_large)?;
        return Ok(ObjectLayout {
            runs,
            literals: vec![(head, block)],
            len,
        });
    }
    let first = object.arrays.first();
    let code = first
        .and_then(|array| array.value.program_code())
        .unwrap_or(0);
    block.extend((object.rows as u32).to_le_bytes());
    block.extend((object.cols as u32).to_le_bytes());
    let mut end = match object.data {
        ObjectKind::CsrMatrix => {
            block.extend([2, code]);
            let entries = object.arrays.get(1).map_or(0, |columns| columns.len / 8);
            block.extend(entries.to_le_bytes());
            CSR
        }
        ObjectKind::DenseMatrix | ObjectKind::Frame => {
            block.extend([1, code]);
            DENSE
        }
    };
    // Offsets, columns, values.
    for array in object.arrays.iter().rev() {
        runs.push((array, Runs::whole(end)));
        end = end.checked_add(array.len).ok_or_else(too_large)?;
    }
    Ok(ObjectLayout {
        runs,
        literals: vec![(head, block)],
        len: end,
    })
}

/// In the specification's: dense blocks, of a matrix of all columns, of a frame of one each.
fn spec(object: &NewObject, head: u64) -> Result<ObjectLayout<'_>> {
    let mut places = ObjectLayout {
        runs: Vec::new(),
        literals: Vec::new(),
        len: head,
    };
    if !object.has_cells() {
        return Ok(places);
    }
    let width = match object.data {
        ObjectKind::Frame => 1,
        ObjectKind::DenseMatrix | ObjectKind::CsrMatrix => object.cols,
    };
    let narrow = u32::try_from(width).map_err(|_| too_large())?;
    for (array, col) in object.arrays.iter().zip(0..) {
        let row = width * array.value.size() as u64;
        let (begin, band) = (places.len + BLOCK, MOST.saturating_mul(row));
        let mut first = 0;
        while first < object.rows {
            let height = (object.rows - first).min(MOST);
            let block = dense_head((first, col), (height as u32, narrow), array.value);
            let bytes = height
                .checked_mul(row)
                .and_then(|len| len.checked_add(BLOCK));
            places.literals.push((places.len, block));
            places.len = bytes
                .and_then(|bytes| places.len.checked_add(bytes))
                .ok_or_else(too_large)?;
            first += height;
        }
        let runs = match object.rows > MOST {
            true => strided(begin, band, band.saturating_add(BLOCK)),
            false => Runs::whole(begin),
        };
        places.runs.push((array, runs));
    }
    Ok(places)
}

fn strided(begin: u64, run: u64, stride: u64) -> Runs {
    match run == stride {
        true => Runs::whole(begin),
        false => Runs { begin, run, stride },
    }
}

fn too_large() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EFBIG);
    Error::io("a DAPHNE file cannot be so large", cause)
}
