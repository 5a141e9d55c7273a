//! Limits of resources (`ulimit`) that a daemon inherits from the shell that starts it.

use std::path::Path;
use std::process::Command;

use crate::harness::mounted::Mounted;
use crate::harness::places::{CONTENT, places};
use crate::harness::process::{ARRAYFS, Ran, run};
use crate::harness::scratch_directory;
use crate::harness::seeded::Seeded;

/// Runs `arrayfs` in a shell with these limits.
fn limited(limits: &str, arguments: &[&str], paths: &[&Path]) -> Ran {
    let script = format!("{limits}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, ARRAYFS]).args(arguments);
    run(command.args(paths))
}

/// What the kernel holds a process to, soft and hard.
fn limits_of(pid: u32, name: &str) -> [String; 2] {
    let all = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(name));
    let mut words = line.unwrap().split_whitespace().map(str::to_owned);
    [words.next().unwrap(), words.next().unwrap()]
}

const LIMITS: [&str; 6] = [
    "Max cpu time",
    "Max file size",
    "Max data size",
    "Max address space",
    "Max processes",
    "Max open files",
];

#[test]
fn what_limits_the_starter_for_now_does_not_limit_the_daemon() {
    let places = places();
    let (source, mountpoint) = places.both();
    let soft = "ulimit -S -t 1; ulimit -S -f 8; ulimit -S -d 900000; ulimit -S -v 2000000; ulimit -S -n 64";
    let mounting = ["mount", "-o", "rw,scratch"];
    let ran = limited(soft, &mounting, &[source, mountpoint]).success();
    assert_eq!(ran.stderr, "");
    let mounted = Mounted::adopt(mountpoint);
    for name in LIMITS {
        let [soft, hard] = limits_of(mounted.daemon(), name);
        assert_eq!(soft, hard, "{name}");
    }
    let noise = Seeded::new(1).noise(1 << 20);
    std::fs::write(mounted.join("noise"), &noise).unwrap();
    assert_eq!(std::fs::read(mounted.join("noise")).unwrap(), noise);
}

#[test]
fn limits_that_cannot_be_raised_are_told_of() {
    let places = places();
    let (source, mountpoint) = places.both();
    let hard = "ulimit -t 7200; ulimit -f 4194304; ulimit -v 4000000";
    let told = |options: &str| {
        let ran = limited(hard, &["mount", "-o", options], &[source, mountpoint]).success();
        let mounted = Mounted::adopt(mountpoint);
        assert_eq!(std::fs::read(mounted.join("x.blp/data")).unwrap(), CONTENT);
        ran.stderr
    };
    let writing = told("rw");
    for limit in [
        "processor time is 7200 s (ulimit -t)",
        "length of files is 2.0 GiB (ulimit -f)",
        "memory is 3.8 GiB (ulimit -v)",
    ] {
        assert!(writing.contains(limit), "{limit}: {writing}");
    }
    assert_eq!(writing.lines().count(), 3, "{writing}");
    // Who does not write makes no file longer.
    let reading = told("ro");
    assert!(!reading.contains("length of files"), "{reading}");
    assert!(reading.contains("processor time"), "{reading}");
}

/// The process that reads HDF5 structure has a limit of its own, which may be the larger one.
#[test]
fn hdf5_files_are_read_under_a_limit_of_memory() {
    let directory = scratch_directory();
    let file = directory.path().join("x.h5");
    std::fs::copy("mount-tests/golden/hdf5-written/latest.h5", &file).unwrap();
    let listed = limited("ulimit -v 900000", &["ls"], &[&file]).success();
    let free = limited(":", &["ls"], &[&file]).success();
    assert_eq!(listed.stdout, free.stdout);
    assert_ne!(listed.stdout, b"");
}
