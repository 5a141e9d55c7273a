//! A [`Stage`]: writing to it, and what it says of itself.
//!
//! What follows when memory is short or a sync is asked for is in [`super::logging`], freezing and
//! unfreezing in [`super::committing`].

use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::layer::{Layer, Written, no_array};
use super::log::{Base, LogSpot, LogWriter, LoggedArray, Record, try_to_create};
use super::place::{LogPlace, PinnedSpot};
use super::slab::{LARGEST_SLAB, LayerMemory, Lender};
use super::written_array::WrittenArray;
use crate::disk::Trial;
use crate::error::{Error, Result};
use crate::memory::no_memory;
use crate::source::{FileId, Timestamp};
use crate::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The largest array: what the system can number.
pub(super) const LARGEST_ARRAY: u64 = i64::MAX as u64;

/// The uncommitted changes of one container.
pub struct Stage {
    pub(super) memory: Arc<LayerMemory>,
    /// Held by the thread that syncs.
    pub(super) syncing: Mutex<()>,
    pub(super) place: Arc<dyn LogPlace>,
    pub(super) log: Mutex<OpenLog>,
    pub(super) layers: RwLock<LayerPair>,
    last_write: Mutex<Option<Timestamp>>,
    /// When the first of the writes came that are staged.
    staged_since: Mutex<Option<Timestamp>>,
    /// Why the log was not given everything, when that was to be last.
    pub(super) failure: Mutex<Option<Error>>,
    /// How often what is shown may have changed.
    changes: AtomicU64,
    /// Whether a program has set that time.
    time_set: AtomicBool,
    /// Whether there is a log, for threads that must not wait for its lock.
    has_log: Arc<AtomicBool>,
    /// Whether a commit was begun that could neither be carried out nor taken back.
    pub(super) half_done: AtomicBool,
    /// Whether less may be staged than when the bytes in the log were counted.
    pub(super) may_have_shrunk: AtomicBool,
}

/// No other thread waits for the disk, or removes the log, until this is dropped.
pub struct Syncing<'a> {
    _held: MutexGuard<'a, ()>,
    /// Where the log is removed, if that is going to be.
    place: Option<Result<PinnedSpot<'a>>>,
}

impl Syncing<'_> {
    /// None if the place was not asked for; an error if the container lies nowhere.
    pub(super) fn spot(&self) -> Option<Result<&LogSpot>> {
        let place = self.place.as_ref()?;
        Some(
            place
                .as_ref()
                .map(|place| &place.spot)
                .map_err(Error::clone),
        )
    }
}

/// The log, and what is to be said in it.
pub(super) struct OpenLog {
    pub(super) place: Arc<dyn LogPlace>,
    pub(super) base: Base,
    /// Paths of the arrays that were written, and how long they are in the container.
    pub(super) arrays: Vec<LoggedArray>,
    /// So many of them the log knows.
    pub(super) arrays_logged: usize,
    /// Arrays whose new content the log does not have all of, and the layers that it is in.
    pub(super) provisional: Vec<(u64, WrittenArray)>,
    /// None: nothing has been logged yet. Set by [`OpenLog::set_writer`].
    pub(super) writer: Option<LogWriter>,
    pub(super) has_log: Arc<AtomicBool>,
    /// Records that could not be written when they should have been; nothing is written before
    /// them.
    pub(super) deferred: Vec<Record>,
    /// Whether records of a commit were appended that has neither failed nor come to an end.
    pub(super) commit_logged: bool,
    /// A log that is not longer is not too long.
    pub(super) short_until: u64,
    /// Whether the last one was removed, and that may not have reached the disk.
    pub(super) may_return: bool,
    /// The directory in which one could be made when that was tried last.
    pub(super) could_be_made: Option<FileId>,
    /// A next file lies beside it.
    pub(super) has_next: bool,
}

pub(super) struct LayerPair {
    pub(super) active: Arc<Layer>,
    pub(super) frozen: Option<Arc<Layer>>,
}

impl Stage {
    /// Nothing is made on the disk before something has to be in the log.
    pub fn new(place: Arc<dyn LogPlace>, base: Base, memory: Arc<LayerMemory>) -> Arc<Stage> {
        let layers = LayerPair {
            active: Arc::new(Layer::new(1, &[], None)),
            frozen: None,
        };
        let log = OpenLog {
            place,
            base,
            arrays: Vec::new(),
            arrays_logged: 0,
            provisional: Vec::new(),
            writer: None,
            has_log: Arc::default(),
            deferred: Vec::new(),
            commit_logged: false,
            short_until: 0,
            may_return: false,
            could_be_made: None,
            has_next: false,
        };
        Stage::assembled(log, layers, memory, None)
    }

    pub(super) fn assembled(
        log: OpenLog,
        layers: LayerPair,
        memory: Arc<LayerMemory>,
        last_write: Option<Timestamp>,
    ) -> Arc<Stage> {
        let stage = Arc::new(Stage {
            memory,
            has_log: Arc::clone(&log.has_log),
            place: Arc::clone(&log.place),
            syncing: Mutex::default(),
            log: Mutex::new(log),
            layers: RwLock::new(layers),
            last_write: Mutex::new(last_write),
            staged_since: Mutex::new(last_write),
            failure: Mutex::default(),
            // Something may have been left by a daemon before.
            changes: AtomicU64::new(1),
            time_set: AtomicBool::new(false),
            half_done: AtomicBool::new(false),
            may_have_shrunk: AtomicBool::new(false),
        });
        let lender = Arc::downgrade(&stage);
        let lender: std::sync::Weak<dyn Lender> = lender;
        stage.memory.register(lender);
        stage
    }

    /// Has the stage know an array of the container as it is there, so that it can be written. The
    /// caller asks once for each.
    pub fn add_array(&self, array: LoggedArray) -> Result<WrittenArray> {
        let mut log = self.lock_log();
        let number = u32::try_from(log.arrays.len()).map_err(|_| too_many())?;
        let layers = self.write_layers();
        layers.list().for_each(|layer| layer.add_array(array.len));
        log.arrays.push(array);
        Ok(WrittenArray(number))
    }

    /// Paths of the arrays that it knows, in their order.
    pub fn arrays(&self) -> Vec<String> {
        let log = self.lock_log();
        log.arrays.iter().map(|array| array.path.clone()).collect()
    }

    /// The arrays that it knows, with the lengths that they have where nothing is staged, and their
    /// types.
    pub fn logged_arrays(&self) -> Vec<LoggedArray> {
        self.lock_log().arrays.clone()
    }

    /// To be taken before any lock that readers or writers wait for: others may be waiting for the
    /// disk.
    pub fn alone(&self) -> Syncing<'_> {
        Syncing {
            _held: self.syncing.lock(),
            place: None,
        }
    }

    /// To be taken for removing the log: the container stays in its place as long as this is held.
    pub fn alone_in_place(&self) -> Syncing<'_> {
        let alone = self.alone();
        let place = Some(self.place.pinned());
        Syncing { place, ..alone }
    }

    /// What [`Stage::alone_in_place`] gives, for a thread that must not wait for a move.
    pub fn try_alone_in_place(&self) -> Option<Syncing<'_>> {
        let _held = self.syncing.try_lock()?;
        let place = Some(self.place.try_pinned()?);
        Some(Syncing { _held, place })
    }

    pub(super) fn lock_log(&self) -> MutexGuard<'_, OpenLog> {
        self.log.lock()
    }

    pub(super) fn read_layers(&self) -> RwLockReadGuard<'_, LayerPair> {
        self.layers.read()
    }

    pub(super) fn write_layers(&self) -> RwLockWriteGuard<'_, LayerPair> {
        self.layers.write()
    }

    /// Writes bytes, beyond the end as well: what lies between is zeros. Says how many, fewer only
    /// if there is neither memory nor disk for more; an error if there is for none.
    pub fn write(&self, array: WrittenArray, offset: u64, bytes: &[u8]) -> Result<usize> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > LARGEST_ARRAY) {
            return Err(too_large());
        }
        if self.write_next(array, offset, bytes)? {
            self.was_written();
            return Ok(bytes.len());
        }
        let (mut at, mut done) = (offset, 0);
        for piece in bytes.chunks(LARGEST_SLAB as usize) {
            match self.write_piece(array, at, piece) {
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
                Ok(()) => {}
            }
            done += piece.len();
            at += piece.len() as u64;
        }
        if done > 0 {
            self.was_written();
        }
        Ok(done)
    }

    fn write_piece(&self, array: WrittenArray, at: u64, piece: &[u8]) -> Result<()> {
        let layers = self.read_layers();
        self.charge_intervals(&layers.active)?;
        let written = layers.active.write(array, at, piece, None)?;
        let written = match written {
            Written::Needs { more, held } => match self.memory.slab(more, held) {
                Some(slab) => layers.active.write(array, at, piece, Some(slab))?,
                None => written,
            },
            Written::Done => Written::Done,
        };
        drop(layers);
        match written {
            Written::Done => Ok(()),
            // No memory; or others have used the new slab meanwhile.
            Written::Needs { .. } => self.write_to_log(array, at, piece),
        }
    }

    /// Charges what was written before for its intervals; ENOMEM if that is too much, until there
    /// has been a commit.
    pub(super) fn charge_intervals(&self, layer: &Layer) -> Result<()> {
        let deferred = layer.uncharged();
        if deferred > 0 {
            let charge = self.memory.charge_intervals(deferred);
            layer.add_charge(charge.ok_or_else(too_scattered)?);
        }
        Ok(())
    }

    /// Writes zeros, which take no room however many they are.
    pub fn write_zeros(&self, array: WrittenArray, range: Range<u64>) -> Result<()> {
        if range.end > LARGEST_ARRAY {
            return Err(too_large());
        }
        if range.start < range.end {
            let layers = self.read_layers();
            self.charge_intervals(&layers.active)?;
            layers.active.put_zeros(array, range)?;
            drop(layers);
            self.may_have_shrunk.store(true, Ordering::Release);
            self.was_written();
        }
        Ok(())
    }

    /// Truncates or extends.
    pub fn set_len(&self, array: WrittenArray, len: u64) -> Result<()> {
        if len > LARGEST_ARRAY {
            return Err(too_large());
        }
        // So that what is about to be said in the log of the length stays right until it has been
        // said.
        let log = self.lock_log();
        let set = self.read_layers().active.set_len(array, len);
        self.may_have_shrunk.store(true, Ordering::Release);
        drop(log);
        set.inspect(|()| self.was_written())
    }

    fn was_written(&self) {
        let now = Timestamp::now();
        *self.last_write.lock() = Some(now);
        self.since().get_or_insert(now);
        self.time_set.store(false, Ordering::Release);
        self.has_changed();
    }

    /// What is shown is another thing from now on.
    pub(super) fn has_changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Another number whenever something has been written, thrown away or committed: counted after
    /// the change, and before the call that made it returns.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// As the array is shown.
    pub fn len(&self, array: WrittenArray) -> u64 {
        self.read_layers().active.len(array)
    }

    /// When something was last written: the time of modification that is shown. None if nothing has
    /// been since the last commit.
    pub fn last_write(&self) -> Option<Timestamp> {
        *self.last_write.lock()
    }

    /// The time that a program has set since the last write: that of all the container's files.
    pub fn time_set(&self) -> Option<Timestamp> {
        let is_set = self.time_set.load(Ordering::Acquire);
        self.last_write().filter(|_| is_set)
    }

    /// What was staged has been committed or thrown away.
    pub(super) fn forget_last_write(&self) {
        *self.last_write.lock() = None;
        *self.since() = None;
    }

    /// Of what was staged there is only left what was written while it was committed.
    pub(super) fn restage(&self) {
        *self.since() = Some(Timestamp::now());
    }

    /// When the first of the writes came that are staged; after a restart, the last before it.
    pub fn staged_since(&self) -> Option<Timestamp> {
        *self.since()
    }

    fn since(&self) -> MutexGuard<'_, Option<Timestamp>> {
        self.staged_since.lock()
    }

    /// Whether there is nothing to commit.
    pub fn is_clean(&self) -> bool {
        let layers = self.read_layers();
        layers.frozen.is_none() && layers.active.is_clean()
    }

    /// Whether there is a log. No lock is waited for.
    pub fn has_log(&self) -> bool {
        self.has_log.load(Ordering::Acquire)
    }

    /// Whether the container may be neither what was opened nor what was committed: the recovery
    /// finds that out from the log.
    pub fn is_half_done(&self) -> bool {
        self.half_done.load(Ordering::Acquire)
    }

    /// Fails if no log can be made where there is none.
    pub fn check_log(&self) -> Result<()> {
        let mut log = self.lock_log();
        if log.writer.is_some() {
            return Ok(());
        }
        let spot = log.place.spot()?;
        // What could be made elsewhere need not be possible here.
        let trial = match log.could_be_made == Some(spot.directory_id) {
            true => Trial::Rights,
            false => Trial::Made,
        };
        let tried = try_to_create(&spot, trial);
        log.could_be_made = tried.is_ok().then_some(spot.directory_id);
        tried
    }

    /// Whether it leaves nothing behind: there is nothing to commit, and no log.
    pub fn is_gone(&self) -> bool {
        !self.has_log() && self.is_clean()
    }

    /// What lies above the arrays of the container, the top first. Another list after each step of
    /// a commit.
    pub fn layers(&self) -> Vec<Arc<Layer>> {
        self.read_layers().list().collect()
    }

    /// Bytes of memory.
    pub fn bytes_held(&self) -> u64 {
        self.layers().iter().map(|layer| layer.bytes_held()).sum()
    }

    /// Name of the log, and its bytes; none if there is none.
    pub fn logged(&self) -> Option<(OsString, u64)> {
        let log = self.lock_log();
        let writer = log.writer.as_ref()?;
        Some((writer.name().to_owned(), writer.end()))
    }

    /// The container's owner is another one by now: a log has to be his to be believed.
    pub fn owner_changed(&self) {
        self.place.owner_changed();
    }

    /// A program has set the time of modification: it is the container's when this is committed.
    pub fn set_last_write(&self, to: Timestamp) {
        *self.last_write.lock() = Some(to);
        self.time_set.store(true, Ordering::Release);
    }
}

impl LayerPair {
    /// The top first.
    pub(super) fn list(&self) -> impl Iterator<Item = Arc<Layer>> {
        let active = Arc::clone(&self.active);
        std::iter::once(active).chain(self.frozen.clone())
    }
}

impl OpenLog {
    pub(super) fn set_writer(&mut self, writer: Option<LogWriter>) {
        self.has_log.store(writer.is_some(), Ordering::Release);
        self.writer = writer;
    }

    pub(super) fn check(&self, array: WrittenArray) -> Result<()> {
        match array.index() < self.arrays.len() {
            true => Ok(()),
            false => Err(no_array()),
        }
    }
}

fn too_scattered() -> Error {
    no_memory("more small pieces of arrays are staged than fit into the memory given by cache=")
}

fn too_many() -> Error {
    Error::Bug("more arrays are staged than can be numbered".into())
}

fn too_large() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EFBIG);
    Error::io("an array cannot be that long", cause)
}
