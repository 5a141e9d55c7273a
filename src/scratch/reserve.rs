//! Room on the disk for what has been written and is not stored yet.
//!
//! A program is told that the disk is full by its write, not when it has closed the file and nobody
//! listens. So where room may be short, or somebody counts it (quotas), bytes are reserved behind
//! the stored file before a write is acknowledged, as if none of them got smaller; whoever they are
//! charged to is who writes. Where there is plenty, nothing is reserved. Used by
//! [`super::handles`].

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::file::ScratchFile;
use crate::disk::{Allocation, Caller};
use crate::error::Result;

/// Room is plenty if there is so much beside twice what is held.
const PLENTY: u64 = 2 << 30;

/// A file is given so much at once, if it has that.
const STEP: u64 = 1 << 20;

/// What a chunk, its place and the log may take beside the bytes.
const BESIDE: u64 = 64 << 10;

const KEEP_SIZE: u32 = 0x01;

/// To be called before so many bytes are written.
pub(super) fn reserve(file: &ScratchFile, bytes: u64, caller: Caller) -> Result<()> {
    if file.room.has_plenty(PLENTY) {
        return Ok(());
    }
    let held = file.read().held_bytes();
    up_to(
        file,
        held.saturating_add(bytes).saturating_add(BESIDE),
        caller,
    )
}

/// What posix_fallocate(3) asks for: so that no write into the range fails for want of room.
pub(super) fn reserve_ahead(file: &ScratchFile, range: &Range<u64>, caller: Caller) -> Result<()> {
    let more = range.end.saturating_sub(file.read().len);
    up_to(file, more.saturating_add(BESIDE), caller)
}

/// Has so many bytes reserved behind what is stored.
fn up_to(file: &ScratchFile, bytes: u64, caller: Caller) -> Result<()> {
    let mut io = file.io();
    let wanted = io.len.saturating_add(bytes);
    if wanted <= io.reserved {
        return Ok(());
    }
    let start = io.reserved.max(io.len);
    let end = wanted.next_multiple_of(if bytes > STEP { STEP } else { 4096 });
    let what = Allocation {
        mode: KEEP_SIZE,
        offset: start,
        len: end - start,
    };
    match file.writer()?.allocate(what, caller) {
        Ok(()) => {
            io.reserved = end;
            io.left = None;
            Ok(())
        }
        Err(e) if e.is_no_room() => Err(e),
        // The file system has no such call: it is found out when the bytes are stored.
        Err(e) => {
            file.room.cannot_reserve.store(true, Ordering::Relaxed);
            log::debug!("{e}");
            Ok(())
        }
    }
}
