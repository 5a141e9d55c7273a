//! Mounts within this process, over a store that waits and fails on demand. Needs root.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirEntryExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::session::{Mount, Options, ServeAt, unmount};
use crate::array::prefetch::ReadAheadWorkers;
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::source::local::LocalStore;
use crate::source::{Fetch, Listed, PosixStore, Source, SourceIdentity, Stat, Store};
use crate::sync::{Condvar, Mutex};
use crate::tree::{Settings, Tree};

/// Far more than anything takes; only what hangs meets it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fetch of bytes of a file called `slow` waits here while the gate is closed.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    closed: bool,
    waiting: usize,
}

impl Gate {
    fn set(&self, closed: bool) {
        self.state.lock().closed = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.closed {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
    }

    /// Returns when so many wait.
    fn has_waiting(&self, many: usize) {
        let mut state = self.state.lock();
        let fewer = |state: &mut GateState| state.waiting < many;
        let timeout = self.changed.wait_while_for(&mut state, fewer, PATIENCE);
        let waiting = state.waiting;
        drop(state);
        assert!(!timeout.timed_out(), "only {waiting} wait");
    }
}

struct OddStore {
    inner: LocalStore,
    gate: Arc<Gate>,
}

fn is_named(path: &Path, word: &str) -> bool {
    path.to_str().is_some_and(|path| path.contains(word))
}

impl Store for OddStore {
    /// What is called `bad` cannot be looked at.
    fn stat(&self, path: &Path) -> Result<Stat> {
        if is_named(path, "bad") {
            let cause = io::Error::from_raw_os_error(libc::EIO);
            return Err(Error::io("cannot stat", cause));
        }
        self.inner.stat(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let (inner, slow) = (self.inner.open(path)?, is_named(path, "slow"));
        let gate = slow.then(|| Arc::clone(&self.gate));
        Ok(Arc::new(GatedSource { inner, gate }))
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        self.inner.list(path, each)
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.inner.head(path, buf)
    }

    fn display(&self, path: &Path) -> PathBuf {
        self.inner.display(path)
    }

    fn as_posix(&self) -> Option<&dyn PosixStore> {
        self.inner.as_posix()
    }
}

struct GatedSource {
    inner: Arc<dyn Source>,
    gate: Option<Arc<Gate>>,
}

impl GatedSource {
    fn pass(&self) {
        if let Some(gate) = &self.gate {
            gate.pass();
        }
    }
}

impl Source for GatedSource {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn identity(&self) -> SourceIdentity {
        self.inner.identity()
    }

    fn stat(&self) -> Result<Stat> {
        self.inner.stat()
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        self.pass();
        self.inner.fetch(ranges)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.pass();
        self.inner.read(offset, buf)
    }
}

/// A mount that ends with the value, whatever becomes of the test.
struct Mounted {
    mountpoint: TempDir,
    _source: TempDir,
    gate: Arc<Gate>,
    _mount: Mount,
}

impl Mounted {
    fn new(threads: usize, fill: impl FnOnce(&Path)) -> Mounted {
        let (source, mountpoint) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fill(source.path());
        let gate = Arc::<Gate>::default();
        let store = Arc::new(OddStore {
            inner: LocalStore::open(source.path(), source.path()).unwrap(),
            gate: Arc::clone(&gate),
        });
        let cache = BlockCache::new(64 << 20);
        let workers = ReadAheadWorkers::new(1).unwrap();
        let (root, settings) = (Path::new(""), Settings::default());
        let (tree, invalidations) = Tree::new(store, None, root, cache, workers, settings).unwrap();
        let mut options = Options::new("test".into(), threads);
        options.passthrough = false;
        let mount = Mount::start(
            Arc::new(tree),
            invalidations,
            ServeAt::Mountpoint(mountpoint.path()),
            &options,
        );
        Mounted {
            _mount: mount.unwrap(),
            mountpoint,
            _source: source,
            gate,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mountpoint.path().join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.gate.set(false);
        let _ = unmount(self.mountpoint.path(), true);
    }
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not tested, needs root");
    }
    root
}

fn container() -> Vec<u8> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden");
    std::fs::read(golden.join("bloscpack/sources/chunk-4k.blp")).unwrap()
}

/// Runs `work` in a thread of its own, which may hang.
fn within_patience<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(work()));
    told.recv_timeout(PATIENCE).expect("it is not held up")
}

/// A page of a file, past the kernel's cache.
fn read_page(path: &Path, offset: u64) -> Vec<u8> {
    let direct = File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path);
    let mut page = vec![0; 4096];
    direct.unwrap().read_exact_at(&mut page, offset).unwrap();
    page
}

/// More reads wait for the disk than there are threads to serve them.
#[test]
fn reads_that_wait_hold_up_nobody_else() {
    const SLOW: usize = 7;
    if !is_root() {
        return;
    }
    let mounted = Mounted::new(2, |source| {
        let names = (0..SLOW).map(|number| format!("slow-{number}.blp"));
        for name in names.chain(["fast.blp".into()]) {
            std::fs::write(source.join(name), container()).unwrap();
        }
        std::fs::write(source.join("slow-file"), [7; 20_000]).unwrap();
    });
    let open = |name: String| File::open(mounted.path(&name)).unwrap();
    let page = |offset| {
        let path = mounted.path("fast.blp/data");
        within_patience(move || read_page(&path, offset))
    };
    page(0);
    let slow = (0..SLOW).map(|number| open(format!("slow-{number}.blp/data")));
    let slow: Vec<File> = slow.chain([open("slow-file".into())]).collect();
    mounted.gate.set(true);
    let readers = slow.into_iter().map(|file| {
        std::thread::spawn(move || {
            let mut bytes = vec![0; 32 << 10];
            let n = file.read_at(&mut bytes, 0).unwrap();
            (n, bytes[n - 1])
        })
    });
    let readers: Vec<_> = readers.collect();
    mounted.gate.has_waiting(SLOW + 1);
    let path = mounted.mountpoint.path().to_owned();
    within_patience(move || {
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), SLOW + 2);
        let fast = path.join("fast.blp");
        assert!(std::fs::metadata(fast.join("arrays.json")).is_ok());
        rustix::fs::statvfs(&path).unwrap();
    });
    // What is in the cache, and what is not.
    let pages = [page(0), page(20 << 10)];
    mounted.gate.set(false);
    let expected = std::fs::read(mounted.path("fast.blp/data")).unwrap();
    assert_eq!(
        pages,
        [0, 20 << 10].map(|at| expected[at..][..4096].to_vec())
    );
    let read: Vec<_> = readers.into_iter().map(|r| r.join().unwrap()).collect();
    for (n, last) in &read[..SLOW] {
        assert_eq!(*last, expected[n - 1]);
    }
}

/// The kernel asks for names and attributes at once; one that has none must not take the name
/// along.
#[test]
fn what_cannot_be_looked_at_is_listed() {
    if !is_root() {
        return;
    }
    let mounted = Mounted::new(2, |source| {
        std::fs::create_dir(source.join("bad-directory")).unwrap();
        for name in ["good", "bad-1", "bad-2"] {
            std::fs::write(source.join(name), "x").unwrap();
        }
    });
    let entries = std::fs::read_dir(mounted.mountpoint.path()).unwrap();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap()).collect();
    found.sort_by_key(|entry| entry.file_name());
    let names: Vec<_> = found.iter().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["bad-1", "bad-2", "bad-directory", "good"]);
    let directories = found
        .iter()
        .map(|entry| entry.file_type().unwrap().is_dir());
    assert!(directories.eq([false, false, true, false]));
    let mut inodes: Vec<_> = found.iter().map(|entry| entry.ino()).collect();
    inodes.sort_unstable();
    inodes.dedup();
    assert_eq!(inodes.len(), 4);
    for name in &names[..3] {
        let why = std::fs::metadata(mounted.mountpoint.path().join(name)).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EIO), "{}", name.display());
        let why = std::fs::read(mounted.mountpoint.path().join(name)).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EIO), "{}", name.display());
    }
    assert_eq!(std::fs::read(mounted.path("good")).unwrap(), b"x");
}
