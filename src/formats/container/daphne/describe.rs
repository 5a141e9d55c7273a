//! What the heads of a file say, as a container: arrays, attributes and the text `labels`.
//!
//! Made by [`super::spec`] and [`super::program`].

use std::sync::Arc;

use serde_json::json;

use super::dense::DenseView;
use super::dense::check::CellCheck;
use super::header::{FileHead, ObjectKind};
use super::labels::{LABELS, WHAT_LABELS_ARE};
use super::value::ValueType;
use super::write::{self, WrittenBody};
use super::{NAME, VERSION};
use crate::array::Array;
use crate::container::{Check, Container};

/// A file that obeys one of the two forms.
pub(super) struct DescribedFile {
    pub(super) header: FileHead,
    pub(super) dialect: &'static str,
    pub(super) arrays: Vec<Arc<dyn Array>>,
    /// Of a frame.
    pub(super) labels: Option<Arc<dyn Array>>,
    pub(super) checks: Vec<Arc<dyn Check>>,
    /// How it is written, if it can be.
    pub(super) written: Option<WrittenBody>,
}

impl DescribedFile {
    pub(super) fn new(
        header: FileHead,
        dialect: &'static str,
        arrays: Vec<Arc<dyn Array>>,
    ) -> Self {
        DescribedFile {
            header,
            dialect,
            arrays,
            labels: None,
            checks: Vec::new(),
            written: None,
        }
    }

    /// Adds a view of cells, and its full check.
    pub(super) fn add_checked(&mut self, view: Arc<DenseView>) {
        self.checks.push(Arc::new(CellCheck(Arc::clone(&view))));
        self.arrays.push(view);
    }

    /// Whether the value type that a file is `meant` to have is that of its code in the
    /// specification.
    pub(super) fn meant_as_spec(&self, meant: &Option<String>) -> bool {
        if self.header.data == ObjectKind::Frame {
            return false;
        }
        let spec = ValueType::spec(self.header.code);
        spec.is_some_and(|value| meant.as_deref() == Some(value.name()))
    }

    /// `is_told`: whether the user says which form it has.
    pub(super) fn container(mut self, has_sidecar: bool, is_told: bool) -> Container {
        let writable = write::rewrite_of(&mut self, (has_sidecar, is_told));
        let mut container = Container::new(NAME, VERSION);
        let mut add = |name: &str, value| container.attributes.insert(name.to_owned(), value);
        add("dialect", json!(self.dialect));
        add("data_type", json!(self.header.data.name()));
        add("rows", json!(self.header.rows));
        add("columns", json!(self.header.cols));
        if self.header.data != ObjectKind::Frame {
            add("value_type", json!(self.header.types.list[0].name()));
        }
        container.arrays = self.arrays;
        container.checks = self.checks;
        if let Some(labels) = self.labels {
            container.array_is_only_read(LABELS, WHAT_LABELS_ARE);
            container.lines.push(labels);
        }
        container.writable = writable;
        container
    }
}
