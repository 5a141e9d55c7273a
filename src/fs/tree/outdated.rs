//! Inodes that stay while their content becomes another one: the kernel's pages of them no longer
//! hold.
//!
//! A file that takes the place of an array does that, and a commit, to what follows from arrays.
//! The kernel drops them before the request that did it is answered: a program that maps an old
//! page afterwards and changes a byte of it would have the kernel write all of it back. Dropping
//! pages may wait for reads and writes of the inode, so the tree only says which are to go;
//! `kernel::stale_pages` takes them from here. Used by `writing`.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};

use super::inode::InodeId;
use crate::live::writing::replacing::OldPages;
use crate::sync::Mutex;

/// How often the pages of each of these are still to be dropped.
type WaitingAnswers = Arc<Mutex<HashMap<InodeId, usize>>>;

/// Of a tree.
pub(crate) struct Outdated {
    queue: Sender<PageDrop>,
    taken: Receiver<PageDrop>,
    waiting: WaitingAnswers,
}

/// What the thread that drops pages does next.
pub enum PageDrop {
    Outdated(OutdatedPages),
    /// Whoever serves the tree has answers wait for what is before them.
    Then(Box<dyn FnOnce() + Send>),
}

/// Pages that are to be dropped, until this is.
pub struct OutdatedPages {
    pub inode: InodeId,
    waiting: WaitingAnswers,
    of: Option<Arc<OldPages>>,
}

impl Default for Outdated {
    fn default() -> Self {
        let (queue, taken) = crossbeam_channel::unbounded();
        Outdated {
            queue,
            taken,
            waiting: WaitingAnswers::default(),
        }
    }
}

impl Outdated {
    /// `of`: what else ends when they have gone.
    pub(super) fn add(&self, inode: InodeId, of: Option<Arc<OldPages>>) {
        *self.waiting.lock().entry(inode).or_default() += 1;
        let _ = self.queue.send(PageDrop::Outdated(OutdatedPages {
            inode,
            waiting: Arc::clone(&self.waiting),
            of,
        }));
    }

    /// Is called when all pages have gone that are outdated by now, by who drops them.
    pub(crate) fn after(&self, done: impl FnOnce() + Send + 'static) {
        let _ = self.queue.send(PageDrop::Then(Box::new(done)));
    }

    /// All there will be, in their order.
    pub(crate) fn page_drops(&self) -> impl Iterator<Item = PageDrop> {
        self.taken.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    pub(super) fn has(&self, inode: InodeId) -> bool {
        self.waiting.lock().contains_key(&inode)
    }
}

impl Drop for OutdatedPages {
    fn drop(&mut self) {
        // Before a request finds that nothing is outdated any more, and is answered.
        drop(self.of.take());
        let mut waiting = self.waiting.lock();
        if let Some(times) = waiting.get_mut(&self.inode) {
            *times -= 1;
            if *times == 0 {
                waiting.remove(&self.inode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_outdated_until_all_its_pages_have_been_dropped() {
        let (outdated, inode) = (Outdated::default(), InodeId(7));
        assert!(outdated.is_empty());
        outdated.add(inode, None);
        outdated.add(inode, None);
        let Ok(PageDrop::Outdated(first)) = outdated.taken.try_recv() else {
            panic!("nothing is outdated");
        };
        assert_eq!(first.inode, inode);
        drop(first);
        assert!(outdated.has(inode) && !outdated.has(InodeId(8)));
        drop(outdated.taken.try_recv());
        assert!(outdated.is_empty());
    }
}
