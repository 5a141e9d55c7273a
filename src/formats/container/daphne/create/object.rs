//! The matrix or the frame that given arrays make up: its size, and the arrays with their types.
//!
//! Columns make a frame, offsets a CSRMatrix, values alone a DenseMatrix: of one dimension a
//! column of it. Used by [`super`]; [`super::form`] tells the file.

use std::sync::Arc;

use super::super::header::ObjectKind;
use super::super::value::ValueType;
use super::super::write::{MatrixArray, MatrixArrays, consistency};
use super::labels::FrameNames;
use super::{COLUMNS, FRAME, OFFSETS, VALUES, column, said_of};
use crate::array::Array;
use crate::array::dtype::descr_of_name;
use crate::container::creation::{GivenArray, GivenContent, GivenOrder, RawArray};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::BytesSource;

pub(super) struct NewObject {
    pub(super) data: ObjectKind,
    pub(super) rows: u64,
    pub(super) cols: u64,
    /// One of a DenseMatrix; values, columns and offsets of a CSRMatrix; the columns of a frame.
    pub(super) arrays: Vec<NewArray>,
    /// Of the columns of a frame.
    pub(super) labels: FrameNames,
}

/// An array with its type, and how many bytes it has.
pub(super) struct NewArray {
    pub(super) shown: Arc<dyn Array>,
    pub(super) value: ValueType,
    pub(super) len: u64,
}

/// The value type that NumPy names so; a boolean is a byte.
pub(super) fn value_type(dtype: &str) -> Option<ValueType> {
    let descr = descr_of_name(dtype);
    let mut types = (0..10).map(ValueType::from_index);
    let of_type = |value: &ValueType| descr_of_name(&value.dtype().name()) == descr;
    match descr {
        "|b1" => Some(ValueType::U8),
        _ => types.find(of_type),
    }
}

impl NewObject {
    /// The object that the arrays make up; an empty matrix of none.
    pub(super) fn given(content: &GivenContent, budget: &Arc<Budget>) -> Result<NewObject> {
        let has = |name: &str| content.arrays.iter().any(|array| array.name() == name);
        let is_frame = content
            .arrays
            .iter()
            .any(|array| column(array.name()).is_some())
            || content.groups.iter().any(|group| group == FRAME)
            || has(super::LABELS);
        let is_csr = has(OFFSETS) || has(COLUMNS);
        match (is_frame, is_csr || has(VALUES)) {
            (true, true) => Err(Error::Invalid(
                "a frame has columns and labels alone, a matrix values".into(),
            )),
            (true, false) => NewObject::frame(content, budget),
            (false, true) if is_csr => NewObject::csr(content, budget),
            (false, true) => NewObject::dense(content),
            (false, false) => Ok(NewObject {
                data: ObjectKind::DenseMatrix,
                rows: 0,
                cols: 0,
                arrays: vec![NewArray::nothing()],
                labels: FrameNames::default(),
            }),
        }
    }

    fn dense(content: &GivenContent) -> Result<NewObject> {
        let (array, said) = NewArray::given(content, VALUES)?;
        let (rows, cols) = match said.shape[..] {
            [] => (1, 1),
            [rows] => (rows, 1),
            [rows, cols] => (rows, cols),
            _ => {
                let shape = &said.shape;
                let why = format!("{VALUES}: a matrix has two dimensions, not {shape:?}");
                return Err(Error::Invalid(why));
            }
        };
        if said.order == GivenOrder::F && rows > 1 && cols > 1 {
            let why = format!("{VALUES}: a DenseMatrix has its rows one after another");
            return Err(Error::Invalid(why));
        }
        Ok(NewObject {
            data: ObjectKind::DenseMatrix,
            rows,
            cols,
            arrays: vec![array],
            labels: FrameNames::default(),
        })
    }

    fn csr(content: &GivenContent, budget: &Arc<Budget>) -> Result<NewObject> {
        let (values, _) = NewArray::given(content, VALUES)?;
        let (columns, offsets) = (
            NewArray::of_numbers(content, COLUMNS)?,
            NewArray::of_numbers(content, OFFSETS)?,
        );
        let description = content.description.as_ref();
        let said = description.and_then(|said| said.attributes.get("columns")?.as_u64());
        let cols = match said {
            Some(cols) => cols,
            None => consistency::largest(&*columns.shown, columns.len, budget)?
                .map_or(0, |largest| largest.saturating_add(1)),
        };
        Ok(NewObject {
            data: ObjectKind::CsrMatrix,
            rows: (offsets.len / 8).saturating_sub(1),
            cols,
            arrays: vec![values, columns, offsets],
            labels: FrameNames::default(),
        })
    }

    fn frame(content: &GivenContent, budget: &Arc<Budget>) -> Result<NewObject> {
        let mut arrays = Vec::new();
        let labels = FrameNames::of(content, budget)?;
        let mut rows: Option<(u64, String)> = None;
        for name in &labels.shown {
            let path = format!("{FRAME}/{name}");
            let (array, said) = NewArray::given(content, &path)?;
            if said.shape.len() > 1 {
                let why = format!("{path}: a column has one dimension, not {:?}", said.shape);
                return Err(Error::Invalid(why));
            }
            let own = array.len / array.value.size() as u64;
            match &rows {
                Some((others, other)) if *others != own => {
                    let why = format!("{other} has {others} rows, {path} {own}");
                    return Err(Error::Invalid(why));
                }
                Some(_) => {}
                None => rows = Some((own, path)),
            }
            arrays.push(array);
        }
        Ok(NewObject {
            data: ObjectKind::Frame,
            rows: rows.map_or(0, |(rows, _)| rows),
            cols: arrays.len() as u64,
            arrays,
            labels,
        })
    }

    pub(super) fn has_cells(&self) -> bool {
        self.rows > 0 && self.cols > 0
    }

    /// The arrays of a CSRMatrix.
    pub(super) fn matrix(&self) -> Result<MatrixArrays<'_>> {
        let [values, columns, offsets] = &self.arrays[..] else {
            return Err(Error::Bug("a CSRMatrix has three arrays".into()));
        };
        let [own, columns, offsets] =
            [values, columns, offsets].map(|array| MatrixArray::new(&*array.shown, array.len));
        Ok(MatrixArrays {
            values: own,
            columns,
            offsets,
            value: values.value,
            cols: self.cols,
        })
    }
}

impl NewArray {
    /// The array of this path, and what is said of it.
    fn given(content: &GivenContent, path: &str) -> Result<(NewArray, GivenArray)> {
        let found = content.arrays.iter().find(|array| array.name() == path);
        let found = found.ok_or_else(|| Error::Invalid(format!("{path} is missing")))?;
        let len = found.info()?.bytes;
        let said = said_of(content, path, len);
        let refuse = |why: String| Error::Invalid(format!("{path}: {why}"));
        let value = value_type(&said.dtype);
        let value = value.ok_or_else(|| refuse(format!("DAPHNE has no {}", said.dtype)))?;
        let array = NewArray {
            shown: Arc::clone(found),
            value,
            len,
        };
        let cells = said.shape.iter().map(|dim| u128::from(*dim));
        let cells = cells.fold(1, u128::saturating_mul);
        match cells.saturating_mul(value.size() as u128) == u128::from(len) {
            true => Ok((array, said)),
            false => Err(refuse(format!(
                "{} of shape {:?} does not make its {len} bytes",
                said.dtype, said.shape
            ))),
        }
    }

    /// An array of 64-bit numbers: what is said of it says so, or nothing is said.
    fn of_numbers(content: &GivenContent, path: &str) -> Result<NewArray> {
        let (array, said) = NewArray::given(content, path)?;
        let named = content.description.iter();
        let mut named = named.flat_map(|described| &described.arrays);
        let is_said = named.any(|array| array.name == path);
        let refuse = |why: String| Err(Error::Invalid(format!("{path} {why}")));
        match array.value {
            ValueType::U64 | ValueType::I64 => {}
            _ if is_said => return refuse(format!("is of uint64, not {}", said.dtype)),
            _ if array.len.is_multiple_of(8) => {}
            _ => {
                return refuse(format!(
                    "has {} bytes, which are no numbers of 8",
                    array.len
                ));
            }
        }
        Ok(NewArray {
            value: ValueType::U64,
            ..array
        })
    }

    /// The values of a matrix without any.
    fn nothing() -> NewArray {
        let source = Arc::new(BytesSource::new(Vec::new()));
        let raw = RawArray::new(VALUES, source);
        NewArray {
            shown: Arc::new(raw),
            value: ValueType::F64,
            len: 0,
        }
    }
}
