//! How the commits of a container went: why what is staged stays so, what no program has been told
//! yet, and when the next one may be made. Used by [`super`], and by `committing`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::commit::FileInUse;
use crate::error::{Error, Result};
use crate::live::committing::due::{LastCommit, Pacing};
use crate::live::committing::waiting::HeldContent;
use crate::sync::Mutex;

#[derive(Default)]
pub(crate) struct CommitOutcomes {
    told: Mutex<OutcomesTold>,
    /// Whether a commit is under way that no program waits for.
    aside: AtomicBool,
}

#[derive(Default)]
struct OutcomesTold {
    /// Why the staged changes were not committed, when that was tried last.
    why: Option<String>,
    /// Since when a commit has been left to a later one.
    put_off: Option<Instant>,
    waits: Option<Box<WaitingCommit>>,
    last: Option<LastCommit>,
    /// The error of a commit that no program waited for, until it is reported.
    untold: Option<Error>,
    /// The last commit has failed: none is made by itself.
    failed: bool,
    /// Reasons that have been told for which something of it cannot be written.
    only_read: Vec<String>,
}

/// A commit that waits for another program, which has the file open.
struct WaitingCommit {
    since: Instant,
    in_use: FileInUse,
    known: Option<HeldContent>,
}

/// As long as it lives, a commit is under way that no program waits for.
pub(crate) struct CommittedAside<'a>(&'a AtomicBool);

impl Drop for CommittedAside<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl CommitOutcomes {
    pub(crate) fn why(&self) -> Option<String> {
        self.told.lock().why.clone()
    }

    /// Why, but for what will be committed by itself.
    pub(crate) fn hindrance(&self) -> Option<String> {
        let told = self.told.lock();
        told.why.clone().filter(|_| told.put_off.is_none())
    }

    pub(crate) fn note_why(&self, why: Option<String>) {
        let mut told = self.told.lock();
        (told.waits, told.put_off, told.why) = (None, None, why);
        told.failed = false;
    }

    /// It is committed later, for this reason. If it waits for another program that is not over.
    pub(crate) fn note_put_off(&self, why: &str) {
        let mut told = self.told.lock();
        told.put_off.get_or_insert_with(Instant::now);
        told.why = Some(why.to_owned());
    }

    /// Whether a commit has been left to a later one, which has not been tried yet.
    pub(crate) fn is_put_off(&self) -> bool {
        self.told.lock().put_off.is_some()
    }

    /// When a commit is made that is put off now.
    pub(crate) fn due(&self, quiet: Duration) -> Instant {
        let now = Instant::now();
        due_at(now, self.told.lock().put_off.unwrap_or(now), quiet)
    }

    /// It stays staged because another program has the file open. Says when to look again: the
    /// longer it takes, the less often.
    pub(crate) fn note_waits(&self, in_use: FileInUse, known: Option<HeldContent>) -> Duration {
        const SHORTEST: Duration = Duration::from_secs(1);
        const LONGEST: Duration = Duration::from_secs(30);
        let mut told = self.told.lock();
        let since = told.waits.as_ref().map(|waits| waits.since);
        let since = since.unwrap_or_else(Instant::now);
        told.why = Some(in_use.by.clone());
        told.waits = Some(Box::new(WaitingCommit {
            since,
            in_use,
            known,
        }));
        (since.elapsed() / 10).clamp(SHORTEST, LONGEST)
    }

    pub(crate) fn waits(&self) -> Option<FileInUse> {
        let told = self.told.lock();
        told.waits.as_ref().map(|waits| waits.in_use.clone())
    }

    /// The content of the file when that began.
    pub(crate) fn held_content(&self) -> Option<HeldContent> {
        self.told.lock().waits.as_ref()?.known
    }

    /// A commit that was begun at this moment has come to its end.
    pub(crate) fn note_commit(&self, begun: Instant) {
        let mut told = self.told.lock();
        told.last = Some(LastCommit {
            ended: Instant::now(),
            took: begun.elapsed(),
        });
        told.untold = None;
    }

    /// Whether changes that are closed now are left to a later commit.
    pub(crate) fn rests(&self, by: &Pacing) -> bool {
        self.aside.load(Ordering::Acquire)
            || self.told.lock().last.is_some_and(|last| last.rests(by))
    }

    pub(crate) fn committed_aside(&self) -> CommittedAside<'_> {
        self.aside.store(true, Ordering::Release);
        CommittedAside(&self.aside)
    }

    pub(crate) fn note_untold(&self, e: Error) {
        self.told.lock().untold = Some(e);
    }

    /// A commit has failed, for this reason.
    pub(crate) fn note_failed(&self, why: String) {
        self.note_why(Some(why));
        self.told.lock().failed = true;
    }

    /// Whether the last commit has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.told.lock().failed
    }

    /// The outcome of a commit that no program waited for, once.
    pub(crate) fn tell(&self) -> Result<()> {
        self.told.lock().untold.take().map_or(Ok(()), Err)
    }

    /// Says whether a reason for which something cannot be written has not been told yet.
    pub(crate) fn note_told_only_read(&self, why: &str) -> bool {
        const MOST: usize = 100;
        let told = &mut self.told.lock().only_read;
        let is_new = told.len() < MOST && !told.iter().any(|one| one == why);
        is_new.then(|| told.push(why.to_owned())).is_some()
    }
}

/// When it has been quiet for so long, or, since it was put off first, has not been for five times
/// as long.
fn due_at(now: Instant, first: Instant, quiet: Duration) -> Instant {
    let (quiet_until, latest) = (
        now.checked_add(quiet),
        first.checked_add(quiet.saturating_mul(5)),
    );
    quiet_until.min(latest).unwrap_or(now).max(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_that_follow_each_other_put_a_commit_off_five_times_as_long_at_most() {
        let first = Instant::now();
        let at = |seconds| first + Duration::from_secs(seconds);
        let due = |now| due_at(at(now), first, Duration::from_secs(2));
        assert_eq!(due(0), at(2));
        assert_eq!(due(7), at(9));
        assert_eq!(due(9), at(10));
        assert_eq!(due(60), at(60));
    }

    #[test]
    fn what_is_put_off_is_no_hindrance() {
        let outcome = CommitOutcomes::default();
        outcome.note_put_off("it would be copied");
        assert_eq!(outcome.hindrance(), None);
        assert!(outcome.why().is_some());
        outcome.note_why(Some("torn".into()));
        assert_eq!(outcome.hindrance().as_deref(), Some("torn"));
    }
}
