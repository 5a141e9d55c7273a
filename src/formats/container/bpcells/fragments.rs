//! The arrays of fragments (docs/formats.md).
//!
//! `chr_ptr` says where each chromosome's fragments begin and end, in any order; its largest entry
//! is the number of fragments, which is stored nowhere else. So `cell`, `start` and `end` are not
//! shown if `chr_ptr` cannot be trusted. Used by `mod`.

use std::sync::Arc;

use super::check::{all_below, bounds_runs, count, rule};
use super::fields::{Field, Fields, Number, faults_apart};
use super::packed::ends::Ends;
use super::packed::{PackedArray, PackedStream};
use super::plain::PlainArray;
use super::pointers::{PointerRule, Pointers};
use super::version::Variant;
use crate::array::Array;
use crate::codec::bp128::Transform;
use crate::container::{Check, Container};
use crate::error::{Fault, Result};

/// Fragments that one entry of `end_max` stands for.
pub(super) const RUN: u64 = 128;
/// Entries of `chr_ptr` that are looked through at opening; no genome has two million sequences.
pub(super) const MOST_POINTERS: u64 = 1 << 22;

/// Adds everything that fragments of this version have.
pub(super) fn open(fields: &dyn Fields, version: Variant, container: &mut Container) -> Result<()> {
    let pointers = faults_apart(open_pointers(fields, version))?;
    let total = match &pointers {
        Ok(pointers) => faults_apart(pointers.largest())?.ok(),
        Err(_) => None,
    };
    let streams = FragmentArrays::open(fields, version, total)?;
    let end_max = open_end_max(fields, total, &streams);
    let chromosomes = pointers.as_ref().ok().map(|pointers| pointers.len() / 2);
    container.add("cell", streams.cell)?;
    container.add("start", streams.start)?;
    container.add("end", streams.end)?;
    container.add("end_max", end_max)?;
    container.add("chr_ptr", pointers.map(|p| p as Arc<dyn Array>))?;
    container.add("cell_names", fields.names("cell_names"))?;
    container.add("chr_names", fields.names("chr_names"))?;
    add_checks(container, chromosomes);
    describe(container, total, chromosomes);
    Ok(())
}

fn open_pointers(fields: &dyn Fields, version: Variant) -> Result<Arc<Pointers>> {
    let field = fields.field("chr_ptr", version.generation.pointer())?;
    let fault = |what: &str| {
        let bytes = field.len().saturating_mul(field.number().width());
        field.locate(Fault::new(what).found(field.len()), 0..bytes)
    };
    if field.len() % 2 != 0 {
        return Err(fault("not a begin and an end for each chromosome")
            .expected("an even number of entries")
            .into());
    }
    if field.len() > MOST_POINTERS {
        let most = format!("at most {MOST_POINTERS} entries");
        return Err(fault("too many chromosomes").expected(most).into());
    }
    Ok(Arc::new(Pointers::plain(
        "chr_ptr",
        field.clone(),
        PointerRule::Pairs,
    )?))
}

/// The three arrays that have an element per fragment.
struct FragmentArrays {
    cell: Result<Arc<dyn Array>>,
    start: Result<Arc<dyn Array>>,
    end: Result<Arc<dyn Array>>,
}

impl FragmentArrays {
    fn open(fields: &dyn Fields, version: Variant, total: Option<u64>) -> Result<Self> {
        let Some(total) = total else {
            let unknown = || {
                let what = "the number of fragments is unknown, because chr_ptr cannot be trusted";
                Err(Fault::new(what).into())
            };
            return Ok(FragmentArrays {
                cell: unknown(),
                start: unknown(),
                end: unknown(),
            });
        };
        if version.packed {
            return Self::packed(fields, version, total);
        }
        let plain = |name| PlainArray::open(fields, name, Number::U32, total);
        Ok(FragmentArrays {
            cell: plain("cell"),
            start: plain("start"),
            end: plain("end"),
        })
    }

    fn packed(fields: &dyn Fields, version: Variant, total: u64) -> Result<Self> {
        let stream = |name, transform| {
            PackedStream::open(fields, name, transform, total, version.generation)
        };
        let shown = |name, stream| Arc::new(PackedArray::new(name, stream)) as Arc<dyn Array>;
        let cell = stream("cell", Transform::Plain).map(|cell| shown("cell", Arc::new(cell)));
        let start = faults_apart(stream("start", Transform::Delta).map(Arc::new))?;
        let end = match &start {
            Ok(start) => stream("end", Transform::Plain)
                .map(|lengths| Arc::new(Ends::new(lengths, start.clone())) as Arc<dyn Array>),
            Err(_) => Err(Fault::new("stored relative to start, which cannot be trusted").into()),
        };
        Ok(FragmentArrays {
            cell,
            start: start.map(|s| shown("start", s)),
            end,
        })
    }

    /// Whether one of the arrays does hold the claimed number of fragments.
    fn any(&self) -> bool {
        self.cell.is_ok() || self.start.is_ok() || self.end.is_ok()
    }
}

/// An entry for every 128 fragments. If none of the other arrays confirms the number of fragments,
/// it is shown in its own length: it is not the one to blame.
fn open_end_max(
    fields: &dyn Fields,
    total: Option<u64>,
    streams: &FragmentArrays,
) -> Result<Arc<dyn Array>> {
    let field: Arc<dyn Field> = fields.field("end_max", Number::U32)?;
    let len = match total {
        Some(total) if streams.any() => total.div_ceil(RUN),
        _ => field.len(),
    };
    Ok(Arc::new(PlainArray::new("end_max", field, len)?))
}

/// Adds the rules between the arrays that are there.
fn add_checks(container: &mut Container, chromosomes: Option<u64>) {
    let rules = [
        cells_have_names(container),
        runs_are_bounded(container),
        chromosomes.and_then(|chromosomes| names_have_pointers(container, chromosomes)),
    ];
    container.checks.extend(rules.into_iter().flatten());
}

/// Every cell number has a name.
fn cells_have_names(container: &Container) -> Option<Arc<dyn Check>> {
    let cell = container.array("cell")?;
    let names = Arc::clone(container.array("cell_names")?);
    Some(rule(cell, move |cell, budget, report| {
        all_below(cell, count(&*names)?, "cell_names", budget, report)
    }))
}

fn runs_are_bounded(container: &Container) -> Option<Arc<dyn Check>> {
    let end_max = container.array("end_max")?;
    let end = Arc::clone(container.array("end")?);
    Some(rule(end_max, move |maxima, budget, report| {
        bounds_runs(maxima, &*end, RUN, budget, report)
    }))
}

/// Every name has a begin and an end in `chr_ptr`: a reader looks for them. What has no name it
/// never asks for.
fn names_have_pointers(container: &Container, chromosomes: u64) -> Option<Arc<dyn Check>> {
    let names = container.array("chr_names")?;
    Some(rule(names, move |names, _, report| {
        let found = count(names)?;
        if found > chromosomes {
            let fault = Fault::new("more names than chr_ptr has chromosomes");
            let fault = fault.expected(format_args!("at most {chromosomes}"));
            report(fault.found(found));
        }
        Ok(())
    }))
}

fn describe(container: &mut Container, total: Option<u64>, chromosomes: Option<u64>) {
    container
        .attributes
        .insert("kind".into(), "fragments".into());
    for (key, value) in [("fragments", total), ("chromosomes", chromosomes)] {
        if let Some(value) = value {
            container.attributes.insert(key.into(), value.into());
        }
    }
}
