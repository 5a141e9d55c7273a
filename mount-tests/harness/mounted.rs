//! A mount that lives as long as its value: made with `arrayfs mount`, ended with `arrayfs umount`,
//! and checked to have left nothing behind.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::left::unmount_at_the_end;
use super::process::{ARRAYFS, arrayfs, has_ended, run};
use super::{PATIENCE, scratch_directory, wait_until};

/// `ro` or `rw`: how a run mounts where a test says nothing. `scripts/test.sh` tries both; unset,
/// the program decides.
const MODE: &str = "ARRAYFS_TEST_MODE";

/// What is closed is committed at once, however slow the machine is.
const AT_ONCE: &[&str] = &["slow_commit=600000"];

pub struct Mounted {
    mountpoint: PathBuf,
    daemon: u32,
    ended: bool,
    /// The mountpoint, if it was made for this mount; removed after the mount.
    _made: Option<TempDir>,
    /// Dropped, it calls the watchdog off.
    _watchdog: Option<Sender<()>>,
}

impl Mounted {
    /// Mounts at a directory of its own. Each option is one of `-o`.
    pub fn new(source: impl AsRef<Path>, options: &[&str]) -> Self {
        let made = scratch_directory();
        let mut mounted = Mounted::at(source.as_ref(), made.path(), options);
        mounted._made = Some(made);
        mounted
    }

    pub fn at(source: &Path, mountpoint: &Path, options: &[&str]) -> Self {
        Mounted::start(source, mountpoint, (AT_ONCE, options), &[])
    }

    /// Mounts at a directory of its own as users do: what is closed in a container whose last
    /// commit was slow is committed later.
    pub fn paced(source: &Path, options: &[&str]) -> Self {
        let made = scratch_directory();
        let mut mounted = Mounted::start(source, made.path(), (&[], options), &[]);
        mounted._made = Some(made);
        mounted
    }

    /// Mounts at a directory of its own; the daemon has these variables in its environment.
    pub fn with_environment(source: &Path, options: &[&str], environment: &[(&str, &str)]) -> Self {
        let made = scratch_directory();
        let mut mounted = Mounted::start(source, made.path(), (AT_ONCE, options), environment);
        mounted._made = Some(made);
        mounted
    }

    fn start(
        source: &Path,
        mountpoint: &Path,
        (always, options): (&[&str], &[&str]),
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new(ARRAYFS);
        command.arg("mount").envs(environment.iter().copied());
        let mode = mode_of_run(options);
        let all = always.iter().chain(options).copied();
        for option in all.chain(mode.as_deref()) {
            command.args(["-o", option]);
        }
        run(command.args([source, mountpoint])).success();
        Mounted::adopt(mountpoint)
    }

    /// Takes over a mount that somebody else made.
    pub fn adopt(mountpoint: &Path) -> Self {
        unmount_at_the_end(mountpoint);
        let mountpoint = mountpoint.to_owned();
        let mut mounted = Mounted {
            mountpoint,
            daemon: 0,
            ended: false,
            _made: None,
            _watchdog: None,
        };
        mounted.daemon = mounted.status()["pid"].as_u64().unwrap() as u32;
        mounted._watchdog = Some(watch(mounted.daemon));
        mounted
    }

    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.mountpoint.join(path)
    }

    /// Process number of the daemon.
    pub fn daemon(&self) -> u32 {
        self.daemon
    }

    /// What the daemon says of itself.
    pub fn status(&self) -> Value {
        let mut text = vec![0; 1 << 16];
        let n = rustix::fs::getxattr(&self.mountpoint, "user.arrayfs.status", &mut text[..])
            .expect("the daemon answers");
        serde_json::from_slice(&text[..n]).unwrap()
    }

    /// The mount and its daemon still serve.
    pub fn assert_alive(&self) {
        assert!(is_mounted(&self.mountpoint));
        assert_eq!(self.status()["pid"].as_u64(), Some(u64::from(self.daemon)));
    }

    /// The mount has been ended by other means: waits until mount and daemon are gone.
    pub fn assert_ends(mut self) {
        wait_until("the mount is gone", || !is_mounted(&self.mountpoint));
        wait_until("the daemon has ended", || has_ended(self.daemon));
        self.ended = true;
    }

    /// `arrayfs umount`, and nothing may be left when it returns.
    fn unmount(&self) -> Result<(), String> {
        let mut failure = String::new();
        // Another test that starts a program holds a copy of our descriptors for a moment (between
        // fork and exec), which keeps the mount busy although everything here is closed.
        wait_until("the mount is free", || {
            let ran = arrayfs([OsString::from("umount"), self.mountpoint.clone().into()]);
            failure = match ran.code() {
                Some(0) => String::new(),
                _ => without_staged(&ran.stderr),
            };
            !failure.contains("is in use")
        });
        // Somebody else on this machine made a mount name space meanwhile (a test that uses
        // unshare).
        if failure.contains("another mount namespace") {
            wait_until("the copy of the mount is gone", || has_ended(self.daemon));
            failure.clear();
        }
        match (is_mounted(&self.mountpoint), has_ended(self.daemon)) {
            _ if !failure.is_empty() => Err(failure),
            (true, _) => Err("arrayfs umount returned, the mount is still there".into()),
            (_, false) => Err("arrayfs umount returned, the daemon still runs".into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // What failed already must not be hidden by a second panic; nothing may stay mounted.
        if std::thread::panicking() {
            return self.clear();
        }
        if let Err(why) = self.unmount() {
            self.clear();
            panic!("{}: {why}", self.mountpoint.display());
        }
    }
}

impl Mounted {
    /// The last resort.
    fn clear(&self) {
        let _ = unmount(&self.mountpoint, UnmountFlags::DETACH);
        kill(self.daemon);
    }
}

/// What `arrayfs umount` says beside what stays staged: for that it ends with 1, and unmounts all
/// the same.
fn without_staged(said: &str) -> String {
    let lines = said.lines();
    let is_staged = |line: &&str| {
        line.contains(": stays staged: ") || line.ends_with(" more containers stay staged")
    };
    let others = lines.filter(|line| !is_staged(line));
    others.collect::<Vec<_>>().join("\n")
}

/// The option to add to those of a test.
fn mode_of_run(options: &[&str]) -> Option<String> {
    let mut words = options.iter().flat_map(|option| option.split(','));
    match words.any(|word| word == "ro" || word == "rw") {
        true => None,
        false => std::env::var(MODE).ok().filter(|mode| !mode.is_empty()),
    }
}

/// Kills a daemon that outlives every deadline: a program that waits for an answer of a daemon that
/// hangs cannot be interrupted otherwise, and the run would not end.
fn watch(daemon: u32) -> Sender<()> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        if receiver.recv_timeout(3 * PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("daemon {daemon} hangs and is killed");
            kill(daemon);
        }
    });
    sender
}

fn kill(daemon: u32) {
    if let Some(pid) = Pid::from_raw(daemon as i32).filter(|_| !has_ended(daemon)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether the kernel's table has an arrayfs mount at this path.
pub fn is_mounted(mountpoint: &Path) -> bool {
    mount_line(mountpoint).is_some()
}

/// The line of the kernel's table about an arrayfs mount.
pub fn mount_line(mountpoint: &Path) -> Option<String> {
    let path: String = mountpoint
        .as_os_str()
        .as_bytes()
        .iter()
        .map(|&b| in_table(b))
        .collect();
    let table = std::fs::read("/proc/self/mountinfo").unwrap();
    let table = table.iter().map(|&b| b as char).collect::<String>();
    let is_it = |line: &&str| line.split(' ').nth(4) == Some(&path[..]);
    table
        .lines()
        .filter(|line| line.contains(" fuse.arrayfs "))
        .find(is_it)
        .map(str::to_owned)
}

/// How the table writes a byte of a path.
fn in_table(byte: u8) -> String {
    match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}"),
        other => (other as char).to_string(),
    }
}
