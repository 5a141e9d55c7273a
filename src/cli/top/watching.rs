//! The mounts that are watched: each has a thread of its own that asks its daemon, so that one that
//! is stopped holds up nobody, and is asked once only.
//!
//! The mount table is read at every turn: mounts come and go. Used by [`super`].

use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::figures::{Figures, Look};
use crate::cli::status::{ask_mount, describe};
use crate::daemon::mount_table::Mounted;
use crate::tree::mount_status::MountStatus;

/// A daemon that has not answered for this long is said not to.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a daemon has answered, and when.
type StatusAnswer = (Instant, io::Result<MountStatus>);

/// A mount that is watched.
pub(super) struct WatchedMount {
    pub(super) mounted: Mounted,
    asks: Sender<()>,
    answers: Receiver<StatusAnswer>,
    /// Since when an answer is waited for.
    asked: Option<Instant>,
    now: Option<Look>,
    before: Option<Look>,
    /// Why there is no answer.
    trouble: Option<String>,
}

impl WatchedMount {
    /// `told` is called when there is an answer.
    pub(super) fn new(mounted: Mounted, told: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (asks, asked) = bounded::<()>(1);
        let (sender, answers) = bounded(1);
        let of = mounted.clone();
        std::thread::Builder::new()
            .name("ask".into())
            .spawn(move || {
                while asked.recv().is_ok() {
                    let answer = ask_mount(&of);
                    if sender.send((Instant::now(), answer)).is_err() {
                        return;
                    }
                    told();
                }
            })?;
        Ok(WatchedMount {
            mounted,
            asks,
            answers,
            asked: None,
            now: None,
            before: None,
            trouble: None,
        })
    }

    /// Asks the daemon, unless it owes an answer.
    pub(super) fn ask(&mut self) {
        if self.asked.is_none() && self.asks.try_send(()).is_ok() {
            self.asked = Some(Instant::now());
        }
    }

    /// Takes the answer, if there is one.
    pub(super) fn take(&mut self) {
        match self.answers.try_recv() {
            Ok((at, Ok(status))) => {
                (self.asked, self.trouble) = (None, None);
                self.before = self.now.replace(Look { status, at });
            }
            Ok((_, Err(e))) => {
                self.asked = None;
                self.fail(describe(&e));
            }
            Err(_) if self.asked.is_some_and(|asked| asked.elapsed() > PATIENCE) => {
                self.fail(describe(&io::ErrorKind::TimedOut.into()));
            }
            Err(_) => {}
        }
    }

    /// What was counted before says nothing about what is now.
    fn fail(&mut self, why: String) {
        self.trouble = Some(why);
        (self.now, self.before) = (None, None);
    }

    /// Whether an answer is waited for, and may come yet.
    pub(super) fn is_awaited(&self) -> bool {
        self.asked.is_some() && self.trouble.is_none()
    }

    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(super) fn status(&self) -> Option<&MountStatus> {
        self.now.as_ref().map(|look| &look.status)
    }

    pub(super) fn figures(&self) -> Option<Figures> {
        let now = self.now.as_ref()?;
        Some(Figures::of(now, self.before.as_ref()))
    }

    /// Whether it is this line of the mount table. A mount that was made again at the same place is
    /// another one.
    pub(super) fn is_of(&self, mounted: &Mounted) -> bool {
        self.mounted.device == mounted.device && self.mounted.mountpoint == mounted.mountpoint
    }
}
