//! A file of the source that is shown as it is: whose change was the last, ours or somebody else's.
//!
//! The kernel keeps pages of it and is told when they no longer hold, by nobody but us. Our own writes pass through the
//! kernel, whose pages have them already, and may still hold newer ones of a mapping: they never cost pages. So the
//! file's identity is taken whenever the last of our changes under way has ended; one that differs from it later is
//! somebody else's work. What others do while a change of ours is under way is not seen. Used by `tree`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::node::StoredAt;
use crate::error::Result;
use crate::source::FileIdentity;

pub(super) struct OrdinaryFile {
    pub(super) at: StoredAt,
    /// Identity when it was found to be no container.
    seen: Mutex<Option<FileIdentity>>,
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    /// That of which the kernel has pages; none before the file was opened.
    known: Option<FileIdentity>,
    /// Changes of ours that are under way.
    changing: usize,
    /// Counts their beginnings and ends.
    turn: u64,
}

/// When a file was looked at; none while a change of ours was under way.
#[derive(Clone, Copy)]
pub(super) struct LookedAt(Option<u64>);

impl OrdinaryFile {
    pub(super) fn new(at: StoredAt) -> Self {
        OrdinaryFile {
            at,
            seen: Mutex::default(),
            content: Mutex::default(),
        }
    }

    /// Notes that it was looked into as `identity` and is no container.
    pub(super) fn note(&self, identity: FileIdentity) {
        *self.seen() = Some(identity);
    }

    pub(super) fn was_seen_as(&self, identity: FileIdentity) -> bool {
        *self.seen() == Some(identity)
    }

    /// It has another name: what it is may go by that.
    pub(super) fn look_again(&self) {
        *self.seen() = None;
    }

    /// To be taken before the file is looked at.
    pub(super) fn moment(&self) -> LookedAt {
        let content = self.content();
        LookedAt((content.changing == 0).then_some(content.turn))
    }

    /// Whether what was found calls for another look, at a known moment.
    pub(super) fn may_be_foreign(&self, found: FileIdentity) -> bool {
        self.content().known.is_some_and(|known| known != found)
    }

    /// Whether somebody else has changed the content of which the kernel has pages, if the file was found like this
    /// after `moment`. Told once.
    pub(super) fn is_foreign(&self, moment: LookedAt, found: FileIdentity) -> bool {
        let mut content = self.content();
        let foreign = content.known.is_some_and(|known| known != found) && content.is_now(moment);
        if foreign {
            content.known = Some(found);
        }
        foreign
    }

    /// Notes that it is opened, found like this after `moment`, and says whether the kernel's pages still hold.
    pub(super) fn opened(&self, moment: LookedAt, found: FileIdentity) -> bool {
        let mut content = self.content();
        match content.known {
            Some(known) if known == found => true,
            // What differs is a change of ours, which the pages have.
            Some(_) if !content.is_now(moment) => true,
            _ => {
                content.known = Some(found);
                false
            }
        }
    }

    /// Makes a change of ours. `now` says what the file is like; the answer is also whether somebody else had changed it
    /// before.
    pub(super) fn change<T>(
        &self,
        now: impl Fn() -> Result<FileIdentity>,
        work: impl FnOnce() -> Result<T>,
    ) -> (Result<T>, bool) {
        let under_way = ChangeUnderWay::begin(self, &now);
        let done = work();
        let foreign = under_way.foreign;
        drop(under_way);
        (done, foreign)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Option<FileIdentity>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn is_now(&self, moment: LookedAt) -> bool {
        self.changing == 0 && moment.0 == Some(self.turn)
    }
}

/// Ends when it is dropped, also by a panic.
struct ChangeUnderWay<'a, F: Fn() -> Result<FileIdentity>> {
    file: &'a OrdinaryFile,
    now: &'a F,
    foreign: bool,
}

impl<'a, F: Fn() -> Result<FileIdentity>> ChangeUnderWay<'a, F> {
    fn begin(file: &'a OrdinaryFile, now: &'a F) -> Self {
        let mut content = file.content();
        // Asked under the lock: no change of ours begins meanwhile.
        let foreign = content.changing == 0
            && content
                .known
                .is_some_and(|known| now().is_ok_and(|now| now != known));
        content.changing += 1;
        content.turn += 1;
        ChangeUnderWay { file, now, foreign }
    }
}

impl<F: Fn() -> Result<FileIdentity>> Drop for ChangeUnderWay<'_, F> {
    fn drop(&mut self) {
        let mut content = self.file.content();
        content.changing -= 1;
        content.turn += 1;
        if content.changing == 0 && content.known.is_some() {
            content.known = (self.now)().ok().or(content.known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::source::{FileId, MountId};

    fn file() -> OrdinaryFile {
        let id = FileId::default();
        let mount = MountId(0);
        OrdinaryFile::new(StoredAt { id, mount })
    }

    fn of(size: u64) -> FileIdentity {
        FileIdentity {
            id: FileId::default(),
            size,
            mtime: Default::default(),
        }
    }

    #[test]
    fn our_own_changes_cost_no_pages() {
        let file = file();
        assert!(!file.opened(file.moment(), of(1)), "there are no pages yet");
        let (done, foreign) = file.change(|| Ok(of(1)), || Ok(()));
        assert!(done.is_ok() && !foreign);
        let before = file.moment();
        let (_, foreign) = file.change(|| Ok(of(2)), || Ok(()));
        assert!(foreign, "it was 1 when our change before had ended");
        assert!(
            !file.is_foreign(before, of(3)),
            "looked at before our change"
        );
        assert!(file.opened(file.moment(), of(2)));
    }

    #[test]
    fn a_look_during_a_change_decides_nothing() {
        let file = file();
        file.opened(file.moment(), of(1));
        let early = file.moment();
        let (moment, _) = file.change(|| Ok(of(1)), || Ok(file.moment()));
        let moment = moment.unwrap();
        assert!(!file.is_foreign(moment, of(7)) && !file.is_foreign(early, of(7)));
        assert!(file.is_foreign(file.moment(), of(7)));
        assert!(!file.is_foreign(file.moment(), of(7)), "told once");
    }

    #[test]
    fn what_cannot_be_asked_stays_known() {
        let file = file();
        file.opened(file.moment(), of(1));
        let (_, foreign) = file.change(|| Err(Error::NotFound), || Ok(()));
        assert!(!foreign && file.opened(file.moment(), of(1)));
    }

    #[test]
    fn changes_may_overlap() {
        let file = file();
        file.opened(file.moment(), of(1));
        let nested = || {
            let (_, foreign) = file.change(|| panic!("not asked: one is under way"), || Ok(()));
            assert!(!foreign);
            Ok(())
        };
        file.change(|| Ok(of(1)), nested).0.unwrap();
        assert!(file.opened(file.moment(), of(1)));
    }
}
