//! Storing what was closed a moment ago, and what has been open and changed for long: nobody waits
//! for it, but a daemon that is killed loses no more than the latest.
//!
//! One thread looks what is due, and has others store it, one file after the other each. There is
//! one of these as long as it gets on; a file that takes long, because much is moved or the disk is
//! slow, keeps its thread, and the next files are taken up by another. What a program is syncing is
//! left to it. Uses [`super::files`]; used by [`super::mount`].

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::file::ScratchFile;
use super::files::ScratchFiles;
use super::snapshot::FlushExtent;
use crate::error::Result;
use crate::source::FileId;
use crate::sync::{Mutex, MutexGuard};

/// How often it is looked whether something is due.
const LOOK: Duration = Duration::from_millis(500);

/// What was closed is stored after this long, and what is open after that.
const CLOSED: Duration = Duration::from_secs(3);
const OPEN: Duration = Duration::from_secs(25);

/// A thread that is longer at one file does not count for the others.
const LONG: Duration = Duration::from_millis(200);

/// All of them at most.
const THREADS: usize = 64;

/// What is due, and who stores it.
pub(super) struct DueFiles {
    files: Arc<ScratchFiles>,
    queue: Mutex<DueQueue>,
}

#[derive(Default)]
struct DueQueue {
    waiting: VecDeque<Arc<ScratchFile>>,
    /// All of them; of one that is being stored, since when.
    known: HashMap<FileId, Option<Instant>>,
    threads: usize,
}

impl DueQueue {
    /// How many more threads are needed: none if one gets on. They double, as each may come upon a
    /// file that takes long.
    fn lacks(&self) -> usize {
        let since = self.known.values().flatten();
        let stuck = since.filter(|since| since.elapsed() >= LONG).count();
        match self.waiting.is_empty() || self.threads > stuck {
            true => 0,
            false => self
                .threads
                .max(1)
                .min(THREADS.saturating_sub(self.threads)),
        }
    }
}

/// A file that is being stored, until this is dropped.
struct UnderWay<'a> {
    due: &'a DueFiles,
    file: Arc<ScratchFile>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.due.lock().known.remove(&self.file.id);
    }
}

impl DueFiles {
    /// Looks after these files until it is dropped.
    pub(super) fn of(files: &Arc<ScratchFiles>) -> Arc<DueFiles> {
        let due = Arc::new(DueFiles {
            files: Arc::clone(files),
            queue: Mutex::default(),
        });
        let of = Arc::downgrade(&due);
        let thread = std::thread::Builder::new().name("scratch".into());
        if let Err(e) = thread.spawn(move || look_after(&of)) {
            log::error!("files are stored at fsync and unmount alone: no thread: {e}");
        }
        due
    }

    fn lock(&self) -> MutexGuard<'_, DueQueue> {
        self.queue.lock()
    }

    fn add(&self, file: &Arc<ScratchFile>) {
        let mut queue = self.lock();
        if let Entry::Vacant(new) = queue.known.entry(file.id) {
            new.insert(None);
            queue.waiting.push_back(Arc::clone(file));
        }
    }

    /// The next one. If there is none, the thread that asks ends.
    fn take(&self) -> Option<UnderWay<'_>> {
        let mut queue = self.lock();
        let Some(file) = queue.waiting.pop_front() else {
            queue.threads = queue.threads.saturating_sub(1);
            return None;
        };
        queue.known.insert(file.id, Some(Instant::now()));
        Some(UnderWay { due: self, file })
    }

    /// Has what is due stored.
    fn look(&self) {
        for file in self.files.changed_files() {
            match file.is_gone() {
                true => self.files.forget(&file),
                false if is_due(&file) => self.add(&file),
                false => {}
            }
        }
    }

    /// Starts threads if nobody gets on with what is due. Says whether something waits.
    fn take_up(self: &Arc<Self>) -> bool {
        let mut queue = self.lock();
        let lacks = queue.lacks();
        queue.threads += lacks;
        let waits = !queue.waiting.is_empty();
        drop(queue);
        for _ in 0..lacks {
            let of = Arc::downgrade(self);
            let thread = std::thread::Builder::new().name("scratch-due".into());
            if let Err(e) = thread.spawn(move || store_due(&of)) {
                log::warn!("no thread to store files: {e}");
                store_due(&Arc::downgrade(self));
            }
        }
        waits
    }

    /// Stores a file, if it is still due.
    fn store_if_due(&self, file: &Arc<ScratchFile>) {
        if !is_due(file) {
            return;
        }
        let stored: Result<()> = match file.is_open() {
            true => file.flush_open(),
            false => self.files.settle_one(file, FlushExtent::IfCheap),
        };
        if let Err(e) = stored {
            log::error!("{}", e.told_of(&file.path, ""));
            file.note_failure(&e);
            file.times().since = Some(Instant::now());
        }
    }
}

/// Whether a file is to be stored now: nobody else is doing that, or syncing it.
fn is_due(file: &ScratchFile) -> bool {
    let Some(since) = file.changed_since() else {
        return false;
    };
    match since.map(|since| since.elapsed()) {
        Some(since) if file.is_open() => since >= OPEN,
        Some(since) => since >= CLOSED,
        None => !file.is_open() && !file.is_deferred.load(Ordering::Relaxed),
    }
}

/// As long as something is due.
fn store_due(due: &Weak<DueFiles>) {
    while let Some(due) = due.upgrade() {
        let Some(next) = due.take() else {
            return;
        };
        // A panic must not cost the others; the hook has reported it.
        let _ = catch_unwind(AssertUnwindSafe(|| due.store_if_due(&next.file)));
    }
}

/// Until the mount has ended.
fn look_after(due: &Weak<DueFiles>) {
    let mut looked = Instant::now();
    let mut waits = false;
    loop {
        std::thread::sleep(if waits { LONG } else { LOOK });
        let Some(due) = due.upgrade() else {
            return;
        };
        if looked.elapsed() >= LOOK {
            due.look();
            looked = Instant::now();
        }
        waits = due.take_up();
    }
}
