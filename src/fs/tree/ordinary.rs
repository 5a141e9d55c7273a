//! A file of the source that is shown as it is: whether its last change was ours or another
//! process's.
//!
//! The kernel keeps pages of it until we invalidate them; nothing else does. Our own writes pass
//! through the kernel, whose pages have them already, and may still hold newer ones of a mapping:
//! they never cost pages. So the file's identity is taken whenever the last of our changes under
//! way has ended; one that differs from it later is another process's work. A change by another
//! process while one of ours is under way is not seen. Used by `tree`.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use super::node::StoredAt;
use crate::error::Result;
use crate::source::{SeenContent, SourceIdentity};
use crate::sync::Mutex;

/// Of a mode: set-user-id and set-group-id.
pub(super) const SET_ID: u16 = 0o6000;

pub(crate) struct OrdinaryFile {
    pub(super) at: StoredAt,
    content: Mutex<Content>,
    /// The bits of its mode that a write takes away, as reported to the kernel last.
    told_bits: AtomicU16,
    /// It was renamed over an array, whose name the kernel takes for this file's until it looks
    /// that up.
    absorbed: AtomicBool,
    /// It has been told that it is none of the arrays among which it is listed.
    told_beside: AtomicBool,
}

#[derive(Default)]
struct Content {
    /// What it was when it was found to be no container.
    seen: Option<SeenContent>,
    /// That of which the kernel has pages; none before the file was opened.
    known: Option<SeenContent>,
    /// Changes of ours that are under way.
    changing: u32,
    /// Counts their beginnings and ends.
    turn: u64,
    told: ReportedSize,
}

/// The size of a file that was reported to the kernel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ReportedSize {
    /// Nothing that it still believes.
    #[default]
    Nothing,
    Size(u64),
    /// First one size, then another: which of the answers arrived last, if it did, is uncertain.
    Uncertain,
}

/// What the kernel still knows of a file that is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StillKnown {
    /// Its pages hold.
    pub(super) pages: bool,
    /// The size was reported to it.
    pub(super) size: bool,
}

/// When a file was looked at; none while a change of ours was under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookedAt(Option<u64>);

/// The kernel's pages of a file that another process has changed.
#[derive(Debug, Clone, Copy)]
pub struct StalePages {
    moment: LookedAt,
    found: SourceIdentity,
    grown: bool,
}

impl StalePages {
    /// How long the file is, if it is longer than the kernel knows.
    pub(super) fn grown_to(self) -> Option<u64> {
        self.grown.then_some(self.found.size())
    }
}

impl OrdinaryFile {
    pub(super) fn new(at: StoredAt) -> Self {
        OrdinaryFile {
            at,
            content: Mutex::default(),
            told_bits: AtomicU16::new(0),
            absorbed: AtomicBool::new(false),
            told_beside: AtomicBool::new(false),
        }
    }

    /// That it lies beside arrays: says whether that is to be told now: once.
    pub(super) fn note_told_beside(&self) -> bool {
        !self.told_beside.swap(true, Ordering::AcqRel)
    }

    /// It has become the content of an array.
    pub(super) fn note_absorbed(&self) {
        self.absorbed.store(true, Ordering::Release);
    }

    /// The kernel has looked it up, by a name that is its own.
    pub(super) fn note_looked_up(&self) {
        self.absorbed.store(false, Ordering::Release);
    }

    pub(super) fn is_absorbed(&self) -> bool {
        self.absorbed.load(Ordering::Acquire)
    }

    /// Notes that it was looked into as `identity` and is no container.
    pub(super) fn note(&self, identity: SourceIdentity) {
        self.content.lock().seen = self.is_of(identity).then(|| identity.content());
    }

    pub(super) fn was_seen_as(&self, identity: SourceIdentity) -> bool {
        let seen = self.content.lock().seen;
        seen.is_some_and(|seen| self.is(seen, identity))
    }

    /// It has another name: what it is may go by that.
    pub(super) fn look_again(&self) {
        self.content.lock().seen = None;
    }

    /// To be taken before the file is looked at.
    pub(super) fn moment(&self) -> LookedAt {
        let content = self.content.lock();
        LookedAt((content.changing == 0).then_some(content.turn))
    }

    /// Whether the identity found calls for another look, at a noted moment.
    pub(super) fn may_be_foreign(&self, found: SourceIdentity) -> bool {
        let known = self.content.lock().known;
        known.is_some_and(|known| !self.is(known, found))
    }

    /// What is to be dropped because another process has changed the content of which the kernel
    /// has pages, if the file was found like this after `moment`. Returned until it has been
    /// dropped.
    pub(super) fn stale(&self, moment: LookedAt, found: SourceIdentity) -> Option<StalePages> {
        let content = self.content.lock();
        let known = content.known.filter(|&known| !self.is(known, found))?;
        content.is_now(moment).then_some(StalePages {
            moment,
            found,
            grown: found.size() > known.size(),
        })
    }

    /// The kernel has pages of nothing older, unless a change of ours has come between.
    pub(super) fn dropped(&self, stale: StalePages) {
        let mut content = self.content.lock();
        if content.is_now(stale.moment) {
            content.known = Some(stale.found.content());
        }
    }

    /// Notes that its size and mode are going to be reported to the kernel.
    pub(super) fn tell(&self, size: u64, mode: u16) {
        self.told_bits.store(mode & SET_ID, Ordering::Relaxed);
        let mut content = self.content.lock();
        content.told = match content.told {
            ReportedSize::Nothing => ReportedSize::Size(size),
            ReportedSize::Size(told) if told == size => content.told,
            ReportedSize::Size(_) | ReportedSize::Uncertain => ReportedSize::Uncertain,
        };
    }

    /// The bits that a write takes away, if any were reported to the kernel.
    pub(super) fn told_bits(&self) -> Option<u16> {
        let bits = self.told_bits.load(Ordering::Relaxed);
        (bits != 0).then_some(bits)
    }

    /// Notes that it is opened, found like this after `moment`, and says what the kernel knows of
    /// that. It is going to forget a size that is not this one.
    pub(super) fn opened(&self, moment: LookedAt, found: SourceIdentity) -> StillKnown {
        let mut content = self.content.lock();
        let size = content.told == ReportedSize::Size(found.size());
        if !size {
            content.told = ReportedSize::Nothing;
        }
        let pages = match content.known {
            Some(known) if self.is(known, found) => true,
            // What differs is a change of ours, which the pages have.
            Some(_) if !content.is_now(moment) => true,
            _ => {
                content.known = Some(found.content());
                false
            }
        };
        StillKnown { pages, size }
    }

    /// Makes a change of ours. `now` says what the file is like; the answer is also whether another
    /// process had changed it before.
    pub(super) fn change<T>(
        &self,
        now: impl Fn() -> Result<SourceIdentity>,
        work: impl FnOnce() -> Result<T>,
    ) -> (Result<T>, bool) {
        let under_way = ChangeUnderWay::begin(self, &now);
        let done = work();
        let foreign = under_way.foreign;
        drop(under_way);
        (done, foreign)
    }

    fn is(&self, known: SeenContent, found: SourceIdentity) -> bool {
        self.is_of(found) && known == found.content()
    }

    /// Whether an identity may be one of this file: of an object the name alone says that.
    fn is_of(&self, found: SourceIdentity) -> bool {
        found.file().is_none_or(|file| file.id == self.at.id)
    }
}

impl Content {
    fn is_now(&self, moment: LookedAt) -> bool {
        self.changing == 0 && moment.0 == Some(self.turn)
    }
}

/// Ends when it is dropped, also by a panic.
struct ChangeUnderWay<'a, F: Fn() -> Result<SourceIdentity>> {
    file: &'a OrdinaryFile,
    now: &'a F,
    foreign: bool,
}

impl<'a, F: Fn() -> Result<SourceIdentity>> ChangeUnderWay<'a, F> {
    fn begin(file: &'a OrdinaryFile, now: &'a F) -> Self {
        let mut content = file.content.lock();
        // Asked under the lock: no change of ours begins meanwhile.
        let foreign = content.changing == 0
            && content
                .known
                .is_some_and(|known| now().is_ok_and(|now| !file.is(known, now)));
        content.changing += 1;
        content.turn += 1;
        ChangeUnderWay { file, now, foreign }
    }
}

impl<F: Fn() -> Result<SourceIdentity>> Drop for ChangeUnderWay<'_, F> {
    fn drop(&mut self) {
        let mut content = self.file.content.lock();
        content.changing -= 1;
        content.turn += 1;
        if content.changing == 0 && content.known.is_some() {
            let now = (self.now)().ok().map(|now| now.content());
            content.known = now.or(content.known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::source::{FileId, FileIdentity, MountId, Timestamp};

    fn file() -> OrdinaryFile {
        let id = FileId::default();
        let mount = MountId(0);
        OrdinaryFile::new(StoredAt { id, mount })
    }

    fn of(size: u64) -> SourceIdentity {
        let (id, mtime) = (FileId::default(), Timestamp::default());
        FileIdentity { id, size, mtime }.into()
    }

    #[test]
    fn our_own_changes_cost_no_pages() {
        let file = file();
        let opened = file.opened(file.moment(), of(1));
        assert!(!opened.pages, "there are none yet");
        let (done, foreign) = file.change(|| Ok(of(1)), || Ok(()));
        assert!(done.is_ok() && !foreign);
        let before = file.moment();
        let (_, foreign) = file.change(|| Ok(of(2)), || Ok(()));
        assert!(foreign, "it was 1 when our change before had ended");
        assert!(
            file.stale(before, of(3)).is_none(),
            "looked at before our change"
        );
        assert!(file.opened(file.moment(), of(2)).pages);
    }

    #[test]
    fn another_size_than_that_told_is_not_known() {
        let file = file();
        assert!(!file.opened(file.moment(), of(1)).size);
        file.tell(1, 0o644);
        assert!(file.opened(file.moment(), of(1)).size);
        for _ in 0..2 {
            assert!(!file.opened(file.moment(), of(2)).size, "not told yet");
        }
        // Which of two answers arrives last is uncertain.
        file.tell(1, 0o644);
        file.tell(2, 0o644);
        assert!(!file.opened(file.moment(), of(2)).size);
        file.tell(2, 0o644);
        file.tell(2, 0o644);
        assert!(file.opened(file.moment(), of(2)).size);
    }

    #[test]
    fn a_look_during_a_change_decides_nothing() {
        let file = file();
        file.opened(file.moment(), of(1));
        let early = file.moment();
        let (moment, _) = file.change(|| Ok(of(1)), || Ok(file.moment()));
        let moment = moment.unwrap();
        assert!(file.stale(moment, of(7)).is_none() && file.stale(early, of(7)).is_none());
        let stale = file.stale(file.moment(), of(7)).unwrap();
        assert_eq!(stale.grown_to(), Some(7));
        assert!(
            file.stale(file.moment(), of(7)).is_some(),
            "they are still there"
        );
        file.dropped(stale);
        assert!(file.stale(file.moment(), of(7)).is_none());
        assert_eq!(file.stale(file.moment(), of(6)).unwrap().grown_to(), None);
    }

    #[test]
    fn what_cannot_be_asked_stays_known() {
        let file = file();
        file.opened(file.moment(), of(1));
        let (_, foreign) = file.change(|| Err(Error::NotFound), || Ok(()));
        assert!(!foreign && file.opened(file.moment(), of(1)).pages);
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
        assert!(file.opened(file.moment(), of(1)).pages);
    }
}
