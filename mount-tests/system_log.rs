//! Where a daemon in the background logs without an option.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::places::places;
use crate::harness::process::{ARRAYFS, Ran, has_ended, run, send};
use crate::harness::{PATIENCE, is_root, scratch_directory, wait_until};

/// Runs arrayfs in a mount namespace of its own, whose `/dev` is this directory and what a daemon
/// needs.
fn with_dev(dev: &Path, arguments: &[&Path]) -> Ran {
    run(in_dev(dev, Path::new(ARRAYFS)).args(arguments))
}

/// A program that is to run there.
fn in_dev(dev: &Path, program: &Path) -> Command {
    let script = r#"
        set -e
        dev=$1
        for device in fuse null; do
            : > "$dev/$device"
            mount --bind "/dev/$device" "$dev/$device"
        done
        mount --rbind "$dev" /dev
        shift
        exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command
        .args(["sh", "-c", script, "sh"])
        .arg(dev)
        .arg(program);
    command
}

/// The next line that is logged.
fn next_line(log: &UnixDatagram) -> String {
    log.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut line = [0; 16384];
    let n = log.recv(&mut line).expect("a line");
    String::from_utf8(line[..n].to_vec()).unwrap()
}

#[test]
fn a_daemon_in_the_background_logs_to_the_system() {
    if !is_root("a /dev of its own") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    let dev = scratch_directory();
    let socket = dev.path().join("log");
    let log = UnixDatagram::bind(&socket).unwrap();
    let ran = with_dev(dev.path(), &[Path::new("mount"), source, mountpoint]).success();
    assert_eq!(ran.stderr, "");
    let line = next_line(&log);
    let (head, text) = line.split_once("]: ").unwrap();
    assert_eq!(
        text,
        format!("{} mounted at {}", source.display(), mountpoint.display())
    );
    assert!(head.starts_with("<30>"), "{line}");
    let pid: u32 = head.split_once(" arrayfs[").unwrap().1.parse().unwrap();

    // The system's log is restarted.
    drop(log);
    std::fs::remove_file(&socket).unwrap();
    let log = UnixDatagram::bind(&socket).unwrap();
    send(pid, Signal::TERM);
    let line = next_line(&log);
    assert!(
        line.ends_with(&format!("{} unmounted", mountpoint.display())),
        "{line}"
    );
    wait_until("the daemon has ended", || has_ended(pid));
}

/// Errors have to go somewhere.
#[test]
fn where_nobody_listens_lines_go_to_a_file_that_status_names() {
    if !is_root("a /dev of its own") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    std::fs::write(source.join("x.blp"), b"blpk, and nothing else").unwrap();
    let (dev, state) = (scratch_directory(), scratch_directory());
    let script =
        r#""$1" mount "$2" "$3" && cat "$3/x.blp/data"; "$1" status "$3"; "$1" umount "$3""#;
    let mut command = in_dev(dev.path(), Path::new("sh"));
    command.env("XDG_STATE_HOME", state.path());
    command
        .args(["-c", script, "sh", ARRAYFS])
        .args([source, mountpoint]);
    let ran = run(&mut command);
    let mut logs = std::fs::read_dir(state.path().join("arrayfs")).unwrap();
    let log = logs.next().unwrap().unwrap().path();
    let (logged, told) = (std::fs::read_to_string(&log).unwrap(), ran.text());
    assert!(
        told.contains(&format!("\n  log     {}\n", log.display())),
        "{ran:?}"
    );
    let container = source.join("x.blp").display().to_string();
    let warned = |text: &str| {
        let of = |line: &&str| line.contains(&container);
        text.lines().find(of).map(str::to_owned)
    };
    let (shown, written) = (warned(&told).unwrap(), warned(&logged).unwrap());
    assert!(
        shown.starts_with("  warning ") && written.contains(" WARN "),
        "{shown}\n{written}"
    );
    let text = written.split_once(" WARN ").unwrap().1.trim();
    assert!(shown.contains(text), "{shown}\n{written}");
    assert!(logged.trim_end().ends_with(" unmounted"), "{logged}");
}

/// Without a word, unless it was asked for.
#[test]
fn a_system_without_a_log_is_told_of_when_it_was_asked_for() {
    if !is_root("a /dev of its own") {
        return;
    }
    let places = places();
    let (source, mountpoint) = places.both();
    for (option, said) in [("ro", None), ("log=syslog", Some("log=syslog: "))] {
        let dev = scratch_directory();
        let option = format!("-o{option}");
        let mount = [Path::new("mount"), Path::new(&option), source, mountpoint];
        let ran = with_dev(dev.path(), &mount).success();
        match said {
            Some(said) => assert!(ran.stderr.contains(said), "{}", ran.stderr),
            None => assert_eq!(ran.stderr, ""),
        }
        assert!(!ran.stderr.contains("os error"), "{}", ran.stderr);
        // The mount is nobody's but the daemon's.
        let daemon = daemon_of(mountpoint);
        send(daemon, Signal::TERM);
        wait_until("the daemon has ended", || has_ended(daemon));
    }
}

/// The daemon that was started with this mountpoint.
fn daemon_of(mountpoint: &Path) -> u32 {
    let named = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|&b| b == 0);
        !has_ended(*pid)
            && arguments.next() == Some(ARRAYFS.as_bytes())
            && arguments.any(|argument| argument == mountpoint.as_os_str().as_encoded_bytes())
    };
    let entries = std::fs::read_dir("/proc").unwrap();
    let mut pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.find(named).expect("a daemon")
}
