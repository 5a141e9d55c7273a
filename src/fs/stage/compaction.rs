//! Writing a log anew that has become much longer than the staged bytes in it: it holds bytes that
//! were written over, and records of commits that came to nothing.
//!
//! Everything that is staged, in memory or in the log, goes to a new one beside it, which takes its
//! name when it is on the disk: so at every moment one of the two is there, with all that was ever
//! synced. Not while a commit is under way, which reads what it has put into the log. Used by
//! [`super::logging`].

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::layer::{Layer, MovedExtent, StagedPart, Step};
use super::log::{LogWriter, Record, with_buffer};
use super::staging::{OpenLog, Stage};
use super::written_array::WrittenArray;
use crate::error::{Error, Result};
use crate::memory::fallible;

/// A log is too long if it is longer than twice the staged bytes in it, plus this.
const SLACK: u64 = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// Where staged bytes lie in the new log.
#[derive(Default)]
pub(super) struct Moved {
    extents: Vec<MovedExtent>,
    /// How long the log says that each array is.
    lens: Vec<u64>,
}

impl Stage {
    /// Writes the log anew if it is too long. If that fails it goes on as it is.
    pub(super) fn compact(&self) {
        // Not while a commit reads its records there; nor is a commit waited for.
        if self.frozen().is_some() {
            return;
        }
        let _alone = self.alone();
        let mut log = self.lock_log();
        if self.may_have_shrunk.swap(false, Ordering::AcqRel) {
            log.short_until = 0;
        }
        let layers = self.layers();
        if let [layer] = &layers[..]
            && log.is_too_long(layer)
            && let Err(e) = log.write_anew(layer)
        {
            log::debug!("the log of a stage cannot be written anew: {e}");
            log.short_until = log.writer.as_ref().map_or(0, LogWriter::end) * 2;
        }
    }
}

impl OpenLog {
    fn is_too_long(&mut self, layer: &Layer) -> bool {
        let end = self.writer.as_ref().map_or(0, LogWriter::end);
        if end <= self.short_until.max(SLACK) {
            return false;
        }
        // Counting takes time for each extent, so it is not done at each sync.
        self.short_until = layer.bytes_staged().saturating_mul(2).saturating_add(SLACK);
        end > self.short_until
    }

    fn write_anew(&mut self, layer: &Layer) -> Result<()> {
        self.flush_deferred()?;
        let Some(old) = &self.writer else {
            return Ok(());
        };
        let spot = self.place.spot()?;
        let mut new = old.create_anew((&self.place, &spot), &self.base)?;
        let copied = self.copy_to(&mut new, layer);
        let copied = copied.and_then(|moved| {
            // The new log is believed as a whole, with all that it refers to.
            let next = layer.next_file();
            next.map_or(Ok(()), |next| next.sync(&*self.place))?;
            new.take_name((&self.place, &spot), old)?;
            Ok(moved)
        });
        match copied {
            Ok(moved) => {
                layer.log_moved(&moved.extents, &moved.lens, new.bytes());
                self.writer = Some(new);
                // It has all staged bytes.
                self.arrays_logged = self.arrays.len();
                self.provisional.clear();
                Ok(())
            }
            Err(e) => {
                new.remove_anew(&spot);
                Err(e)
            }
        }
    }

    fn copy_to(&self, new: &mut LogWriter, layer: &Layer) -> Result<Moved> {
        let mut moved = Moved::default();
        for array in &self.arrays {
            new.put(&Record::Array(array.clone()))?;
        }
        for number in 0..self.arrays.len() {
            let array = WrittenArray(number as u32);
            let mut length = |len| {
                new.put(&Record::Length {
                    layer: layer.number(),
                    array: array.0,
                    len,
                })
            };
            // Bytes cut off the array below do not come back.
            length(layer.visible(array))?;
            moved.copy(new, layer, array)?;
            let len = layer.len(array);
            new.put(&Record::Length {
                layer: layer.number(),
                array: array.0,
                len,
            })?;
            fallible::push(&mut moved.lens, len, "cannot write a log anew")?;
        }
        Ok(moved)
    }
}

impl Moved {
    /// Bytes that are written meanwhile are logged later, as at any time.
    fn copy(&mut self, new: &mut LogWriter, layer: &Layer, array: WrittenArray) -> Result<()> {
        let mut at = 0;
        while let Some(part) = layer.next_staged(array, at..u64::MAX) {
            at = match part {
                StagedPart::InNext(range) => {
                    let Some((end, record)) = layer.refer_anew(array, range)? else {
                        continue;
                    };
                    new.put(&record)?;
                    end
                }
                StagedPart::Zeros(range) => {
                    new.put(&Record::Zeros {
                        layer: layer.number(),
                        array: array.0,
                        offset: range.start,
                        len: range.end - range.start,
                    })?;
                    range.end
                }
                StagedPart::Bytes(range) => self.copy_bytes(new, layer, array, range)?,
            };
        }
        Ok(())
    }

    /// Copies the beginning of a range, and says where that ends.
    fn copy_bytes(
        &mut self,
        new: &mut LogWriter,
        layer: &Layer,
        array: WrittenArray,
        range: Range<u64>,
    ) -> Result<u64> {
        let (number, start) = (layer.number(), range.start);
        let wanted = usize::try_from(range.end - start).unwrap_or(usize::MAX);
        with_buffer(wanted, |buffer| {
            let mut read = Ok(());
            let (to, n) = new.put_extent(number, array, start, buffer, |room| {
                let n = room.len().min(wanted);
                read = read_staged(layer, array, start, &mut room[..n]);
                n
            })?;
            read?;
            let end = start + n as u64;
            let range = start..end;
            let moved = MovedExtent { array, range, to };
            fallible::push(&mut self.extents, moved, "cannot write a log anew")?;
            Ok(end)
        })
    }
}

fn read_staged(layer: &Layer, array: WrittenArray, at: u64, out: &mut [u8]) -> Result<()> {
    let mut done = 0;
    while done < out.len() {
        match layer.read_some(array, at + done as u64, &mut out[done..])? {
            Step::Read(n) if n > 0 => done += n,
            Step::Read(_) | Step::Below(_) => {
                return Err(Error::Bug("staged bytes have gone from a stage".into()));
            }
        }
    }
    Ok(())
}
