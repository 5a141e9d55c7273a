//! The slices of a sparse level, one after the other, from its pointers; and the rules for
//! pointers.
//!
//! Pointer `p` is where slice `p` begins, and ends the slice before: the first is 0, none is less
//! than the one before, the last is the number of indices (specification, section 3.5.2.3). Used by
//! `order`.

use super::few::Few;
use crate::array::sequential::{Sequential, SequentialReaders};
use crate::container::TellFault;
use crate::container::binsparse::lengths::IntegerArray;
use crate::error::{Fault, Result};
use crate::memory::fallible;

/// Elements read at a time.
const STEP: usize = if cfg!(test) { 3 } else { 8 << 10 };

/// The slices of one level, read from its pointers.
pub(super) struct Slices {
    name: String,
    reader: Sequential,
    signed: bool,
    no_empty_slices: bool,
    /// Number of indices.
    length: u64,
    buffer: Vec<u64>,
    at: usize,
    /// Number of the next pointer, and of all.
    next: u64,
    count: u64,
    /// The pointer before, and where that put us: never back, never past the end.
    before: u64,
    end: u64,
    broken: bool,
    negative: Few,
    decreasing: Few,
    empty: Few,
}

impl Slices {
    /// Reads the first pointer.
    pub(super) fn new(
        stored: &IntegerArray,
        no_empty_slices: bool,
        length: u64,
        readers: &SequentialReaders,
        report: TellFault<'_>,
    ) -> Result<Self> {
        let reader = Sequential::new(stored.array.clone(), readers)?;
        let mut pointers = Slices {
            name: stored.name.clone(),
            signed: reader.number().signed,
            reader,
            no_empty_slices,
            length,
            buffer: Vec::new(),
            at: 0,
            next: 0,
            count: stored.len,
            before: 0,
            end: 0,
            broken: false,
            negative: Few::default(),
            decreasing: Few::default(),
            empty: Few::default(),
        };
        pointers.first(report)?;
        Ok(pointers)
    }

    fn first(&mut self, report: TellFault<'_>) -> Result<()> {
        match self.read()? {
            Some(0) => {}
            Some(first) => {
                self.broken = true;
                let fault = fault(&self.name, "the first element is not 0".into());
                report(fault.found(self.show(first)));
                self.go_to(first);
            }
            None => self.broken = true,
        }
        Ok(())
    }

    /// Whether slices can no longer be told apart.
    pub(super) fn broken(&self) -> bool {
        self.broken
    }

    /// Where the slice begins that [`Slices::advance`] would end.
    pub(super) fn at(&self) -> u64 {
        self.end
    }

    /// The end of the next slice, at most the number of indices; none after the last slice.
    pub(super) fn advance(&mut self, report: TellFault<'_>) -> Result<Option<u64>> {
        let number = self.next;
        let Some(pointer) = self.read()? else {
            return Ok(None);
        };
        let name = &self.name;
        if self.signed && (pointer as i64) < 0 {
            self.broken = true;
            self.negative.tell(report, || {
                let fault = fault(name, format!("element {number} is negative"));
                fault.found(pointer as i64)
            });
            return Ok(Some(self.end));
        }
        let before = self.before;
        if pointer < before {
            self.broken = true;
            self.decreasing.tell(report, || {
                let what = format!("element {number} is less than the one before");
                fault(name, what)
                    .expected(format!("at least {before}"))
                    .found(pointer)
            });
        } else if pointer == before && self.no_empty_slices {
            self.empty.tell(report, || {
                let what = "repeats the one before: an empty slice is stored";
                fault(name, format!("element {number} {what}")).found(pointer)
            });
        }
        self.go_to(pointer);
        if self.next == self.count && pointer != self.length {
            self.broken = true;
            let what = "the last element is not the number of indices";
            let fault = fault(&self.name, what.into());
            report(fault.expected(self.length).found(pointer));
        }
        Ok(Some(self.end))
    }

    fn go_to(&mut self, pointer: u64) {
        if !(self.signed && (pointer as i64) < 0) {
            self.before = pointer;
            self.end = self.end.max(pointer.min(self.length));
        }
    }

    fn read(&mut self) -> Result<Option<u64>> {
        if self.at == self.buffer.len() {
            fallible::lengthen(&mut self.buffer, STEP, "cannot check pointers")?;
            let n = self.reader.read(&mut self.buffer)?;
            self.buffer.truncate(n);
            self.at = 0;
        }
        let pointer = self.buffer.get(self.at).copied();
        if pointer.is_some() {
            self.at += 1;
            self.next += 1;
        }
        Ok(pointer)
    }

    /// Tells what was only counted.
    pub(super) fn finish(&self, report: TellFault<'_>) {
        self.negative.finish(report, &self.name, "are negative");
        let less = "are less than the one before";
        self.decreasing.finish(report, &self.name, less);
        self.empty
            .finish(report, &self.name, "repeat the one before");
    }

    fn show(&self, pointer: u64) -> String {
        match self.signed {
            true => (pointer as i64).to_string(),
            false => pointer.to_string(),
        }
    }
}

fn fault(array: &str, what: String) -> Fault {
    Fault::new(what).array(array)
}
