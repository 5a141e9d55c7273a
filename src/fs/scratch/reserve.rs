//! Space on the disk for what has been written and is not stored yet.
//!
//! A program is told that the disk is full by its write, not when it has closed the file and nobody
//! listens. So where space may be short, or somebody counts it (quotas), bytes are reserved behind
//! the stored file before a write is acknowledged, as if none of them got smaller; whoever they are
//! charged to is who writes. Where there is plenty, nothing is reserved. Uses [`super::file`]; used
//! by [`super::flush`] and [`super::writing`].

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::file::{ScratchFile, StoredState};
use super::tail::DAEMON;
use crate::disk::{Allocation, Caller};
use crate::error::Result;

/// Space is plenty if there is so much beside twice what is held.
const PLENTY: u64 = 2 << 30;

/// A file is given so much at once, if it has that.
const STEP: u64 = 1 << 20;

/// What a chunk, its place and the log may take beside the bytes.
const BESIDE: u64 = 64 << 10;

/// From so many bytes on it is worth while to store them when there is no space for more.
const WORTH_STORING: u64 = 16 << 20;

/// To be called before so many bytes are written. `flush` stores what is held: where there is too
/// little, that may help.
pub(super) fn reserve(
    file: &ScratchFile,
    bytes: u64,
    caller: Caller,
    flush: impl FnOnce(&mut StoredState) -> Result<()>,
) -> Result<()> {
    if file.shared.has_free(PLENTY) {
        return Ok(());
    }
    let io = &mut file.io();
    // What is held is stored meanwhile by others, who have that lock.
    let wanted = || {
        let content = file.read();
        let all = content.held_bytes().saturating_add(bytes);
        let moved = content.stored.moved_to_grow(content.more_chunks(bytes));
        let table = content.stored.table_room(content.more_chunks(all));
        (all.saturating_add(moved).saturating_add(BESIDE), table)
    };
    let (all, mut table) = wanted();
    match up_to(file, io, all, caller) {
        // What is stored takes less, and has no second place; what a program writes anew it has
        // given up.
        Err(e) if e.is_no_room() && (all >= WORTH_STORING || file.is_written_anew()) => {
            flush(io)?;
            let all;
            (all, table) = wanted();
            up_to(file, io, all, caller)?;
        }
        reserved => reserved?,
    }
    // What of the table is a hole takes space, too, when it is written.
    if let Some(table) = table.filter(|table| table.end > io.table_reserved) {
        let start = table.start.max(io.table_reserved);
        allocate(file, start..table.end, caller)?;
        io.table_reserved = table.end;
    }
    Ok(())
}

fn allocate(file: &ScratchFile, range: Range<u64>, caller: Caller) -> Result<()> {
    let what = Allocation::of(Allocation::KEEP_SIZE, &range);
    match file.writer()?.allocate(what, caller) {
        Err(e) if e.is_no_room() => Err(e),
        // The file system has no such call: it is found out when the bytes are stored.
        _ => Ok(()),
    }
}

/// Space for what is still held, after a flush has given back what there was.
pub(super) fn reserve_again(file: &ScratchFile, io: &mut StoredState) {
    let held = file.held_back().unwrap_or(0);
    if held == 0 || file.shared.has_free(PLENTY) {
        return;
    }
    if let Err(e) = up_to(file, io, held.saturating_add(BESIDE), DAEMON) {
        log::debug!("{}: {e}", file.path.display());
    }
}

/// Whether space is short and cannot be reserved: then a write is stored before it is acknowledged.
pub(super) fn must_store(file: &ScratchFile) -> bool {
    file.shared.cannot_reserve.load(Ordering::Relaxed) && !file.shared.has_free(0)
}

/// What posix_fallocate(3) asks for: so that no write into the range fails for want of space.
pub(super) fn reserve_ahead(file: &ScratchFile, range: &Range<u64>, caller: Caller) -> Result<()> {
    let more = range.end.saturating_sub(file.read().len);
    up_to(file, &mut file.io(), more.saturating_add(BESIDE), caller)
}

/// Has so many bytes reserved behind what is stored.
fn up_to(file: &ScratchFile, io: &mut StoredState, bytes: u64, caller: Caller) -> Result<()> {
    let wanted = io.len.saturating_add(bytes);
    if wanted <= io.reserved {
        return Ok(());
    }
    let start = io.reserved.max(io.len);
    let end = wanted.next_multiple_of(if bytes > STEP { STEP } else { 4096 });
    let what = Allocation::of(Allocation::KEEP_SIZE, &(start..end));
    // Even in vain it changes the file's time.
    io.left = None;
    match file.writer()?.allocate(what, caller) {
        Ok(()) => {
            io.reserved = end;
            Ok(())
        }
        Err(e) if e.is_no_room() => {
            give_back_part(file, io, caller);
            Err(e)
        }
        // The file system has no such call: it is found out when the bytes are stored.
        Err(e) => {
            file.shared.cannot_reserve.store(true, Ordering::Relaxed);
            log::debug!("{e}");
            Ok(())
        }
    }
}

/// Gives back what was reserved of a range for which there was not enough; what had been reserved
/// before it stays.
fn give_back_part(file: &ScratchFile, io: &mut StoredState, caller: Caller) {
    let (len, had) = (io.len, io.reserved);
    let given_back = file.cut(io, len);
    if had <= len || given_back.is_err() {
        return;
    }
    let what = Allocation::of(Allocation::KEEP_SIZE, &(len..had));
    let again = file.writer().and_then(|file| file.allocate(what, caller));
    match again {
        Ok(()) => io.reserved = had,
        Err(e) => log::debug!("{}: {e}", file.path.display()),
    }
}
