//! The head of a DAPHNE file: version, data type, shape, value types and the labels of a frame.
//!
//! Both forms of the format have it; they differ in the codes of the value types, and a
//! program-written frame's labels are not the labels. Little-endian, unaligned. Used by `spec` and
//! `program`.

use std::sync::Arc;

use super::block::index_cache::{BlockIndexCache, ChargedList};
use super::labels::FrameLabels;
use super::value::ValueType;
use crate::error::{Fault, Result};
use crate::memory::scratch::Region;
use crate::source::{ForwardWindow, Source};

/// Columns of a frame that are shown, each as an array of its own.
const MOST_COLUMNS: u64 = 1 << 20;
/// Bytes of a frame's header, which are those of its labels but for a few.
pub(super) const MOST_LABELS: u64 = 128 << 20;
const WINDOW: u64 = 64 << 10;

/// What an array of one column takes, with its name and its place in the tree.
const COLUMN: u64 = 384;

/// Length of the part that every file has.
pub(super) const FIXED: u64 = 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    DenseMatrix,
    CsrMatrix,
    Frame,
}

impl ObjectKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            ObjectKind::DenseMatrix => "DenseMatrix",
            ObjectKind::CsrMatrix => "CSRMatrix",
            ObjectKind::Frame => "Frame",
        }
    }
}

pub(super) struct FileHead {
    pub(super) data: ObjectKind,
    pub(super) rows: u64,
    pub(super) cols: u64,
    /// One for a matrix, one for each column of a frame, with the charge of what shows it.
    pub(super) types: Arc<ChargedList<ValueType>>,
    /// The code of a matrix's value type.
    pub(super) code: u8,
    pub(super) labels: FrameLabels,
    /// Where the body begins.
    pub(super) len: u64,
}

impl FileHead {
    /// `types` gives the meaning of the codes.
    pub(super) fn read(
        source: &dyn Source,
        types: fn(u8) -> Option<ValueType>,
        index_cache: &BlockIndexCache,
    ) -> Result<FileHead> {
        let mut region = Region::default();
        let buf = region.scratch(WINDOW)?.take(WINDOW)?;
        let mut window = ForwardWindow::new(source, source.len(), buf);
        let data = fixed(&mut window, source.len())?;
        let (rows, cols) = (window.u64(2)?, window.u64(10)?);
        let mut header = FileHead {
            data,
            rows,
            cols,
            types: Arc::new(index_cache.list(0)?),
            code: 0,
            labels: FrameLabels::new(0, None, index_cache)?,
            len: FIXED,
        };
        if data == ObjectKind::Frame {
            header.read_columns(&mut window, source.len(), types, index_cache)?;
        } else {
            header.code = window.u8(FIXED)?;
            let mut list = index_cache.list(1)?;
            list.list.push(known(types, header.code, FIXED)?);
            header.types = Arc::new(list);
            header.len += 1;
        }
        Ok(header)
    }

    fn read_columns(
        &mut self,
        window: &mut ForwardWindow<'_, '_>,
        file: u64,
        types: fn(u8) -> Option<ValueType>,
        index_cache: &BlockIndexCache,
    ) -> Result<()> {
        let most = (file - FIXED) / 3;
        if self.cols > most || self.cols > MOST_COLUMNS {
            return Err(Fault::new("too many columns for a frame")
                .bytes(10..18)
                .expected(format_args!("at most {}", most.min(MOST_COLUMNS)))
                .found(self.cols)
                .into());
        }
        let mut list = index_cache.list_with(self.cols, COLUMN)?;
        for at in FIXED..FIXED + self.cols {
            list.list.push(known(types, window.u8(at)?, at)?);
        }
        self.types = Arc::new(list);
        self.len = FIXED + self.cols;
        self.labels = FrameLabels::new(self.cols, Some(self.len), index_cache)?;
        for _ in 0..self.cols {
            self.read_label(window, index_cache)?;
        }
        self.labels.fit();
        Ok(())
    }

    fn read_label(
        &mut self,
        window: &mut ForwardWindow<'_, '_>,
        index_cache: &BlockIndexCache,
    ) -> Result<()> {
        let len = window.u16(self.len)?;
        let label = window.bytes(self.len + 2, usize::from(len))?;
        self.labels.push(&label[..usize::from(len)], index_cache)?;
        self.len += 2 + u64::from(len);
        if self.len > MOST_LABELS {
            return Err(Fault::new("the labels are too long to show")
                .bytes(FIXED + self.cols..self.len)
                .expected(format_args!("at most {MOST_LABELS} bytes"))
                .into());
        }
        Ok(())
    }

    /// Bytes of an array of `cells` values, if a file can have that size.
    pub(super) fn decoded(&self, cells: u128, value: ValueType) -> Result<u64> {
        let bytes = cells.saturating_mul(value.size() as u128);
        u64::try_from(bytes)
            .ok()
            .filter(|&bytes| bytes < 1 << 63)
            .ok_or_else(|| {
                Fault::new("the decoded values are larger than any file")
                    .bytes(2..FIXED)
                    .expected("less than 2^63 bytes")
                    .found(format_args!("{} x {}", self.rows, self.cols))
                    .into()
            })
    }

    pub(super) fn has_cells(&self) -> bool {
        self.rows > 0 && self.cols > 0
    }
}

fn fixed(window: &mut ForwardWindow<'_, '_>, file: u64) -> Result<ObjectKind> {
    if file < FIXED {
        return Err(Fault::new("the file ends within its header")
            .bytes(0..FIXED)
            .expected(format_args!("{FIXED} bytes"))
            .found(format_args!("{file} bytes"))
            .into());
    }
    let version = window.u8(0)?;
    if version != 1 {
        let fault = Fault::new("the version is not known").bytes(0..1);
        return Err(fault.expected(1).found(version).into());
    }
    match window.u8(1)? {
        1 => Ok(ObjectKind::DenseMatrix),
        2 => Ok(ObjectKind::CsrMatrix),
        3 => Ok(ObjectKind::Frame),
        other => {
            let fault = Fault::new("the data type is not known").bytes(1..2);
            Err(fault.expected("1 to 3").found(other).into())
        }
    }
}

fn known(types: fn(u8) -> Option<ValueType>, code: u8, at: u64) -> Result<ValueType> {
    types(code).ok_or_else(|| {
        Fault::new("the value type is not known")
            .bytes(at..at + 1)
            .found(code)
            .into()
    })
}
