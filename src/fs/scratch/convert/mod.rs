//! A tree of files is made a scratch store in place, or a store a tree of plain files.
//!
//! File by file, so that it can be interrupted at any moment and goes on when it is asked again.
//! [`plan`] looks at everything and writes a [`log`] of what could not be told later; [`leftovers`]
//! finishes what an interruption has left; then [`pass`] goes through the tree ([`walk`] says what
//! each entry is to become), as often as names give way to others. [`packing`] and [`unpacking`]
//! write a new file, [`alike`] gives it what the old one had, and [`exchange`] its name. What
//! cannot be converted is told and left alone.
//!
//! Assumes that nobody mounts the tree meanwhile (the command holds its lock), and that who calls
//! has the right to change it. Used by the commands that pack and unpack a directory.

mod alike;
mod exchange;
#[doc(hidden)]
pub(super) mod fuzzed;
mod leftovers;
mod log;
mod packing;
mod pass;
mod plan;
#[cfg(test)]
mod tests;
mod unpacking;
mod walk;
mod writers;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::encode::EncodeOptions;
use super::mount::ScratchMount;
use super::names::{self, MARK_NAME};
use super::store::ScratchStore;
use super::store_mark::CLEAN;
use super::tail::{DAEMON, put_all};
use crate::cache::BlockCache;
use crate::disk::{Disk, Place, Target};
use crate::error::{Error, Result};
use crate::processors::processors;
use crate::source::{FileId, Stat, Store};
use crate::sync::Mutex;
use log::{ConvertLog, LOG_NAME};
use pass::BlockedEntry;
use plan::ConvertPlan;

/// Decoded chunks that readers of stored files keep.
const CACHE: u64 = 64 << 20;

/// Chunks that are held at once take at most so much.
const HELD_MOST: u64 = 256 << 20;

/// Small files that are converted together, at least and at most: they share the waiting for the
/// disk, but all threads are to have some.
const BATCH: (u64, u64) = (16, 256);

/// Told of so many bytes more.
type Told<'a> = &'a dyn Fn(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvertDirection {
    Pack,
    Unpack,
}

/// Who wants to know how it goes, and may end it.
pub trait ConvertWatch: Sync {
    /// So many files and bytes are to be converted.
    fn begins(&self, files: u64, bytes: u64);

    /// So many bytes more are done.
    fn advanced(&self, bytes: u64);

    /// Something is left as it is, and why.
    fn left_alone(&self, path: &Path, why: &str);

    /// Whether to end after the current files.
    fn is_stopped(&self) -> bool;
}

/// What has been done.
#[derive(Debug, Default)]
pub struct Converted {
    pub files: u64,
    /// Their bytes before, and after.
    pub before: u64,
    pub after: u64,
    /// Files that were stored before.
    pub stored_already: u64,
    /// What was told as left alone.
    pub left: u64,
    /// It was ended before everything was done.
    pub is_stopped: bool,
}

#[derive(Default)]
struct ConvertCounts {
    files: AtomicU64,
    before: AtomicU64,
    after: AtomicU64,
    stored_already: AtomicU64,
    left: AtomicU64,
}

/// A conversion under way.
struct Conversion<'a> {
    direction: ConvertDirection,
    store: &'a dyn Store,
    disk: &'a dyn Disk,
    /// What stored files are read through.
    stored: Option<Arc<ScratchStore>>,
    options: &'a EncodeOptions,
    log: &'a ConvertLog,
    watch: &'a dyn ConvertWatch,
    threads: usize,
    /// Small files that are converted together.
    batch: usize,
    done: ConvertCounts,
    left: Mutex<HashSet<FileId>>,
    /// Something has a name that would mean another one if it were forgotten that it was left.
    has_odd_names: AtomicBool,
    sync_failed: Mutex<bool>,
    failure: Mutex<Option<Error>>,
}

/// Whether a conversion of a directory was interrupted, and is to be gone on with.
pub fn is_being_converted(store: &dyn Store) -> bool {
    store.stat(Path::new(LOG_NAME)).is_ok()
}

/// Converts the tree below a directory.
pub fn convert(
    store: Arc<dyn Store>,
    disk: Arc<dyn Disk>,
    direction: ConvertDirection,
    options: &EncodeOptions,
    watch: &dyn ConvertWatch,
) -> Result<Converted> {
    let stopped = Converted {
        is_stopped: true,
        ..Converted::default()
    };
    let Some(plan) = plan::plan(&*store, &*disk, direction, watch)? else {
        return Ok(stopped);
    };
    let threads = processors();
    let conversion = Conversion {
        direction,
        stored: match direction {
            ConvertDirection::Pack => None,
            ConvertDirection::Unpack => Some(stored_files(&store, &disk, plan.is_resumed)?),
        },
        store: &*store,
        disk: &*disk,
        options,
        log: &plan.log,
        watch,
        threads,
        batch: (plan.files / (4 * threads as u64)).clamp(BATCH.0, BATCH.1) as usize,
        done: ConvertCounts::default(),
        left: Mutex::default(),
        has_odd_names: AtomicBool::new(false),
        sync_failed: Mutex::new(false),
        failure: Mutex::new(None),
    };
    let ran = conversion.run(&plan);
    let mut converted = conversion.converted();
    converted.is_stopped = watch.is_stopped();
    let has_odd_names = conversion.has_odd_names.load(Relaxed);
    let ended = match ran.is_ok() && !converted.is_stopped && !has_odd_names {
        true => conversion.end(&plan.root),
        false => Ok(()),
    };
    let (path, id) = (Path::new(""), plan.root.id);
    conversion.restore_times(path, id);
    // Neither the log nor another time of the directory comes back.
    let synced = conversion.disk.sync(Target::Named { path, id }, false);
    let synced = synced.or_else(exchange::unless_no_such_call);
    ran.and(ended).and(synced).map(|()| converted)
}

/// The files of a store with what their logs say. One that was not left in order is recovered
/// first; not again by a run that goes on, for which names of plain files may be those of stored
/// ones.
fn stored_files(
    store: &Arc<dyn Store>,
    disk: &Arc<dyn Disk>,
    is_resumed: bool,
) -> Result<Arc<ScratchStore>> {
    let is_store = store.stat(Path::new(MARK_NAME)).is_ok();
    let disk = (is_store && !is_resumed).then(|| Arc::clone(disk));
    let cache = BlockCache::new(CACHE);
    let mount = ScratchMount::new(Arc::clone(store), disk, cache, EncodeOptions::default())?;
    Ok(Arc::clone(&mount.store))
}

impl Conversion<'_> {
    fn run(&self, plan: &ConvertPlan) -> Result<()> {
        for path in &plan.named_alike {
            let why = "it is called like a file that is being converted; give it another name";
            self.leave(path, &Error::Invalid(why.into()));
        }
        self.finish_leftovers(&plan.temporaries)?;
        let mut is_first = true;
        loop {
            let before = self.done.files.load(Relaxed);
            let pass = self.pass(is_first)?;
            self.check_failure()?;
            if self.watch.is_stopped() {
                return Ok(());
            }
            let has_changed = self.done.files.load(Relaxed) > before || pass.renamed > 0;
            if pass.blocked.is_empty() || !has_changed {
                for BlockedEntry { path, why, is_odd } in pass.blocked {
                    self.has_odd_names.fetch_or(is_odd, Relaxed);
                    self.leave(&path, &Error::Invalid(why));
                }
                return Ok(());
            }
            is_first = false;
        }
    }

    /// Everything is done: the log goes, and the mark says what the names are.
    fn end(&self, root: &Stat) -> Result<()> {
        let path = Path::new("");
        let id = root.id;
        let place = |name: &'static str| Place {
            directory: path,
            id,
            name: OsStr::new(name),
        };
        let is_marked = self.store.stat(Path::new(MARK_NAME)).is_ok();
        match self.direction == ConvertDirection::Pack {
            true if !is_marked => {
                let mark = self.disk.create(place(MARK_NAME), 0o600, DAEMON)?;
                put_all(&*mark, 0, CLEAN.as_bytes())?;
                self.disk.sync(Target::Open(mark.source()), false)?;
            }
            false if is_marked => self.disk.unlink(place(MARK_NAME))?,
            _ => {}
        }
        // Changes of names are on the disk before it is forgotten which they were.
        self.disk.sync_all(Target::Named { path, id })?;
        self.disk.unlink(place(LOG_NAME))
    }

    fn converted(&self) -> Converted {
        let of = |count: &AtomicU64| count.load(Relaxed);
        Converted {
            files: of(&self.done.files),
            before: of(&self.done.before),
            after: of(&self.done.after),
            stored_already: of(&self.done.stored_already),
            left: of(&self.done.left),
            is_stopped: false,
        }
    }

    /// Something is left as it is.
    fn leave(&self, path: &Path, why: &Error) {
        let name = path.file_name().unwrap_or_default();
        let is_odd = names::may_be_old(name) && names::unpacked(name).is_none();
        self.has_odd_names.fetch_or(is_odd, Relaxed);
        self.done.left.fetch_add(1, Relaxed);
        self.watch
            .left_alone(&self.store.display(path), &why.to_string());
    }

    /// The file of this identity is left as it is, and not tried again.
    fn leave_file(&self, id: FileId, path: &Path, why: &Error) {
        let is_new = self.left.lock().insert(id);
        if is_new {
            self.leave(path, why);
        }
    }

    fn is_left(&self, id: FileId) -> bool {
        self.left.lock().contains(&id)
    }

    fn check_failure(&self) -> Result<()> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    fn is_ending(&self) -> bool {
        self.watch.is_stopped() || self.check_failure().is_err()
    }
}

/// What a thread has for one chunk.
struct SpaceOfThread<T> {
    plain: Vec<u8>,
    own: T,
}

/// One for each thread that has something to do, as far as memory allows.
fn spaces<T: Default>(threads: usize, jobs: usize, chunk: u64) -> Vec<SpaceOfThread<T>> {
    let fit = HELD_MOST / chunk.saturating_mul(3).max(1);
    let fit = usize::try_from(fit).unwrap_or(usize::MAX);
    let space = || SpaceOfThread {
        plain: Vec::new(),
        own: T::default(),
    };
    let count = threads.min(jobs).min(fit).max(1);
    std::iter::repeat_with(space).take(count).collect()
}
