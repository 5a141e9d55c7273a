//! A variable as an array: big-endian runs of elements in the file, shown little-endian.
//!
//! Long runs are read straight from the file and swapped in place, so any range costs what it is
//! long. Short ones, the records that several variables share, are gathered into blocks: a read of
//! one element would otherwise cost one system call each. What a cut file lacks is not part of any
//! block; reading it fails, and nothing else does. Used by `super`.

use std::ops::Range;
use std::sync::Arc;

use super::layout::Placement;
use super::swap;
use crate::array::{Array, BlockId, Info, Order, Piece, direct_piece, even_pieces};
use crate::error::{Error, Fault, Result};
use crate::memory::{Arena, no_memory, room};
use crate::source::{Fetch, Source, StoredRanges};

/// Runs of this size are worth a read of their own.
const LONG_RUN: u64 = 4 << 10;

/// Most bytes of a block, and of the stretch of the file that it is gathered from.
const BLOCK: u64 = 256 << 10;
const STRETCH: u64 = 4 << 20;

/// Most records of a block that are read one by one.
const SINGLY: u64 = 1 << 10;

/// Bytes read at a time: still in the processor's cache when they are swapped or gathered.
const STEP: usize = 256 << 10;

/// Bytes of a step of a full check.
const SURVEY: u64 = 8 << 20;

pub(super) struct VariableArray {
    name: String,
    source: Arc<dyn Source>,
    place: Placement,
    /// Bytes that the file has.
    present: u64,
}

impl VariableArray {
    pub(super) fn new(name: String, source: Arc<dyn Source>, place: Placement) -> Self {
        let present = place.present(source.len());
        VariableArray {
            name,
            source,
            place,
            present,
        }
    }

    /// What a cut file lacks of it.
    pub(super) fn cut(&self) -> Option<Fault> {
        (self.present < self.place.bytes()).then(|| self.missing())
    }

    fn missing(&self) -> Fault {
        let fault = Fault::new("the variable ends after the end of the file");
        let fault = fault.bytes(bytes(self.place.begin, self.place.end()));
        fault
            .expected(format!("a file of at least {} bytes", self.place.end()))
            .found(self.source.len())
    }

    /// Bytes of a block; none if runs are read straight.
    fn block_len(&self) -> Option<u64> {
        let Placement { run, stride, .. } = self.place;
        if self.place.runs <= 1 || run >= LONG_RUN {
            return None;
        }
        let most = match self.spans() {
            true => (BLOCK / run).min(STRETCH / stride),
            false => (BLOCK / run).min(SINGLY),
        };
        Some(most.max(1) * run)
    }

    /// Whether records are so close that reading what lies between them is cheaper than skipping
    /// it.
    fn spans(&self) -> bool {
        self.place.stride <= 2 * LONG_RUN
    }

    /// The place in the file of a byte of the array.
    fn offset(&self, at: u64) -> u64 {
        if self.place.runs <= 1 {
            return self.place.begin + at;
        }
        let Placement { run, stride, .. } = self.place;
        self.place.begin + at / run * stride + at % run
    }

    /// Reads bytes as they are stored, run by run.
    fn read_stored(&self, mut at: u64, out: &mut [u8]) -> Result<()> {
        let mut fetches = Vec::new();
        let runs = match self.place.runs {
            0 | 1 => 1,
            _ => out.len() / self.place.run as usize + 2,
        };
        let refused = |_| no_memory("cannot read the runs of a variable");
        fetches.try_reserve_exact(runs).map_err(refused)?;
        let mut rest = out;
        while !rest.is_empty() {
            let left = match self.place.runs {
                0 | 1 => rest.len(),
                _ => usize::try_from(self.place.run - at % self.place.run).unwrap_or(usize::MAX),
            };
            let (buf, behind) = rest.split_at_mut(left.min(rest.len()));
            let n = buf.len() as u64;
            fetches.push(Fetch {
                offset: self.offset(at),
                buf,
            });
            at += n;
            rest = behind;
        }
        self.source.fetch(&mut fetches)
    }

    /// Records of which the stretch of the file is read at once.
    fn at_once(&self) -> u64 {
        (STEP as u64 / self.place.stride).max(1)
    }

    /// Length of the stretch of the file that so many records lie in; they are one or more.
    fn stretch(&self, records: u64) -> u64 {
        (records - 1) * self.place.stride + self.place.run
    }

    /// Gathers whole records from the stretch of the file that they share.
    fn gather(&self, first: u64, out: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let (run, stride) = (self.place.run as usize, self.place.stride as usize);
        let records = (out.len() / run) as u64;
        let at_once = self.at_once().min(records.max(1));
        let stretch = scratch.take(self.stretch(at_once))?;
        let at_once = at_once as usize;
        let mut record = first;
        for out in out.chunks_mut(at_once * run) {
            let records = out.len() / run;
            let stretch = &mut stretch[..(records - 1) * stride + run];
            let offset = self.place.begin + record * self.place.stride;
            self.source.fetch_one(offset, stretch)?;
            swap::gather(stretch, stride, run, out);
            record += records as u64;
        }
        Ok(())
    }

    /// Bytes from `skip` on of the element at `at`.
    fn part(&self, at: u64, skip: usize, out: &mut [u8]) -> Result<()> {
        let mut element = [0; 8];
        let element = &mut element[..self.size()];
        self.read_stored(at, element)?;
        element.reverse();
        out.copy_from_slice(&element[skip..skip + out.len()]);
        Ok(())
    }

    fn size(&self) -> usize {
        self.place.kind.size()
    }
}

impl Array for VariableArray {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.place.bytes();
        let blocks = match self.block_len() {
            Some(block_len) => bytes.div_ceil(block_len),
            None => u64::from(bytes > 0),
        };
        Ok(Info {
            dtype: self.place.kind.dtype(),
            shape: self.place.shape.clone(),
            order: Order::C,
            bytes,
            stored_bytes: self.present,
            blocks,
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let end = range.end.min(self.place.bytes());
        let there = range.start..end.min(self.present);
        // It cannot be read; a piece of its own keeps it from spoiling what can.
        let missing = range.start.max(self.present)..end;
        match self.block_len() {
            None => direct_piece(there, out),
            Some(block_len) => even_pieces(self.present, block_len, there, out),
        }
        direct_piece(missing, out);
        Ok(())
    }

    fn places_known(&self, _range: &Range<u64>) -> bool {
        true
    }

    fn stored(&self, piece: &Piece, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        let size = self.size() as u64;
        let bytes = match *piece {
            Piece::Block { id, block_len, .. } => {
                let at = id.0.saturating_mul(self.block_len().unwrap_or(0));
                at..at.saturating_add(block_len)
            }
            // Elements of which a part is asked for are read whole.
            Piece::Direct { at, take } => {
                let end = at.saturating_add(take).next_multiple_of(size);
                at - at % size..end.min(self.present)
            }
        };
        let mut at = bytes.start;
        while at < bytes.end.min(self.present) {
            let left = match self.place.runs {
                0 | 1 => bytes.end - at,
                _ => (self.place.run - at % self.place.run).min(bytes.end - at),
            };
            let offset = self.offset(at);
            needed.name(&self.source, offset..offset.saturating_add(left));
            at = at.saturating_add(left);
        }
        Ok(false)
    }

    fn scratch(&self, block: BlockId) -> u64 {
        let (Some(block_len), true) = (self.block_len(), self.spans()) else {
            return 0;
        };
        let before = block.0.saturating_mul(block_len);
        let bytes = self.present.saturating_sub(before).min(block_len);
        match self.at_once().min(bytes / self.place.run) {
            0 => 0,
            records => room(self.stretch(records)),
        }
    }

    fn decode(&self, block: BlockId, out: &mut [u8], scratch: Arena<'_>) -> Result<()> {
        let at = self.block_len().and_then(|len| block.0.checked_mul(len));
        let inside = |at: &u64| {
            let end = at.checked_add(out.len() as u64);
            end.is_some_and(|end| end <= self.present)
                && (out.len() as u64).is_multiple_of(self.place.run)
        };
        let Some(at) = at.filter(inside) else {
            let (block, len) = (block.0, out.len());
            let no_block = format!("{}: there is no block {block} of {len} bytes", self.name);
            return Err(Error::Bug(no_block));
        };
        let read = match self.spans() {
            true => self.gather(at / self.place.run, out, scratch),
            false => self.read_stored(at, out),
        };
        read.map_err(|e| e.map_fault(|fault| fault.block(block.0)))?;
        swap::elements(out, self.size());
        Ok(())
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > self.present) {
            return Err(Error::from(self.missing()));
        }
        let size = self.size();
        // Elements of which a part is asked for are read whole, at both ends.
        let before = (at as usize) % size;
        let head = if before == 0 {
            0
        } else {
            (size - before).min(out.len())
        };
        let (head, rest) = out.split_at_mut(head);
        let (body, tail) = rest.split_at_mut(rest.len() / size * size);
        if !head.is_empty() {
            self.part(at - before as u64, before, head)?;
        }
        let mut at = at + head.len() as u64;
        for step in body.chunks_mut(STEP) {
            self.read_stored(at, step)?;
            swap::elements(step, size);
            at += step.len() as u64;
        }
        if !tail.is_empty() {
            self.part(at, 0, tail)?;
        }
        Ok(())
    }

    /// Only what the file has: a header may claim a variable of any size.
    fn survey(&self, visit: &mut dyn FnMut(Piece)) -> Result<()> {
        let mut pieces = Vec::new();
        let step = self.block_len().unwrap_or(SURVEY);
        for at in (0..self.present).step_by(step as usize) {
            pieces.clear();
            self.pieces(at..self.present.min(at.saturating_add(step)), &mut pieces)?;
            pieces.iter().copied().for_each(&mut *visit);
        }
        Ok(())
    }
}

fn bytes(begin: u64, end: u128) -> Range<u64> {
    begin..u64::try_from(end).unwrap_or(u64::MAX)
}
