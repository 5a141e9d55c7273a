//! NetCDF classic files (CDF-1, CDF-2 and CDF-5): variables as arrays, read without a library.
//!
//! A file is recognised by its magic and version byte. Opening reads the header alone; everything
//! it claims is held against the file's length. A file with the attribute `binsparse` is a
//! Binsparse container, whose arrays are its variables. NetCDF-4 files are HDF5 files and none of
//! ours. See docs/formats.md.
//!
//! What describes: [`header`] (what the file says, by [`cursor`] and [`kind`]), [`layout`] (where
//! the elements are), [`describe`] (attributes). What reads: [`read`] (the array), [`swap`] (byte
//! order). What checks: [`overlap`]. What writes: [`write`]; new
//! files: [`create`].

mod create;
mod cursor;
mod describe;
mod header;
mod kind;
mod layout;
mod overlap;
mod read;
#[cfg(test)]
mod sample;
mod swap;
mod write;

use std::sync::Arc;

use super::binsparse::{self, Member, SparseArrays};
use super::creation::Creation;
use super::own_lengths::OwnLengths;
use super::stored::ArrayDetails;
use super::{Candidate, Container, Format, OpenRequest, Text, Unreadable, Verdict, names};
use crate::array::Array;
use crate::error::{Error, Fault, Result};
use crate::memory::{fallible, set_aside};
use crate::source::Source;
use describe::Describer;
use header::{ClassicHeader, MAGIC};
use kind::{ClassicVersion, ElementKind};
use read::VariableArray;
use write::WrittenVariable;

/// What one variable takes, beside what its file says of it.
const VARIABLE: u64 = 2 << 10;

pub struct NetCdf;

impl Format for NetCdf {
    fn name(&self) -> &'static str {
        "netcdf"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["nc"]
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        if !candidate.is_file() {
            return Ok(Verdict::No);
        }
        let rest = candidate.head()?.strip_prefix(MAGIC);
        let version = rest.and_then(|rest| ClassicVersion::from_byte(*rest.first()?));
        Ok(version.map_or(Verdict::No, |_| Verdict::Yes))
    }

    fn is_changed(&self) -> bool {
        true
    }

    fn creation(&self) -> Option<&'static dyn Creation> {
        Some(&NetCdf)
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        match open(self.name(), request) {
            Err(Error::Fault(fault)) => Ok(Container::refused(self.name(), *fault)),
            other => other,
        }
    }
}

/// A fault here is one that leaves nothing to show.
fn open(format: &'static str, request: &OpenRequest<'_>) -> Result<Container> {
    let source = request.store.open(request.path)?;
    let (header, _charged) = header::read(&*source, request.budget)?;
    let room = VARIABLE.saturating_mul(header.variables.len() as u64);
    // What a container of another format has itself is shown twice.
    let room = room.saturating_add(2 * describe::room(&header) + 4 * header.len);
    set_aside(room, "cannot open a NetCDF file", || {
        assemble(format, &header, (&source, &request.left.own_lengths))
    })?
}

/// The container of a file with this header.
fn assemble(
    format: &'static str,
    header: &ClassicHeader,
    (source, own): (&Arc<dyn Source>, &OwnLengths),
) -> Result<Container> {
    let mut container = Container::new(format, header.version.name());
    let mut describer = Describer::new();
    let variables = variables(&mut container, header, (source, own), &mut describer)?;
    let mut sparse = None;
    match header
        .attributes
        .iter()
        .find(|a| a.name == binsparse::DESCRIPTOR.as_bytes())
    {
        Some(descriptor) if descriptor.kind == ElementKind::Char => {
            sparse = Some(examine(&mut container, &descriptor.raw)?);
        }
        Some(_) => container
            .faults
            .push(Fault::new("the attribute \"binsparse\" is not text")),
        None => {}
    }
    let others = header.attributes.iter();
    let others = others.filter(|a| a.name != binsparse::DESCRIPTOR.as_bytes());
    let (attributes, attribute_types) = describer.attributes(others);
    if container.format == binsparse::NAME {
        // The others follow from the descriptor.
        container.describe("", attributes.clone());
        Arc::make_mut(&mut container.file).classic = Some(header.version.name().to_owned());
    }
    for (name, value) in attributes {
        container.attributes.entry(name).or_insert(value);
    }
    Arc::make_mut(&mut container.file).dimensions = describe::dimensions(header);
    let details = ArrayDetails {
        attribute_types,
        ..ArrayDetails::default()
    };
    container.detail("", details);
    write::offer(&mut container, header, source, (variables, sparse));
    Ok(container)
}

/// Adds the variables, and the faults of those that cannot be shown or not in full.
fn variables(
    container: &mut Container,
    header: &ClassicHeader,
    (source, own): (&Arc<dyn Source>, &OwnLengths),
    describer: &mut Describer,
) -> Result<Vec<WrittenVariable>> {
    let mut written = Vec::new();
    let stored: Vec<&[u8]> = header.variables.iter().map(|v| &*v.name).collect();
    let shown = names::shown(&stored, true)?;
    let places = layout::places(header, source.len())?;
    lie_over(container, &shown, &places);
    for ((name, place), variable) in shown.into_iter().zip(places).zip(&header.variables) {
        let place = match place {
            Ok(place) => place,
            Err(fault) => {
                container.add_unreadable([Unreadable {
                    name: name.clone(),
                    reason: fault.to_string(),
                    is_whole: false,
                    entry: true,
                }]);
                container.faults.push(fault.array(&name));
                continue;
            }
        };
        if place.begin < header.len && place.bytes() > 0 {
            let fault = Fault::new("the variable begins within the header").array(&name);
            let fault = fault.expected(format!("at least {}", header.len));
            container.faults.push(fault.found(place.begin));
        }
        let (attributes, details) = describer.variable(variable, (place.kind, header));
        container.describe(&name, attributes);
        container.detail(&name, details);
        let records = place.shape.first().copied().unwrap_or(0);
        let shown = match (&place.record, own.of(&name)) {
            (Some(record), Some(own)) => place.clone().with_records(own / record.run.max(1)),
            _ => place.clone(),
        };
        let array = VariableArray::new(name, Arc::clone(source), place.clone());
        let cut = array.cut().map(|fault| fault.array(array.name()));
        container.faults.extend(cut);
        let array = match shown == place {
            true => array,
            false => VariableArray::new(array.name().to_owned(), Arc::clone(source), shown),
        };
        let array: Arc<dyn Array> = Arc::new(array);
        container.arrays.push(Arc::clone(&array));
        written.push(WrittenVariable {
            array,
            fill: write::fill_of(variable, place.kind),
            place,
            records,
        });
    }
    Ok(written)
}

/// Adds the faults of variables that lie over each other; they are shown as they are.
fn lie_over(container: &mut Container, names: &[String], places: &[layout::Judged]) {
    let known = places.iter().enumerate();
    let known: Vec<_> = known
        .filter_map(|(n, place)| Some((n, place.as_ref().ok()?)))
        .collect();
    for (number, other) in overlap::find(&known) {
        if let [Some(name), Some(other)] = [number, other].map(|n| names.get(n)) {
            let what = format!("the variable lies over the bytes of {other}");
            container.faults.push(Fault::new(what).array(name));
        }
    }
}

/// Makes the container one of Binsparse; says what has to hold between its arrays.
fn examine(container: &mut Container, descriptor: &[u8]) -> Result<SparseArrays> {
    let member = |array: &Arc<dyn Array>| Member {
        name: array.name().to_owned(),
        array: Ok(Arc::clone(array)),
    };
    let unreadable = |unreadable: &Unreadable| Member {
        name: unreadable.name.clone(),
        array: Err(unreadable.reason.clone()),
    };
    let members = container.arrays.iter().map(member);
    let members = members.chain(container.unreadable.iter().map(unreadable));
    let members: Vec<Member> = members.collect();
    let examined = binsparse::examine(descriptor, &members)?;
    container.format = binsparse::NAME;
    container.version = examined.version;
    container.faults.extend(examined.faults);
    container.checks.extend(examined.check);
    container.attributes = examined.attributes;
    let text = Arc::new(fallible::copy(descriptor, "cannot keep the descriptor")?);
    let arrays = SparseArrays::new(&text, members, true);
    container.texts.push(Text {
        name: binsparse::TEXT.to_owned(),
        content: text,
    });
    Ok(arrays)
}

#[cfg(test)]
mod tests;
