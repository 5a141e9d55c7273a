//! The process that runs libhdf5: killed at work, one that always dies, hangs, eats memory or
//! answers nonsense. The mount serves everything else meanwhile, says what was wrong, and recovers.
//!
//! Bad workers are shell scripts, named in the mount's environment. They get a socket as standard
//! input and run the real program once the test has them be good. A worker may not write to files,
//! so all that a script can report is the name of a file that it makes.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use rustix::process::Signal;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, arrayfs, has_ended, install_script, send, workers};
use crate::harness::python::Written;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::wait_until;
use crate::harness::writers::Bloscpack;

/// Two HDF5 files and others, mounted with a worker of our own.
struct Ground {
    written: Written,
    mounted: Mounted,
}

const OTHER: &[u8] = b"no HDF5 file";

/// Far beyond the end of any test.
const NO_LIMIT: &str = "1000,512";

impl Ground {
    /// `script`: lines of a shell, in which `good` becomes the real worker and `$F` names files for
    /// notes. What follows the script is `good`.
    fn new(script: &str, limits: &str) -> Self {
        let written = Written::new("two");
        std::fs::write(written.source().join("other"), OTHER).unwrap();
        Bloscpack::default().write(&written.source().join("x.blp"), OTHER);
        let directory = written.directory.path();
        let program = directory.join("worker");
        let notes = directory.join("note").display().to_string();
        let text = format!(
            "#!/bin/sh\nF='{notes}'\ngood() {{ exec '{ARRAYFS}' \"$@\"; }}\n{script}\ngood \"$@\"\n"
        );
        install_script(&text, &program);
        let environment = [
            ("ARRAYFS_HDF5_WORKER", program.to_str().unwrap()),
            ("ARRAYFS_HDF5_LIMITS", limits),
        ];
        let mounted = Mounted::with_environment(&written.source(), &[], &environment);
        Ground { written, mounted }
    }

    fn note(&self, name: &str) -> PathBuf {
        self.written.directory.path().join(format!("note.{name}"))
    }

    /// The numbers in the names of the notes `$F.name.number`.
    fn notes(&self, name: &str) -> Vec<u32> {
        let start = format!("note.{name}.");
        let entries = std::fs::read_dir(self.written.directory.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let number = |name: String| name.strip_prefix(&start)?.parse().ok();
        names.filter_map(number).collect()
    }

    fn container(&self, name: &str) -> PathBuf {
        self.mounted.join(format!("{name}.h5"))
    }

    fn is_well(&self, name: &str) -> bool {
        let read = std::fs::read(self.container(name).join("numbers"));
        read.is_ok_and(|bytes| bytes == numbers())
    }

    #[track_caller]
    fn assert_well(&self, name: &str) {
        assert_content(&self.container(name).join("numbers"), &numbers());
        assert!(!self.container(name).join("error.txt").exists());
    }

    /// What has nothing to do with HDF5.
    fn assert_others_are_well(&self) {
        assert_content(&self.mounted.join("other"), OTHER);
        assert_content(&self.mounted.join("x.blp/data"), OTHER);
        assert!(self.mounted.path().read_dir().unwrap().count() >= 4);
        self.mounted.assert_alive();
    }

    /// The container has no arrays but an `error.txt` of one line with these parts.
    #[track_caller]
    fn assert_refused(&self, name: &str, parts: &[&str]) {
        let text = std::fs::read_to_string(self.container(name).join("error.txt")).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        for part in parts {
            assert!(text.contains(part), "'{part}' is missing in {text}");
        }
        assert!(!self.container(name).join("numbers").exists());
        let state = xattr(&self.container(name), "user.arrayfs.state").unwrap();
        assert!(state.contains("error.txt"), "{state}");
    }

    /// From now on the script does what is asked of it.
    fn be_good(&self) {
        std::fs::write(self.note("good"), "").unwrap();
    }

    fn workers(&self) -> Vec<u32> {
        workers(self.mounted.daemon())
    }
}

/// What both files hold.
fn numbers() -> Vec<u8> {
    (0..1000).flat_map(i32::to_le_bytes).collect()
}

/// Looks into a container from a thread of its own, which has begun to wait when this returns.
fn look_into(container: PathBuf) -> JoinHandle<Vec<u8>> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let me = std::fs::read_link("/proc/thread-self").unwrap();
        sender.send(me).unwrap();
        std::fs::read(container.join("numbers")).unwrap_or_default()
    });
    let stat = Path::new("/proc")
        .join(receiver.recv().unwrap())
        .join("stat");
    let state = || std::fs::read_to_string(&stat).unwrap_or_default();
    let waits = || {
        state()
            .rsplit(") ")
            .next()
            .is_none_or(|rest| !rest.starts_with('R'))
    };
    wait_until("the reader waits or is done", waits);
    reader
}

const UNLESS_GOOD: &str = "[ -e $F.good ] && good \"$@\"\n";

#[test]
fn a_worker_that_is_killed_at_work_is_replaced_and_asked_again() {
    let ground = Ground::new("", NO_LIMIT);
    ground.assert_well("one");
    let workers = ground.workers();
    assert!(!workers.is_empty(), "a worker waits for more");
    workers
        .iter()
        .for_each(|&worker| send(worker, Signal::STOP));
    let reader = look_into(ground.container("two"));
    ground.assert_others_are_well();
    workers
        .iter()
        .for_each(|&worker| send(worker, Signal::KILL));
    assert!(reader.join().unwrap() == numbers());
    ground.assert_well("two");
}

#[test]
fn a_worker_that_dies_of_its_first_request_is_replaced() {
    let dies =
        "mkdir $F.first 2>&- && { head -c 1 <&0 >/dev/null && mkdir $F.asked; kill -KILL $$; }";
    let ground = Ground::new(dies, NO_LIMIT);
    ground.assert_well("one");
    assert!(ground.note("asked").is_dir());
}

#[test]
fn a_worker_that_always_dies_costs_the_container_and_nothing_else() {
    let ground = Ground::new(
        &format!("{UNLESS_GOOD}mkdir $F.started.$$; exit 3"),
        NO_LIMIT,
    );
    ground.assert_refused("one", &["status 3"]);
    ground.assert_others_are_well();
    assert!(ground.notes("started").len() >= 2, "it was tried once more");
    ground.be_good();
    wait_until("the container is shown well", || ground.is_well("one"));
    ground.assert_well("one");
    ground.assert_well("two");
}

#[test]
fn a_worker_that_ends_by_a_signal_is_told_with_its_signal() {
    let ground = Ground::new("kill -SEGV $$", NO_LIMIT);
    ground.assert_refused("one", &["signal 11"]);
    ground.assert_others_are_well();
}

#[test]
fn everything_else_is_served_while_a_worker_hangs() {
    let hangs = "mkdir $F.first 2>&- && { mkdir $F.hangs.$$; exec sleep 10000; }";
    let ground = Ground::new(hangs, NO_LIMIT);
    let reader = look_into(ground.container("one"));
    wait_until("a worker hangs", || !ground.notes("hangs").is_empty());
    ground.assert_others_are_well();
    ground.assert_well("two");
    assert!(!reader.is_finished());
    // What is found in the place of one that has been killed is good.
    send(ground.notes("hangs")[0], Signal::KILL);
    assert!(reader.join().unwrap() == numbers());
}

#[test]
fn a_worker_that_hangs_is_killed_when_its_time_is_over() {
    let hangs = format!("{UNLESS_GOOD}mkdir $F.hangs.$$; exec sleep 10000");
    let ground = Ground::new(&hangs, "1,512,1");
    ground.assert_refused("one", &["no answer", "1 s"]);
    ground.assert_others_are_well();
    for worker in ground.notes("hangs") {
        wait_until("it is killed", || has_ended(worker));
    }
    ground.be_good();
    wait_until("the container is shown well", || ground.is_well("one"));
    ground.assert_well("two");
}

#[test]
fn a_worker_that_computes_too_long_is_killed_when_its_time_is_over() {
    let runs = format!("{UNLESS_GOOD}while :; do :; done");
    let ground = Ground::new(&runs, "1,512");
    ground.assert_refused("one", &["longer than 1 s of processor time"]);
    ground.assert_others_are_well();
}

/// What fuzzers have found of libhdf5's own: it runs in circles, or crashes.
#[test]
fn files_that_libhdf5_does_not_survive_cost_a_worker_and_nothing_else() {
    let finds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/finds/hdf5");
    let finds: Vec<_> = std::fs::read_dir(finds).unwrap().collect();
    assert!(!finds.is_empty());
    let ground = Ground::new("", "1,512");
    for find in finds {
        let find = find.unwrap();
        let name = find.file_name().into_string().unwrap();
        let copy = ground.written.source().join(format!("{name}.h5"));
        std::fs::copy(find.path(), copy).unwrap();
        ground.assert_refused(&name, &["HDF5"]);
        ground.assert_well("one");
        ground.assert_others_are_well();
    }
    ground.assert_well("two");
}

/// However many wait for one file, more than there are serving threads, nobody else does.
#[test]
fn a_file_that_takes_long_holds_up_nobody_else() {
    let runs = "mkdir $F.first 2>&- && { mkdir $F.runs.$$; while :; do :; done; }";
    let ground = Ground::new(runs, NO_LIMIT);
    let readers: Vec<_> = (0..12)
        .map(|_| look_into(ground.container("one")))
        .collect();
    wait_until("a worker runs", || !ground.notes("runs").is_empty());
    ground.assert_others_are_well();
    ground.assert_well("two");
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    send(ground.notes("runs")[0], Signal::KILL);
    for reader in readers {
        assert!(reader.join().unwrap() == numbers());
    }
}

#[test]
fn a_worker_cannot_take_more_memory_than_it_may() {
    // tail keeps the only line of its input in memory, until there is none.
    let eats = "head -c 1 <&0 >/dev/null; mkdir $F.limit.$(ulimit -v)\n\
                head -c 2G /dev/zero | tail -n 1 >/dev/null || kill -ABRT $$";
    let ground = Ground::new(eats, "1000,128");
    ground.assert_refused("one", &["signal 6", "128 MiB"]);
    assert_eq!(ground.notes("limit"), [128 << 10], "KiB of address space");
    ground.assert_others_are_well();
}

#[test]
fn nonsense_for_an_answer_is_refused() {
    let answers = [
        // Sixteen bytes that are no index, and fewer than announced.
        r"\020\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377",
        r"\020\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        r"\020\0\0\0\0\0\0\0short",
        // More than there can be.
        r"\0\0\0\0\0\0\0\200",
        r"\377\377\377\377\377\377\377\377",
        r"",
    ];
    for answer in answers {
        let says = format!("head -c 1 <&0 >/dev/null\nprintf '{answer}' >&0\nexit 0");
        let ground = Ground::new(&says, NO_LIMIT);
        ground.assert_refused("one", &["HDF5"]);
        ground.assert_others_are_well();
    }
}

#[test]
fn a_worker_that_cannot_be_started_does_no_harm() {
    let ground = Ground::new("", NO_LIMIT);
    let program = ground.written.directory.path().join("worker");
    std::fs::remove_file(&program).unwrap();
    assert!(!ground.is_well("one"));
    ground.assert_others_are_well();
}

#[test]
fn workers_are_few_and_end_with_the_mount() {
    let ground = Ground::new("", NO_LIMIT);
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let name = if reader % 2 == 0 { "one" } else { "two" };
            scope.spawn(|| ground.assert_well(name));
        }
    });
    let workers = ground.workers();
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(
        (1..=cores).contains(&workers.len()),
        "{workers:?} on {cores} cores"
    );
    drop(ground.mounted);
    for worker in workers {
        wait_until("the worker has ended", || has_ended(worker));
    }
}

/// A daemon that is killed leaves no worker behind.
#[test]
fn workers_end_when_the_daemon_is_killed() {
    let ground = Ground::new("", NO_LIMIT);
    ground.assert_well("one");
    let workers = ground.workers();
    assert!(!workers.is_empty());
    send(ground.mounted.daemon(), Signal::KILL);
    for worker in workers {
        wait_until("the worker has ended", || has_ended(worker));
    }
    wait_until("the daemon has ended", || {
        has_ended(ground.mounted.daemon())
    });
    arrayfs([Path::new("umount"), ground.mounted.path()]).success();
    ground.mounted.assert_ends();
}
