//! Memory whose size a file decides: how much a request may take, and the pieces that are handed
//! out.
//!
//! One [`budget`] bounds it. A [`block`] is decoded bytes and the part of the budget that they
//! take; [`scratch`] is what a decode needs beside its output; its caller charges it and passes it
//! in. Memory that cannot be had is ENOMEM for the request that asked, never the end of the
//! process. Lowest of all modules but `error`: used by `cache`, `array`, `container` and `codec`.

mod allocator;
pub mod block;
pub mod budget;
#[doc(hidden)]
pub mod counting;
pub mod fallible;
mod large_page;
pub mod limit;
#[doc(hidden)]
pub mod observed_allocator;
pub mod pages;
#[doc(hidden)]
pub mod refusing;
pub mod reply;
pub mod scratch;
mod spare;

pub use allocator::{ReservingAllocator, is_short, keep_reserve, set_aside};
pub use scratch::{Arena, room};

use crate::error::Error;

/// More than a thread takes at its start: its stack, and what the runtime adds.
const THREAD: usize = 4 << 20;

/// Whether there is address space for a thread: a thread that gets none for what it needs at its
/// start ends the process.
pub fn room_for_thread() -> bool {
    let mut room: Vec<u8> = Vec::new();
    let had = std::hint::black_box(&mut room).try_reserve_exact(THREAD);
    had.is_ok()
}

/// Bytes of memory that this process has now; none if the system does not say.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The system refused memory. A request that fails is better than a daemon that ends.
pub fn no_memory(doing: &str) -> Error {
    Error::io(doing, std::io::Error::from_raw_os_error(libc::ENOMEM))
}
