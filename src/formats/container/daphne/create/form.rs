//! Which form a new file gets, and how the object lies in it.
//!
//! The program's own, so that DAPHNE can read it, unless the specification's is asked for or is
//! needed: for types and sizes that the program does not have, for labels that it would not show,
//! and for matrices without cells, of which the program's form does not tell the type. It is told
//! as a changed file is. Used by [`super`].

use std::sync::Arc;

use super::super::header::{FIXED, ObjectKind};
use super::super::value::ValueType;
use super::super::write::{
    CellWriter, FileWriter, PlainSize, ShownCells, ShownColumn, consistency,
};
use super::object::{NewArray, NewObject};
use crate::container::creation::GivenContent;
use crate::container::plain_write::runs::Runs;
use crate::container::plain_write::{PlainFile, PlainPart};
use crate::container::writable::{CommitWay, Consistency, Recipe};
use crate::container::{Dialect, Preferences};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::{BytesSource, Source};

/// Rows or columns of a matrix of the program's form.
const MOST: u64 = u32::MAX as u64;

/// Longest label that the program's reader has room for.
const LONGEST_LABEL: usize = 32;

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
    if object.data == ObjectKind::CsrMatrix {
        match consistency::judge(&object.matrix()?, form == Form::Spec, budget)? {
            Consistency::Now => {}
            Consistency::NotYet(why) | Consistency::Unfit(why) => return Err(Error::Invalid(why)),
        }
    }
    let head = head(object, form)?;
    if form == Form::Program {
        return program(object, head, budget, write);
    }
    let mut write = FileWriter::begin(write, CommitWay::Replaced, 0)?;
    write.put(&head)?;
    if object.data == ObjectKind::CsrMatrix {
        return object.matrix()?.tell(budget, write);
    }
    let arrays = object.arrays.iter();
    let arrays = arrays.map(|array| ShownColumn {
        shown: &*array.shown,
        change: None,
        value: array.value,
        len: array.len,
    });
    let is_matrix = object.data == ObjectKind::DenseMatrix;
    let shown = ShownCells::new(arrays.collect(), (object.cols, is_matrix), budget)?;
    CellWriter::new(shown, write).tell_anew(object.rows)
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

fn part(array: &NewArray, runs: Runs) -> PlainPart<'_> {
    PlainPart {
        change: None,
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

/// Tells a file of the program's form: one implicit block behind the head.
fn program(
    object: &NewObject,
    mut head: Vec<u8>,
    budget: &Arc<Budget>,
    write: &mut dyn Recipe,
) -> Result<()> {
    let elements = object.arrays.iter().map(|array| array.value.size() as u64);
    let size = PlainSize {
        data: object.data,
        rows: object.rows,
        cols: object.cols,
        entries: object.arrays.get(1).map_or(0, |columns| columns.len / 8),
        elements: elements.collect(),
    };
    let (runs, len) = size.places(head.len() as u64)?;
    // At row 0, column 0.
    head.extend([0; 16]);
    let kind = match object.data {
        ObjectKind::DenseMatrix => Some(1),
        ObjectKind::CsrMatrix => Some(2),
        ObjectKind::Frame => None,
    };
    if let (Some(kind), Some(array)) = (kind, object.arrays.first()) {
        head.extend((object.rows as u32).to_le_bytes());
        head.extend((object.cols as u32).to_le_bytes());
        head.extend([kind, array.value.program_code().unwrap_or(0)]);
    }
    if object.data == ObjectKind::CsrMatrix {
        head.extend(size.entries.to_le_bytes());
    }
    let nothing: Arc<dyn Source> = Arc::new(BytesSource::new(Vec::new()));
    let parts = object.arrays.iter().zip(runs);
    let file = PlainFile {
        start: None,
        parts: parts.map(|(array, runs)| part(array, runs)).collect(),
        literals: vec![(0, head)],
        stored: &nothing,
        len,
    };
    file.tell(CommitWay::Replaced, budget, write)
}
