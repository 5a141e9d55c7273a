//! The daemon among the programs around it: mount(8) and its helpers, the log and its rotation, the
//! shell that started it, and `arrayfs status`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::harness::mounted::{Mounted, mount_line};
use crate::harness::places::{CONTENT, places};
use crate::harness::process::{ARRAYFS, arrayfs, install_script, link_to_arrayfs, run, send};
use crate::harness::reads::assert_content;
use crate::harness::{golden, is_root, wait_until};

#[test]
fn called_as_a_mount_helper_it_takes_the_options_of_mount() {
    let places = places();
    let (source, mountpoint) = places.both();
    let helper = link_to_arrayfs(source.parent().unwrap(), "mount.fuse.arrayfs");
    let call = |options: &str| {
        run(Command::new(&helper)
            .arg(source)
            .arg(mountpoint)
            .args(["-o", options]))
    };
    let options = "rw,noatime,nodev,nosuid,nofail,_netdev,x-systemd.automount,lazytime,silent";
    assert_eq!(call(options).success().stderr, "");
    let line = mount_line(mountpoint).unwrap();
    for option in ["rw", "noatime", "nodev", "nosuid"] {
        let listed = line.split([' ', ',']).any(|word| word == option);
        assert!(listed, "{option} is missing in {line}");
    }
    assert!(line.contains(source.to_str().unwrap()), "{line}");
    let mounted = Mounted::adopt(mountpoint);
    assert_eq!(comm(mounted.daemon()), "arrayfs");
    drop(mounted);
    call("noatmie").failed_saying(2, &["'noatmie'", "did you mean 'noatime'"]);
}

/// What `pgrep -x` goes by.
fn comm(pid: u32) -> String {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    comm.trim_end().to_owned()
}

#[test]
fn following_links_can_be_forbidden_by_root() {
    if !is_root("mounting without following links") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    std::os::unix::fs::symlink("x.blp", source.join("link")).unwrap();
    let mounted = Mounted::at(source, mountpoint, &["nosymfollow"]);
    let followed = std::fs::metadata(mounted.join("link"));
    assert_eq!(followed.unwrap_err().raw_os_error(), Some(libc::ELOOP));
}

/// mount(8) looks for helpers in fixed directories; a name space of its own gets one there.
#[test]
fn mount_8_finds_the_helper_and_mounts() {
    if !is_root("mount(8) in a mount name space of its own") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let helpers = source.parent().unwrap().join("sbin");
    std::fs::create_dir(&helpers).unwrap();
    link_to_arrayfs(&helpers, "mount.fuse.arrayfs");
    link_to_arrayfs(&helpers, "mount.arrayfs");
    let script = r#"set -e
        mount --bind "$1" /sbin
        mount -t arrayfs "$2" "$3"
        "$4" umount "$3"
        mount -t fuse.arrayfs "$2" "$3" -o noatime,cache=2M
        trap '"$4" umount "$3"' EXIT
        cat "$3/x.blp/data"
        trap - EXIT
        "$4" umount "$3""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    let ran = run(command.args([&helpers, source, mountpoint]).arg(ARRAYFS)).success();
    assert_eq!(ran.stdout, CONTENT);
}

/// umount(8) returns when the daemon has ended: what the source lies on can be unmounted then. With
/// a path from the root it looks for no helper of ours unless its own table has the mount.
#[test]
fn umount_8_waits_for_the_daemon() {
    if !is_root("umount(8) in a mount name space of its own") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let helpers = source.parent().unwrap().join("sbin");
    std::fs::create_dir(&helpers).unwrap();
    link_to_arrayfs(&helpers, "mount.fuse.arrayfs");
    link_to_arrayfs(&helpers, "umount.fuse.arrayfs");
    let script = r#"set -e
        mount --bind "$1" /sbin
        mkdir "$3.disk"
        mount -t tmpfs tmpfs "$3.disk"
        cp "$2/x.blp" "$3.disk"
        table() { grep -c "TARGET=$3 " /run/mount/utab || :; }
        for flag in -c "" "" -c; do
            mount -t fuse.arrayfs "$3.disk" "$3" -o cache=64M
            pid=$("$4" status --json "$3" | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
            test "$(table "$@")" = 1
            printf "$flag." | dd of="$3/x.blp/data" conv=notrunc status=none
            umount $flag "$3"
            test "$(table "$@")" = 0
            if grep '^State:.[^ZX]' "/proc/$pid/status"; then exit 9; fi
        done
        mount -t fuse.arrayfs "$3.disk" "$3" -o scratch
        head -c 5000000 /dev/urandom >"$3/large"
        umount "$3" && umount "$3.disk"
        mount -t tmpfs tmpfs "$3.disk"
        mount -t fuse.arrayfs "$3.disk" "$3" -o scratch
        head -c 5000000 /dev/urandom >"$3/large"
        cd "$(dirname "$3")"
        umount "$(basename "$3")" && umount "$3.disk""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]);
    run(command.args([&helpers, source, mountpoint]).arg(ARRAYFS)).success();
}

/// A disk that is not plugged in keeps no system from starting.
#[test]
fn a_missing_source_is_no_failure_with_nofail() {
    let places = places();
    let (source, mountpoint) = places.both();
    let missing = source.join("no-such");
    let call = |options: &str| {
        let mut command = Command::new(ARRAYFS);
        command.args(["mount", "-o", options]);
        run(command.args([&missing, mountpoint]))
    };
    call("_netdev").failed_saying(1, &["does not exist"]);
    let ran = call("nofail,_netdev").success();
    assert_eq!((ran.text(), ran.stderr), (String::new(), String::new()));
    assert!(mount_line(mountpoint).is_none());
}

#[test]
fn the_log_file_has_levels_and_is_reopened_on_sighup() {
    let places = places();
    let (source, mountpoint) = places.both();
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
    let places = places();
    let (source, mountpoint) = places.both();
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

/// Programs that a process has started and that still run.
fn children(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        after_name.split(' ').nth(1) == Some(&parent.to_string())
    };
    let entries = std::fs::read_dir("/proc").unwrap().map(Result::unwrap);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

/// `pkill -HUP -x arrayfs` is for daemons.
#[test]
fn the_hdf5_worker_is_not_called_like_a_daemon_and_survives_sighup() {
    let source = golden("binsparse/sources");
    let mounted = Mounted::new(source, &[]);
    assert!(mounted.join("empty-csr-5x7.h5/arrays.json").exists());
    let called = |name: &'static str| {
        let children = children(mounted.daemon()).into_iter();
        children.filter(move |child| comm(*child) == name)
    };
    let all = || children(mounted.daemon()).len();
    // The guardian is a child, too, and says its name when it has begun.
    wait_until("every child says its name", || {
        called("arrayfs-hdf5").count() + called("arrayfs-guard").count() == all()
    });
    assert!(called("arrayfs-hdf5").count() > 0);
    for worker in called("arrayfs-hdf5") {
        let status = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = u64::from_str_radix(ignored.unwrap().trim(), 16).unwrap();
        assert_eq!(ignored & 1, 1, "{status}");
    }
}

/// Starts a program that finds a file open as descriptor 9, as in a script that holds a lock.
fn with_lock(lock: &Path, program: &[&OsStr]) -> Command {
    let mut command = Command::new("sh");
    let script = r#"exec 9>"$0"; exec "$@""#;
    command.args(["-c", script]).arg(lock).args(program);
    command
}

#[test]
fn what_the_starter_had_open_is_let_go() {
    let places = places();
    let (source, mountpoint) = places.both();
    let lock = source.parent().unwrap().join("lock");
    let program = [
        ARRAYFS.as_ref(),
        "mount".as_ref(),
        source.as_os_str(),
        mountpoint.as_os_str(),
    ];
    run(&mut with_lock(&lock, &program)).success();
    let mounted = Mounted::adopt(mountpoint);
    let fds = std::fs::read_dir(format!("/proc/{}/fd", mounted.daemon())).unwrap();
    let open: Vec<PathBuf> = fds
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .collect();
    assert!(open.contains(&"/dev/fuse".into()), "{open:?}");
    assert!(!open.contains(&lock), "{open:?}");
}

#[test]
fn the_hdf5_worker_gets_nothing_that_the_starter_had_open() {
    let places = places();
    let directory = places.both().0.parent().unwrap();
    let (worker, note) = (directory.join("worker"), directory.join("note"));
    let note_shown = note.display();
    let script = format!(
        "#!/bin/sh\n: >'{note_shown}'\n[ -e /proc/$$/fd/9 ] && : >'{note_shown}.9'\n\
         exec '{ARRAYFS}' \"$@\"\n"
    );
    install_script(&script, &worker);
    let file = golden("binsparse/sources/empty-csr-5x7.h5");
    let program = [ARRAYFS.as_ref(), "ls".as_ref(), file.as_os_str()];
    let mut command = with_lock(&directory.join("lock"), &program);
    run(command.env("ARRAYFS_HDF5_WORKER", &worker)).success();
    assert!(note.exists());
    assert!(!directory.join("note.9").exists());
}

#[test]
fn paths_of_any_bytes_are_told_without_loss_and_on_one_line() {
    let places = places();
    let directory = places.both().0.parent().unwrap();
    let below = |name: &[u8]| directory.join(OsStr::from_bytes(name));
    let (source, mountpoint, log) = (below(b"s\n,%\xff"), below(b"m\xfe"), below(b"log"));
    std::fs::rename(places.both().0, &source).unwrap();
    std::fs::create_dir(&mountpoint).unwrap();
    let mounted = Mounted::at(&source, &mountpoint, &[&format!("log={}", log.display())]);

    let said = run(Command::new(ARRAYFS)
        .args(["status", "--json"])
        .arg(&mountpoint))
    .success();
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let base = directory.to_str().unwrap();
    assert_eq!(said[0]["mountpoint"], format!("{base}/m%FE"));
    assert_eq!(said[0]["daemon"]["source"], format!("{base}/s%0A%2C%25%FF"));
    let listed = run(Command::new(ARRAYFS).args(["ls", "--json"]).arg(&source)).success();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["path"], format!("{base}/s%0A,%25%FF/x.blp"));

    let text = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_until("the mount is logged", || text().contains("mounted at"));
    drop(mounted);
    assert!(text().contains("s%0A,"), "{}", text());
    assert!(
        text().lines().all(|line| line.contains(" INFO ")),
        "{}",
        text()
    );
    std::fs::rename(&source, places.both().0).unwrap();
}

#[test]
fn status_shows_the_mount() {
    let places = places();
    let (source, mountpoint) = places.both();
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
    // Mounts whose daemons other tests have killed make its exit status 1.
    let all = arrayfs(["status", "--json"]).text();
    let all: Vec<serde_json::Value> = serde_json::from_str(&all).unwrap();
    let ours = all
        .iter()
        .find(|m| m["mountpoint"] == mountpoint.to_str().unwrap())
        .unwrap();
    assert_eq!(ours["state"], "serving");
    assert_eq!(ours["daemon"]["pid"], mounted.daemon());
    assert_eq!(ours["daemon"]["cache"]["limit"], 4 << 20);
    let above = source.parent().unwrap();
    arrayfs([Path::new("status"), above]).failed_saying(1, &["not an arrayfs mount"]);
}
