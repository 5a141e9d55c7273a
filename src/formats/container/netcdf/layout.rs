//! Where the elements of each variable lie, computed from the header and held against the file's
//! length.
//!
//! A fixed variable is one run of bytes. The variables along the unlimited dimension share records:
//! record `r` of one is at `begin + r * stride`, where `stride` is the sum of all their parts of a
//! record, each padded to four bytes; a single such variable is not padded. Used by `super` and the
//! arrays.

use super::header::{ClassicHeader, Variable};
use super::kind::ElementKind;
use crate::error::{Fault, Result};

/// More dimensions than the NetCDF library takes.
const MOST_DIMENSIONS: usize = 1024;

/// Where the parts of a variable lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) kind: ElementKind,
    pub(super) shape: Vec<u64>,
    pub(super) begin: u64,
    /// Bytes of one run of elements, and how many runs there are.
    pub(super) run: u64,
    pub(super) runs: u64,
    /// From one run to the next; at least `run`.
    pub(super) stride: u64,
    /// Of a variable along the unlimited dimension.
    pub(super) record: Option<RecordPart>,
}

/// A variable's part of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordPart {
    /// Its bytes.
    pub(super) run: u64,
    /// From one record to the next.
    pub(super) stride: u64,
}

impl Placement {
    /// Decoded size; checked when the place was made.
    pub(super) fn bytes(&self) -> u64 {
        self.run * self.runs
    }

    /// Bytes, in the array's own numbering, that lie within a file of this length: whole elements
    /// of a single run, whole runs of several.
    pub(super) fn present(&self, file_len: u64) -> u64 {
        let Some(room) = file_len.checked_sub(self.begin) else {
            return 0;
        };
        if self.runs <= 1 {
            return self.bytes().min(room - room % self.kind.size() as u64);
        }
        self.runs.min(self.whole_runs(room)) * self.run
    }

    /// Runs that `room` bytes hold; the last needs no padding behind it.
    fn whole_runs(&self, room: u64) -> u64 {
        match room.checked_sub(self.run) {
            Some(rest) if self.stride > 0 => rest / self.stride + 1,
            _ => 0,
        }
    }

    /// This variable with fewer records.
    pub(super) fn with_records(mut self, records: u64) -> Placement {
        if let Some(RecordPart { run, stride }) = self.record {
            let there = self.shape.first().copied().unwrap_or(0);
            (self.run, self.stride, self.runs) = (run, stride, records.min(there));
            if let Some(first) = self.shape.first_mut() {
                *first = self.runs;
            }
            self.join_runs();
        }
        self
    }

    /// Runs that follow each other are one.
    fn join_runs(&mut self) {
        if self.stride == self.run || self.runs <= 1 {
            let bytes = self.bytes();
            self.run = bytes;
            self.runs = u64::from(bytes > 0);
            self.stride = bytes;
        }
    }

    /// Where the data end.
    pub(super) fn end(&self) -> u128 {
        let last = u128::from(self.runs.saturating_sub(1));
        u128::from(self.begin) + last * u128::from(self.stride) + u128::from(self.run)
    }
}

/// A variable that can be shown, or why it cannot.
pub(super) type Judged = std::result::Result<Placement, Box<Fault>>;

/// The places of all variables, in their order. A fault of the whole file is an error.
pub(super) fn places(header: &ClassicHeader, file_len: u64) -> Result<Vec<Judged>> {
    let unlimited = header.dimensions.iter().filter(|d| d.len == 0).count();
    if unlimited > 1 {
        let fault = Fault::new("the file has more than one unlimited dimension");
        return Err(fault.found(unlimited).into());
    }
    let mut shapes: Vec<PartlyPlaced> = header.variables.iter().map(|v| shape(v, header)).collect();
    join_records(&mut shapes, header, file_len);
    let place = |shaped: PartlyPlaced| finish(shaped?.0);
    Ok(shapes.into_iter().map(place).collect())
}

/// A variable's place as far as it alone decides.
type PartlyPlaced = std::result::Result<(Placement, bool), Box<Fault>>;

/// The place of a fixed variable, or of one record (and that it is one).
fn shape(variable: &Variable, header: &ClassicHeader) -> PartlyPlaced {
    let kind = ElementKind::from_code(variable.kind, header.version);
    let kind = kind.ok_or_else(|| Fault::new("the type is unknown").found(variable.kind))?;
    if variable.dimensions.len() > MOST_DIMENSIONS {
        let fault = Fault::new("the variable has too many dimensions");
        let fault = fault.expected(format!("at most {MOST_DIMENSIONS}"));
        return Err(fault.found(variable.dimensions.len()).into());
    }
    let mut shape = Vec::with_capacity(variable.dimensions.len());
    let mut run = kind.size() as u64;
    for (at, &id) in variable.dimensions.iter().enumerate() {
        let dimension = usize::try_from(id)
            .ok()
            .and_then(|id| header.dimensions.get(id));
        let dimension = dimension.ok_or_else(|| {
            let fault = Fault::new("a dimension of the variable does not exist");
            let expected = format!("less than {}", header.dimensions.len());
            fault.expected(expected).found(id)
        })?;
        match (dimension.len, at) {
            (0, 0) => {}
            (0, _) => {
                return Err(Fault::new("only the first dimension can be the unlimited one").into());
            }
            (len, _) => run = run.checked_mul(len).ok_or_else(too_large)?,
        }
        shape.push(dimension.len);
    }
    let of_records = shape.first() == Some(&0);
    let place = Placement {
        kind,
        shape,
        begin: variable.begin,
        run,
        runs: 1,
        stride: run,
        record: None,
    };
    Ok((place, of_records))
}

fn too_large() -> Fault {
    Fault::new("the variable is too large")
}

/// Gives the variables along the unlimited dimension their stride and number of records.
fn join_records(shapes: &mut [PartlyPlaced], header: &ClassicHeader, file_len: u64) {
    let records = || {
        shapes
            .iter()
            .flatten()
            .filter(|(_, of_records)| *of_records)
    };
    // A part of unknown size may lie in every record.
    let suspect = |(shaped, v): (&PartlyPlaced, &Variable)| shaped.is_err() && !is_fixed(v, header);
    let unknown = shapes.iter().zip(&header.variables).any(suspect);
    let alone = records().count() == 1;
    let sum = |sum: u64, place: &Placement| sum.checked_add(place.run.checked_next_multiple_of(4)?);
    let stride = match alone {
        true => records().next().map(|(place, _)| place.run),
        false => records().try_fold(0, |so_far, (place, _)| sum(so_far, place)),
    };
    for shaped in shapes.iter_mut() {
        let Ok((place, true)) = shaped else { continue };
        match stride {
            _ if unknown => *shaped = Err(unknown_records().into()),
            Some(stride) => place.stride = stride,
            None => *shaped = Err(too_large().into()),
        }
    }
    let streamed = || {
        let of_records = shapes
            .iter()
            .flatten()
            .filter(|(_, of_records)| *of_records);
        let whole = |(place, _): &(Placement, bool)| {
            file_len
                .checked_sub(place.begin)
                .map_or(0, |room| place.whole_runs(room))
        };
        of_records.map(whole).min().unwrap_or(0)
    };
    let runs = header.records.unwrap_or_else(streamed);
    for (place, of_records) in shapes.iter_mut().flatten() {
        if *of_records {
            let (run, stride) = (place.run, place.stride);
            place.record = Some(RecordPart { run, stride });
            place.runs = runs;
            place.shape[0] = runs;
        }
    }
}

/// Whether a variable is surely not along the unlimited dimension.
fn is_fixed(variable: &Variable, header: &ClassicHeader) -> bool {
    let first = variable.dimensions.first().map(|&id| usize::try_from(id));
    match first {
        None => true,
        Some(Ok(id)) => header.dimensions.get(id).is_some_and(|d| d.len > 0),
        Some(Err(_)) => false,
    }
}

fn unknown_records() -> Fault {
    Fault::new("another variable has an unknown size, so records cannot be told apart")
}

/// Makes runs that follow each other one, and refuses what no file can be as large as.
fn finish(mut place: Placement) -> Judged {
    let bytes = u128::from(place.run) * u128::from(place.runs);
    if bytes > i64::MAX as u128 || place.end() > i64::MAX as u128 {
        return Err(too_large()
            .expected(format!("at most {} bytes", i64::MAX))
            .found(bytes)
            .into());
    }
    place.join_runs();
    Ok(place)
}
