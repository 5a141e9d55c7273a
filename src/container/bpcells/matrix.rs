//! The arrays of a matrix (docs/formats.md).
//!
//! A matrix is compressed along its major dimension: `idxptr` has an entry per column (per row, if
//! `storage_order` is `row`) and one more, and its last entry is the number of stored values, which
//! the packed streams do not know themselves. So `val` and `index` are not shown if `idxptr` cannot
//! be trusted. Used by `mod`.

use std::sync::Arc;

use super::audit::{all_below, audited, count, count_is_one_of};
use super::fields::{Fields, Number, settle};
use super::packed::{Packed, Stream};
use super::plain::Plain;
use super::pointers::{Pointers, Rule};
use super::version::{Generation, Version};
use crate::array::Array;
use crate::codec::bp128::Transform;
use crate::container::{Container, Text};
use crate::error::{Error, Fault, Result};

/// A dimension this large stands for anything larger.
const SATURATED: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StorageOrder {
    Col,
    Row,
}

impl StorageOrder {
    fn name(self) -> &'static str {
        match self {
            StorageOrder::Col => "col",
            StorageOrder::Row => "row",
        }
    }

    fn read(fields: &dyn Fields) -> Result<Self> {
        match &fields.first_line("storage_order")?[..] {
            b"col" => Ok(StorageOrder::Col),
            b"row" => Ok(StorageOrder::Row),
            other => Err(Fault::new("unknown storage order")
                .file("storage_order")
                .expected("col or row")
                .found(other.escape_ascii())
                .into()),
        }
    }
}

/// Rows and columns, as far as they are known.
#[derive(Clone, Copy, Default)]
struct Shape {
    rows: Option<u32>,
    cols: Option<u32>,
}

impl Shape {
    /// The dimension that `idxptr` runs along, and the one whose numbers are in `index`.
    fn major_minor(self, order: Option<StorageOrder>) -> (Option<u32>, Option<u32>) {
        match order {
            Some(StorageOrder::Col) => (self.cols, self.rows),
            Some(StorageOrder::Row) => (self.rows, self.cols),
            None => (None, None),
        }
    }
}

/// A dimension to check against.
fn limit(dimension: Option<u32>) -> Option<u64> {
    dimension.filter(|&n| n != SATURATED).map(u64::from)
}

/// Adds everything that a matrix of this version has.
pub(super) fn open(
    fields: &dyn Fields,
    version: Version,
    values: Number,
    container: &mut Container,
) -> Result<()> {
    let order = storage_order(fields, container)?;
    let (shape, shape_array) = shape(fields)?;
    let (major, minor) = shape.major_minor(order);
    let pointers = settle(open_pointers(fields, version, major))?;
    let nnz = match &pointers {
        Ok(pointers) => settle(entries(pointers))?.ok(),
        Err(_) => None,
    };
    container.add("val", open_values(fields, version, values, nnz))?;
    container.add("index", open_indices(fields, version, nnz, minor))?;
    container.add("idxptr", pointers.map(|p| audit_pointers(p, major)))?;
    container.add("shape", shape_array)?;
    container.add("row_names", open_names(fields, "row_names", shape.rows))?;
    container.add("col_names", open_names(fields, "col_names", shape.cols))?;
    describe(container, order, shape, nnz);
    Ok(())
}

/// Without it the arrays can still be shown, but not what they mean.
fn storage_order(fields: &dyn Fields, container: &mut Container) -> Result<Option<StorageOrder>> {
    match StorageOrder::read(fields) {
        Ok(order) => {
            let content = format!("{}\n", order.name()).into_bytes().into();
            container.texts.push(Text {
                name: "storage_order".into(),
                content,
            });
            Ok(Some(order))
        }
        Err(Error::Fault(fault)) => {
            container.faults.push(fault.array("storage_order"));
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// The array and its two values.
fn shape(fields: &dyn Fields) -> Result<(Shape, Result<Arc<dyn Array>>)> {
    let opened = settle(fields.field("shape", Number::U32).and_then(|field| {
        field.require(2)?;
        let read = |index| field.read_unsigned(index).map(|n| Some(n as u32));
        let shape = Shape {
            rows: read(0)?,
            cols: read(1)?,
        };
        let array: Arc<dyn Array> = Arc::new(Plain::new("shape", field.clone(), 2)?);
        Ok((shape, array))
    }))?;
    Ok(match opened {
        Ok((shape, array)) => (shape, Ok(array)),
        Err(fault) => (Shape::default(), Err(fault)),
    })
}

/// `idxptr`, plain or, in version 9999, a stream of one value more than the major dimension.
fn open_pointers(
    fields: &dyn Fields,
    version: Version,
    major: Option<u32>,
) -> Result<Arc<Pointers>> {
    if version.generation != Generation::SparseColumns {
        let field = fields.field("idxptr", version.generation.pointer())?;
        return Ok(Arc::new(Pointers::plain(
            "idxptr",
            field,
            Rule::NeverDecreasing,
        )?));
    }
    let major = major.ok_or_else(|| {
        Fault::new("its length is unknown, because shape or storage_order cannot be trusted")
    })?;
    let len = u64::from(major) + 1;
    let stream = Stream::open(fields, "idxptr", Transform::Delta, len, version.generation)?;
    Ok(Arc::new(Pointers::packed(
        "idxptr",
        stream,
        Rule::NeverDecreasing,
    )))
}

/// Number of stored values.
fn entries(pointers: &Pointers) -> Result<u64> {
    pointers
        .last()?
        .ok_or_else(|| Fault::new("idxptr is empty").into())
}

fn known(nnz: Option<u64>) -> Result<u64> {
    nnz.ok_or_else(|| {
        Fault::new("the number of entries is unknown, because idxptr cannot be trusted").into()
    })
}

fn open_values(
    fields: &dyn Fields,
    version: Version,
    values: Number,
    nnz: Option<u64>,
) -> Result<Arc<dyn Array>> {
    let nnz = known(nnz)?;
    // Only integers are packed; float and double values stay as they are.
    if !version.packed || values != Number::U32 {
        return Plain::open(fields, "val", values, nnz);
    }
    let stream = Stream::open(fields, "val", Transform::MinusOne, nnz, version.generation)?;
    Ok(Arc::new(Packed::new("val", Arc::new(stream))))
}

fn open_indices(
    fields: &dyn Fields,
    version: Version,
    nnz: Option<u64>,
    minor: Option<u32>,
) -> Result<Arc<dyn Array>> {
    let nnz = known(nnz)?;
    let array: Arc<dyn Array> = if version.packed {
        let transform = Transform::DeltaZigzag;
        let stream = Stream::open(fields, "index", transform, nnz, version.generation)?;
        Arc::new(Packed::new("index", Arc::new(stream)))
    } else {
        Plain::open(fields, "index", Number::U32, nnz)?
    };
    let Some(limit) = limit(minor) else {
        return Ok(array);
    };
    Ok(audited(array, move |array, report| {
        all_below(array, limit, "rows or columns of the shape", report)
    }))
}

/// `idxptr` has one entry more than the major dimension; with none, the writers disagree between
/// `[0]` and `[0, 0]`.
fn audit_pointers(pointers: Arc<Pointers>, major: Option<u32>) -> Arc<dyn Array> {
    let Some(major) = limit(major) else {
        return pointers;
    };
    audited(pointers.clone(), move |array, report| {
        if major == 0 && count(array)? == 2 {
            if let Some(last) = pointers.last()?.filter(|&last| last > 0) {
                let fault = Fault::new("a matrix without columns or rows has entries");
                report(fault.expected(0).found(last));
            }
            return Ok(());
        }
        count_is_one_of(array, &[major + 1], report)
    })
}

/// Names are given for all or for none.
fn open_names(fields: &dyn Fields, name: &str, dimension: Option<u32>) -> Result<Arc<dyn Array>> {
    let names = fields.names(name)?;
    let Some(dimension) = limit(dimension) else {
        return Ok(names);
    };
    Ok(audited(names, move |names, report| {
        count_is_one_of(names, &[0, dimension], report)
    }))
}

fn describe(
    container: &mut Container,
    order: Option<StorageOrder>,
    shape: Shape,
    nnz: Option<u64>,
) {
    let mut tell = |key: &str, value: Option<serde_json::Value>| {
        if let Some(value) = value {
            container.attributes.insert(key.to_owned(), value);
        }
    };
    tell("kind", Some("matrix".into()));
    tell("storage_order", order.map(|order| order.name().into()));
    tell("rows", shape.rows.map(Into::into));
    tell("cols", shape.cols.map(Into::into));
    tell("nnz", nnz.map(Into::into));
}
