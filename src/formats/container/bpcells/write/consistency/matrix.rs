//! The rules of a matrix: `idxptr` rises from 0 to the number of values, and everything fits
//! `shape`. Used by [`super`].

use super::{Judge, Ruling};
use crate::container::bpcells::matrix::{Shape, limit};
use crate::container::bpcells::write::chromosomes::unsigned;
use crate::container::bpcells::write::forms::ArrayForm;
use crate::container::bpcells::write::merged::MergedArray;
use crate::container::bpcells::write::objection::Objection;
use crate::container::bpcells::write::spaces::{read_step, telling_steps};
use crate::range_set::RangeSet;

pub(super) fn judge(judge: &Judge<'_>) -> Ruling {
    let merged = judge.merged;
    let shape = judge.shape()?;
    let (major, minor) = shape.major_minor(Some(merged.order));
    let pointers = merged.array("idxptr")?;
    let reorders = merged.order != merged.files.order;
    if merged.has_changed(&["idxptr"]) {
        judge.rises(&pointers)?;
    }
    if merged.has_changed(&["idxptr", "shape"]) || reorders {
        judge.pointers_fit(&pointers, major)?;
    }
    if merged.has_changed(&["idxptr", "val", "index"]) {
        judge.entries_fit(&pointers)?;
    }
    judge.indices_fit(minor)?;
    judge.names_fit("row_names", limit(shape.rows))?;
    judge.names_fit("col_names", limit(shape.cols))
}

impl Judge<'_> {
    fn shape(&self) -> Ruling<Shape> {
        let shape = self.merged.array("shape")?;
        if shape.count() != 2 {
            let why = format!("shape has {} values, and should have 2", shape.count());
            return Err(Objection::NotYet(why));
        }
        let dimension = |number| self.element(&shape, number).map(|n| u32::try_from(n).ok());
        Ok(Shape {
            rows: dimension(0)?,
            cols: dimension(1)?,
        })
    }

    /// Entries never decrease, and the first is 0.
    fn rises(&self, pointers: &MergedArray<'_>) -> Ruling {
        let width = pointers.form.width().unwrap_or(8);
        let mut space = self.space(pointers)?;
        let mut before = None;
        for step in telling_steps(pointers.shown, 0..pointers.len) {
            let entries = read_step(pointers.shown, &step, &mut space)?;
            let numbers = step.start / width..;
            for (entry, number) in entries.chunks_exact(width as usize).zip(numbers) {
                let entry = unsigned(entry);
                match before {
                    None if entry != 0 => {
                        let why = format!("idxptr begins with {entry}, and should with 0");
                        return Err(Objection::NotYet(why));
                    }
                    Some(before) if entry < before => {
                        return Err(Objection::NotYet(format!(
                            "idxptr: entry {number} is {entry}, less than the one before, {before}"
                        )));
                    }
                    _ => before = Some(entry),
                }
            }
        }
        match before {
            Some(_) => Ok(()),
            None => Err(Objection::NotYet("idxptr is empty".into())),
        }
    }

    /// One entry more than the major dimension; with none, the writers disagree between `[0]` and
    /// `[0, 0]`.
    fn pointers_fit(&self, pointers: &MergedArray<'_>, major: Option<u32>) -> Ruling {
        let count = pointers.count();
        // The length of a packed one is stored nowhere else.
        let major = match pointers.form {
            ArrayForm::Packed(_) => major.map(u64::from),
            _ => limit(major),
        };
        let Some(major) = major else {
            return Ok(());
        };
        let is_plain = !matches!(pointers.form, ArrayForm::Packed(_));
        if is_plain && major == 0 && count == 2 {
            return match self.element(pointers, 1)? {
                0 => Ok(()),
                last => Err(Objection::NotYet(format!(
                    "idxptr ends with {last}, and shape has no rows or columns"
                ))),
            };
        }
        if count != major + 1 {
            return Err(Objection::NotYet(format!(
                "idxptr has {count} entries, and shape is of {} (one less than entries)",
                dimension(self.merged.order.name(), major)
            )));
        }
        Ok(())
    }

    /// As many values and indices as the last entry says.
    fn entries_fit(&self, pointers: &MergedArray<'_>) -> Ruling {
        let Some(last) = pointers.count().checked_sub(1) else {
            return Err(Objection::NotYet("idxptr is empty".into()));
        };
        let entries = self.element(pointers, last)?;
        for name in ["val", "index"] {
            let count = self.merged.array(name)?.count();
            if pointers.form.width() == Some(4) && u32::try_from(count).is_err() {
                return Err(Objection::Unfit(format!(
                    "{name} has {count} values, more than {} can point to",
                    self.merged.version
                )));
            }
            if count != entries {
                return Err(Objection::NotYet(format!(
                    "{name} has {count} values, idxptr ends with {entries}"
                )));
            }
        }
        Ok(())
    }

    /// Indices are those of rows or columns that there are: those that have changed, and all of
    /// them if there are fewer.
    fn indices_fit(&self, minor: Option<u32>) -> Ruling {
        let Some(limit) = limit(minor) else {
            return Ok(());
        };
        let merged = self.merged;
        let index = merged.array("index")?;
        let all = merged.order != merged.files.order || self.has_shrunk(limit)?;
        let elements = match all {
            true => RangeSet::from(0..index.count()),
            false => index.dirty_elements(),
        };
        if elements.is_empty() {
            return Ok(());
        }
        let things = match merged.order.name() {
            "col" => "rows",
            _ => "columns",
        };
        self.all_below(&index, &elements, limit, things)
    }

    /// Whether the minor dimension is less than it was.
    fn has_shrunk(&self, limit: u64) -> Ruling<bool> {
        let merged = self.merged;
        let (Some(_), Some(stored)) = (merged.change("shape"), merged.files.array("shape")) else {
            return Ok(false);
        };
        let mut shape = [0; 8];
        stored.read_direct(0, &mut shape)?;
        let place = match merged.files.order.name() {
            "col" => &shape[..4],
            _ => &shape[4..],
        };
        Ok(limit < unsigned(place))
    }

    /// Names for all or for none.
    fn names_fit(&self, name: &str, dimension: Option<u64>) -> Ruling {
        let merged = self.merged;
        if merged.change(name).is_none() && merged.change("shape").is_none() {
            return Ok(());
        }
        let lines = self.lines(&merged.array(name)?)?;
        match dimension {
            Some(dimension) if lines != 0 && lines != dimension => Err(Objection::NotYet(format!(
                "{name} has {lines} lines, and shape says {dimension}"
            ))),
            _ => Ok(()),
        }
    }
}

fn dimension(order: &str, count: u64) -> String {
    match order {
        "col" => format!("{count} columns"),
        _ => format!("{count} rows"),
    }
}
