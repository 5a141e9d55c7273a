//! One mount at a time may write to a source, to a tree that contains it or lies in it. The
//! kernel's table and messages show which.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::mounted::{Mounted, mount_line};
use crate::harness::places::{CONTENT, places};
use crate::harness::process::{
    ARRAYFS, Ran, arrayfs, has_ended, install, link_to_arrayfs, run, send, start, wait_for_end,
};
use crate::harness::reads::assert_content;
use crate::harness::small_disk::SmallDisk;
use crate::harness::writers::Bloscpack;
use crate::harness::{is_root, scratch_directory, wait_until};

/// `above/source/below`, each with a container, and mountpoints `0` to `4` beside them.
struct Nested(TempDir);

fn nested() -> Nested {
    let directory = scratch_directory();
    std::fs::create_dir_all(directory.path().join("above/source/below")).unwrap();
    for place in ["above", "above/source", "above/source/below", "above"] {
        Bloscpack::default().write(&directory.path().join(place).join("x.blp"), CONTENT);
    }
    std::fs::create_dir(directory.path().join("above/beside")).unwrap();
    for mountpoint in 0..5 {
        std::fs::create_dir(directory.path().join(mountpoint.to_string())).unwrap();
    }
    Nested(directory)
}

impl Nested {
    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Mounts what is called `source` here at `mountpoint`, and hands out what was said.
    fn mount(&self, options: &str, source: &str, mountpoint: &str) -> (Mounted, String) {
        let (source, mountpoint) = (self.at(source), self.at(mountpoint));
        let ran = mount(options, &source, &mountpoint).success();
        (Mounted::adopt(&mountpoint), ran.stderr)
    }
}

fn mount(options: &str, source: &Path, mountpoint: &Path) -> Ran {
    let mut command = Command::new(ARRAYFS);
    command.args(["mount", "-o", options]);
    run(command.args([source, mountpoint]))
}

/// Neither `ro` nor `rw`.
const DEFAULT: &str = "defaults";

#[track_caller]
fn assert_access(mounted: &Mounted, access: &str) {
    let line = mount_line(mounted.path()).unwrap();
    let options = line.split(' ').nth(5).unwrap();
    assert_eq!(options.split(',').next(), Some(access), "{line}");
}

#[test]
fn a_mount_is_writable_unless_told_otherwise() {
    let places = places();
    let (source, mountpoint) = places.both();
    for (option, access) in [(DEFAULT, "rw"), ("rw", "rw"), ("ro", "ro"), ("rw,ro", "ro")] {
        assert_eq!(mount(option, source, mountpoint).success().stderr, "");
        let mounted = Mounted::adopt(mountpoint);
        assert_access(&mounted, access);
        assert_content(&mounted.join("x.blp/data"), CONTENT);
    }
    assert_eq!(arrayfs(["mount", "--ro", "--rw", "a", "b"]).code(), Some(2));
}

#[test]
fn a_second_mount_of_the_same_tree_is_read_only_and_says_why() {
    let nested = nested();
    let (first, said) = nested.mount(DEFAULT, "above/source", "0");
    assert_eq!(said, "");
    std::os::unix::fs::symlink("above/source", nested.at("link")).unwrap();
    let pid = format!("(pid {})", first.daemon());
    let ways = ["above/source", "above", "above/source/below", "link"];
    for (mountpoint, source) in (1..).zip(ways) {
        let (second, said) = nested.mount(DEFAULT, source, &mountpoint.to_string());
        for part in ["mounted read-only", &pid, first.path().to_str().unwrap()] {
            assert!(
                said.contains(part),
                "{source}: '{part}' is missing in {said}"
            );
        }
        assert_access(&second, "ro");
        assert_content(&second.join("x.blp/data"), CONTENT);
    }
    assert_access(&first, "rw");
    let (beside, said) = nested.mount("rw", "above/beside", "1");
    assert_eq!(said, "");
    assert_access(&beside, "rw");
}

#[test]
fn a_container_file_is_in_its_directory() {
    let nested = nested();
    let (file, _) = nested.mount("rw", "above/source/x.blp", "0");
    let refused = mount("rw", &nested.at("above"), &nested.at("1"));
    refused.failed_saying(1, &["writes to", "x.blp"]);
    let (beside, _) = nested.mount("rw", "above/source/below", "1");
    assert_access(&file, "rw");
    assert_access(&beside, "rw");
}

#[test]
fn who_insists_on_writing_is_refused_while_another_writes() {
    let nested = nested();
    let (first, _) = nested.mount(DEFAULT, "above/source", "0");
    let pid = format!("(pid {})", first.daemon());
    let mountpoint = first.path().to_str().unwrap();
    let source = nested.at("above/source");
    let umount = format!("arrayfs umount {mountpoint}");
    let parts = [
        &pid,
        source.to_str().unwrap(),
        &umount,
        "cannot be mounted writable",
    ];
    for tree in ["above/source", "above", "above/source/below"] {
        mount("rw", &nested.at(tree), &nested.at("1")).failed_saying(1, &parts);
        assert_eq!(mount_line(&nested.at("1")), None);
    }
    first.assert_alive();
    drop(first);
    let (second, said) = nested.mount("rw", "above", "1");
    assert_eq!(said, "");
    assert_access(&second, "rw");
}

#[test]
fn read_only_mounts_keep_nobody_from_writing() {
    let nested = nested();
    let read_only = ["above/source", "above", "above/source/below"];
    let before: Vec<Mounted> = (1..)
        .zip(read_only)
        .map(|(at, source)| nested.mount("ro", source, &at.to_string()).0)
        .collect();
    let (writable, said) = nested.mount("rw", "above/source", "0");
    assert_eq!(said, "");
    assert_access(&writable, "rw");
    let (after, said) = nested.mount("ro", "above/source", "4");
    assert_eq!(said, "");
    for mounted in before.iter().chain([&after]) {
        assert_access(mounted, "ro");
    }
}

/// umount(8) does not wait for the daemon.
#[test]
fn a_predecessor_that_is_ending_is_waited_for() {
    let nested = nested();
    let mut mounted = nested.mount("rw", "above/source", "0").0;
    for round in 0..20 {
        let mountpoint = mounted.path().to_owned();
        wait_until("umount(8) finds it free", || {
            run(Command::new("umount").arg(&mountpoint)).code() == Some(0)
        });
        let option = ["rw", DEFAULT][round % 2];
        let source = ["above", "above/source"][round / 2 % 2];
        let (next, said) = nested.mount(option, source, ["1", "0"][round % 2]);
        assert_eq!(said, "");
        assert_access(&next, "rw");
        let ended = std::mem::replace(&mut mounted, next);
        assert!(has_ended(ended.daemon()));
        ended.assert_ends();
    }
}

/// Processes that are told of a path.
fn processes_about(path: &Path) -> Vec<u32> {
    let path = path.as_os_str().as_encoded_bytes();
    let is_about = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == path)
    };
    let names = std::fs::read_dir("/proc").unwrap();
    let pids = names.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(is_about).collect()
}

#[test]
fn who_is_interrupted_while_a_predecessor_ends_mounts_nothing() {
    let nested = nested();
    let ending = nested.mount("rw", "above/source", "0").0;
    let open = File::open(ending.join("x.blp/data")).unwrap();
    unmount(ending.path(), UnmountFlags::DETACH).unwrap();
    let mountpoint = nested.at("1");
    let mut command = Command::new(ARRAYFS);
    command.args(["mount", "-o", "rw"]).arg(nested.at("above"));
    let mut child = start(command.arg(&mountpoint)).unwrap();
    wait_until("its daemon has started", || {
        processes_about(&mountpoint).len() == 2
    });
    send(child.id(), Signal::INT);
    wait_for_end(&mut child);
    drop(open);
    wait_until("its daemon has ended", || {
        processes_about(&mountpoint).is_empty()
    });
    assert!(mount_line(&mountpoint).is_none());
    ending.assert_ends();
}

/// The roots of two file systems have one inode number.
#[test]
fn a_writer_of_another_file_system_is_in_nobody_s_way() {
    if !is_root("small file systems") {
        return;
    }
    let _other = SmallDisk::new("size=4m", Some(&["rw"]));
    let disk = SmallDisk::new("size=4m", None);
    for _ in 0..30 {
        let mounted = Mounted::new(disk.path(), &["rw"]);
        run(Command::new("umount").arg(mounted.path())).success();
        // The daemon is ending.
        drop(Mounted::new(disk.path(), &["rw"]));
        mounted.assert_ends();
    }
}

#[test]
fn of_many_mounts_that_start_at_once_one_writes() {
    let nested = nested();
    let mounted: Vec<Mounted> = std::thread::scope(|scope| {
        let sources = [
            "above/source",
            "above/source/below",
            "above",
            "above/source",
        ];
        let starting: Vec<_> = (0..)
            .zip(sources)
            .map(|(at, source)| {
                let nested = &nested;
                scope.spawn(move || nested.mount(DEFAULT, source, &format!("{at}")).0)
            })
            .collect();
        let started = starting.into_iter().map(|thread| thread.join().unwrap());
        started.collect()
    });
    let is_writable = |mounted: &&Mounted| {
        let line = mount_line(mounted.path()).unwrap();
        line.split(' ').nth(5).unwrap().starts_with("rw")
    };
    assert_eq!(mounted.iter().filter(is_writable).count(), 1);
}

#[test]
fn a_killed_writer_leaves_no_lock() {
    let nested = nested();
    let (first, _) = nested.mount("rw", "above/source", "0");
    send(first.daemon(), Signal::KILL);
    wait_until("its end", || has_ended(first.daemon()));
    let (second, said) = nested.mount("rw", "above/source", "1");
    assert_eq!(said, "");
    assert_access(&second, "rw");
    arrayfs([Path::new("umount"), first.path()]).success();
    first.assert_ends();
}

#[test]
fn a_lock_of_another_program_is_told() {
    let places = places();
    let (source, mountpoint) = places.both();
    let locked = File::open(source).unwrap();
    flock(&locked, FlockOperation::LockShared).unwrap();
    let own = format!("process {} (", std::process::id());
    mount("rw", source, mountpoint).failed_saying(1, &[&own, "is locked"]);
    let said = mount(DEFAULT, source, mountpoint).success().stderr;
    assert!(said.contains(&own), "{said}");
    assert_access(&Mounted::adopt(mountpoint), "ro");
    flock(&locked, FlockOperation::Unlock).unwrap();
    assert_access(&Mounted::at(source, mountpoint, &["rw"]), "rw");
}

#[test]
fn mount_8_insists_on_nothing() {
    let nested = nested();
    let helper = link_to_arrayfs(nested.0.path(), "mount.fuse.arrayfs");
    let call = |at: &str| {
        let mut command = Command::new(&helper);
        let places = [nested.at("above/source"), nested.at(at)];
        run(command.args(places).args(["-o", "rw,noatime"])).success()
    };
    assert_eq!(call("0").stderr, "");
    let first = Mounted::adopt(&nested.at("0"));
    assert!(call("1").stderr.contains("mounted read-only"));
    let second = Mounted::adopt(&nested.at("1"));
    assert_access(&first, "rw");
    assert_access(&second, "ro");
}

/// A source on a file system that is mounted read-only.
struct ReadOnlySource(TempDir);

impl ReadOnlySource {
    fn new() -> Self {
        let directory = scratch_directory();
        let flags = MountFlags::RDONLY;
        rustix::mount::mount("none", directory.path(), "tmpfs", flags, c"").unwrap();
        ReadOnlySource(directory)
    }
}

impl Drop for ReadOnlySource {
    fn drop(&mut self) {
        let _ = unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

#[test]
fn a_source_on_a_read_only_file_system_is_not_written_to() {
    if !is_root("a read-only file system") {
        return;
    }
    let source = ReadOnlySource::new();
    let mountpoint = scratch_directory();
    let why = "its file system is mounted read-only";
    let refused = mount("rw", source.0.path(), mountpoint.path());
    refused.failed_saying(1, &["cannot be mounted writable", why]);
    let said = mount(DEFAULT, source.0.path(), mountpoint.path()).success();
    assert!(said.stderr.contains(why), "{said:?}");
    assert_access(&Mounted::adopt(mountpoint.path()), "ro");
}

/// In a mount name space of its own, where `/dev/fuse` is open to everybody as on a desktop.
#[test]
fn a_user_who_may_not_write_to_the_source_mounts_it_read_only() {
    if !is_root("mounting as another user") {
        return;
    }
    let (source, mountpoint) = (scratch_directory(), scratch_directory());
    std::os::unix::fs::chown(mountpoint.path(), Some(65534), Some(65534)).unwrap();
    install(Path::new(ARRAYFS), &source.path().join("arrayfs"));
    let script = r#"
        mknod -m 666 "$1/fuse" c 10 229
        mount --bind "$1/fuse" /dev/fuse
        other() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        other "$1/arrayfs" mount -o rw "$1" "$2" && exit 9
        other "$1/arrayfs" mount "$1" "$2" || exit 8
        grep " $2 ro," /proc/self/mountinfo
        other "$1/arrayfs" umount "$2" || exit 7
        chown 65534 "$1"
        other "$1/arrayfs" mount -o rw,sync,dirsync "$1" "$2" || exit 6
        grep " $2 rw," /proc/self/mountinfo
        other "$1/arrayfs" umount "$2""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    let ran = run(command.args([source.path(), mountpoint.path()])).success();
    assert_eq!(ran.text().lines().count(), 2, "{ran:?}");
    let said = ran.stderr.matches("user 65534 may not write there");
    assert_eq!(said.count(), 2, "{ran:?}");
    let insisted = ran.text();
    let insisted = insisted.lines().last().unwrap();
    assert!(insisted.contains("sync") && insisted.contains("dirsync"));
}

#[test]
fn sync_and_dirsync_are_passed_on() {
    let places = places();
    let (source, mountpoint) = places.both();
    for (options, expected) in [
        ("sync,dirsync", &["sync", "dirsync"][..]),
        ("sync,async", &[]),
        ("dirsync", &["dirsync"]),
    ] {
        let mounted = Mounted::at(source, mountpoint, &[options]);
        let line = mount_line(mounted.path()).unwrap();
        let words = line.split([' ', ',']);
        let found: Vec<&str> = words.filter(|word| word.ends_with("sync")).collect();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn status_says_whether_a_mount_is_writable() {
    let places = places();
    let (source, mountpoint) = places.both();
    for (option, word, writable) in [("rw", "writable", true), ("ro", "read-only", false)] {
        let _mounted = Mounted::at(source, mountpoint, &[option]);
        let status = |json: &[&str]| {
            let mut command = Command::new(ARRAYFS);
            run(command.arg("status").args(json).arg(mountpoint)).success()
        };
        let text = status(&[]).text();
        assert!(text.contains(&format!("access  {word}")), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&status(&["--json"]).stdout).unwrap();
        assert_eq!(json[0]["writable"], writable);
    }
}

/// A field of `/proc/PID/status`.
fn process_field(pid: u32, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap().trim().to_owned()
}

#[test]
fn a_daemon_that_writes_keeps_to_quotas_and_to_the_kernel_s_modes() {
    const SYS_RESOURCE: u64 = 1 << 24;
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &["rw"]);
    for sets in ["CapEff:", "CapPrm:", "CapInh:", "CapBnd:"] {
        let set = u64::from_str_radix(&process_field(mounted.daemon(), sets), 16).unwrap();
        let may = is_root("the bounding set") || sets != "CapBnd:";
        assert!(!may || set & SYS_RESOURCE == 0, "{sets} {set:x}");
    }
    assert_eq!(process_field(mounted.daemon(), "Umask:"), "0000");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", mounted.daemon())).unwrap();
    for task in tasks {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let set = u64::from_str_radix(set.unwrap().trim(), 16).unwrap();
        assert_eq!(set & SYS_RESOURCE, 0, "{status}");
    }
}

#[test]
fn the_log_of_a_daemon_that_writes_is_not_writable_for_everybody() {
    let places = places();
    let (source, mountpoint) = places.both();
    let log = source.parent().unwrap().join("log");
    let script = r#"umask 027; exec "$@""#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", ARRAYFS, "mount", "-o"]);
    command.arg(format!("rw,log={}", log.display()));
    run(command.args([source, mountpoint])).success();
    let mounted = Mounted::adopt(mountpoint);
    let mode = || log.metadata().map(|meta| meta.permissions().mode() & 0o777);
    wait_until("the log is there", || mode().is_ok());
    assert_eq!(mode().unwrap(), 0o640);
    std::fs::rename(&log, log.with_extension("1")).unwrap();
    send(mounted.daemon(), Signal::HUP);
    wait_until("the log is reopened", || mode().is_ok());
    assert_eq!(mode().unwrap(), 0o640);
}

/// What is open keeps it in use; the daemon's own look at the root does not keep it busy.
#[test]
fn a_signal_ends_a_writable_mount() {
    let places = places();
    let (source, mountpoint) = places.both();
    let log = source.parent().unwrap().join("log");
    for in_use in [false, true] {
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new(ARRAYFS);
        command.args(["mount", "-f", "-o"]);
        command.arg(format!("rw,log={}", log.display()));
        let mut child = start(command.args([source, mountpoint])).unwrap();
        let data = mountpoint.join("x.blp/data");
        wait_until("the mount is there", || data.exists());
        let mounted = Mounted::adopt(mountpoint);
        let open = in_use.then(|| File::open(&data).unwrap());
        send(mounted.daemon(), Signal::TERM);
        assert_eq!(wait_for_end(&mut child).code(), Some(0));
        mounted.assert_ends();
        drop(open);
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(!text.contains("ERROR"), "{text}");
        assert!(text.contains("detaching") || !in_use, "{text}");
    }
}
