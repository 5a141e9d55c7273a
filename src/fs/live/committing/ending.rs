//! The end of the mount, as far as commits hear of it.
//!
//! A commit may be a long one. When the mount is about to end, because of a signal or of `arrayfs
//! umount --quick`, those under way are given up until there is no way back, and none is begun that
//! a close would not wait for; what they would have committed is in the log, for the next mount.
//! A command may find the mount in use, and it goes on: so the hurry ends by itself. Used by
//! [`super`], by `creation`, and by `tree`, which is told of the command.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::effort::Effort;
use crate::error::{Error, Result};
use crate::live::refusal::refused_saying;
use crate::patience;
use crate::sync::Mutex;

/// How long a command has commits hurried; the daemon hears of the unmount within that time.
pub const HURRY: Duration = Duration::from_secs(30);

/// Longer than a mount takes to end.
pub const TO_THE_END: Duration = Duration::from_secs(86_400);

#[derive(Default)]
pub(crate) struct MountEnd {
    hurried_until: Mutex<Option<Instant>>,
}

impl MountEnd {
    /// Until when long commits wait, if they do.
    pub(super) fn hurried_until(&self) -> Option<Instant> {
        let until = *self.hurried_until.lock();
        until.filter(|until| Instant::now() < *until)
    }

    /// How much the last commits do.
    pub(super) fn effort(&self) -> Effort {
        match self.hurried_until() {
            Some(_) => Effort::Usual,
            None => Effort::All,
        }
    }

    /// The mount is about to end, and for so long nobody waits for long commits.
    pub(crate) fn hurry_for(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut hurried = self.hurried_until.lock();
        *hurried = (*hurried).max(Some(until));
    }

    /// Makes a commit as long as it is wanted: until who waits for it has been killed, or the mount
    /// is about to end and it has taken longer than this.
    pub(crate) fn while_wanted<T>(
        self: &Arc<Self>,
        hurried: Duration,
        work: impl FnOnce() -> T,
    ) -> T {
        let (ending, caller) = (Arc::clone(self), patience::caller());
        let begun = Instant::now();
        let is_wanted = move || {
            let is_late = begun.elapsed() > hurried && ending.hurried_until().is_some();
            !is_late && !caller.has_gone()
        };
        patience::while_wanted(is_wanted, work)
    }

    /// Makes a commit of what has no place in the stage, and so cannot be left to the next mount:
    /// done, if that does not take long, else EBUSY. Who waits for it has not been interrupted.
    pub(super) fn now_or_never<T>(self: &Arc<Self>, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.while_wanted(Effort::Usual.in_a_hurry(), work) {
            Err(Error::Unwanted) if !patience::caller().has_gone() => {
                let what = "change an array: the mount is about to end".to_owned();
                Err(refused_saying(what, libc::EBUSY))
            }
            done => done,
        }
    }
}
