//! The allocator of the program: the system's, with memory put by for allocations that cannot be
//! refused.
//!
//! Memory whose size a file decides is asked for in a way that lets a refusal be an error. Two
//! kinds of allocations know no refusal and would end the process: small ones ([`LARGE`]),
//! everywhere, and those that libraries make of what a file holds (JSON values, hash tables). For
//! the first a reserve is kept ([`keep_reserve`]); for the second the caller of the library sets
//! memory aside beforehand ([`set_aside`]), which can be refused. Both are address space, without
//! pages, that goes back to the system in the moment in which it refuses such an allocation. Until
//! the space is had again, large allocations of other threads are refused: they can be. Used by
//! [`super`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use super::refusing;
use crate::error::Result;
use crate::memory::no_memory;

/// Allocations of at least this size are refused where there is no memory; smaller ones draw on the
/// reserve.
pub(super) const LARGE: usize = 16 << 10;

/// More than small allocations take before all that is large has been refused and what is in hand
/// has ended. Where the system has less, a half or a quarter will do, and so on; not less than
/// [`LEAST_RESERVE`].
const RESERVE: usize = 32 << 20;
const LEAST_RESERVE: usize = 4 << 20;

/// So much at a time may be drawn from the reserve, and is not set aside by itself.
const DRAWN: u64 = 4 << 20;

/// How often a small allocation is tried again while others give memory back.
const PATIENCE: usize = 100;

/// The system's allocator takes memory in steps: so much more than what is allocated of it must be
/// free.
const STEP: usize = 2 << 20;

/// What the program allocates by. Tests have it within
/// [`ObservedAllocator`](super::observed_allocator::ObservedAllocator).
pub struct ReservingAllocator;

/// Null if it is spent, or none is kept.
static RESERVED: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// Size of the reserve, written by the thread that makes it and read by the one that spends it.
static RESERVED_LEN: AtomicUsize = AtomicUsize::new(0);

/// The reserve is kept, and spent.
static RESERVE_SPENT: AtomicBool = AtomicBool::new(false);

/// How much that was put by has been spent and not been had again: the reserve, what was set aside.
static SPENT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What this thread has set aside for what it is doing.
    static ASIDE: Cell<Aside> = const { Cell::new(Aside::Nothing) };
}

#[derive(Clone, Copy)]
enum Aside {
    Nothing,
    /// The reserve will do.
    Reserve,
    Mapped(Mapped),
    Spent,
}

/// Address space of our own.
#[derive(Clone, Copy)]
struct Mapped {
    at: *mut libc::c_void,
    len: usize,
}

/// Gives back what was set aside; what an outer call set aside counts again.
struct PutBack(Aside);

/// Keeps a reserve for small allocations from now on, if there is memory for it.
pub fn keep_reserve() {
    if RESERVED.load(Ordering::SeqCst).is_null() && !RESERVE_SPENT.swap(true, Ordering::SeqCst) {
        SPENT.fetch_add(1, Ordering::SeqCst);
    }
    refill();
}

/// Does what allocates up to `bytes` in ways that cannot be refused; ENOMEM at once if the system
/// does not have them.
pub fn set_aside<T>(bytes: u64, doing: &str, work: impl FnOnce() -> T) -> Result<T> {
    let aside = aside(bytes).ok_or_else(|| no_memory(doing))?;
    let _put_back = PutBack(ASIDE.replace(aside));
    let _covered = refusing::covered(bytes);
    Ok(work())
}

fn aside(bytes: u64) -> Option<Aside> {
    let len = usize::try_from(bytes).ok()?.checked_add(STEP)?;
    if refusing::is_wanted() && refusing::refuses_uncovered(len - STEP) {
        return None;
    }
    match bytes {
        _ if is_short() => None,
        0..=DRAWN => Some(Aside::Reserve),
        _ => Mapped::new(len).map(Aside::Mapped),
    }
}

/// Whether large allocations are to be refused, because of what has been spent.
pub fn is_short() -> bool {
    SPENT.load(Ordering::Relaxed) > 0
        && is_within(|aside| matches!(aside, Aside::Nothing))
        && !refill()
}

impl Mapped {
    fn new(len: usize) -> Option<Mapped> {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, to which there is no reference.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, -1, 0) };
        (at != libc::MAP_FAILED).then_some(Mapped { at, len })
    }

    fn give_back(self) {
        // SAFETY: it is ours, and no thread reads or writes there.
        unsafe { libc::munmap(self.at, self.len) };
    }
}

impl Drop for PutBack {
    fn drop(&mut self) {
        match ASIDE.replace(self.0) {
            Aside::Mapped(mapped) => mapped.give_back(),
            Aside::Spent => drop(SPENT.fetch_sub(1, Ordering::SeqCst)),
            Aside::Nothing | Aside::Reserve => {}
        }
    }
}

/// Has the reserve again if it is spent; says whether nothing is.
fn refill() -> bool {
    if RESERVE_SPENT.swap(false, Ordering::SeqCst) {
        match reserve() {
            Some(Mapped { at, len }) => {
                RESERVED_LEN.store(len, Ordering::SeqCst);
                RESERVED.store(at, Ordering::SeqCst);
                SPENT.fetch_sub(1, Ordering::SeqCst);
            }
            None => RESERVE_SPENT.store(true, Ordering::SeqCst),
        }
    }
    SPENT.load(Ordering::SeqCst) == 0
}

fn reserve() -> Option<Mapped> {
    let halves = std::iter::successors(Some(RESERVE), |len| Some(len / 2));
    let mut enough = halves.take_while(|len| *len >= LEAST_RESERVE);
    enough.find_map(Mapped::new)
}

/// Asks about what this thread has set aside; a thread that ends has nothing.
fn is_within(is: impl FnOnce(Aside) -> bool) -> bool {
    let aside = ASIDE.try_with(Cell::get);
    is(aside.unwrap_or(Aside::Nothing))
}

/// Allocates once more, with what has been put by for such an allocation; null if there is nothing.
#[cold]
fn again(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let mapped = ASIDE.try_with(|aside| match aside.get() {
        Aside::Mapped(mapped) => {
            aside.set(Aside::Spent);
            Some(mapped)
        }
        _ => None,
    });
    if let Ok(Some(mapped)) = mapped {
        SPENT.fetch_add(1, Ordering::SeqCst);
        mapped.give_back();
        let allocated = allocate();
        if !allocated.is_null() {
            return allocated;
        }
    }
    if size >= LARGE && is_within(|aside| matches!(aside, Aside::Nothing)) {
        return ptr::null_mut();
    }
    let at = RESERVED.swap(ptr::null_mut(), Ordering::SeqCst);
    if !at.is_null() {
        let len = RESERVED_LEN.load(Ordering::SeqCst);
        Mapped { at, len }.give_back();
        SPENT.fetch_add(1, Ordering::SeqCst);
        RESERVE_SPENT.store(true, Ordering::SeqCst);
    }
    // Another thread may have had it a moment ago and be about to give it back: that may do for
    // both.
    for _ in 0..PATIENCE {
        let allocated = allocate();
        if !allocated.is_null() {
            return allocated;
        }
        std::thread::yield_now();
    }
    allocate()
}

/// Allocates by `allocate`, unless it is large and what was put by has been spent.
fn obtain(size: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    if size >= LARGE && is_short() {
        return ptr::null_mut();
    }
    let allocated = allocate();
    match allocated.is_null() {
        true => again(size, allocate),
        false => allocated,
    }
}

// SAFETY: the memory is that of the system's allocator, or null, which says that there is none.
unsafe impl GlobalAlloc for ReservingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those of the system's allocator.
        obtain(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        obtain(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; what is refused leaves the old place as it was, so it can be tried
        // again.
        let grown = || unsafe { System.realloc(place, layout, size) };
        match size > layout.size() {
            true => obtain(size, grown),
            false => grown(),
        }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An allocation that the system refuses `times` times.
    fn refused(times: usize) -> impl Fn() -> *mut u8 {
        let left = Cell::new(times);
        move || match left.get() {
            0 => ptr::dangling_mut(),
            more => {
                left.set(more - 1);
                ptr::null_mut()
            }
        }
    }

    fn is_spent() -> bool {
        is_within(|aside| matches!(aside, Aside::Spent))
    }

    /// While something is spent all threads are refused: so in a process of its own.
    #[test]
    fn what_is_set_aside_is_spent_when_the_system_refuses() {
        let own = module_path!().split_once("::").unwrap().1;
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--ignored", "--exact"]);
        let done = alone
            .arg(format!("{own}::spends_what_is_set_aside"))
            .output();
        let said = String::from_utf8(done.unwrap().stdout).unwrap();
        assert!(said.contains("1 passed; 0 failed"), "{said}");
    }

    #[test]
    #[ignore = "a process of the test before"]
    fn spends_what_is_set_aside() {
        let within = set_aside(8 << 20, "x", || {
            assert!(!obtain(LARGE, refused(0)).is_null() && !is_spent());
            assert!(!obtain(LARGE, refused(1)).is_null() && is_spent());
            set_aside(8 << 20, "y", || assert!(!is_spent())).unwrap();
            is_spent()
        });
        assert!(within.unwrap() && !is_spent());
        assert!(obtain(LARGE, refused(1)).is_null(), "nothing is set aside");
        assert!(set_aside(u64::MAX / 2, "z", || ()).is_err());
    }
}
