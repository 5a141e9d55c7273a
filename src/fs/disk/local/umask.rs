//! The umask of a caller, for one call.
//!
//! Only the file system of the source can say whether the mask counts: it does not where the
//! directory has a default access control list. A mask belongs to a process, but a thread may have
//! one of its own. Used by [`super::caller`].

use std::cell::OnceCell;
use std::marker::PhantomData;

use crate::sync::{Mutex, MutexGuard};

use rustix::fs::Mode;
use rustix::process::umask;

/// Held by the thread whose mask all others have that could not get one of their own (in a
/// container that forbids unshare(2)).
static SHARED: Mutex<()> = Mutex::new(());

thread_local! {
    static HAS_OWN: OnceCell<bool> = const { OnceCell::new() };
}

/// Takes back the mask that was there before when it is dropped.
pub(super) struct Umask {
    before: Mode,
    _alone: Option<MutexGuard<'static, ()>>,
    /// It belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl Umask {
    pub(super) fn put_on(bits: u32) -> Umask {
        let has_own = HAS_OWN.with(|known| *known.get_or_init(get_own));
        let alone = (!has_own).then(|| SHARED.lock());
        Umask {
            before: umask(Mode::from_raw_mode(bits & 0o777)),
            _alone: alone,
            _thread: PhantomData,
        }
    }
}

impl Drop for Umask {
    fn drop(&mut self) {
        umask(self.before);
    }
}

/// The working directory becomes the thread's own, too; nothing changes it.
fn get_own() -> bool {
    // SAFETY: a call that takes a number; no memory is shared less than before.
    let got = unsafe { libc::unshare(libc::CLONE_FS) };
    got == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn current() -> u32 {
        let now = umask(Mode::empty());
        umask(now);
        now.as_raw_mode()
    }

    #[test]
    fn each_thread_has_its_own_mask() {
        let both = Barrier::new(2);
        let masked = |bits: u32| {
            let before = Umask::put_on(0o11);
            let within = Umask::put_on(bits);
            both.wait();
            let found = current();
            both.wait();
            drop(within);
            assert_eq!(current(), 0o11);
            drop(before);
            found
        };
        std::thread::scope(|threads| {
            let other = threads.spawn(|| masked(0o27));
            assert_eq!(masked(0o77), 0o77);
            assert_eq!(other.join().unwrap(), 0o27);
        });
    }
}
