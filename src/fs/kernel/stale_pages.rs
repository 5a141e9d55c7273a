//! Dropping the kernel's pages that no longer hold, before the kernel hears of the change.
//!
//! Of files that another process has changed: a page that was the last of a file has zeros where
//! bytes are by now, so the pages go first, and the answer with the new size follows. And of inodes
//! that stay while their content becomes another one ([`PageDrop`]): before the request is answered
//! that did it. And of ranges that were written past the page cache
//! ([`super::direct_writes`]). The kernel may have to wait for reads and writes of that file, which
//! threads that serve requests answer: so none of them waits for it. The answer is handed to a
//! thread of its own, which does nothing else. Used by `serving`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use fuser::{INodeNo, Notifier};

use crate::tree::{InodeId, PageDrop, StalePages, Tree};

/// A file whose pages are to go.
pub(super) type StaleFile = (InodeId, StalePages);

/// Pages of an inode that do not hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageRange {
    pub(super) inode: INodeNo,
    pub(super) offset: i64,
    /// 0: to the end.
    pub(super) len: i64,
}

/// What tells the kernel of them.
#[derive(Clone)]
pub(super) struct StaleFiles {
    tree: Arc<Tree>,
    notifier: Arc<OnceLock<Notifier>>,
}

impl StaleFiles {
    /// Starts the thread. `notifier` is there before the first request.
    pub(super) fn start(
        tree: Arc<Tree>,
        notifier: Arc<OnceLock<Notifier>>,
    ) -> std::io::Result<StaleFiles> {
        let files = StaleFiles { tree, notifier };
        let own = files.clone();
        std::thread::Builder::new()
            .name("stale-pages".into())
            .spawn(move || own.drop_all())?;
        Ok(files)
    }

    /// Has the kernel ask for the attributes of a file. For those the kernel waits for no request.
    pub(super) fn drop_attributes(&self, inode: INodeNo) {
        let attributes = PageRange {
            inode,
            offset: -1,
            len: 0,
        };
        self.drop_range(attributes);
    }

    /// Answers when the pages of all these files have gone.
    pub(super) fn answer_after(
        &self,
        files: Vec<StaleFile>,
        answer: impl FnOnce() + Send + 'static,
    ) {
        if files.is_empty() {
            return answer();
        }
        let own = self.clone();
        self.tree.outdated.after(move || {
            files.into_iter().for_each(|file| own.drop_file(file));
            answer();
        });
    }

    /// Answers when the pages of a range have gone.
    pub(super) fn answer_after_range(
        &self,
        range: PageRange,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let own = self.clone();
        self.tree.outdated.after(move || {
            own.drop_range(range);
            answer();
        });
    }

    /// Answers when all pages have gone that are outdated by now. Only for requests for whose
    /// answer no read and no write of a file waits.
    pub(super) fn answer_after_outdated(&self, answer: impl FnOnce() + Send + 'static) {
        match self.tree.outdated.is_empty() {
            true => answer(),
            false => self.tree.outdated.after(answer),
        }
    }

    fn drop_all(&self) {
        for next in self.tree.outdated.page_drops() {
            match next {
                PageDrop::Outdated(pages) => self.drop_range(whole(pages.inode)),
                // Others wait behind one that fails by a bug.
                PageDrop::Then(answer) => drop(catch_unwind(AssertUnwindSafe(answer))),
            }
        }
    }

    fn drop_range(&self, range: PageRange) {
        if let Some(notifier) = self.notifier.get()
            && let Err(e) = notifier.inval_inode(range.inode, range.offset, range.len)
        {
            log::debug!("pages of inode {}: {e}", range.inode.0);
        }
    }

    /// After this the kernel takes the attributes of the answer for older than those that it has,
    /// and goes by its own size, behind which a mapping is SIGBUS: so it is given the last byte,
    /// which is where the file ends.
    fn drop_file(&self, (inode, stale): StaleFile) {
        let Some(notifier) = self.notifier.get() else {
            return;
        };
        let ino = INodeNo(inode.0);
        let dropped = notifier.inval_inode(ino, 0, 0).and_then(|()| {
            let last = self.tree.reading.last_byte(inode, stale);
            last.map_or(Ok(()), |(at, byte)| notifier.store(ino, at, &[byte]))
        });
        match dropped {
            Ok(()) => self.tree.reading.dropped(inode, stale),
            Err(e) => log::debug!("pages of inode {}: {e}", inode.0),
        }
    }
}

fn whole(inode: InodeId) -> PageRange {
    PageRange {
        inode: INodeNo(inode.0),
        offset: 0,
        len: 0,
    }
}
