//! Which thread serves a request: the one that has received it, or, if that is the last one that
//! listens, another one.
//!
//! Used by `adapter`, which says what is to be done.

use std::ffi::OsStr;
use std::sync::Arc;

use crossbeam_channel::Sender;
use fuser::{
    Errno, FileHandle, INodeNo, KernelConfig, OpenFlags, ReplyData, ReplyEmpty, ReplyWrite,
    Request, WriteFlags,
};

use super::about::AskedNow;
use super::direct_writes::{DirectWrites, writes_directly};
use super::read::ReadRequest;
use super::request::{id, owned};
use super::request_counters::{RequestCounters, RequestKind, TimedRequest};
use super::serving::Serving;
use super::stale_pages::{PageRange, StaleFiles};
use super::stand_in::{Errand, StandIns};
use super::{config, passthrough::Passthrough, session::Options};
use crate::error::Result;
use crate::patience;
use crate::tree::xattr::STATUS;
use crate::tree::{InodeId, Tree};

/// What a request is: who asks, for what, and of which inode.
pub(super) type About<'a> = (&'a Request, RequestKind, INodeNo);

/// The file system that fuser serves.
pub(super) struct Adapter {
    pub(super) serving: Arc<Serving>,
    pub(super) stand_ins: Arc<StandIns>,
    /// Told when the kernel has ended the connection.
    pub(super) ended: Sender<()>,
}

impl Adapter {
    pub(super) fn new(
        tree: Arc<Tree>,
        options: Options,
        ended: Sender<()>,
        stale_files: StaleFiles,
    ) -> Adapter {
        let stand_ins = StandIns::new(options.threads);
        let counters = Arc::new(RequestCounters::default());
        let told = Arc::clone(&counters);
        tree.status.tell_requests(move || told.told());
        let serving = Arc::new(Serving {
            tree,
            options,
            counters,
            passthrough: None,
            handle_free: false,
            stale_files,
            direct_writes: DirectWrites::default(),
        });
        Adapter {
            serving,
            stand_ins,
            ended,
        }
    }

    /// Before the first request: what the kernel is asked for, and what it agrees to.
    pub(super) fn configure(&mut self, config: &mut KernelConfig) {
        // No other thread has it yet.
        if let Some(serving) = Arc::get_mut(&mut self.serving) {
            let options = &serving.options;
            let granted = config::configure(config, options.passthrough, options.lists);
            if granted.lists {
                serving.tree.show_lists();
            }
            serving.passthrough = granted.passthrough.then(Passthrough::default);
            serving.handle_free = granted.handle_free_listing;
        }
    }

    /// Serves a request that may have to wait: for a container to be opened, for the disk.
    pub(super) fn serve(
        &self,
        about: About<'_>,
        work: impl FnOnce(&Arc<Serving>) + Send + 'static,
    ) {
        let (timed, caller) = (self.begin(about), about.0.pid());
        self.hand_over_if_last(Errand::Look, move |serving| {
            let asked = AskedNow::about(timed.inode, None);
            patience::for_caller(caller, || work(serving));
            drop(asked);
            serving.end(timed, None);
        });
    }

    /// Serves a request about a name in a directory that may have to wait.
    pub(super) fn serve_named(
        &self,
        about: About<'_>,
        name: &OsStr,
        work: impl FnOnce(&Arc<Serving>, &OsStr) + Send + 'static,
    ) {
        let (timed, name) = (self.begin(about), name.to_owned());
        let caller = about.0.pid();
        self.hand_over_if_last(Errand::Look, move |serving| {
            let asked = AskedNow::about(timed.inode, Some(&name));
            patience::for_caller(caller, || work(serving, &name));
            drop(asked);
            serving.end(timed, Some(&name));
        });
    }

    fn begin(&self, (request, kind, inode): About<'_>) -> TimedRequest {
        self.serving.counters.begin(request, kind, inode)
    }

    /// Who asks for the status watches the mount.
    pub(super) fn kind_of_getxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
    ) -> RequestKind {
        if id(inode) != InodeId::ROOT || name != STATUS {
            return RequestKind::Getxattr;
        }
        self.serving.counters.watched_by(request);
        RequestKind::Status
    }

    fn hand_over_if_last(&self, errand: Errand, work: impl FnOnce(&Arc<Serving>) + Send + 'static) {
        let at_work = self.stand_ins.begin();
        if at_work.is_last() {
            self.hand_over(errand, work);
        } else {
            work(&self.serving);
        }
    }

    fn hand_over(&self, errand: Errand, work: impl FnOnce(&Arc<Serving>) + Send + 'static) {
        let serving = Arc::clone(&self.serving);
        self.stand_ins.hand_over(errand, move || work(&serving));
    }

    /// Serves a read. They come in great numbers, and many find their bytes decoded: those are not
    /// handed over.
    pub(super) fn serve_read(&self, about: About<'_>, request: ReadRequest, reply: ReplyData) {
        let timed = self.begin(about);
        let at_work = self.stand_ins.begin();
        let _asked = AskedNow::about(timed.inode, None);
        let mut reply = Some(reply);
        if at_work.is_last() {
            reply = reply.and_then(|reply| self.serving.read_in_memory(request, reply));
            if let Some(reply) = reply {
                return self.hand_over(Errand::Read, move |serving| {
                    let _asked = AskedNow::about(timed.inode, None);
                    serving.read(request, reply);
                    serving.end(timed, None);
                });
            }
        } else if let Some(reply) = reply {
            self.serving.read(request, reply);
        }
        self.serving.end(timed, None);
    }

    /// Serves a write, whose bytes are copied only if it is handed over.
    pub(super) fn serve_write(
        &self,
        about: About<'_>,
        (file, past_cache): ((INodeNo, FileHandle), Option<PageRange>),
        data: &[u8],
        reply: ReplyWrite,
        work: impl FnOnce(&Tree, &[u8]) -> Result<usize> + Send + 'static,
    ) {
        let timed = self.begin(about);
        let at_work = self.stand_ins.begin();
        if at_work.is_last() {
            let Some(data) = owned(data) else {
                reply.error(Errno::ENOMEM);
                return self.serving.end(timed, None);
            };
            self.hand_over(Errand::Look, move |serving| {
                let _asked = AskedNow::about(timed.inode, None);
                serving.written(file, past_cache, reply, |tree| work(tree, &data));
                serving.end(timed, None);
            });
        } else {
            let _asked = AskedNow::about(timed.inode, None);
            self.serving
                .written(file, past_cache, reply, |tree| work(tree, data));
            self.serving.end(timed, None);
        }
    }

    /// Where a write goes past the page cache, of which the kernel may keep pages.
    pub(super) fn past_cache(
        &self,
        inode: INodeNo,
        (offset, len): (u64, usize),
        (file, write): (OpenFlags, WriteFlags),
    ) -> Option<PageRange> {
        let of_cache = write.contains(WriteFlags::FUSE_WRITE_CACHE);
        let past = writes_directly(file.0) && !of_cache && !self.serving.options.direct_io;
        // What is appended begins where the file ends by then.
        let len = match file.0 & libc::O_APPEND {
            0 => i64::try_from(len).unwrap_or(0),
            _ => 0,
        };
        let offset = i64::try_from(offset).unwrap_or(0);
        past.then_some(PageRange { inode, offset, len })
    }

    /// Serves what has no result, and may commit. It is tried once: what is done again after a
    /// failure might find nothing left to do.
    pub(super) fn serve_once(
        &self,
        request: About<'_>,
        reply: ReplyEmpty,
        work: impl FnOnce(&Tree) -> Result<()> + Send + 'static,
    ) {
        self.serve(request, move |serving| serving.done_once(reply, work));
    }

    /// Serves what has no result, again if something has been moved meanwhile.
    pub(super) fn serve_done(
        &self,
        request: About<'_>,
        reply: ReplyEmpty,
        work: impl Fn(&Tree) -> Result<()> + Send + 'static,
    ) {
        self.serve(request, move |serving| serving.done(reply, work));
    }
}
