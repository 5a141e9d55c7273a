//! A mount from start to end: exit status and message of every way to begin and to end, what signals do,
//! what is left when somebody kills the daemon, and how mount(8) starts it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::mounted::{Mounted, is_mounted, mount_line};
use crate::harness::process::{
    ARRAYFS, Ran, arrayfs, has_ended, link_to_arrayfs, run, send, wait_for_end,
};
use crate::harness::reads::assert_content;
use crate::harness::writers::Bloscpack;
use crate::harness::{is_root, scratch_directory, wait_until};

/// A source with one container, and a mountpoint.
struct Places {
    _directory: TempDir,
    source: PathBuf,
    mountpoint: PathBuf,
}

const CONTENT: &[u8] = b"as it was written";

fn places() -> Places {
    let directory = scratch_directory();
    let (source, mountpoint) = (
        directory.path().join("source"),
        directory.path().join("mnt"),
    );
    std::fs::create_dir(&source).unwrap();
    std::fs::create_dir(&mountpoint).unwrap();
    Bloscpack::default().write(&source.join("x.blp"), CONTENT);
    Places {
        _directory: directory,
        source,
        mountpoint,
    }
}

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
    let Places {
        source, mountpoint, ..
    } = &places();
    let ran = mount(&[], source, mountpoint).success();
    assert_content(&mountpoint.join("x.blp/data"), CONTENT);
    assert_eq!((ran.text(), ran.stderr), (String::new(), String::new()));
    drop(Mounted::adopt(mountpoint));
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let missing = source.join("no-such");
    let name = missing.to_str().unwrap();
    mount(&[], &missing, mountpoint).failed_saying(1, &["source", name, "does not exist"]);
    mount(&[], source, &missing).failed_saying(1, &["mountpoint", "does not exist", "mkdir", name]);
    let file = source.join("x.blp");
    mount(&[], source, &file).failed_saying(1, &[file.to_str().unwrap(), "not a directory"]);
    std::fs::write(source.join("text"), "no container").unwrap();
    mount(&[], &source.join("text"), mountpoint).failed_saying(1, &["not a container"]);
    let no_log = mount(&["log=/no/such/file"], source, mountpoint);
    no_log.failed_saying(1, &["cannot log to /no/such/file"]);
    assert!(!is_mounted(mountpoint));
}

#[test]
fn a_wrong_option_is_named_with_the_nearest_right_one() {
    let Places {
        source, mountpoint, ..
    } = &places();
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
    wrong(&["scratch"], &["scratch", "not part of this version"]);
    assert_eq!(arrayfs(["mount", "--chace=1G", "a", "b"]).code(), Some(2));
    assert_eq!(arrayfs(["mount", "a"]).code(), Some(2));
    assert!(!is_mounted(mountpoint));
}

#[test]
fn options_are_long_flags_too() {
    let Places {
        source, mountpoint, ..
    } = &places();
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
    let Places { source, .. } = &places();
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
    let Places {
        source, mountpoint, ..
    } = &places();
    let mounted = Mounted::at(source, mountpoint, &[]);
    mount(&[], source, mountpoint).failed_saying(1, &["mounted already", "arrayfs umount"]);
    mounted.assert_alive();
    // The same source elsewhere is nobody's business.
    drop(Mounted::new(source, &[]));
    assert_content(&mounted.join("x.blp/data"), CONTENT);
}

#[test]
fn a_container_file_can_be_the_source() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let mounted = Mounted::at(&source.join("x.blp"), mountpoint, &[]);
    assert_content(&mounted.join("data"), CONTENT);
    assert!(mounted.join("arrays.json").exists());
}

fn in_foreground(source: &Path, mountpoint: &Path) -> Child {
    let mut command = Command::new(ARRAYFS);
    command
        .args(["mount", "-f", "-o", "log_level=error"])
        .arg(source)
        .arg(mountpoint);
    let child = command.spawn().unwrap();
    wait_until("the mount is there", || {
        mountpoint.join("x.blp/data").exists()
    });
    child
}

#[test]
fn in_the_foreground_a_signal_unmounts_and_ends_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let Places {
            source, mountpoint, ..
        } = &places();
        let mut child = in_foreground(source, mountpoint);
        let mounted = Mounted::adopt(mountpoint);
        assert_eq!(mounted.daemon(), child.id());
        send(child.id(), signal);
        assert_eq!(wait_for_end(&mut child).into_raw(), 0, "{signal:?}");
        mounted.assert_ends();
    }
}

#[test]
fn in_the_background_a_signal_unmounts() {
    for signal in [Signal::TERM, Signal::INT] {
        let Places {
            source, mountpoint, ..
        } = &places();
        let mounted = Mounted::at(source, mountpoint, &[]);
        send(mounted.daemon(), signal);
        mounted.assert_ends();
    }
}

#[test]
fn a_signal_ends_a_mount_that_is_in_use() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let mounted = Mounted::at(source, mountpoint, &[]);
    let open = File::open(mounted.join("x.blp/data")).unwrap();
    send(mounted.daemon(), Signal::TERM);
    mounted.assert_ends();
    drop(open);
}

#[test]
fn a_mount_in_use_is_not_unmounted() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let mounted = Mounted::at(source, mountpoint, &[]);
    let open = File::open(mounted.join("x.blp/data")).unwrap();
    umount(mountpoint).failed_saying(1, &[mountpoint.to_str().unwrap(), "is in use"]);
    mounted.assert_alive();
    assert_content(&mounted.join("x.blp/data"), CONTENT);
    drop(open);
}

#[test]
fn umount_returns_when_the_daemon_has_ended() {
    let Places {
        source, mountpoint, ..
    } = &places();
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
    let Places {
        source, mountpoint, ..
    } = &places();
    umount(mountpoint).failed_saying(1, &["not an arrayfs mount"]);
    umount(&source.join("no-such")).failed_saying(1, &["no-such"]);
}

#[test]
fn a_killed_daemon_is_told_of_and_cleared() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let mounted = Mounted::at(source, mountpoint, &[]);
    send(mounted.daemon(), Signal::KILL);
    let is_dead = || {
        let looked = std::fs::metadata(mountpoint);
        looked.is_err_and(|e| e.raw_os_error() == Some(libc::ENOTCONN))
    };
    wait_until("the mount is dead", is_dead);
    mount(&[], source, mountpoint).failed_saying(1, &["daemon has died", "arrayfs umount"]);
    let status = arrayfs([Path::new("status"), mountpoint]).success().text();
    assert!(status.contains("dead"), "{status}");
    umount(mountpoint).success();
    mounted.assert_ends();
    assert!(mountpoint.is_dir());
    drop(Mounted::at(source, mountpoint, &[]));
}

#[test]
fn an_unmount_from_outside_ends_the_daemon() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let mounted = Mounted::at(source, mountpoint, &[]);
    wait_until("umount(8) finds it free", || {
        run(Command::new("umount").arg(mountpoint)).code() == Some(0)
    });
    mounted.assert_ends();
}

#[test]
fn called_as_a_mount_helper_it_takes_the_options_of_mount() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let helper = link_to_arrayfs(source.parent().unwrap(), "mount.fuse.arrayfs");
    let call = |options: &str| {
        run(Command::new(&helper)
            .arg(source)
            .arg(mountpoint)
            .args(["-o", options]))
    };
    call("rw,noatime,nodev,nosuid,nofail,_netdev,x-systemd.automount").success();
    let line = mount_line(mountpoint).unwrap();
    for option in ["ro", "noatime", "nodev", "nosuid"] {
        let listed = line.split([' ', ',']).any(|word| word == option);
        assert!(listed, "{option} is missing in {line}");
    }
    assert!(line.contains(source.to_str().unwrap()), "{line}");
    drop(Mounted::adopt(mountpoint));
    call("noatmie").failed_saying(2, &["'noatmie'", "did you mean 'noatime'"]);
}

/// mount(8) looks for helpers in fixed directories; a name space of its own gets one there.
#[test]
fn mount_8_finds_the_helper_and_mounts() {
    if !is_root("mount(8) in a mount name space of its own") {
        return;
    }
    let Places {
        source, mountpoint, ..
    } = &places();
    let helpers = source.parent().unwrap().join("sbin");
    std::fs::create_dir(&helpers).unwrap();
    link_to_arrayfs(&helpers, "mount.fuse.arrayfs");
    let script = r#"set -e
        mount --bind "$1" /sbin
        mount -t fuse.arrayfs "$2" "$3" -o noatime,cache=2M
        cat "$3/x.blp/data"
        "$4" umount "$3""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    let ran = run(command.args([&helpers, source, mountpoint]).arg(ARRAYFS)).success();
    assert_eq!(ran.stdout, CONTENT);
}

#[test]
fn the_log_file_has_levels_and_is_reopened_on_sighup() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let log = source.parent().unwrap().join("log");
    let option = format!("log={}", log.display());
    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    let mounted = Mounted::at(source, mountpoint, &[&option]);
    wait_until("the mount is logged", || text().contains("mounted at"));
    assert!(
        text().lines().all(|line| line.contains(" INFO ")),
        "{}",
        text()
    );
    std::fs::rename(&log, log.with_extension("1")).unwrap();
    send(mounted.daemon(), Signal::HUP);
    wait_until("the log is reopened", || text().contains("log reopened"));
    mounted.assert_alive();
    drop(mounted);
    assert!(text().contains("unmounted"), "{}", text());
    std::fs::remove_file(&log).unwrap();
    drop(Mounted::at(
        source,
        mountpoint,
        &[&option, "log_level=error"],
    ));
    assert_eq!(text(), "");
}

/// `run` waits for the end of both outputs; a daemon that kept them open would make it fail.
#[test]
fn the_starter_s_outputs_and_directory_are_released() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let mut command = Command::new(ARRAYFS);
    command
        .arg("mount")
        .arg(source)
        .arg(mountpoint)
        .current_dir(source.parent().unwrap());
    run(&mut command).success();
    let mounted = Mounted::adopt(mountpoint);
    let link = |name: &str| std::fs::read_link(format!("/proc/{}/{name}", mounted.daemon()));
    assert_eq!(link("cwd").unwrap(), Path::new("/"));
    for descriptor in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(link(descriptor).unwrap(), Path::new("/dev/null"));
    }
}

#[test]
fn status_shows_the_mount() {
    let Places {
        source, mountpoint, ..
    } = &places();
    let mounted = Mounted::at(source, mountpoint, &["cache=4M"]);
    assert_content(&mounted.join("x.blp/data"), CONTENT);
    let text = arrayfs([Path::new("status"), mountpoint]).success().text();
    for part in [
        mountpoint.to_str().unwrap(),
        source.to_str().unwrap(),
        "4.0 MiB",
    ] {
        assert!(text.contains(part), "'{part}' is missing in {text}");
    }
    let all = arrayfs(["status", "--json"]).success().text();
    let all: Vec<serde_json::Value> = serde_json::from_str(&all).unwrap();
    let ours = all
        .iter()
        .find(|m| m["mountpoint"] == mountpoint.to_str().unwrap())
        .unwrap();
    assert_eq!(ours["state"], "serving");
    assert_eq!(ours["daemon"]["pid"], mounted.daemon());
    assert_eq!(ours["daemon"]["cache"]["limit"], 4 << 20);
    arrayfs([Path::new("status"), source]).failed_saying(1, &["not an arrayfs mount"]);
}
