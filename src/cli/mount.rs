//! `arrayfs mount`: check, go to the background, serve, unmount.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::LevelFilter;

use super::args::MountArgs;
use super::options::MountOptions;
use super::preconditions::{self, Places};
use super::{CommandResult, Failure, container, output};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::daemon::background::{self, ForkSide, Inherited, Readiness};
use crate::daemon::log::Destination;
use crate::daemon::mount_table::{self, Device};
use crate::daemon::signals::{self, Request};
use crate::daemon::{self, processes, readahead};
use crate::disk::Disk;
use crate::disk::local::LocalDisk;
use crate::error::plain;
use crate::kernel::session::{self, Mount};
use crate::memory;
use crate::memory::limit::default_limit;
use crate::source::Store;
use crate::tree::{Settings, Tree};

/// Arenas of the system's allocator: threads allocate little, and most of it from their own caches.
#[cfg(target_env = "gnu")]
const ARENAS: libc::c_int = 4;

/// After this long a mount that is still in use is detached and the daemon ends.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn run(args: MountArgs, inherited: Inherited) -> CommandResult {
    let options = MountOptions::parse(&args.all_options())?;
    let places = preconditions::check(&args.source, &args.mountpoint, &options)?;
    // Found out before the fork, where the terminal still listens.
    container::root_of(&places.source, options.preferences)?;
    if options.fake {
        return Ok(());
    }
    let log = |otherwise| options.log.clone().unwrap_or(otherwise);
    if args.foreground {
        let log = log(Destination::StandardError);
        return serve(&places, &options, &log, Readiness::nobody());
    }
    let log = log(Destination::System);
    match background::detach(inherited) {
        Ok(ForkSide::Parent(outcome)) => outcome.map_err(Failure::new),
        Ok(ForkSide::Child(readiness)) => serve_as_child(&places, &options, &log, readiness),
        Err(e) => Err(Failure::new(format!("cannot start the daemon: {e}"))),
    }
}

/// The child's failures are the parent's to print.
fn serve_as_child(
    places: &Places,
    options: &MountOptions,
    log: &Destination,
    readiness: Readiness,
) -> CommandResult {
    let mut readiness = Some(readiness);
    let served = start(places, options, log).and_then(|running| {
        if let Some(readiness) = readiness.take() {
            readiness.ready().map_err(Failure::new)?;
        }
        Ok(running)
    });
    match (served, readiness) {
        (Ok(running), _) => running.until_ended(),
        (Err(failure), Some(mut readiness)) => {
            let told = readiness.failed(&failure.message);
            Err(if told { Failure::silent() } else { failure })
        }
        (Err(failure), None) => Err(failure),
    }
}

fn serve(
    places: &Places,
    options: &MountOptions,
    log: &Destination,
    readiness: Readiness,
) -> CommandResult {
    let running = start(places, options, log)?;
    readiness.ready().map_err(Failure::new)?;
    running.until_ended()
}

/// A served mount and the signals that end it.
struct Running<'a> {
    mount: Mount,
    signals: crossbeam_channel::Receiver<Request>,
    source: &'a Path,
    mountpoint: &'a Path,
    /// Of our mount; `None` if the system does not tell.
    device: Option<Device>,
}

fn start<'a>(
    places: &'a Places,
    options: &MountOptions,
    log: &Destination,
) -> Result<Running<'a>, Failure> {
    let level = options.log_level.unwrap_or(LevelFilter::Info);
    daemon::log::start(log.clone(), level)
        .map_err(|e| Failure::new(format!("cannot log to {log}: {e}")))?;
    if options.log == Some(Destination::System)
        && let Err(e) = daemon::log::check_system()
    {
        let why = plain(&e);
        log::warn!("log=syslog: {why}: the daemon logs when it can");
    }
    if options.writable {
        let mountpoint = places.mountpoint.display();
        log::warn!("{mountpoint}: 'rw' has no effect: in this version every mount is read-only");
    }
    processes::name_daemon();
    raise_descriptor_limit();
    return_freed_memory();
    memory::keep_reserve();
    let failed = |e: std::io::Error| Failure::new(format!("cannot start a thread: {e}"));
    let signals = signals::receive().map_err(failed)?;
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = options.threads.unwrap_or(cores.clamp(4, 16));
    let cache = BlockCache::new(options.cache.unwrap_or_else(default_limit));
    let workers = ReadAheadWorkers::new(cores.min(threads)).map_err(failed)?;
    let root = container::root_of(&places.source, options.preferences)?;
    if options.allow_other {
        root.store.serve_others();
    }
    let writable = true;
    rustix::process::umask(rustix::fs::Mode::empty());
    let settings = Settings {
        uid: options.uid,
        gid: options.gid,
        umask: options.umask,
        preferences: options.preferences,
    };
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk::new(Arc::clone(&root.store)));
    let disk = writable.then_some(disk);
    let (tree, invalidations) = Tree::new(root.store, disk, &root.path, cache, workers, settings)?;
    let session = session_options(places, options, threads);
    let mount =
        Mount::start(Arc::new(tree), invalidations, &places.mountpoint, &session).map_err(|e| {
            // The helper of users ends its lines.
            let (why, at) = (e.to_string(), places.mountpoint.display());
            Failure::new(format!("cannot mount {at}: {}", why.trim_end()))
        })?;
    let device = mount_table::device_at(&places.mountpoint);
    let far = options.readahead.unwrap_or(readahead::DEFAULT);
    let set = device.as_ref().map(|device| readahead::set(*device, far));
    if let (Some(_), Ok(Err(e))) = (options.readahead, set) {
        log::warn!("readahead= has no effect: {}", plain(&e));
    }
    Ok(Running {
        mount,
        signals,
        source: &places.source,
        mountpoint: &places.mountpoint,
        device: device.ok(),
    })
}

fn session_options(places: &Places, options: &MountOptions, threads: usize) -> session::Options {
    let mut session = session::Options::new(output::path_text(&places.source), threads);
    session.allow_other = options.allow_other;
    session.direct_io = options.direct_io;
    session.suid = options.suid;
    session.dev = options.dev;
    session.exec = !options.noexec;
    session.atime = !options.noatime;
    session.symfollow = !options.nosymfollow;
    session
}

/// glibc raises the size from which memory is mapped, and so really freed, with every large block that
/// it frees; what decoders of large blocks free would then stay in each thread's arena.
///
/// Each arena takes 64 MiB of address space, where that is limited; by default every thread has one.
fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt sets numbers of the allocator; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
    }
}

/// Every open array keeps its container's files open.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(e) = setrlimit(Resource::Nofile, raised) {
        log::debug!("the limit of open files stays: {e}");
    }
}

impl Running<'_> {
    /// Serves until the mount is gone: unmounted by somebody, or by us when a signal asks for it.
    fn until_ended(self) -> CommandResult {
        log::info!(
            "{} mounted at {}",
            self.source.display(),
            self.mountpoint.display()
        );
        loop {
            crossbeam_channel::select! {
                recv(self.mount.ended()) -> _ => {
                    log::info!("{} unmounted", self.mountpoint.display());
                    end();
                }
                recv(self.signals) -> request => match request {
                    Ok(Request::ReopenLog) => daemon::log::reopen(),
                    Ok(Request::End) | Err(_) => return self.unmount(),
                },
            }
        }
    }

    fn unmount(&self) -> CommandResult {
        let mountpoint = self.mountpoint.display();
        if !self.is_in_place() {
            log::warn!("{mountpoint}: not our mount any more; ending without unmounting it");
        } else if let Err(e) = session::unmount(self.mountpoint, false) {
            log::warn!("{mountpoint}: {}; detaching the mount", plain(&e));
            if let Err(e) = session::unmount(self.mountpoint, true) {
                log::error!("{mountpoint} cannot be unmounted: {}", plain(&e));
                return Err(Failure::silent());
            }
        }
        // A detached mount that is still used ends with the process: its users get an error.
        let _ = self.mount.ended().recv_timeout(PATIENCE);
        log::info!("{mountpoint} unmounted");
        end();
    }

    /// Whether the path leads to our mount: it may have been detached, and another mounted there since.
    fn is_in_place(&self) -> bool {
        let now = || mount_table::device_at(self.mountpoint).ok();
        self.device.is_none_or(|device| now() == Some(device))
    }
}

/// Without unwinding what is mounted: fuser's tear-down would unmount the path a second time.
fn end() -> ! {
    std::process::exit(0)
}
