//! The arrays of a matrix (docs/formats.md).
//!
//! A matrix is compressed along its major dimension: `idxptr` has an entry per column (per row, if
//! `storage_order` is `row`) and one more, and its last entry is the number of stored values, which
//! the packed streams do not know themselves. So `val` and `index` are not shown if `idxptr` cannot
//! be trusted. Used by `mod`.

use std::sync::Arc;

use super::check::{all_below, count, count_is_one_of, rule};
use super::fields::{Fields, Number, faults_apart};
use super::packed::{PackedArray, PackedStream};
use super::plain::PlainArray;
use super::pointers::{PointerRule, Pointers};
use super::version::{Generation, Variant};
use crate::array::Array;
use crate::codec::bp128::Transform;
use crate::container::{Check, Container, Text};
use crate::error::{Error, Fault, Result};

/// A dimension this large stands for anything larger.
const SATURATED: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageOrder {
    Col,
    Row,
}

impl StorageOrder {
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        let orders = [StorageOrder::Col, StorageOrder::Row];
        orders
            .into_iter()
            .find(|order| order.name().as_bytes() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            StorageOrder::Col => "col",
            StorageOrder::Row => "row",
        }
    }

    fn read(fields: &dyn Fields) -> Result<Self> {
        let line = fields.first_line("storage_order")?;
        StorageOrder::named(&line).ok_or_else(|| {
            let fault = Fault::new("unknown storage order").file("storage_order");
            let fault = fault.expected("col or row");
            fault.found(line.escape_ascii()).into()
        })
    }
}

/// Rows and columns, as far as they are known.
#[derive(Clone, Copy, Default)]
pub(super) struct Shape {
    pub(super) rows: Option<u32>,
    pub(super) cols: Option<u32>,
}

impl Shape {
    /// The dimension that `idxptr` runs along, and the one whose numbers are in `index`.
    pub(super) fn major_minor(self, order: Option<StorageOrder>) -> (Option<u32>, Option<u32>) {
        match order {
            Some(StorageOrder::Col) => (self.cols, self.rows),
            Some(StorageOrder::Row) => (self.rows, self.cols),
            None => (None, None),
        }
    }
}

/// A dimension to check against.
pub(super) fn limit(dimension: Option<u32>) -> Option<u64> {
    dimension.filter(|&n| n != SATURATED).map(u64::from)
}

/// Adds everything that a matrix of this version has.
pub(super) fn open(
    fields: &dyn Fields,
    version: Variant,
    values: Number,
    container: &mut Container,
) -> Result<()> {
    let order = storage_order(fields, container)?;
    let (shape, shape_array) = shape(fields)?;
    let (major, _) = shape.major_minor(order);
    let pointers = faults_apart(open_pointers(fields, version, major))?;
    let nnz = match &pointers {
        Ok(pointers) => faults_apart(entries(pointers))?.ok(),
        Err(_) => None,
    };
    container.add("val", open_values(fields, version, values, nnz))?;
    container.add("index", open_indices(fields, version, nnz))?;
    container.add("idxptr", pointers.clone().map(|pointers| pointers as _))?;
    container.add("shape", shape_array)?;
    container.add("row_names", fields.names("row_names"))?;
    container.add("col_names", fields.names("col_names"))?;
    add_checks(container, shape, order, pointers.ok());
    describe(container, order, shape, nnz);
    Ok(())
}

/// Without it the arrays can still be shown, but not what they mean.
fn storage_order(fields: &dyn Fields, container: &mut Container) -> Result<Option<StorageOrder>> {
    match StorageOrder::read(fields).map_err(Error::needed) {
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
    let opened = faults_apart(fields.field("shape", Number::U32).and_then(|field| {
        field.require(2)?;
        let read = |index| field.read_unsigned(index).map(|n| Some(n as u32));
        let shape = Shape {
            rows: read(0)?,
            cols: read(1)?,
        };
        let array: Arc<dyn Array> = Arc::new(PlainArray::new("shape", field.clone(), 2)?);
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
    version: Variant,
    major: Option<u32>,
) -> Result<Arc<Pointers>> {
    if version.generation != Generation::SparseColumns {
        let field = fields.field("idxptr", version.generation.pointer())?;
        return Ok(Arc::new(Pointers::plain(
            "idxptr",
            field,
            PointerRule::NeverDecreasing,
        )?));
    }
    let major = major.ok_or_else(|| {
        Fault::new("its length is unknown, because shape or storage_order cannot be trusted")
    })?;
    let len = u64::from(major) + 1;
    let stream = PackedStream::open(fields, "idxptr", Transform::Delta, len, version.generation)?;
    Ok(Arc::new(Pointers::packed(
        "idxptr",
        stream,
        PointerRule::NeverDecreasing,
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
    version: Variant,
    values: Number,
    nnz: Option<u64>,
) -> Result<Arc<dyn Array>> {
    let nnz = known(nnz)?;
    // Only integers are packed; float and double values stay as they are.
    if !version.packed || values != Number::U32 {
        return PlainArray::open(fields, "val", values, nnz);
    }
    let stream = PackedStream::open(fields, "val", Transform::MinusOne, nnz, version.generation)?;
    Ok(Arc::new(PackedArray::new("val", Arc::new(stream))))
}

fn open_indices(fields: &dyn Fields, version: Variant, nnz: Option<u64>) -> Result<Arc<dyn Array>> {
    let nnz = known(nnz)?;
    if !version.packed {
        return PlainArray::open(fields, "index", Number::U32, nnz);
    }
    let transform = Transform::DeltaZigzag;
    let stream = PackedStream::open(fields, "index", transform, nnz, version.generation)?;
    Ok(Arc::new(PackedArray::new("index", Arc::new(stream))))
}

/// Adds the rules between the arrays that are there.
fn add_checks(
    container: &mut Container,
    shape: Shape,
    order: Option<StorageOrder>,
    pointers: Option<Arc<Pointers>>,
) {
    let (major, minor) = shape.major_minor(order);
    let rules = [
        indices_are_below(container, limit(minor)),
        pointers
            .zip(limit(major))
            .map(|(pointers, major)| pointers_fit(pointers, major)),
        names_are_all_or_none(container, "row_names", limit(shape.rows)),
        names_are_all_or_none(container, "col_names", limit(shape.cols)),
    ];
    container.checks.extend(rules.into_iter().flatten());
}

fn indices_are_below(container: &Container, minor: Option<u64>) -> Option<Arc<dyn Check>> {
    let (index, minor) = container.array("index").zip(minor)?;
    Some(rule(index, move |index, budget, report| {
        all_below(index, minor, "rows or columns of the shape", budget, report)
    }))
}

/// `idxptr` has one entry more than the major dimension; with none, the writers disagree between
/// `[0]` and `[0, 0]`.
fn pointers_fit(pointers: Arc<Pointers>, major: u64) -> Arc<dyn Check> {
    let array: Arc<dyn Array> = pointers.clone();
    rule(&array, move |array, _, report| {
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

fn names_are_all_or_none(
    container: &Container,
    name: &str,
    dimension: Option<u64>,
) -> Option<Arc<dyn Check>> {
    let (names, dimension) = container.array(name).zip(dimension)?;
    Some(rule(names, move |names, _, report| {
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
