//! The form that the specification describes: a header, and blocks to the end of the file.
//!
//! Opening reads the header and the heads of all blocks, and checks that they partition the object; a
//! file that breaks a rule there has nothing that can be trusted.

mod partition;

use std::sync::Arc;

use super::block::BlockFile;
use super::block::table::{BlockBody, BlockTable};
use super::block::tree::BlockTree;
use super::csr;
use super::csr::read::CsrMatrix;
use super::dense::{CellObject, DenseView};
use super::describe::{DescribedFile, rows_times};
use super::header::{FileHead, ObjectKind};
use super::labels::LabelLines;
use super::value::ValueType;
use crate::array::Array;
use crate::container::names;
use crate::error::{Fault, Result};
use crate::source::Source;

const DIALECT: &str = "spec";
/// Labels up to this size are a text in memory.
const SMALL_LABELS: usize = 1 << 20;

/// Opens a file of this form.
pub(super) fn open(source: &Arc<dyn Source>) -> Result<DescribedFile> {
    let header = FileHead::read(&**source, ValueType::spec)?;
    check_sizes(&header)?;
    let table = BlockTable::read(&**source, &header)?;
    partition::check(&table, &header)?;
    let stored = BlockFile::new(Arc::clone(source), table);
    if !header.has_cells() {
        check_rows(&stored)?;
    }
    match header.data {
        ObjectKind::DenseMatrix => dense(stored, header),
        ObjectKind::CsrMatrix => compressed(stored, header),
        ObjectKind::Frame => frame(source, stored, header),
    }
}

/// Every array must fit a file.
fn check_sizes(header: &FileHead) -> Result<()> {
    let (rows, cols) = (u128::from(header.rows), u128::from(header.cols));
    let fits = |cells, value| header.decoded(cells, value).map(|_| ());
    match header.data {
        ObjectKind::DenseMatrix => fits(rows * cols, header.types[0]),
        ObjectKind::CsrMatrix => fits(rows + 1, ValueType::U64),
        ObjectKind::Frame => header.types.iter().try_for_each(|&value| fits(rows, value)),
    }
}

/// The rows of an object without cells, which no array will ever show.
fn check_rows(stored: &BlockFile) -> Result<()> {
    for block in stored.table.iter() {
        if matches!(block.body, BlockBody::Sparse(_)) {
            stored.marks(&block)?;
        }
    }
    Ok(())
}

fn object(stored: BlockFile, header: &FileHead) -> Arc<CellObject> {
    Arc::new(CellObject {
        index: BlockTree::new(&stored.table),
        stored,
        rows: header.rows,
        cols: header.cols,
        types: header.types.clone(),
    })
}

fn dense(stored: BlockFile, header: FileHead) -> Result<DescribedFile> {
    let cells = u128::from(header.rows) * u128::from(header.cols);
    let bytes = header.decoded(cells, header.types[0])?;
    let values = DenseView::matrix(object(stored, &header), bytes);
    Ok(DescribedFile::new(header, DIALECT, vec![Arc::new(values)]))
}

fn compressed(stored: BlockFile, header: FileHead) -> Result<DescribedFile> {
    let csr = CsrMatrix::new(stored, header.rows, header.cols, header.types[0]);
    let stored_bytes = csr.stored_bytes();
    Ok(DescribedFile::new(
        header,
        DIALECT,
        csr::arrays(csr, stored_bytes),
    ))
}

fn frame(
    source: &Arc<dyn Source>,
    stored: BlockFile,
    mut header: FileHead,
) -> Result<DescribedFile> {
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
        arrays.push(Arc::new(DenseView::column(
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
    let mut opened = DescribedFile::new(header, DIALECT, arrays);
    opened.labels = text;
    Ok(opened)
}
