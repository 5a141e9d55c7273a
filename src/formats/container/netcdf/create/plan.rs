//! A new classic file as it is going to be: its header, and where each variable lies.
//!
//! It gets the version that is said, or the next one that can hold it: CDF-1 up to 2 GiB, CDF-2 for
//! longer files, CDF-5 for unsigned and 64-bit types and for variables of 4 GiB. Variables keep
//! their order, those along the unlimited dimension behind the others, each as long as it is given;
//! where one has fewer records than the longest, the rest is fill. Used by [`super`].

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::describe::CLASSIC;
use super::super::header::{Attribute, ClassicHeader, Variable};
use super::super::kind::{ClassicVersion, ElementKind};
use super::super::swap;
use super::super::write::fill_of;
use super::attributes::{NewAttributeList, kind_named};
use super::dimensions::NewDimensions;
use super::encode;
use crate::array::dtype::descr_of_name;
use crate::array::{Array, Info, Order};
use crate::container::binsparse::{self, GivenMembers};
use crate::container::creation::{GivenArray, GivenDescription};
use crate::container::names;
use crate::container::own_lengths::ArrayLengths;
use crate::container::plain_write::runs::Runs;
use crate::container::plain_write::{PlainFile, PlainPart};
use crate::container::writable::{CommitWay, Recipe};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::{BytesSource, Source};

/// Longest variable, and part of a record, of the versions before CDF-5.
const MOST_OF_SHORT: u64 = u32::MAX as u64 - 3;

const VERSIONS: [ClassicVersion; 3] = [
    ClassicVersion::One,
    ClassicVersion::Two,
    ClassicVersion::Five,
];

pub(super) struct NewClassic {
    header: ClassicHeader,
    variables: Vec<NewVariable>,
    /// From one record to the next.
    stride: u64,
    len: u64,
    /// What the description says and the file does not.
    pub(super) not_kept: Vec<String>,
}

struct NewVariable {
    /// None while a description is looked at without its arrays.
    array: Option<Arc<dyn Array>>,
    kind: ElementKind,
    /// Bytes that are given.
    len: u64,
    /// Bytes of it, or of its part of a record.
    run: u64,
    of_records: bool,
    fill: [u8; 8],
}

impl NewClassic {
    /// The file that is described, with arrays that are not as plain bytes. `arrays`: none if only
    /// the description is to be looked at.
    pub(super) fn described(
        description: &GivenDescription,
        arrays: &[Arc<dyn Array>],
        descriptor: Option<&[u8]>,
    ) -> Result<NewClassic> {
        let types = description.more.get("attribute_types");
        // What is said of a Binsparse container is its descriptor's; its own is beside that.
        let (of_file, none) = (&description.attributes, Map::new());
        let of_file = match descriptor {
            Some(_) => own_attributes(description).unwrap_or(&none),
            None => of_file,
        };
        let own = NewAttributeList::described(of_file, types, "the file");
        let mut new = NewClassic {
            header: ClassicHeader {
                version: ClassicVersion::One,
                records: Some(0),
                dimensions: Vec::new(),
                attributes: own.list,
                variables: Vec::new(),
                len: 0,
            },
            variables: Vec::new(),
            stride: 0,
            len: 0,
            not_kept: own.not_kept,
        };
        if let Some(text) = descriptor {
            new.header.attributes.push(Attribute {
                name: binsparse::DESCRIPTOR.into(),
                kind: ElementKind::Char,
                raw: text.to_vec(),
                stored: 0..0,
            });
        }
        let mut dimensions = NewDimensions::described(description)?;
        let find = |name: &str| arrays.iter().find(|array| array.name() == name);
        for said in &description.arrays {
            new.add(said, find(&said.name), &mut dimensions)?;
        }
        let is_said = |name: &str| description.arrays.iter().any(|said| said.name == name);
        for array in arrays.iter().filter(|array| !is_said(array.name())) {
            let said = GivenArray::of_bytes(array.name(), array.info()?.bytes);
            new.add(&said, Some(array), &mut dimensions)?;
        }
        let of_records = |variable: &&NewVariable| variable.of_records;
        let records = new.variables.iter().filter(of_records);
        let records = records.map(|variable| variable.len / variable.run.max(1));
        new.header.records = Some(records.max().unwrap_or(dimensions.records_said));
        new.header.dimensions = dimensions.all;
        let classic = description.more.get(CLASSIC).and_then(Value::as_str);
        new.fit(classic.or(description.version.as_deref()))?;
        Ok(new)
    }

    /// Lengths of record variables with fewer records than the file.
    pub(super) fn own_lengths(&self) -> ArrayLengths {
        let all = self.header.records.unwrap_or(0);
        let is_short = |variable: &&NewVariable| {
            variable.of_records && variable.len < all.saturating_mul(variable.run)
        };
        let short = self.variables.iter().filter(is_short);
        let lengths = short.filter_map(|variable| {
            let array = variable.array.as_ref()?;
            Some((array.name().to_owned(), variable.len))
        });
        lengths.collect()
    }

    /// Whether the file is the container of Binsparse that a descriptor says; EINVAL if not.
    pub(super) fn check(&self, descriptor: &[u8], budget: &Arc<Budget>) -> Result<()> {
        let mut members = GivenMembers::default();
        for (variable, stored) in self.variables.iter().zip(&self.header.variables) {
            let Some(array) = &variable.array else {
                continue;
            };
            let (name, records) = (array.name(), self.header.records.unwrap_or(0));
            let numbers = stored.dimensions.iter();
            let lengths = numbers.filter_map(|number| self.header.dimensions.get(*number as usize));
            let mut shape: Vec<u64> = lengths.map(|dimension| dimension.len).collect();
            if let (true, Some(first)) = (variable.of_records, shape.first_mut()) {
                *first = variable.len / variable.run.max(1);
                if *first != records {
                    return Err(Error::Invalid(format!(
                        "{name} has {first} records, and the file {records}: fill would follow"
                    )));
                }
            }
            let info = Info {
                dtype: variable.kind.dtype(),
                shape,
                order: Order::C,
                ..array.info()?
            };
            members.add(name, info, array);
        }
        members.check(descriptor, budget)
    }

    fn add(
        &mut self,
        said: &GivenArray,
        array: Option<&Arc<dyn Array>>,
        dimensions: &mut NewDimensions,
    ) -> Result<()> {
        let refuse = |why: String| Error::Invalid(format!("{}: {why}", said.name));
        let (kind, shape) =
            kind_of(said).ok_or_else(|| refuse(format!("classic NetCDF has no {}", said.dtype)))?;
        said.check_dims(shape.len()).map_err(refuse)?;
        let numbers = dimensions.of_array(said, &shape)?;
        let of_records = numbers
            .first()
            .is_some_and(|first| dimensions.is_unlimited(*first));
        let of_run = if of_records { &shape[1..] } else { &shape[..] };
        let product = |so_far: u64, len: &u64| so_far.checked_mul(*len);
        let run = of_run.iter().try_fold(kind.size() as u64, product);
        let run = run.ok_or_else(too_large)?;
        let runs = if of_records { shape[0] } else { 1 };
        let bytes = run.checked_mul(runs).ok_or_else(too_large)?;
        let len = array.map_or(Ok(bytes), |array| array.info().map(|info| info.bytes))?;
        if len != bytes {
            let (dtype, shape) = (&said.dtype, &said.shape);
            let why = format!("{dtype} of shape {shape:?} does not make its {len} bytes");
            return Err(refuse(why));
        }
        let types = said.more.get("attribute_types");
        let attributes = NewAttributeList::described(&said.attributes, types, &said.name);
        self.not_kept.extend(attributes.not_kept);
        let variable = Variable {
            name: names::stored(&said.name),
            dimensions: numbers,
            attributes: attributes.list,
            kind: kind.code(),
            begin: 0,
            begin_at: 0,
        };
        self.variables.push(NewVariable {
            array: array.cloned(),
            kind,
            len,
            run,
            of_records,
            fill: fill_of(&variable, kind),
        });
        self.header.variables.push(variable);
        Ok(())
    }

    /// Finds the version, and the places in a file of it.
    fn fit(&mut self, said: Option<&str>) -> Result<()> {
        let mut versions = VERSIONS.into_iter().skip_while(|version| {
            said.is_some_and(|said| {
                VERSIONS.iter().any(|one| one.name() == said) && version.name() != said
            })
        });
        let fits = versions.any(|version| {
            self.header.version = version;
            self.place().is_some() && self.is_held()
        });
        match fits {
            true => Ok(()),
            false => Err(too_large()),
        }
    }

    /// Whether the version can say all of it.
    fn is_held(&self) -> bool {
        let (header, version) = (&self.header, self.header.version);
        if version == ClassicVersion::Five {
            return true;
        }
        let most = i32::MAX as u64;
        let of_file = header.attributes.iter();
        let of_variables = header.variables.iter().flat_map(|one| &one.attributes);
        let mut attributes = of_file.chain(of_variables);
        let mut kinds = self.variables.iter().map(|one| one.kind);
        let is_old = |kind: ElementKind| kind.code() < ElementKind::UByte.code();
        attributes.all(|one| is_old(one.kind))
            && kinds.all(is_old)
            && self.variables.iter().all(|one| one.run <= MOST_OF_SHORT)
            && header.dimensions.iter().all(|one| one.len <= most)
            && header.records.unwrap_or(0) <= most
            && (version.has_long_offsets() || self.len <= most)
    }

    /// Gives each variable its place; none if the file would be too long.
    fn place(&mut self) -> Option<()> {
        let sizes = self.padded_sizes()?;
        let header = encode::header(&self.header, &sizes).len() as u64;
        let mut at = header;
        for of_records in [false, true] {
            let variables = self.variables.iter().zip(&mut self.header.variables);
            for ((variable, stored), size) in variables.zip(&sizes) {
                if variable.of_records == of_records {
                    stored.begin = at;
                    at = at.checked_add(*size)?;
                }
            }
        }
        let parts = self.variables.iter().zip(&sizes);
        let parts = parts.filter(|(one, _)| one.of_records);
        let strides: Vec<u64> = parts.map(|(_, size)| *size).collect();
        let begin = at - strides.iter().sum::<u64>();
        self.stride = match &strides[..] {
            // A single one is not padded.
            [_] => self.variables.iter().find(|one| one.of_records)?.run,
            more => more.iter().sum(),
        };
        let records = self.header.records.unwrap_or(0);
        let len = match strides.is_empty() {
            true => at,
            false => begin.checked_add(records.checked_mul(self.stride)?)?,
        };
        (self.header.len, self.len) = (header, len);
        i64::try_from(len).ok().map(drop)
    }

    /// Bytes of each variable, or of its part of a record, in whole words.
    fn padded_sizes(&self) -> Option<Vec<u64>> {
        let sizes = self.variables.iter();
        let sizes = sizes.map(|one| one.run.checked_next_multiple_of(4));
        sizes.collect()
    }

    pub(super) fn tell(&self, budget: &Arc<Budget>, write: &mut dyn Recipe) -> Result<()> {
        let sizes = self.padded_sizes().ok_or_else(too_large)?;
        let nothing: Arc<dyn Source> = Arc::new(BytesSource::new(Vec::new()));
        let variables = self.variables.iter().zip(&self.header.variables);
        let parts = variables.filter_map(|(variable, stored)| self.part(variable, stored.begin));
        let file = PlainFile {
            parts: parts.collect(),
            literals: vec![(0, encode::header(&self.header, &sizes))],
            stored: &nothing,
            start: None,
            len: self.len,
        };
        file.tell(CommitWay::Replaced, budget, write)
    }

    fn part<'a>(&self, variable: &'a NewVariable, begin: u64) -> Option<PlainPart<'a>> {
        let records = self.header.records.unwrap_or(0);
        let (runs, stored) = match variable.of_records {
            true if variable.run != self.stride => {
                let (run, stride) = (variable.run, self.stride);
                (Runs { begin, run, stride }, records.saturating_mul(run))
            }
            true => (Runs::whole(begin), records.saturating_mul(variable.run)),
            false => (Runs::whole(begin), variable.len),
        };
        let element = variable.kind.size();
        Some(PlainPart {
            change: None,
            shown: &**variable.array.as_ref()?,
            len: variable.len,
            stored: variable.len,
            runs,
            dirty: RangeSet::from(0..stored),
            element: element as u64,
            to_stored: Some(swap::elements),
            fill: &variable.fill[..element],
        })
    }
}

/// The attributes that a Binsparse container's file has itself, but for the descriptor.
fn own_attributes(description: &GivenDescription) -> Option<&Map<String, Value>> {
    description.more.get("groups")?.get("")?.as_object()
}

/// The kind of an array's elements, and its dimensions: text of fixed length has one more.
fn kind_of(said: &GivenArray) -> Option<(ElementKind, Vec<u64>)> {
    let mut shape = said.shape.clone();
    if let Some(name) = said.more.get("type").and_then(Value::as_str) {
        return Some((kind_named(name)?, shape));
    }
    let kind = match descr_of_name(&said.dtype) {
        "|b1" | "|i1" => ElementKind::Byte,
        "<i2" => ElementKind::Short,
        "<i4" => ElementKind::Int,
        "<f4" => ElementKind::Float,
        "<f8" => ElementKind::Double,
        "|u1" => ElementKind::UByte,
        "<u2" => ElementKind::UShort,
        "<u4" => ElementKind::UInt,
        "<i8" => ElementKind::Int64,
        "<u8" => ElementKind::UInt64,
        text => {
            let len = text.strip_prefix("|S")?.parse().ok()?;
            if len != 1 {
                shape.push(len);
            }
            ElementKind::Char
        }
    };
    Some((kind, shape))
}

fn too_large() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EFBIG);
    Error::io("no NetCDF file can be so large", cause)
}
