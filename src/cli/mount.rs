//! `arrayfs mount`: check, go to the background, mount. What follows is [`Running`]'s.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use log::LevelFilter;

use super::args::MountArgs;
use super::failure::{CommandResult, Failure};
use super::options::MountOptions;
use super::preconditions::{self, HandedOver, MountPaths};
use super::running::Running;
use super::{container, limits, output, remote, writing};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::container::{LogsInFiles, Preferences};
use crate::daemon::background::{self, ForkSide, Inherited, Readiness};
use crate::daemon::log::Destination;
use crate::daemon::systemd::Supervisor;
use crate::daemon::umount_table::UmountLine;
use crate::daemon::{self, guardian, mount_table, processes, readahead, signals};
use crate::disk::Disk;
use crate::error::{Error, plain};
use crate::kernel::session::{self, Mount, ServeAt};
use crate::live::{ContainerSettings, StaleLogs};
use crate::memory;
use crate::memory::budget::Budget;
use crate::memory::limit::default_limit;
use crate::processors::processors;
use crate::scratch::{self, ScratchMount};
use crate::source::Store;
use crate::source::remote::is_url;
use crate::tree::mount_status::{LogStatus, WarningStatus};
use crate::tree::{Pacing, Settings, Tree, Views};

/// Arenas of the system's allocator: threads allocate little, and most of it from their own caches.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 4;

pub(super) fn run(args: MountArgs, inherited: Inherited) -> CommandResult {
    let given = args.all_options();
    let options = MountOptions::parse(&given)?;
    let source = remote::given(&args.source, &options.remote)?;
    remote::remember(options.remote.clone());
    for word in options.words(&given) {
        output::complain(word);
    }
    if options.flags.nofail && is_missing(&source) {
        return Ok(());
    }
    let places = preconditions::check(&source, &args.mountpoint, &options)?;
    if !is_url(&places.source) {
        // Found out before the fork, where the terminal still listens; what a URL leads to, by the
        // daemon: no thread is to be begun before.
        container::root_of(&places.source, options.preferences, &Budget::by_default())?;
    }
    if options.flags.fake {
        return Ok(());
    }
    let log = |otherwise| options.log.clone().unwrap_or(otherwise);
    let supervisor = Supervisor::of_environment();
    if args.foreground {
        let log = log(Destination::StandardError);
        return serve((places, supervisor), &options, &log, Readiness::nobody());
    }
    let log = log(Destination::System);
    match background::detach(inherited) {
        Ok(ForkSide::Parent(outcome)) => outcome.map_err(Failure::new),
        Ok(ForkSide::Child(readiness)) => {
            serve_as_child((places, supervisor), &options, &log, readiness)
        }
        Err(e) => Err(Failure::new(format!("cannot start the daemon: {e}"))),
    }
}

/// As of a disk that is not plugged in.
fn is_missing(source: &Path) -> bool {
    if is_url(source) {
        return false;
    }
    let found = source.try_exists();
    matches!(found, Ok(false)) || found.is_err_and(|e| e.kind() == io::ErrorKind::NotADirectory)
}

/// The child's failures are the parent's to print.
fn serve_as_child(
    (places, supervisor): (MountPaths, Supervisor),
    options: &MountOptions,
    log: &Destination,
    mut readiness: Readiness,
) -> CommandResult {
    let running = match start((places, supervisor), options, log, &readiness) {
        Ok(running) => running,
        Err(failure) => {
            let told = readiness.failed(&failure.message);
            return Err(if told { Failure::silent() } else { failure });
        }
    };
    // As long as the process is there that was started.
    running.tell_ready(Some(std::process::id()));
    match readiness.ready() {
        Ok(()) => running.until_ended(),
        Err(e) => {
            log::warn!("who mounts has gone ({}): unmounting", plain(&e));
            running.unmount()
        }
    }
}

fn serve(
    at: (MountPaths, Supervisor),
    options: &MountOptions,
    log: &Destination,
    readiness: Readiness,
) -> CommandResult {
    let running = start(at, options, log, &readiness)?;
    running.tell_ready(None);
    readiness.ready().map_err(Failure::new)?;
    running.until_ended()
}

fn start(
    (mut places, supervisor): (MountPaths, Supervisor),
    options: &MountOptions,
    log: &Destination,
    readiness: &Readiness,
) -> Result<Running, Failure> {
    limits::raise();
    start_log(options, log, &places.mountpoint)?;
    processes::name_daemon();
    // In this process, whose number the kernel notes, and before it has a second thread.
    let lock = match is_url(&places.source) {
        true => None,
        false => writing::claim(&places.source, options.flags.writing)?,
    };
    // That may have taken long, and who waited for it may not wait any more.
    if !readiness.is_awaited() {
        return Err(Failure::new("who mounts has gone"));
    }
    let writable = lock.is_some();
    for limit in limits::told(writable) {
        log::warn!("{limit}");
    }
    return_freed_memory();
    memory::keep_reserve();
    let failed = |e: std::io::Error| Failure::new(format!("cannot start a thread: {e}"));
    let signals = signals::receive().map_err(failed)?;
    let threads = options.threads.unwrap_or(processors().clamp(4, 16));
    let cache = BlockCache::new(options.cache.unwrap_or_else(default_limit));
    let workers = ReadAheadWorkers::new(processors().min(threads)).map_err(failed)?;
    let root = container::root_of(&places.source, options.preferences, cache.budget())?;
    let posix = root.store.posix();
    if let (true, Ok(posix)) = (options.flags.allow_other, &posix) {
        posix.serve_others();
    }
    let settings = tree_settings(options);
    // Other users and modes than those of the source do not go with its lists.
    let as_stored = (options.uid, options.gid, options.umask) == (None, None, None);
    let lists = as_stored && !options.flags.noacl && posix.is_ok_and(|posix| posix.has_lists());
    let mut disk = root.disk.filter(|_| writable);
    let mut store = root.store;
    let scratch = match options.flags.scratch {
        true => Some(scratch_mount(&store, &disk, &cache, options)?),
        false => None,
    };
    if let Some(scratch) = &scratch {
        (store, disk) = (scratch.store(), scratch.disk());
    }
    let (tree, invalidations) = Tree::new(store, disk, &root.path, cache, workers, settings)?;
    let mut session = session_options(&places, options, threads);
    session.writable = writable;
    session.lists = lists;
    tree.status.tell_log(told_by_log);
    if is_url(&places.source) {
        tree.status.tell_remote(options.remote.clone());
    }
    let tree = Arc::new(tree);
    let served = Arc::clone(&tree);
    let (connection, known) = match places.connection.take() {
        Some(HandedOver { descriptor, device }) => (Some(descriptor), device),
        None => (None, None),
    };
    let is_handed_over = connection.is_some();
    let alone = match is_handed_over {
        true => None,
        false => preconditions::alone_at(&places.mountpoint)?,
    };
    let at = connection.map_or(ServeAt::Mountpoint(&places.mountpoint), ServeAt::Connection);
    let mount = Mount::start(served, invalidations, at, &session)
        .map_err(|e| cannot_mount(&places, is_handed_over, &e))?;
    drop(alone);
    let device = match is_handed_over {
        true => known,
        false => mount_table::device_at(&places.mountpoint).ok(),
    };
    attend(device, &places, options);
    let noted = match is_handed_over {
        true => None,
        false => note_for_umount(&session.source_name, &places.mountpoint),
    };
    Ok(Running {
        mount,
        tree,
        scratch,
        signals,
        supervisor,
        source: places.source,
        mountpoint: places.mountpoint,
        is_handed_over,
        device,
        noted,
        lock,
        has_ended: Cell::new(false),
    })
}

fn cannot_mount(places: &MountPaths, is_handed_over: bool, e: &io::Error) -> Failure {
    // The helper of users ends its lines.
    let (why, at) = (e.to_string(), places.mountpoint.display());
    match is_handed_over {
        true => Failure::new(format!(
            "cannot serve {at}: {}; who hands a descriptor over mounts with it first, and reads nothing from it",
            why.trim_end()
        )),
        false => Failure::new(format!("cannot mount {at}: {}", why.trim_end())),
    }
}

/// Recovers what a crash has left of a store before it is mounted.
fn scratch_mount(
    store: &Arc<dyn Store>,
    disk: &Option<Arc<dyn Disk>>,
    cache: &Arc<BlockCache>,
    options: &MountOptions,
) -> Result<ScratchMount, Failure> {
    if disk.is_some() && scratch::is_being_converted(&**store) {
        return Err(Failure::new(
            "cannot use the scratch store: 'arrayfs pack' or 'unpack' of it was interrupted; run that again \
             first, or mount it with ro",
        ));
    }
    let (store, cache) = (Arc::clone(store), Arc::clone(cache));
    let mount = ScratchMount::new(store, disk.clone(), cache, options.encode.clone());
    mount.map_err(|e| {
        let why = match &e {
            Error::NotShown(not) => not.to_string(),
            _ => e.to_string(),
        };
        Failure::new(format!("cannot use the scratch store: {why}"))
    })
}

fn start_log(options: &MountOptions, log: &Destination, mountpoint: &Path) -> Result<(), Failure> {
    let level = options.log_level.unwrap_or(LevelFilter::Info);
    daemon::log::start(log.clone(), level, mountpoint)
        .map_err(|e| Failure::new(format!("cannot log to {log}: {e}")))?;
    if options.log == Some(Destination::System)
        && let Err(e) = daemon::log::check_system()
    {
        let why = plain(&e);
        log::warn!(
            "log=syslog: {why}: until there is one the daemon logs to a file, which 'arrayfs status' names"
        );
    }
    Ok(())
}

/// What the log has to say of the mount, for `status`.
fn told_by_log() -> LogStatus {
    let warnings = daemon::log::warnings().into_iter();
    let warnings = warnings.map(|warning| WarningStatus {
        level: warning.level.as_str().into(),
        text: warning.text,
        times: warning.times,
        last: format!("{:.0}", warning.last),
    });
    LogStatus {
        to: daemon::log::place(),
        warnings: warnings.collect(),
        warnings_unlisted: 0,
    }
}

fn tree_settings(options: &MountOptions) -> Settings {
    let mut pacing = Pacing::default();
    if let Some(slow) = options.slow_commit {
        (pacing.slow, pacing.copied) = (slow, u64::MAX);
    }
    Settings {
        uid: options.uid,
        gid: options.gid,
        umask: options.umask,
        containers: ContainerSettings {
            preferences: Preferences {
                files_only: options.flags.scratch,
                logs_in_files: LogsInFiles(Some(scratch::read_through_log)),
                ..options.preferences
            },
            commit: options.commit,
            pacing,
            packed_after: options.settle,
            stale: StaleLogs::Kept,
        },
        views: match options.flags.views {
            true => Views::Listed,
            false => Views::Unlisted,
        },
        ..Settings::default()
    }
}

/// Has umount(8) find our helper, if that is there.
fn note_for_umount(source: &str, mountpoint: &Path) -> Option<UmountLine> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let noted = UmountLine::note(source, mountpoint);
    noted.unwrap_or_else(|e| {
        log::info!("umount(8) may not wait for the daemon: {}", plain(&e));
        None
    })
}

/// Sets the read-ahead of the new mount, and starts its guardian.
fn attend(device: Option<mount_table::Device>, places: &MountPaths, options: &MountOptions) {
    let left_behind = options.flags.auto_unmount.then_some(&*places.mountpoint);
    let far = options.readahead.unwrap_or(readahead::DEFAULT);
    let set = device.map(|device| readahead::set(device, far));
    if let (Some(_), Some(Err(e))) = (options.readahead, set) {
        log::warn!("readahead= has no effect: {}", plain(&e));
    }
    if let Some(device) = device
        && let Err(e) = guardian::start(device, left_behind)
    {
        let why = plain(&e);
        log::info!(
            "no guardian ({why}): if the daemon is killed, programs may wait until `arrayfs umount`"
        );
        if options.flags.auto_unmount {
            log::warn!("auto_unmount has no effect: there is no guardian ({why})");
        }
    }
}

fn session_options(
    places: &MountPaths,
    options: &MountOptions,
    threads: usize,
) -> session::Options {
    let mut session = session::Options::new(output::path_text(&places.source), threads);
    session.allow_other = options.flags.allow_other;
    // Root mounts for root alone.
    session.allow_root = options.flags.allow_root && !rustix::process::geteuid().is_root();
    session.direct_io = options.flags.direct_io;
    session.suid = options.flags.suid;
    session.dev = options.flags.dev;
    session.exec = !options.flags.noexec;
    session.atime = !options.flags.noatime;
    session.sync = options.flags.sync;
    session.dirsync = options.flags.dirsync;
    session.symfollow = !options.flags.nosymfollow;
    // What lies there as it is may be stored otherwise at any moment.
    session.passthrough &= !options.flags.scratch;
    session
}

/// glibc raises the size from which memory is mapped, and so really freed, with every large block
/// that it frees; what decoders of large blocks free would then stay in each thread's arena.
///
/// Each arena takes 64 MiB of address space, where that is limited; by default every thread has
/// one.
fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt sets numbers of the allocator; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}
