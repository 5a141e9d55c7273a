//! Dropping names in a container that lead to other entries since a commit ([`LostName`]), before
//! the request is answered that made it.
//!
//! The kernel takes the lock of the directory for it, which it holds while it waits for the answer
//! to a request that looks up or changes a name there. So a thread of its own drops them, and no
//! answer for which such a lock may be held waits: only those to requests about a file, and about a
//! directory in which no name is ever lost. Used by `serving`.

use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, Sender, select, unbounded};
use fuser::{INodeNo, Notifier};

use crate::tree::{InodeId, LostName, Tree};

type Answer = Box<dyn FnOnce() + Send>;

/// Where answers wait for names to be dropped.
pub(super) struct NameDropping(Sender<Answer>);

impl NameDropping {
    /// Starts the thread. `notifier` is there before the first request.
    pub(super) fn start(
        tree: Arc<Tree>,
        notifier: Arc<OnceLock<Notifier>>,
    ) -> std::io::Result<NameDropping> {
        let (queue, waiting) = unbounded();
        std::thread::Builder::new()
            .name("lost-names".into())
            .spawn(move || drop_all(&tree, &notifier, &waiting))?;
        Ok(NameDropping(queue))
    }

    /// Whether the answer to a request about some inodes waits for names that are lost by now.
    pub(super) fn is_waited_for(tree: &Tree, about: &[INodeNo]) -> bool {
        let may_hold = |inode: &INodeNo| tree.may_lose_names(InodeId(inode.0));
        tree.has_lost_names() && !about.iter().any(may_hold)
    }

    /// Answers when they have gone.
    pub(super) fn answer_after(&self, answer: impl FnOnce() + Send + 'static) {
        if let Err(e) = self.0.send(Box::new(answer)) {
            // The thread has died, by a bug.
            (e.0)();
        }
    }
}

fn drop_all(tree: &Tree, notifier: &OnceLock<Notifier>, waiting: &Receiver<Answer>) {
    loop {
        select! {
            recv(waiting) -> next => match next {
                Ok(answer) => {
                    // They were lost before it was put behind them.
                    tree.lost_names().try_iter().for_each(|lost| drop_one(notifier, lost));
                    answer();
                }
                Err(_) => return,
            },
            // Perhaps no request waits for them: a thread of the tree's own has committed.
            recv(tree.lost_names()) -> lost => {
                lost.into_iter().for_each(|lost| drop_one(notifier, lost));
            }
        }
    }
}

fn drop_one(notifier: &OnceLock<Notifier>, lost: LostName) {
    if let Some(notifier) = notifier.get()
        && let Err(e) = notifier.inval_entry(INodeNo(lost.parent.0), &lost.name)
    {
        log::debug!("a name in inode {}: {e}", lost.parent.0);
    }
}
