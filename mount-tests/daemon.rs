//! The daemon among the programs around it: mount(8) and its helpers, the log and who rotates it, the
//! shell that started it, and `arrayfs status`.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::is_root;
use crate::harness::mounted::{Mounted, mount_line};
use crate::harness::places::{CONTENT, places};
use crate::harness::process::{ARRAYFS, arrayfs, link_to_arrayfs, run, send};
use crate::harness::reads::assert_content;
use crate::harness::wait_until;

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
    let places = places();
    let (source, mountpoint) = places.both();
    let helpers = source.parent().unwrap().join("sbin");
    std::fs::create_dir(&helpers).unwrap();
    link_to_arrayfs(&helpers, "mount.fuse.arrayfs");
    let script = r#"set -e
        mount --bind "$1" /sbin
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
