//! How far the kernel reads ahead on a mount.

use std::path::Path;
use std::process::Command;

use crate::harness::is_root;
use crate::harness::mounted::{Mounted, mount_line};
use crate::harness::places::places;
use crate::harness::process::{ARRAYFS, arrayfs, run};

/// In KiB, as the kernel says it.
fn readahead_of(mountpoint: &Path) -> u64 {
    let line = mount_line(mountpoint).unwrap();
    let device = line.split(' ').nth(2).unwrap();
    let path = format!("/sys/class/bdi/{device}/read_ahead_kb");
    std::fs::read_to_string(path)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn root_s_mounts_read_as_far_ahead_as_they_are_told() {
    if !is_root("the kernel's read-ahead") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let of = |options: &[&str]| readahead_of(Mounted::at(source, mountpoint, options).path());
    assert_eq!(of(&[]), 512);
    assert_eq!(of(&["readahead=64K"]), 64);
    assert_eq!(of(&["readahead=3M"]), 3072);
    assert_eq!(of(&["readahead=0"]), 0);
    let long = ["mount", "--readahead=1M"].map(Path::new);
    arrayfs(long.iter().chain(&[source, mountpoint])).success();
    assert_eq!(readahead_of(Mounted::adopt(mountpoint).path()), 1024);
}

#[test]
fn a_readahead_that_cannot_be_had_is_a_warning_if_it_was_asked_for() {
    if !is_root("a /sys that cannot be written") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let script = r#"
        set -e
        mount -o remount,bind,ro /sys
        "$1" mount "$2" "$3"
        "$1" umount "$3"
        echo silent >&2
        "$1" mount -o readahead=1M "$2" "$3"
        "$1" umount "$3""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command.args(["sh", "-c", script, "sh", ARRAYFS]);
    let ran = run(command.args([source, mountpoint])).success();
    let told = ran.stderr.strip_prefix("silent\n").expect(&ran.stderr);
    assert!(told.contains("readahead= has no effect: "), "{told}");
}
