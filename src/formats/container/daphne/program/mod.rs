//! The form that the DAPHNE program writes: one implicit block, other codes, three arrays for a
//! CSRMatrix.
//!
//! Nothing in the file says that it is this form; it is believed only if every code, position and
//! the length of the whole file fit (docs/formats.md). Everything is shown where it lies, without
//! decoding, but for frames and for the rows of 2022. A frame's stored labels are memory contents,
//! so columns have the names that DAPHNE's own reader gives them.

mod plain;
mod records;

use std::ops::Range;
use std::sync::Arc;

use super::block::BlockFile;
use super::block::index_cache::BlockIndexCache;
use super::block::sparse::SparseRows;
use super::block::table::BlockTable;
use super::csr;
use super::csr::read::CsrMatrix;
use super::describe::DescribedFile;
use super::header::{FileHead, ObjectKind};
use super::labels::FrameLabels;
use super::value::ValueType;
use super::write::WrittenBody;
use crate::array::Array;
use crate::array::dtype::Dtype;
use crate::error::{Fault, Result};
use crate::source::Source;
use plain::{NumberRule, PlainNumbers};
use records::RecordColumn;

/// The position 0, 0.
pub(super) const POSITION: u64 = 16;
/// Header, position, block header and value type of a matrix.
pub(super) const DENSE: u64 = 45;
/// What stands before the offsets of a CSRMatrix: those of any matrix, and the number of entries.
pub(super) const CSR: u64 = 53;

/// Opens a file of this form; the fault says why it is none.
pub(super) fn open(
    source: &Arc<dyn Source>,
    index_cache: &Arc<BlockIndexCache>,
) -> Result<DescribedFile> {
    let header = FileHead::read(&**source, ValueType::program, index_cache)?;
    let mut position = [0; POSITION as usize];
    require(
        source.len() >= header.len + POSITION,
        "the file ends within its header",
    )?;
    source.fetch_one(header.len, &mut position)?;
    require(position == [0; 16], "the block is not at row 0, column 0")?;
    match header.data {
        ObjectKind::Frame => frame(source, header, index_cache),
        _ => matrix(source, header, index_cache),
    }
}

fn require(holds: bool, what: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Fault::new(what).into()),
    }
}

/// Whether the file is so long; sizes in 128 bits.
fn require_length(source: &dyn Source, expected: u128) -> Result<()> {
    if u128::from(source.len()) == expected {
        return Ok(());
    }
    let fault = Fault::new("the file is not as long as its header says");
    let found = source.len();
    Err(fault.bytes(0..found).expected(expected).found(found).into())
}

fn matrix(
    source: &Arc<dyn Source>,
    header: FileHead,
    index_cache: &Arc<BlockIndexCache>,
) -> Result<DescribedFile> {
    require(
        source.len() >= DENSE,
        "the file ends within its block header",
    )?;
    let mut head = [0; 10];
    source.fetch_one(DENSE - 10, &mut head)?;
    let [r0, r1, r2, r3, c0, c1, c2, c3, kind, code] = head;
    let size = (
        u32::from_le_bytes([r0, r1, r2, r3]),
        u32::from_le_bytes([c0, c1, c2, c3]),
    );
    // The program cuts larger sizes.
    let expected = (header.rows as u32, header.cols as u32);
    require(size == expected, "the block is not as large as the matrix")?;
    require(
        code == header.code,
        "the block has another value type than the matrix",
    )?;
    match (header.data, kind) {
        (ObjectKind::DenseMatrix, 1) => dense(source, header),
        (ObjectKind::CsrMatrix, 2) => compressed(source, header, index_cache),
        _ => Err(Fault::new("the block type is not that of the matrix")
            .found(kind)
            .into()),
    }
}

fn dense(source: &Arc<dyn Source>, header: FileHead) -> Result<DescribedFile> {
    let value = header.types.list[0];
    let cells = u128::from(header.rows) * u128::from(header.cols);
    let bytes = header.decoded(cells, value)?;
    require_length(&**source, u128::from(DENSE) + u128::from(bytes))?;
    let shape = vec![header.rows, header.cols];
    let place = DENSE..source.len();
    let plain = plain(
        source,
        "values",
        value.dtype(),
        shape,
        place,
        NumberRule::None,
    );
    Ok(DescribedFile {
        written: Some(WrittenBody::Plain(Arc::clone(source))),
        ..DescribedFile::new(header, "daphne", vec![plain])
    })
}

fn plain(
    source: &Arc<dyn Source>,
    name: &'static str,
    dtype: Dtype,
    shape: Vec<u64>,
    place: Range<u64>,
    rule: NumberRule,
) -> Arc<dyn Array> {
    Arc::new(PlainNumbers {
        name,
        source: Arc::clone(source),
        dtype,
        shape,
        place,
        rule,
    })
}

fn compressed(
    source: &Arc<dyn Source>,
    header: FileHead,
    index_cache: &Arc<BlockIndexCache>,
) -> Result<DescribedFile> {
    require(source.len() >= CSR, "the file ends within its block header")?;
    let mut raw = [0; 8];
    source.fetch_one(CSR - 8, &mut raw)?;
    let entries = u64::from_le_bytes(raw);
    let value = header.types.list[0];
    let pairs = u128::from(entries) * (8 + value.size() as u128);
    let older = u128::from(CSR) + 8 * u128::from(header.rows) + pairs;
    if u128::from(source.len()) == older {
        require(
            header.rows > 0 || entries == 0,
            "there are entries, but no row to hold them",
        )?;
        return rows_of_2022(source, header, entries, index_cache);
    }
    require_length(&**source, older + 8)?;
    let indices = CSR + 8 * (header.rows + 1);
    let values = indices + 8 * entries;
    check_ends(&**source, CSR..indices, entries)?;
    let (cols, rows) = (header.cols, header.rows);
    let array = |name, dtype, len, place, rule| plain(source, name, dtype, vec![len], place, rule);
    let arrays = vec![
        array(
            "values",
            value.dtype(),
            entries,
            values..source.len(),
            NumberRule::None,
        ),
        array(
            "col_idxs",
            Dtype::U64,
            entries,
            indices..values,
            NumberRule::Below(cols),
        ),
        array(
            "row_offsets",
            Dtype::U64,
            rows + 1,
            CSR..indices,
            NumberRule::Rises(entries),
        ),
    ];
    Ok(DescribedFile {
        written: Some(WrittenBody::Plain(Arc::clone(source))),
        ..DescribedFile::new(header, "daphne", arrays)
    })
}

/// The first and the last row offset, of those in this range.
fn check_ends(source: &dyn Source, offsets: Range<u64>, entries: u64) -> Result<()> {
    let (mut first, mut last) = ([0; 8], [0; 8]);
    source.fetch_one(offsets.start, &mut first)?;
    source.fetch_one(offsets.end - 8, &mut last)?;
    let ends = (u64::from_le_bytes(first), u64::from_le_bytes(last));
    if ends == (0, entries) {
        return Ok(());
    }
    let fault = Fault::new("the row offsets do not begin at 0 and end at the number of entries");
    let found = format!("{} to {}", ends.0, ends.1);
    Err(fault.bytes(offsets).expected(entries).found(found).into())
}

/// Written from March 2022 to June 2023.
fn rows_of_2022(
    source: &Arc<dyn Source>,
    header: FileHead,
    entries: u64,
    index_cache: &Arc<BlockIndexCache>,
) -> Result<DescribedFile> {
    let value = header.types.list[0];
    let rows = SparseRows {
        start: CSR,
        end: source.len(),
        rows: header.rows,
        entries,
        width: header.cols,
        index: 8,
        value: value.size() as u64,
    };
    let stored = BlockFile {
        source: Arc::clone(source),
        table: BlockTable::none(index_cache)?,
        index_cache: Arc::clone(index_cache),
    };
    let stored_bytes = (rows.value * entries, 8 * entries, 8 * header.rows);
    let csr = CsrMatrix::wide(stored, rows, value)?;
    let mut file = DescribedFile::new(header, "daphne-2022", Vec::new());
    csr::show(csr, stored_bytes, &mut file);
    Ok(file)
}

fn frame(
    source: &Arc<dyn Source>,
    header: FileHead,
    index_cache: &BlockIndexCache,
) -> Result<DescribedFile> {
    let types = Arc::clone(&header.types);
    let record: u64 = types.list.iter().map(|value| value.size() as u64).sum();
    let body = header.len + POSITION;
    let records = u128::from(header.rows) * u128::from(record);
    require_length(&**source, u128::from(body) + records)?;
    let mut first = body;
    let mut arrays: Vec<Arc<dyn Array>> = Vec::new();
    for (number, &value) in types.list.iter().enumerate() {
        let name = format!("columns/col_{number}");
        arrays.push(Arc::new(RecordColumn {
            name,
            source: Arc::clone(source),
            _charged: Arc::clone(&types),
            value,
            rows: header.rows,
            record,
            first,
        }));
        first += value.size() as u64;
    }
    let labels = Arc::new(FrameLabels::made(header.cols, index_cache)?);
    let mut file = DescribedFile::new(header, "daphne", arrays);
    file.labels = Some(labels);
    file.written = (record > 0).then(|| WrittenBody::Plain(Arc::clone(source)));
    Ok(file)
}
