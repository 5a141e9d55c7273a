//! Dropping the kernel's pages that no longer hold, before the kernel hears of the change.
//!
//! Of files that another process has changed: a page that was the last of a file has zeros where
//! bytes are by now, so the pages go first, and the answer with the new size follows. And of inodes
//! that stay while their content becomes another one ([`OutdatedPages`]): before the request is
//! answered that did it. And of ranges that were written past the page cache
//! ([`super::direct_writes`]). The kernel may have to wait for reads and writes of that file, which
//! threads that serve requests answer: so none of them waits for it. The answer is handed to a
//! thread of its own, which does nothing else. Used by `serving`.

use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, Sender, select, unbounded};
use fuser::{INodeNo, Notifier};

use crate::tree::{InodeId, OutdatedPages, StalePages, Tree};

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

/// An answer that waits for pages to be dropped.
struct WaitingAnswer {
    files: Vec<StaleFile>,
    range: Option<PageRange>,
    answer: Box<dyn FnOnce() + Send>,
}

/// Where answers wait.
pub(super) struct StaleFiles {
    queue: Sender<WaitingAnswer>,
    notifier: Arc<OnceLock<Notifier>>,
}

impl StaleFiles {
    /// Starts the thread. `notifier` is there before the first request.
    pub(super) fn start(
        tree: Arc<Tree>,
        notifier: Arc<OnceLock<Notifier>>,
    ) -> std::io::Result<StaleFiles> {
        let (queue, waiting) = unbounded();
        let wanted = Arc::clone(&notifier);
        std::thread::Builder::new()
            .name("stale-pages".into())
            .spawn(move || drop_all(&tree, &wanted, &waiting))?;
        Ok(StaleFiles { queue, notifier })
    }

    /// Has the kernel ask for the attributes of a file. For those the kernel waits for no request.
    pub(super) fn drop_attributes(&self, inode: INodeNo) {
        if let Some(notifier) = self.notifier.get()
            && let Err(e) = notifier.inval_inode(inode, -1, 0)
        {
            log::debug!("attributes of inode {}: {e}", inode.0);
        }
    }

    /// Answers when the pages of all these files have gone.
    pub(super) fn answer_after(
        &self,
        files: Vec<StaleFile>,
        answer: impl FnOnce() + Send + 'static,
    ) {
        match files.is_empty() {
            true => answer(),
            false => self.queue(files, None, answer),
        }
    }

    /// Answers when the pages of a range have gone.
    pub(super) fn answer_after_range(
        &self,
        range: PageRange,
        answer: impl FnOnce() + Send + 'static,
    ) {
        self.queue(Vec::new(), Some(range), answer);
    }

    /// Answers when all pages have gone that are outdated by now. Only for requests for whose
    /// answer no read and no write of a file waits.
    pub(super) fn answer_after_outdated(
        &self,
        tree: &Tree,
        answer: impl FnOnce() + Send + 'static,
    ) {
        match tree.has_outdated() {
            true => self.queue(Vec::new(), None, answer),
            false => answer(),
        }
    }

    fn queue(
        &self,
        files: Vec<StaleFile>,
        range: Option<PageRange>,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let answer = Box::new(answer);
        let waiting = WaitingAnswer {
            files,
            range,
            answer,
        };
        if let Err(e) = self.queue.send(waiting) {
            // The thread has died, by a bug.
            (e.0.answer)();
        }
    }
}

fn drop_all(tree: &Tree, notifier: &OnceLock<Notifier>, waiting: &Receiver<WaitingAnswer>) {
    loop {
        select! {
            recv(waiting) -> next => match next {
                Ok(next) => {
                    // They became outdated before it was put behind them.
                    tree.outdated().try_iter().for_each(|pages| drop_outdated(notifier, pages));
                    drop_before_answer(tree, notifier, next);
                }
                Err(_) => return,
            },
            // Perhaps no request waits for them: a thread of the tree's own has committed.
            recv(tree.outdated()) -> pages => {
                pages.into_iter().for_each(|pages| drop_outdated(notifier, pages));
            }
        }
    }
}

fn drop_before_answer(tree: &Tree, notifier: &OnceLock<Notifier>, waiting: WaitingAnswer) {
    for (inode, stale) in waiting.files {
        if let Some(notifier) = notifier.get()
            && let Err(e) = drop_pages(tree, notifier, inode, stale)
        {
            log::debug!("pages of inode {}: {e}", inode.0);
        }
    }
    if let (Some(range), Some(notifier)) = (waiting.range, notifier.get())
        && let Err(e) = notifier.inval_inode(range.inode, range.offset, range.len)
    {
        log::debug!("pages of inode {}: {e}", range.inode.0);
    }
    (waiting.answer)();
}

fn drop_outdated(notifier: &OnceLock<Notifier>, pages: OutdatedPages) {
    if let Some(notifier) = notifier.get()
        && let Err(e) = notifier.inval_inode(INodeNo(pages.inode.0), 0, 0)
    {
        log::debug!("pages of inode {}: {e}", pages.inode.0);
    }
}

/// After this the kernel takes the attributes of the answer for older than those that it has, and
/// goes by its own size, behind which a mapping is SIGBUS: so it is given the last byte, which is
/// where the file ends.
fn drop_pages(
    tree: &Tree,
    notifier: &Notifier,
    inode: InodeId,
    stale: StalePages,
) -> std::io::Result<()> {
    notifier.inval_inode(INodeNo(inode.0), 0, 0)?;
    if let Some((at, byte)) = tree.last_byte(inode, stale) {
        notifier.store(INodeNo(inode.0), at, &[byte])?;
    }
    tree.dropped(inode, stale);
    Ok(())
}
