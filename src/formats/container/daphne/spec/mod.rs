//! The form that the specification describes: a header, and blocks to the end of the file.
//!
//! Opening reads the header and the heads of all blocks, and checks that they partition the object;
//! a file that breaks a rule there has nothing that can be trusted.

mod partition;

use std::sync::Arc;

use super::block::BlockFile;
use super::block::index_cache::BlockIndexCache;
use super::block::sparse::MARKING_MEMORY;
use super::block::table::{BlockBody, BlockTable};
use super::block::tree::BlockTree;
use super::csr;
use super::csr::read::CsrMatrix;
use super::dense::{CellObject, DenseView};
use super::describe::DescribedFile;
use super::header::{FileHead, ObjectKind};
use super::labels::FrameLabels;
use super::value::ValueType;
use super::write::WrittenBody;
use crate::container::names;
use crate::error::Result;
use crate::memory::scratch::Region;
use crate::memory::set_aside;
use crate::source::Source;

const DIALECT: &str = "spec";
/// What a column takes in memory, with its name and those of others while they are compared.
const COLUMN: u64 = 2 << 10;

/// Opens a file of this form.
pub(super) fn open(
    source: &Arc<dyn Source>,
    index_cache: &Arc<BlockIndexCache>,
) -> Result<DescribedFile> {
    let header = FileHead::read(&**source, ValueType::spec, index_cache)?;
    check_sizes(&header)?;
    let table = BlockTable::read(&**source, &header, index_cache)?;
    partition::check(&table, &header, index_cache)?;
    let stored = BlockFile {
        source: Arc::clone(source),
        table,
        index_cache: Arc::clone(index_cache),
    };
    if !header.has_cells() {
        check_rows(&stored)?;
    }
    match header.data {
        ObjectKind::DenseMatrix => dense(stored, header),
        ObjectKind::CsrMatrix => compressed(stored, header),
        ObjectKind::Frame => frame(stored, header),
    }
}

/// Every array must fit a file.
fn check_sizes(header: &FileHead) -> Result<()> {
    let (rows, cols) = (u128::from(header.rows), u128::from(header.cols));
    let fits = |cells, value| header.decoded(cells, value).map(|_| ());
    match header.data {
        ObjectKind::DenseMatrix => fits(rows * cols, header.types.list[0]),
        ObjectKind::CsrMatrix => fits(rows + 1, ValueType::U64),
        ObjectKind::Frame => header
            .types
            .list
            .iter()
            .try_for_each(|&value| fits(rows, value)),
    }
}

/// The rows of an object without cells, which no array will ever show.
fn check_rows(stored: &BlockFile) -> Result<()> {
    let mut region = Region::default();
    for block in stored.table.iter() {
        if matches!(block.body, BlockBody::Sparse(_)) {
            stored.row_marks(&block, region.scratch(MARKING_MEMORY)?)?;
        }
    }
    Ok(())
}

fn object(stored: BlockFile, header: &FileHead) -> Result<Arc<CellObject>> {
    Ok(Arc::new(CellObject {
        tree: BlockTree::new(&stored.table, &stored.index_cache)?,
        stored,
        rows: header.rows,
        cols: header.cols,
        types: Arc::clone(&header.types),
    }))
}

fn dense(stored: BlockFile, header: FileHead) -> Result<DescribedFile> {
    let cells = u128::from(header.rows) * u128::from(header.cols);
    let bytes = header.decoded(cells, header.types.list[0])?;
    let cells = object(stored, &header)?;
    let view = DenseView::matrix(Arc::clone(&cells), bytes);
    let mut file = DescribedFile::new(header, DIALECT, Vec::new());
    file.add_checked(Arc::new(view));
    file.written = Some(WrittenBody::Cells(cells));
    Ok(file)
}

fn compressed(stored: BlockFile, header: FileHead) -> Result<DescribedFile> {
    let value = header.types.list[0];
    let source = Arc::clone(&stored.source);
    let csr = CsrMatrix::new(stored, header.rows, header.cols, value);
    let stored_bytes = csr.stored_bytes();
    let mut file = DescribedFile::new(header, DIALECT, Vec::new());
    csr::show(csr, stored_bytes, &mut file);
    file.written = Some(WrittenBody::Entries(source));
    Ok(file)
}

fn frame(stored: BlockFile, mut header: FileHead) -> Result<DescribedFile> {
    let index_cache = Arc::clone(&stored.index_cache);
    let object = object(stored, &header)?;
    let labels = std::mem::replace(&mut header.labels, FrameLabels::new(0, None, &index_cache)?);
    let mut file = DescribedFile::new(header, DIALECT, Vec::new());
    let room = COLUMN.saturating_mul(labels.count());
    set_aside(room, "cannot show the columns of a frame", || {
        columns(&mut file, &object, &labels)
    })??;
    file.labels = Some(Arc::new(labels));
    file.written = Some(WrittenBody::Cells(object));
    Ok(file)
}

fn columns(file: &mut DescribedFile, object: &Arc<CellObject>, labels: &FrameLabels) -> Result<()> {
    let list: Vec<&[u8]> = labels.iter().collect();
    let rows = u128::from(object.rows);
    for (col, name) in (0..).zip(names::shown(&list, false)?) {
        let bytes = file.header.decoded(rows, object.value(col))?;
        let name = format!("columns/{name}");
        let object = Arc::clone(object);
        file.add_checked(Arc::new(DenseView::column(object, name, col, bytes)));
    }
    Ok(())
}
