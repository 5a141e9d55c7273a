//! How the files of a changed container come about: which of them are concerned, and by what they
//! are told.
//!
//! First everything is planned and the memory for it reserved, then the files are told, one array
//! after the other, `end_max` first: it takes more. A container that is not there yet is planned as
//! one of which everything has changed. Used by [`super`].

use std::sync::Arc;

use super::end_max::MaximaPlan;
use super::forms::{ArrayForm, StreamForm, arrays_of, member};
use super::member_writer::MemberWriter;
use super::merged::{MergedArray, MergedContainer};
use super::plain_file::PlainPlan;
use super::spaces::{CHUNK_BYTES, encode_memory, reading};
use super::stream::{StreamPlan, StreamValues, dirty_of};
use super::{END_MAX, ORDER, VERSION};
use crate::container::bpcells::fragments::RUN;
use crate::container::chunked_write::ChunkedArray;
use crate::container::chunked_write::memory::EncodeNeeds;
use crate::container::writable::{Amount, MemberNumber, Recipe};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;

/// What is told of one array.
enum MemberPlan<'a> {
    Stream(StreamPlan<'a>),
    Plain(PlainPlan<'a>),
    /// One line that says something else than before.
    Word(MemberNumber, String),
    Maxima(MaximaPlan<'a>),
}

pub(super) fn tell(
    merged: &MergedContainer<'_>,
    budget: &Arc<Budget>,
    write: &mut dyn Recipe,
) -> Result<()> {
    let plans = plans(merged)?;
    let (mut needs, mut lanes) = (EncodeNeeds::default(), 1);
    for plan in &plans {
        needs = needs.max(plan.needs()?);
        lanes = lanes.max(plan.lanes()?);
    }
    let mut memory = encode_memory(needs, lanes, budget)?;
    for plan in &plans {
        match plan {
            MemberPlan::Stream(stream) => stream.tell(&mut memory, write).map(|_| ())?,
            MemberPlan::Plain(plain) => plain.tell(memory.first()?, write)?,
            MemberPlan::Maxima(maxima) => maxima.tell(memory.first()?, budget, write)?,
            MemberPlan::Word(file, line) => {
                let mut file = MemberWriter::new(*file, None)?;
                file.put(format!("{line}\n").as_bytes(), write)?;
                file.end(write)?;
            }
        }
    }
    Ok(())
}

pub(super) fn amount(merged: &MergedContainer<'_>) -> Result<Amount> {
    let mut amount = Amount::default();
    for plan in plans(merged)? {
        let (stored, changed) = plan.amount();
        amount.stored = amount.stored.saturating_add(stored);
        amount.changed = amount.changed.saturating_add(changed);
        if let MemberPlan::Stream(stream) = &plan {
            let encoded = stream.dirty.len().saturating_mul(CHUNK_BYTES);
            amount.moves = true;
            amount.encoded = amount.encoded.saturating_add(encoded);
            amount.guessed |= Amount::is_guess(stream.stored_plain(), encoded);
        }
    }
    Ok(amount)
}

/// What has to be done for the arrays that do not stay as they are stored.
fn plans<'a>(merged: &MergedContainer<'a>) -> Result<Vec<MemberPlan<'a>>> {
    let mut plans = Vec::new();
    for name in arrays_of(merged.variant) {
        plans.extend(plan(merged, name)?);
    }
    Ok(plans)
}

fn plan<'a>(merged: &MergedContainer<'a>, name: &'a str) -> Result<Option<MemberPlan<'a>>> {
    if name == VERSION || name == ORDER {
        return word(merged, name);
    }
    if name == END_MAX {
        return Ok(maxima(merged)?.map(MemberPlan::Maxima));
    }
    let array = merged.array(name)?;
    let old_form = merged.old_form(name);
    let same = old_form == Some(array.form) && array.stored.is_some();
    let start = match array.form {
        ArrayForm::Lengths(_) => Some(merged.array("start")?),
        _ => None,
    };
    let has_changed = |array: &MergedArray<'_>| array.change.is_some();
    if same && !has_changed(&array) && !start.as_ref().is_some_and(has_changed) {
        return Ok(None);
    }
    Ok(Some(match array.form {
        ArrayForm::Packed(form) | ArrayForm::Lengths(form) => {
            MemberPlan::Stream(stream(merged, array, start, form, same)?)
        }
        _ => MemberPlan::Plain(plain(merged, array, same)?),
    }))
}

/// A stream, of an array or of what is left of it when the other one is subtracted.
pub(super) fn stream<'a>(
    merged: &MergedContainer<'a>,
    array: MergedArray<'a>,
    less: Option<MergedArray<'a>>,
    form: StreamForm,
    same: bool,
) -> Result<StreamPlan<'a>> {
    let files = merged.files;
    let (name, wrap) = (array.name, files.wrap);
    let old = match array.stored.filter(|_| same) {
        Some(bytes) => Some(files.members.stream(name, form, bytes / 4, wrap)?),
        None => None,
    };
    let source = |part| {
        let source = files.members.source(&format!("{name}_{part}"))?;
        Some((part, Arc::clone(source)))
    };
    let arrays: Vec<&MergedArray<'_>> = [Some(&array), less.as_ref()]
        .into_iter()
        .flatten()
        .collect();
    let ahead = array
        .change
        .and_then(|change| change.done_before.as_deref());
    Ok(StreamPlan {
        name,
        form,
        values: StreamValues {
            shown: array.shown,
            less: less.map(|less| less.shown),
        },
        len: array.len,
        old,
        sources: form.parts().filter_map(source).collect(),
        dirty: dirty_of(&arrays, same),
        wrap,
        ahead: ahead.filter(|_| less.is_none()),
    })
}

fn plain<'a>(
    merged: &MergedContainer<'a>,
    array: MergedArray<'a>,
    same: bool,
) -> Result<PlainPlan<'a>> {
    let number = match array.form {
        ArrayForm::Plain(number) => Some(number),
        _ => None,
    };
    // Names may be stored in another way than they are shown.
    let dirty = match same && number.is_some() {
        true => array.dirty(),
        false => RangeSet::from(0..array.len),
    };
    Ok(PlainPlan {
        file: member(array.name)?,
        source: merged.files.members.source(array.name).cloned(),
        number,
        shown: array.shown,
        len: array.len,
        dirty,
    })
}

fn word<'a>(merged: &MergedContainer<'a>, name: &str) -> Result<Option<MemberPlan<'a>>> {
    let files = merged.files;
    let (new, old) = match name {
        VERSION => (&merged.version[..], &files.version[..]),
        _ => (merged.order.name(), files.order.name()),
    };
    let stays = files.array(name).is_some() && new == old;
    let plan = || Ok(MemberPlan::Word(member(name)?, new.to_owned()));
    (!stays).then(plan).transpose()
}

/// How `end_max` comes about, if it does not stay as it is stored.
pub(super) fn maxima<'a>(merged: &MergedContainer<'a>) -> Result<Option<MaximaPlan<'a>>> {
    let (ends, pointers) = (merged.array("end")?, merged.array("chr_ptr")?);
    let stays = merged.files.array(END_MAX).is_some() && !merged.is_another_variant();
    match stays && ends.change.is_none() && pointers.change.is_none() {
        true => Ok(None),
        false => Ok(Some(MaximaPlan {
            file: member(END_MAX)?,
            source: merged.files.members.source(END_MAX).cloned(),
            ends,
            pointers,
        })),
    }
}

impl MemberPlan<'_> {
    fn needs(&self) -> Result<EncodeNeeds> {
        match self {
            MemberPlan::Stream(stream) => stream.needs(1),
            MemberPlan::Plain(plain) => Ok(reading(plain.lent()?)),
            MemberPlan::Word(..) => Ok(EncodeNeeds::default()),
            MemberPlan::Maxima(maxima) => Ok(reading(maxima.lent()?)),
        }
    }

    /// So many threads have something to do.
    fn lanes(&self) -> Result<u64> {
        match self {
            MemberPlan::Stream(stream) => stream.lanes(),
            _ => Ok(1),
        }
    }

    /// Stored bytes of its files, and about how many of them change.
    fn amount(&self) -> (u64, u64) {
        match self {
            MemberPlan::Stream(stream) => {
                let stored = stream.sources.iter().map(|(_, source)| source.len());
                let stored = stored.fold(0, u64::saturating_add);
                let plain = stream.dirty.len().saturating_mul(CHUNK_BYTES);
                // About as many stored bytes for each plain one as there are now.
                let ratio = u128::from(plain) * u128::from(stored);
                let changed = ratio / u128::from(stream.stored_plain().max(1));
                (
                    stored,
                    u64::try_from(changed).unwrap_or(u64::MAX).min(plain),
                )
            }
            MemberPlan::Plain(plain) => {
                let stored = plain.source.as_ref().map_or(0, |source| source.len());
                (stored, plain.dirty.len())
            }
            MemberPlan::Word(_, line) => (line.len() as u64 + 1, line.len() as u64 + 1),
            MemberPlan::Maxima(maxima) => {
                let stored = maxima.source.as_ref().map_or(0, |source| source.len());
                (stored, maxima.ends.len / RUN)
            }
        }
    }
}
