//! The ground that every test stands on: mounts that leave nothing behind, programs with a
//! deadline, containers with known content, exact reads.

pub mod depth;
pub mod judge;
pub mod known;
pub mod left;
pub mod mounted;
pub mod object_server;
pub mod place;
pub mod places;
pub mod process;
pub mod python;
pub mod reads;
pub mod seccomp;
pub mod seeded;
pub mod small_disk;
pub mod snapshot;
pub mod tls_front;
pub mod tools;
pub mod users;
pub mod writers;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Far more than anything takes; only what hangs meets it.
pub const PATIENCE: Duration = Duration::from_secs(120);

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A directory that is removed at the end, open to every user as far as `/tmp` is.
pub fn scratch_directory() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o755);
    let mut directory = tempfile::Builder::new();
    directory.prefix("arrayfs-test-").permissions(permissions);
    directory.tempdir().expect("a directory for the test")
}

/// Looks again and again until `condition` holds; panics with `what` when it does not in time.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Runs `work` in a thread and panics when it does not end in time; a panic of the work is passed
/// on.
pub fn within_patience<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let worker = std::thread::spawn(work);
    wait_until(what, || worker.is_finished());
    worker
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The golden containers that lie beside these tests.
pub fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("mount-tests/golden")
        .join(path)
}

/// Names of the corpora beside these tests that say what they hold, but for those that tests name.
pub fn other_corpora() -> Vec<String> {
    const NAMED: [&str; 4] = ["binsparse", "bloscpack", "bpcells", "daphne"];
    let entries = std::fs::read_dir(golden("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_other =
        |name: &String| !NAMED.contains(&&**name) && golden(name).join("manifest.json").exists();
    names.filter(is_other).collect()
}

/// Some things only root can try: switching users, giving files away. For other users the test says
/// so and is skipped.
pub fn is_root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not tested, needs root: {what}");
    }
    root
}

/// Copies a directory of files, as deep as it goes.
pub fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
