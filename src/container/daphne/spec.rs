//! The form that the specification describes: a header, and blocks to the end of the file.
//!
//! Opening reads the header and the heads of all blocks, and checks that they partition the object; a
//! file that breaks a rule there has nothing that can be trusted.

use std::sync::Arc;

use super::cells::{Cells, Object};
use super::csr::Csr;
use super::header::{DataType, Header};
use super::index::Index;
use super::labels::LabelLines;
use super::program::compressed;
use super::stored::Stored;
use super::table::{Body, Table};
use super::value::ValueType;
use super::{Opened, rows_times, tiling};
use crate::array::Array;
use crate::container::names;
use crate::error::{Fault, Result};
use crate::source::Source;

const DIALECT: &str = "spec";
/// Labels up to this size are a text in memory.
const SMALL_LABELS: usize = 1 << 20;

/// Opens a file of this form.
pub(super) fn open(source: &Arc<dyn Source>) -> Result<Opened> {
    let header = Header::read(&**source, ValueType::spec)?;
    check_sizes(&header)?;
    let table = Table::read(&**source, &header)?;
    tiling::check(&table, &header)?;
    let stored = Stored::new(Arc::clone(source), table);
    if !header.has_cells() {
        check_rows(&stored)?;
    }
    match header.data {
        DataType::DenseMatrix => dense(stored, header),
        DataType::CsrMatrix => csr(stored, header),
        DataType::Frame => frame(source, stored, header),
    }
}

/// Every array must fit a file.
fn check_sizes(header: &Header) -> Result<()> {
    let (rows, cols) = (u128::from(header.rows), u128::from(header.cols));
    let fits = |cells, value| header.decoded(cells, value).map(|_| ());
    match header.data {
        DataType::DenseMatrix => fits(rows * cols, header.types[0]),
        DataType::CsrMatrix => fits(rows + 1, ValueType::U64),
        DataType::Frame => header.types.iter().try_for_each(|&value| fits(rows, value)),
    }
}

/// The rows of an object without cells, which no array will ever show.
fn check_rows(stored: &Stored) -> Result<()> {
    for block in stored.table.iter() {
        if matches!(block.body, Body::Sparse(_)) {
            stored.marks(&block)?;
        }
    }
    Ok(())
}

fn object(stored: Stored, header: &Header) -> Arc<Object> {
    Arc::new(Object {
        index: Index::new(&stored.table),
        stored,
        rows: header.rows,
        cols: header.cols,
        types: header.types.clone(),
    })
}

fn dense(stored: Stored, header: Header) -> Result<Opened> {
    let cells = u128::from(header.rows) * u128::from(header.cols);
    let bytes = header.decoded(cells, header.types[0])?;
    let values = Cells::matrix(object(stored, &header), bytes);
    Ok(Opened::new(header, DIALECT, vec![Arc::new(values)]))
}

fn csr(stored: Stored, header: Header) -> Result<Opened> {
    let csr = Csr::new(stored, header.rows, header.cols, header.types[0]);
    let stored_bytes = csr.stored_bytes();
    Ok(Opened::new(header, DIALECT, compressed(csr, stored_bytes)))
}

fn frame(source: &Arc<dyn Source>, stored: Stored, mut header: Header) -> Result<Opened> {
    let object = object(stored, &header);
    let labels = std::mem::take(&mut header.labels);
    let list = labels.list();
    let mut arrays: Vec<Arc<dyn Array>> = Vec::new();
    for (col, name) in (0..).zip(names::shown(&list, false)) {
        let value = header.types.get(col as usize).copied();
        let size = value.map_or(0, |value| value.size() as u64);
        let bytes = u64::try_from(rows_times(&header, size))
            .map_err(|_| Fault::new("the column is larger than any file"))?;
        let name = format!("columns/{name}");
        arrays.push(Arc::new(Cells::column(
            Arc::clone(&object),
            name,
            col,
            bytes,
        )));
    }
    let mut text = None;
    if labels.bytes() <= SMALL_LABELS {
        let lines: Vec<u8> = list.iter().flat_map(|l| [l, &b"\n"[..]].concat()).collect();
        text = Some(lines.into());
    } else {
        arrays.push(Arc::new(LabelLines::new(Arc::clone(source), &labels)));
    }
    let mut opened = Opened::new(header, DIALECT, arrays);
    opened.labels = text;
    Ok(opened)
}
