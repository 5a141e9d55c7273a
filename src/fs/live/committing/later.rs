//! Commits that no program waits for: those that would take too long, those of containers whose
//! last one was slow, and those that would copy more of a container than they write.
//!
//! When a close returns, everything that is staged is in the log, so that a killed daemon loses
//! none of it. The next fsync, and the container's state, report the outcome of the commit. Used by
//! [`super`], and by the threads that run [`LaterCommits::commit_when_due`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::changes::changed_arrays;
use super::committer::Committer;
use super::due::{DueCommits, Later};
use super::effort::Effort;
use super::waiting::HeldFiles;
use crate::container::writable::Consistency;
use crate::error::Result;
use crate::live::current::CurrentVersions;
use crate::live::ground::Ground;
use crate::live::version::ContainerVersion;
use crate::live::writing::LayeredContainer;
use crate::patience;

/// So long a close looks for the reason why a commit would not be made.
const AT_ONCE: Duration = Duration::from_millis(50);

/// So many written arrays are few.
const FEW: usize = 16;

/// Makes commits at a close, or later.
pub(crate) struct LaterCommits {
    pub(crate) ground: Arc<Ground>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) due: Arc<DueCommits>,
    pub(crate) held: Arc<HeldFiles>,
    pub(crate) current: Arc<CurrentVersions>,
}

impl LaterCommits {
    /// A file of a container is closed through which something was written.
    pub(crate) fn commit_at_close(&self, version: &Arc<ContainerVersion>) -> Result<()> {
        let container = version.writes.now();
        let changed = container.as_ref().filter(|now| !now.stage.is_clean());
        let why = changed.and_then(|now| self.puts_off(version, now));
        self.commit_or_leave(version, container, why)
    }

    /// An array has got another length by its name alone: no close follows.
    pub(crate) fn commit_length(&self, version: &Arc<ContainerVersion>) -> Result<()> {
        let why = self.rests(version);
        self.commit_or_leave(version, version.writes.now(), why)
    }

    /// Why a commit of what is staged is left to a later one, if it is.
    pub(crate) fn puts_off(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
    ) -> Option<&'static str> {
        let copies = || {
            let copies = self.was_put_off(version, container)
                || self.committer.copied(version, container).unwrap_or(0) > 0;
            copies.then_some("more of it would be copied than written")
        };
        self.rests(version).or_else(copies)
    }

    /// Of many arrays that are closed one after another not all are looked at each time: what was
    /// put off stays so, unless another program has changed the container.
    fn was_put_off(&self, version: &ContainerVersion, container: &LayeredContainer) -> bool {
        version.writes.outcome.is_put_off()
            && container.array_count() > FEW
            && self.current.check(version).is_ok()
    }

    fn rests(&self, version: &ContainerVersion) -> Option<&'static str> {
        let rests = version.writes.outcome.rests(&self.ground.settings.pacing);
        rests.then_some("its last commit was slow")
    }

    fn commit_or_leave(
        &self,
        version: &Arc<ContainerVersion>,
        container: Option<Arc<LayeredContainer>>,
        why: Option<&str>,
    ) -> Result<()> {
        let container = container.filter(|now| !now.stage.is_clean());
        let (Some(container), Some(why)) = (container, why) else {
            return self.committer.commit(version, Effort::Usual);
        };
        let why = match self.objection(&container) {
            // The close tells why it cannot be committed at all.
            Some(Consistency::Unfit(_)) => return self.committer.commit(version, Effort::Usual),
            Some(Consistency::NotYet(why)) => why,
            Some(Consistency::Now) | None => format!(
                "{why}; one commit will take all that is closed until it has been quiet for a moment"
            ),
        };
        let due = version
            .writes
            .outcome
            .due(self.ground.settings.pacing.quiet);
        let left = self
            .due
            .leave(version, &container, (Later::PutOff, due), &why);
        // What no log has is not left to anybody.
        left.or_else(|_| self.committer.commit(version, Effort::Usual))
    }

    /// Whether a commit would leave the container staged, and why, if that follows from lengths
    /// that have changed, and is found out at once. No commit is under way, or nothing is said.
    fn objection(&self, container: &LayeredContainer) -> Option<Consistency> {
        let layers = container.stage.layers();
        let [layer] = &layers[..] else {
            return None;
        };
        if layer.keeps_lengths() {
            return None;
        }
        let changed = changed_arrays(container, layer, &self.ground.cache).ok()?;
        let writable = container.writable();
        let found = patience::for_at_most(AT_ONCE, || {
            writable.consistency(&changed, self.ground.budget())
        });
        found.ok()
    }

    /// Returns when what was closed is committed, if it can be: makes a commit that has been left
    /// to a thread, and waits for one that a thread, or the close of another process, is making.
    pub(crate) fn commit_closed(&self, version: &Arc<ContainerVersion>) -> Result<()> {
        let id = version.container;
        let left = [Later::PutOff, Later::Large].map(|later| self.due.take(later, id));
        if left.contains(&true) {
            return self.commit_now(version);
        }
        self.due.wait_for(id)?;
        drop(version.writes.wait_for_turn()?);
        // One that has failed is tried by nobody else.
        match version.writes.outcome.has_failed() {
            true => self.commit_now(version),
            false => Ok(()),
        }
    }

    fn commit_now(&self, version: &Arc<ContainerVersion>) -> Result<()> {
        self.ground
            .retry(|| self.committer.commit(version, Effort::All))
    }

    /// Makes commits when they are due. Does not return.
    pub(crate) fn commit_when_due(&self, later: Later) {
        loop {
            let due = self.due.wait(later);
            // A panic must not cost the thread; the hook has reported it.
            let _ = catch_unwind(AssertUnwindSafe(|| self.commit_due(&due.version, later)));
        }
    }

    /// Makes those that are due now.
    #[cfg(test)]
    pub(crate) fn commit_all_due(&self, later: Later) {
        while let Some(version) = self.due.take_due(later) {
            self.commit_due(&version, later);
        }
    }

    fn commit_due(&self, version: &Arc<ContainerVersion>, later: Later) {
        let writes = &version.writes;
        if let Some(waits) = writes.outcome.waits() {
            if let Some(again) = self.held.still_waits(version, waits) {
                self.due.set(later, version, Instant::now() + again);
                return;
            }
            // The file gets its time back, if that has changed alone.
            if let Ok(container) = self.ground.places.container(version.container)
                && let Err(e) = self.current.version_of(version.container, &container)
            {
                log::debug!("{e}");
            }
        }
        let effort = match later {
            Later::PutOff => Effort::Usual,
            Later::Large => Effort::All,
        };
        let _aside = writes.outcome.committed_aside();
        // What fails is logged where it does.
        if let Err(e) = self.ground.retry(|| self.committer.commit(version, effort)) {
            writes.outcome.note_untold(e);
        }
    }
}
