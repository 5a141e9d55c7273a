//! The arrays of fragments (docs/formats.md).
//!
//! `chr_ptr` says where each chromosome's fragments begin and end, in any order; its largest entry
//! is the number of fragments, which is stored nowhere else. So `cell`, `start` and `end` are not
//! shown if `chr_ptr` cannot be trusted. Used by `mod`.

use std::sync::Arc;

use super::audit::{all_below, audited, bounds_runs, count};
use super::ends::Ends;
use super::fields::{Field, Fields, Number, settle};
use super::packed::{Packed, Stream};
use super::plain::Plain;
use super::pointers::{Pointers, Rule};
use super::version::Version;
use crate::array::Array;
use crate::codec::bp128::Transform;
use crate::container::Container;
use crate::error::{Fault, Result};

/// Fragments that one entry of `end_max` stands for.
const RUN: u64 = 128;
/// Entries of `chr_ptr` that are looked through at opening; no genome has two million sequences.
const MOST_POINTERS: u64 = 1 << 22;

/// Adds everything that fragments of this version have.
pub(super) fn open(fields: &dyn Fields, version: Version, container: &mut Container) -> Result<()> {
    let pointers = settle(open_pointers(fields, version))?;
    let total = match &pointers {
        Ok(pointers) => settle(pointers.max())?.ok(),
        Err(_) => None,
    };
    let streams = Streams::open(fields, version, total)?;
    let cell_names = settle(fields.names("cell_names"))?;
    let cell = audit_cells(streams.cell.clone(), cell_names.as_ref().ok());
    let end_max = open_end_max(fields, total, &streams);
    let chromosomes = pointers.as_ref().ok().map(|pointers| pointers.len() / 2);
    container.add("cell", cell)?;
    container.add("start", streams.start)?;
    container.add("end", streams.end)?;
    container.add("end_max", end_max)?;
    container.add("chr_ptr", pointers.map(|p| p as Arc<dyn Array>))?;
    container.add("cell_names", cell_names)?;
    container.add("chr_names", open_chr_names(fields, chromosomes))?;
    describe(container, total, chromosomes);
    Ok(())
}

fn open_pointers(fields: &dyn Fields, version: Version) -> Result<Arc<Pointers>> {
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
        Rule::Pairs,
    )?))
}

/// The three arrays that have an element per fragment.
struct Streams {
    cell: Result<Arc<dyn Array>>,
    start: Result<Arc<dyn Array>>,
    end: Result<Arc<dyn Array>>,
}

impl Streams {
    fn open(fields: &dyn Fields, version: Version, total: Option<u64>) -> Result<Self> {
        let Some(total) = total else {
            let unknown = || {
                let what = "the number of fragments is unknown, because chr_ptr cannot be trusted";
                Err(Fault::new(what).into())
            };
            return Ok(Streams {
                cell: unknown(),
                start: unknown(),
                end: unknown(),
            });
        };
        if version.packed {
            return Self::packed(fields, version, total);
        }
        let plain = |name| Plain::open(fields, name, Number::U32, total);
        Ok(Streams {
            cell: plain("cell"),
            start: plain("start"),
            end: plain("end"),
        })
    }

    fn packed(fields: &dyn Fields, version: Version, total: u64) -> Result<Self> {
        let stream =
            |name, transform| Stream::open(fields, name, transform, total, version.generation);
        let shown = |name, stream| Arc::new(Packed::new(name, stream)) as Arc<dyn Array>;
        let cell = stream("cell", Transform::Plain).map(|cell| shown("cell", Arc::new(cell)));
        let start = settle(stream("start", Transform::Delta).map(Arc::new))?;
        let end = match &start {
            Ok(start) => stream("end", Transform::Plain)
                .map(|lengths| Arc::new(Ends::new(lengths, start.clone())) as Arc<dyn Array>),
            Err(_) => Err(Fault::new("stored relative to start, which cannot be trusted").into()),
        };
        Ok(Streams {
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

/// Every cell number has a name.
fn audit_cells(
    cell: Result<Arc<dyn Array>>,
    names: Option<&Arc<dyn Array>>,
) -> Result<Arc<dyn Array>> {
    let Some(names) = names.cloned() else {
        return cell;
    };
    Ok(audited(cell?, move |cell, report| {
        all_below(cell, count(names.as_ref())?, "cell_names", report)
    }))
}

/// Every name has a begin and an end in `chr_ptr`: a reader looks for them. What has no name it never asks for.
fn open_chr_names(fields: &dyn Fields, chromosomes: Option<u64>) -> Result<Arc<dyn Array>> {
    let names = fields.names("chr_names")?;
    let Some(chromosomes) = chromosomes else {
        return Ok(names);
    };
    Ok(audited(names, move |names, report| {
        let found = count(names)?;
        if found > chromosomes {
            let fault = Fault::new("more names than chr_ptr has chromosomes");
            report(
                fault
                    .expected(format_args!("at most {chromosomes}"))
                    .found(found),
            );
        }
        Ok(())
    }))
}

/// An entry for every 128 fragments. If none of the other arrays confirms the number of fragments,
/// it is shown in its own length: it is not the one to blame.
fn open_end_max(
    fields: &dyn Fields,
    total: Option<u64>,
    streams: &Streams,
) -> Result<Arc<dyn Array>> {
    let field: Arc<dyn Field> = fields.field("end_max", Number::U32)?;
    let len = match total {
        Some(total) if streams.any() => total.div_ceil(RUN),
        _ => field.len(),
    };
    let end_max: Arc<dyn Array> = Arc::new(Plain::new("end_max", field, len)?);
    let Ok(end) = &streams.end else {
        return Ok(end_max);
    };
    let end = end.clone();
    Ok(audited(end_max, move |maxima, report| {
        bounds_runs(maxima, end.as_ref(), RUN, report)
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
