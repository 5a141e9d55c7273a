//! Which part of an array is shown, and what is said of it.

use std::io::Write;

use super::super::failure::{CommandResult, Failure};
use super::super::open_array::{OpenedArray, scale_of};
use super::super::output;
use crate::container::names::path_text;
use crate::look::element::{ElementType, StructurePart};
use crate::look::physical::PhysicalScale;
use crate::look::slice::{self, AxisSlice, shape_text};
use crate::look::value::printable;

/// An array and the elements that are meant.
pub(super) struct ArrayView {
    pub(super) opened: OpenedArray,
    /// None: text.
    pub(super) element: Option<ElementType>,
    /// Of its axes.
    pub(super) names: Vec<Option<String>>,
    pub(super) slices: Vec<AxisSlice>,
    pub(super) scale: PhysicalScale,
    pub(super) is_physical: bool,
    was_sliced: bool,
}

impl ArrayView {
    pub(super) fn of(
        opened: OpenedArray,
        given: Option<&str>,
        is_physical: bool,
    ) -> Result<ArrayView, Failure> {
        let (names, element) = (opened.dims(), opened.element());
        let slices = slice::parse(given.unwrap_or(""), &opened.info.shape, &names);
        let slices = slices.map_err(|why| Failure::usage(format!("--slice {why}")))?;
        let scale = match &element {
            Some(element) => scale_of(
                &opened.attributes,
                element,
                &opened.details,
                &opened.container,
            ),
            None => PhysicalScale::none(),
        };
        Ok(ArrayView {
            opened,
            element,
            names,
            slices,
            scale,
            is_physical,
            was_sliced: given.is_some(),
        })
    }

    /// The axes that the slice leaves, by their numbers.
    pub(super) fn axes(&self) -> Vec<usize> {
        let kept = self.slices.iter().enumerate();
        kept.filter(|(_, slice)| !slice.is_single)
            .map(|(axis, _)| axis)
            .collect()
    }

    /// Whether the slice has no elements.
    pub(super) fn is_empty(&self) -> bool {
        self.slices.iter().any(|slice| slice.count == 0)
    }

    /// What is printed of a slice without elements.
    pub(super) fn print_empty(&self) -> CommandResult {
        let mut lines = vec![self.title()];
        lines.extend(self.captions());
        lines.push("no elements".into());
        output::print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
    }

    /// Takes the first index of the first axes, until at most two are left.
    pub(super) fn take_first_plane(&mut self) {
        if self.is_empty() {
            return;
        }
        let axes = self.axes();
        let before = axes.len().saturating_sub(2);
        for axis in axes.into_iter().take(before) {
            if let Some(slice) = self.slices.get_mut(axis) {
                *slice = AxisSlice::single(slice.start);
            }
        }
    }

    /// The columns of a table for each element: one, or one for each part of a compound.
    pub(super) fn columns(&self) -> Vec<StructurePart> {
        self.element
            .as_ref()
            .map(ElementType::columns)
            .unwrap_or_default()
    }

    pub(super) fn axis_name(&self, axis: usize) -> String {
        match self.names.get(axis) {
            Some(Some(name)) => printable(name),
            _ => String::new(),
        }
    }

    /// Container and array, type and shape.
    pub(super) fn title(&self) -> String {
        let info = &self.opened.info;
        let mut title = format!(
            "{}/{}: {} {}",
            path_text(&self.opened.found.shown()),
            printable(&self.opened.path),
            shortened(&info.dtype.name()),
            shape_text(&info.shape)
        );
        let dims: Vec<&str> = self.names.iter().flatten().map(String::as_str).collect();
        if !dims.is_empty() {
            title += &format!(", dims {}", printable(&dims.join(", ")));
        }
        if info.order.name() != "C" && info.shape.len() > 1 {
            title += &format!(", order {}", info.order.name());
        }
        title
    }

    /// What part of it is shown, and what its numbers mean; nothing where that is all as it is.
    pub(super) fn captions(&self) -> Vec<String> {
        let shape = &self.opened.info.shape;
        let mut captions = Vec::new();
        let all = shape.iter().map(|len| AxisSlice::whole(*len));
        if !self.slices.iter().copied().eq(all) {
            let each = self.slices.iter().zip(shape);
            let spelled: Vec<String> = each.map(|(slice, len)| slice.spelled(*len)).collect();
            let hint = if self.was_sliced {
                ""
            } else {
                "; --slice chooses"
            };
            let shape = shape_text(shape);
            captions.push(format!("showing [{}] of {shape}{hint}", spelled.join(", ")));
        }
        let units = self.scale.units.as_deref().map(printable);
        if self.is_physical && self.scale.is_scaled() {
            captions.push(format!("float64 = {}", self.scale.formula()));
        }
        if let Some(units) = units.filter(|_| self.is_physical || !self.scale.is_scaled()) {
            captions.push(format!("units {units}"));
        }
        captions
    }
}

/// A type that is a long list is cut.
fn shortened(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
