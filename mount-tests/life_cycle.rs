//! A mount from start to end: exit status and message of every way to begin and to end, what
//! signals do, and what is left when somebody kills the daemon.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::Signal;

use crate::harness::mounted::{Mounted, is_mounted};
use crate::harness::places::{CONTENT, places};
use crate::harness::process::{ARRAYFS, Ran, arrayfs, has_ended, run, send, start, wait_for_end};
use crate::harness::reads::assert_content;
use crate::harness::writers::Bloscpack;
use crate::harness::{is_root, scratch_directory, wait_until};

fn mount(options: &[&str], source: &Path, mountpoint: &Path) -> Ran {
    let options = options
        .iter()
        .flat_map(|option| [OsStr::new("-o"), OsStr::new(option)]);
    let places = [source.as_os_str(), mountpoint.as_os_str()];
    arrayfs(
        [OsStr::new("mount")]
            .into_iter()
            .chain(options)
            .chain(places),
    )
}

fn umount(mountpoint: &Path) -> Ran {
    arrayfs([Path::new("umount"), mountpoint])
}

#[test]
fn mount_returns_silently_when_the_mount_is_usable() {
    let places = places();
    let (source, mountpoint) = places.both();
    let ran = mount(&[], source, mountpoint).success();
    assert_content(&mountpoint.join("x.blp/data"), CONTENT);
    assert_eq!((ran.text(), ran.stderr), (String::new(), String::new()));
    drop(Mounted::adopt(mountpoint));
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let places = places();
    let (source, mountpoint) = places.both();
    let missing = source.join("no-such");
    let name = missing.to_str().unwrap();
    mount(&[], &missing, mountpoint).failed_saying(1, &["source", name, "does not exist"]);
    mount(&[], source, &missing).failed_saying(1, &["mountpoint", "does not exist", "mkdir", name]);
    let file = source.join("x.blp");
    mount(&[], source, &file).failed_saying(1, &[file.to_str().unwrap(), "not a directory"]);
    std::fs::write(source.join("text"), "no container").unwrap();
    mount(&[], &source.join("text"), mountpoint).failed_saying(1, &["not a container"]);
    let into_file = mount(&["scratch"], &source.join("x.blp"), mountpoint);
    into_file.failed_saying(1, &["x.blp is not a directory", "scratch mount"]);
    let no_log = mount(&["log=/no/such/file"], source, mountpoint);
    no_log.failed_saying(1, &["cannot log to /no/such/file"]);
    assert!(!is_mounted(mountpoint));
}

#[test]
fn a_wrong_option_is_named_with_the_nearest_right_one() {
    let places = places();
    let (source, mountpoint) = places.both();
    let wrong = |options: &[&str], parts: &[&str]| {
        mount(options, source, mountpoint).failed_saying(2, parts);
    };
    wrong(&["chace=1G"], &["'chace'", "did you mean 'cache'"]);
    wrong(
        &["ro,alow_other"],
        &["'alow_other'", "did you mean 'allow_other'"],
    );
    wrong(&["frobnicate"], &["unknown mount option 'frobnicate'"]);
    wrong(&["cache=lots"], &["cache=lots"]);
    wrong(&["threads=0"], &["threads=0"]);
    wrong(&["scratch,codec=snap"], &["codec=snap", "zstd"]);
    wrong(&["remount,rw"], &["'remount'", "mount it again"]);
    wrong(&["lazitime"], &["'lazitime'", "did you mean 'lazytime'"]);
    assert_eq!(arrayfs(["mount", "--chace=1G", "a", "b"]).code(), Some(2));
    assert_eq!(arrayfs(["mount", "a"]).code(), Some(2));
    assert!(!is_mounted(mountpoint));
}

#[test]
fn options_are_long_flags_too() {
    let places = places();
    let (source, mountpoint) = places.both();
    let places = [source.as_os_str(), mountpoint.as_os_str()];
    let flags = [
        "mount",
        "--ro",
        "--cache",
        "3M",
        "--threads=2",
        "--direct-io",
    ]
    .map(OsStr::new);
    arrayfs(flags.into_iter().chain(places)).success();
    let mounted = Mounted::adopt(mountpoint);
    assert_eq!(mounted.status()["cache"]["limit"], 3 << 20);
    assert_content(&mounted.join("x.blp/data"), CONTENT);
}

#[test]
fn a_mount_over_or_inside_its_own_source_is_refused() {
    let places = places();
    let (source, _) = places.both();
    let inside = source.join("inside");
    std::fs::create_dir(&inside).unwrap();
    mount(&[], source, source).failed_saying(1, &["source and mountpoint at once"]);
    mount(&[], source, &inside).failed_saying(1, &["inside the source"]);
    let roundabout = inside.join("..");
    mount(&[], source, &roundabout).failed_saying(1, &["source and mountpoint at once"]);
    assert!(!is_mounted(source) && !is_mounted(&inside));
}

#[test]
fn a_mount_over_the_parent_of_its_source_works() {
    let directory = scratch_directory();
    let source = directory.path().join("below/source");
    std::fs::create_dir_all(&source).unwrap();
    Bloscpack::default().write(&source.join("x.blp"), CONTENT);
    let mounted = Mounted::at(&source, directory.path(), &[]);
    assert_content(&mounted.join("x.blp/data"), CONTENT);
    assert!(!source.exists(), "hidden by the mount");
    drop(mounted);
    assert!(source.join("x.blp").is_file());
}

#[test]
fn a_second_mount_at_the_same_place_is_refused() {
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    mount(&[], source, mountpoint).failed_saying(1, &["mounted already", "arrayfs umount"]);
    mounted.assert_alive();
    // The same source elsewhere is nobody's business.
    drop(Mounted::new(source, &[]));
    assert_content(&mounted.join("x.blp/data"), CONTENT);
}

#[test]
fn of_two_that_start_at_once_at_one_place_one_mounts() {
    let places = places();
    let (source, mountpoint) = places.both();
    for _ in 0..5 {
        let both = std::thread::scope(|scope| {
            let starting = [(); 2].map(|()| scope.spawn(|| mount(&[], source, mountpoint)));
            starting.map(|thread| thread.join().unwrap())
        });
        let started = both.iter().filter(|ran| ran.code() == Some(0));
        assert_eq!(started.count(), 1, "{both:?}");
        umount(mountpoint).success();
        assert!(!is_mounted(mountpoint));
    }
}

#[test]
fn a_container_file_can_be_the_source() {
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(&source.join("x.blp"), mountpoint, &[]);
    assert_content(&mounted.join("data"), CONTENT);
    assert!(mounted.join("arrays.json").exists());
}

/// A daemon that has not gone to the background.
struct Foreground<'a> {
    child: Child,
    mountpoint: &'a Path,
}

impl<'a> Foreground<'a> {
    fn start(source: &Path, mountpoint: &'a Path) -> Self {
        let mut command = Command::new(ARRAYFS);
        command.args(["mount", "-f", "-o", "log_level=error"]);
        let child = start(command.arg(source).arg(mountpoint)).unwrap();
        let started = Foreground { child, mountpoint };
        let data = mountpoint.join("x.blp/data");
        wait_until("the mount is there", || data.exists());
        started
    }
}

impl Drop for Foreground<'_> {
    /// For tests that fail half-way.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = unmount(self.mountpoint, UnmountFlags::DETACH);
    }
}

#[test]
fn in_the_foreground_a_signal_unmounts_and_ends_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let places = places();
        let (source, mountpoint) = places.both();
        let mut daemon = Foreground::start(source, mountpoint);
        let mounted = Mounted::adopt(mountpoint);
        assert_eq!(mounted.daemon(), daemon.child.id());
        send(mounted.daemon(), signal);
        assert_eq!(wait_for_end(&mut daemon.child).into_raw(), 0, "{signal:?}");
        mounted.assert_ends();
    }
}

/// As `timeout` does it.
#[test]
fn a_signal_to_the_process_and_its_group_is_one() {
    let places = places();
    let (source, mountpoint) = places.both();
    let log = scratch_directory();
    let log = log.path().join("log");
    for _ in 0..5 {
        let option = format!("log={}", log.display());
        let mounted = Mounted::at(source, mountpoint, &["rw", &option]);
        // One call, so that it has not ended before the second.
        let daemon = mounted.daemon().to_string();
        run(Command::new("kill").args([&daemon, &daemon])).success();
        mounted.assert_ends();
    }
    let told = std::fs::read_to_string(&log).unwrap();
    assert!(!told.contains("ERROR"), "{told}");
}

#[test]
fn in_the_background_a_signal_unmounts() {
    for signal in [Signal::TERM, Signal::INT] {
        let places = places();
        let (source, mountpoint) = places.both();
        let mounted = Mounted::at(source, mountpoint, &[]);
        send(mounted.daemon(), signal);
        mounted.assert_ends();
    }
}

#[test]
fn a_signal_ends_a_mount_that_is_in_use() {
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    let open = File::open(mounted.join("x.blp/data")).unwrap();
    send(mounted.daemon(), Signal::TERM);
    mounted.assert_ends();
    drop(open);
}

#[test]
fn a_mount_in_use_is_not_unmounted() {
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    let open = File::open(mounted.join("x.blp/data")).unwrap();
    umount(mountpoint).failed_saying(1, &[mountpoint.to_str().unwrap(), "is in use"]);
    mounted.assert_alive();
    assert_content(&mounted.join("x.blp/data"), CONTENT);
    drop(open);
}

/// Another file system, mounted over whatever is there.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn over(mountpoint: &'a Path) -> Self {
        rustix::mount::mount("none", mountpoint, "tmpfs", MountFlags::empty(), c"").unwrap();
        std::fs::write(mountpoint.join("somebody's"), "work").unwrap();
        Tmpfs(mountpoint)
    }

    fn assert_untouched(&self) {
        assert!(self.0.join("somebody's").exists());
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_signal_leaves_alone_what_was_mounted_at_the_place_since() {
    if !is_root("mounting something else") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    let open = File::open(mounted.join("x.blp/data")).unwrap();
    unmount(mountpoint, UnmountFlags::DETACH).unwrap();
    let other = Tmpfs::over(mountpoint);
    send(mounted.daemon(), Signal::TERM);
    mounted.assert_ends();
    other.assert_untouched();
    drop(open);
}

#[test]
fn umount_leaves_alone_what_is_mounted_over_the_mount() {
    if !is_root("mounting something else") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    let other = Tmpfs::over(mountpoint);
    umount(mountpoint).failed_saying(1, &["another file system is mounted over"]);
    other.assert_untouched();
    drop(other);
    mounted.assert_alive();
}

/// Somebody in a mount namespace that has, of all arrayfs mounts, this one.
struct Namespace(Child);

impl Namespace {
    fn holding(mountpoint: &Path) -> Self {
        let script = r#"
            grep ' fuse.arrayfs ' /proc/self/mountinfo | cut -d ' ' -f 5 | while read -r other; do
                [ "$other" = "$1" ] || umount -l "$(printf '%b' "$other")"
            done
            echo ready
            exec sleep 1000"#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        command.args(["sh", "-c", script, "sh"]).arg(mountpoint);
        let child = start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut namespace = Namespace(child.unwrap());
        let mut ready = [0; 6];
        let stdout = namespace.0.stdout.as_mut().unwrap();
        stdout.read_exact(&mut ready).unwrap();
        namespace
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn umount_says_that_another_mount_namespace_holds_the_mount() {
    if !is_root("a mount name space") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    let namespace = Namespace::holding(mountpoint);
    let daemon = format!("pid {}", mounted.daemon());
    let parts = ["goes on", "another mount namespace", "nsenter", &daemon];
    umount(mountpoint).failed_saying(1, &parts);
    assert!(!is_mounted(mountpoint));
    assert!(!has_ended(mounted.daemon()));
    drop(namespace);
    mounted.assert_ends();
}

#[test]
fn umount_tells_of_a_daemon_that_is_stopped() {
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    let daemon = mounted.daemon();
    send(daemon, Signal::STOP);
    wait_until("the daemon is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{daemon}/stat")).unwrap();
        stat.contains(") T ")
    });
    let go_on = format!("kill -CONT {daemon}");
    let end = format!("kill -KILL {daemon}; arrayfs umount");
    umount(mountpoint).failed_saying(1, &["is stopped and does not answer", &go_on, &end]);
    send(daemon, Signal::CONT);
    mounted.assert_alive();
}

#[test]
fn umount_returns_when_the_daemon_has_ended() {
    let places = places();
    let (source, mountpoint) = places.both();
    for _ in 0..10 {
        let mounted = Mounted::at(source, mountpoint, &[]);
        let daemon = mounted.daemon();
        assert_content(&mounted.join("x.blp/data"), CONTENT);
        // Dropping calls umount, and looks once whether mount and daemon are gone.
        drop(mounted);
        assert!(has_ended(daemon) && !is_mounted(mountpoint));
    }
}

#[test]
fn umount_of_what_is_no_mount_says_so() {
    let places = places();
    let (source, mountpoint) = places.both();
    umount(mountpoint).failed_saying(1, &["not an arrayfs mount"]);
    let nowhere = source.join("no-such");
    umount(&nowhere).failed_saying(1, &["no-such", "does not exist", "arrayfs status"]);
    let status = arrayfs([Path::new("status"), &nowhere]);
    status.failed_saying(1, &["no-such", "not an arrayfs mount", "arrayfs status"]);
}

#[test]
fn a_killed_daemon_is_told_of_and_cleared() {
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    send(mounted.daemon(), Signal::KILL);
    let is_dead = || {
        let looked = std::fs::metadata(mountpoint);
        looked.is_err_and(|e| e.raw_os_error() == Some(libc::ENOTCONN))
    };
    wait_until("the mount is dead", is_dead);
    mount(&[], source, mountpoint).failed_saying(1, &["daemon has died", "arrayfs umount"]);
    let status = arrayfs([Path::new("status"), mountpoint]);
    assert!(status.text().contains("dead"), "{status:?}");
    status.failed_saying(1, &["the daemon has ended", "arrayfs umount"]);
    umount(mountpoint).success();
    mounted.assert_ends();
    assert!(mountpoint.is_dir());
    drop(Mounted::at(source, mountpoint, &[]));
}

#[test]
fn an_unmount_from_outside_ends_the_daemon() {
    let places = places();
    let (source, mountpoint) = places.both();
    let mounted = Mounted::at(source, mountpoint, &[]);
    wait_until("umount(8) finds it free", || {
        run(Command::new("umount").arg(mountpoint)).code() == Some(0)
    });
    mounted.assert_ends();
}
