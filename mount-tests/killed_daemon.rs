//! The daemon is killed while programs hold directories of the mount and has the kernel forget
//! names in them: no program waits for it afterwards, and nothing of it is left.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use rustix::process::Signal;

use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, has_ended, open_descriptors, send};
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::writers::Bloscpack;
use crate::harness::{scratch_directory, wait_until};

/// How many daemons are killed in a sample, and in the whole.
const KILLS: (u64, u64) = (20, 500);

/// Together with their guardians: an unmount waits for a second each time.
const KILLS_UNGUARDED: (u64, u64) = (3, 500);

const CONTAINERS: usize = 3;

fn container(number: usize) -> String {
    format!("{number}.blp")
}

/// What is done to a mount until its daemon has been killed.
struct Load {
    threads: Vec<JoinHandle<()>>,
    killed: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
}

impl Load {
    fn begin(source: &Path, mountpoint: &Path) -> Load {
        let mut load = Load {
            threads: Vec::new(),
            killed: Arc::default(),
            done: Arc::default(),
        };
        for number in 0..CONTAINERS {
            let shown = mountpoint.join(container(number));
            let stored = source.join(container(number));
            load.repeat(move |times| replace(&stored, times));
            let directory = shown.clone();
            load.repeat(move |times| look(&directory, times));
            load.repeat(move |_| list(&shown));
        }
        let made = mountpoint.join("made");
        load.repeat(move |_| make(&made));
        load
    }

    /// Does it again and again, whatever it comes to.
    fn repeat(&mut self, mut work: impl FnMut(usize) -> io::Result<()> + Send + 'static) {
        let (killed, done) = (Arc::clone(&self.killed), Arc::clone(&self.done));
        self.threads.push(std::thread::spawn(move || {
            for times in 0.. {
                let _ = work(times);
                done.fetch_add(1, Ordering::Relaxed);
                if killed.load(Ordering::Relaxed) {
                    return;
                }
            }
        }));
    }

    fn wait(&self, times: usize) {
        let is_done = || self.done.load(Ordering::Relaxed) >= times;
        wait_until("the mount is used", is_done);
    }

    fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

/// Another version of a container, made by another process: the kernel is to forget the entries of
/// the one before.
fn replace(stored: &Path, times: usize) -> io::Result<()> {
    let new = stored.with_extension("new");
    Bloscpack::default().write(&new, &vec![times as u8; 1 + times % 100]);
    std::fs::rename(new, stored)
}

/// Holds the directory while the daemon is asked for a name.
fn look(directory: &Path, times: usize) -> io::Result<()> {
    let _ = directory.join(format!("no-such-{times}")).metadata();
    std::fs::read(directory.join("data")).map(drop)
}

fn list(directory: &Path) -> io::Result<()> {
    std::fs::read_dir(directory)?.try_for_each(|entry| entry?.metadata().map(drop))
}

fn make(path: &Path) -> io::Result<()> {
    File::create(path)?;
    std::fs::remove_file(path)
}

/// The process that guards the connection of a daemon.
fn guardian_of(daemon: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_guardian = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The number of the parent follows the state.
        let parent = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(1));
        stat.contains("(arrayfs-guard)") && parent == Some(&daemon.to_string())
    };
    numbers.into_iter().find(is_guardian)
}

/// A process that is killed is not gone as long as one of its threads is.
fn is_gone(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    has_ended(pid) && threads.map_or(0, Iterator::count) <= 1
}

fn kill_under_load(source: &Path, random: &mut Seeded, guarded: bool) {
    let mounted = Mounted::new(source, &["rw"]);
    let daemon = mounted.daemon();
    if !guarded && let Some(guardian) = guardian_of(daemon) {
        send(guardian, Signal::KILL);
        wait_until("the guardian has ended", || guardian_of(daemon).is_none());
    }
    let load = Load::begin(source, mounted.path());
    load.wait(200 + random.below(2000));
    send(daemon, Signal::KILL);
    load.killed.store(true, Ordering::Relaxed);
    if guarded {
        wait_until("nobody waits for the daemon", || load.has_ended());
        wait_until("nothing is left of the daemon", || is_gone(daemon));
    }
    arrayfs([Path::new("umount"), mounted.path()]).success();
    wait_until("nobody waits for the daemon", || load.has_ended());
    wait_until("nothing is left of the daemon", || is_gone(daemon));
    mounted.assert_ends();
}

fn source() -> tempfile::TempDir {
    let source = scratch_directory();
    for number in 0..CONTAINERS {
        Bloscpack::default().write(&source.path().join(container(number)), b"some bytes");
    }
    source
}

#[test]
fn nobody_waits_for_a_daemon_that_was_killed() {
    let (source, random) = (source(), &mut Seeded::new(run_seed()));
    for _ in 0..rounds(KILLS) {
        kill_under_load(source.path(), random, true);
    }
}

/// The guardian may have been killed, too, as all processes of a service are.
#[test]
fn unmounting_ends_the_waiting_for_a_daemon_that_was_killed_with_its_guardian() {
    let (source, random) = (source(), &mut Seeded::new(run_seed()));
    for _ in 0..rounds(KILLS_UNGUARDED) {
        kill_under_load(source.path(), random, false);
    }
}

#[test]
fn the_guardian_has_nothing_of_the_mount_and_ends_with_the_daemon() {
    let source = source();
    let mounted = Mounted::new(source.path(), &[]);
    let daemon = mounted.daemon();
    wait_until("there is a guardian", || guardian_of(daemon).is_some());
    let guardian = guardian_of(daemon).unwrap();
    let own = PathBuf::from(format!("/proc/{guardian}"));
    // Its standard streams: the connection's end, and nothing twice.
    wait_until("it is waiting", || open_descriptors(guardian) == 3);
    let files: Vec<_> = (0..3)
        .map(|fd| std::fs::read_link(own.join(format!("fd/{fd}"))).unwrap())
        .collect();
    assert!(files[0].ends_with("abort"), "{files:?}");
    assert_eq!(files[1..], ["/dev/null", "/dev/null"].map(PathBuf::from));
    assert_eq!(std::fs::read_link(own.join("cwd")).unwrap(), Path::new("/"));
    // The end of a service ends the guardian last.
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        send(guardian, signal);
    }
    mounted.assert_alive();
    assert_eq!(guardian_of(daemon), Some(guardian));
    drop(mounted);
    wait_until("the guardian has ended", || has_ended(guardian));
}

/// With `auto_unmount`: what a dead daemon has left is unmounted, what is mounted there since
/// stays.
#[test]
fn a_mount_whose_daemon_was_killed_is_unmounted_if_that_is_asked_for() {
    let (source, mountpoint) = (source(), scratch_directory());
    let mounted = Mounted::at(source.path(), mountpoint.path(), &["auto_unmount"]);
    let daemon = mounted.daemon();
    wait_until("there is a guardian", || guardian_of(daemon).is_some());
    let guardian = guardian_of(daemon).unwrap();
    // What the kernel knows of the root for a second is not taken for an answer of the daemon.
    assert!(mounted.path().is_dir());
    send(daemon, Signal::KILL);
    mounted.assert_ends();
    wait_until("the guardian has ended", || has_ended(guardian));
    // A daemon that ends by itself has nothing left behind.
    let mounted = Mounted::at(source.path(), mountpoint.path(), &["auto_unmount"]);
    assert!(mounted.join("0.blp/data").is_file());
}
