//! Reads, answered inside the tree's closure while the block is held: its bytes are not copied.
//!
//! Used by `adapter`.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fuser::ReplyData;

use super::serving::Serving;
use crate::tree::{HandleId, PageCache};

#[derive(Clone, Copy)]
pub(super) struct ReadRequest {
    pub(super) handle: HandleId,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) pages: PageCache,
}

impl Serving {
    pub(super) fn read(&self, request: ReadRequest, reply: ReplyData) {
        let (at, len, pages) = (request.offset, request.len, request.pages);
        self.answer_read(reply, |reply| {
            self.tree
                .reading
                .read(request.handle, at, len, pages, |bytes| match bytes {
                    Ok(bytes) => self.give(reply, bytes),
                    Err(e) => {
                        let errno = self.failed(&e);
                        reply.take().into_iter().for_each(|r| r.error(errno));
                    }
                });
        });
    }

    /// Answers what is in memory, and gives the reply back if that does not do: reading takes a
    /// thread that may wait.
    pub(super) fn read_in_memory(
        &self,
        request: ReadRequest,
        reply: ReplyData,
    ) -> Option<ReplyData> {
        let (at, len, pages) = (request.offset, request.len, request.pages);
        self.answer_read(reply, |reply| {
            self.tree
                .reading
                .read_in_memory(request.handle, at, len, pages, |bytes| {
                    self.give(reply, bytes);
                });
        })
    }

    fn give(&self, reply: &Cell<Option<ReplyData>>, bytes: &[u8]) {
        self.counters.read(bytes.len());
        reply.take().into_iter().for_each(|r| r.data(bytes));
    }

    /// Runs `read`, which takes the reply if it answers, and returns it if it does not. A panic is
    /// an answer.
    fn answer_read(
        &self,
        reply: ReplyData,
        read: impl FnOnce(&Cell<Option<ReplyData>>),
    ) -> Option<ReplyData> {
        let reply = Cell::new(Some(reply));
        if catch_unwind(AssertUnwindSafe(|| read(&reply))).is_err() {
            let errno = self.panicked();
            reply.take().into_iter().for_each(|r| r.error(errno));
        }
        reply.take()
    }
}
