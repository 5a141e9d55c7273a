//! `arrayfs top`: in a terminal, which is as before afterwards, and as text.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, run, send};
use crate::harness::python::interpreter;
use crate::harness::reads::assert_content;
use crate::harness::seeded::Seeded;
use crate::harness::writers::Bloscpack;
use crate::harness::{scratch_directory, wait_until};
use tempfile::TempDir;

/// A mount of a container that has been read.
struct Ground {
    mounted: Mounted,
    _source: TempDir,
}

fn ground() -> Ground {
    let source = scratch_directory();
    let plain = Seeded::new(1).rising(300_000);
    Bloscpack::default().write(&source.path().join("x.blp"), &plain);
    let mounted = Mounted::new(source.path(), &["cache=4M"]);
    assert_content(&mounted.join("x.blp/data"), &plain);
    Ground {
        mounted,
        _source: source,
    }
}

/// What became of a program in a terminal: how it ended, and what the terminal was given.
struct InTerminal {
    ended: Value,
    given: String,
}

fn in_terminal((columns, rows): (u16, u16), steps: &Value, arguments: &[&Path]) -> InTerminal {
    let directory = scratch_directory();
    let output = directory.path().join("output");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("mount-tests/use_terminal.py");
    let mut command = Command::new(interpreter());
    command.arg("-B").arg(script);
    command.args([columns.to_string(), rows.to_string()]);
    command.arg(&output).arg(steps.to_string());
    command
        .args([ARRAYFS, "top", "--interval", "0.1"])
        .args(arguments);
    let said = run(&mut command).success();
    let given = std::fs::read(&output).unwrap();
    InTerminal {
        ended: serde_json::from_slice(&said.stdout).unwrap(),
        given: String::from_utf8_lossy(&given).into_owned(),
    }
}

/// Enters another screen, and leaves it.
const ENTERED: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";
const CURSOR_SHOWN: &str = "\u{1b}[?25h";

impl InTerminal {
    fn assert_restored(&self) {
        assert_eq!(self.ended["restored"], true, "{}", self.given);
        let (entered, left) = (self.given.find(ENTERED), self.given.rfind(LEFT));
        assert!(entered.is_some() && entered < left, "{:?}", self.given);
        assert!(self.given.contains(CURSOR_SHOWN), "{:?}", self.given);
    }
}

#[test]
fn every_way_to_quit_restores_the_terminal() {
    let ground = ground();
    for quit in ["q", "\u{1b}", "\u{3}"] {
        let steps = json!([{ "until": "REQ/s" }, { "keys": quit }]);
        let shown = in_terminal((80, 24), &steps, &[ground.mounted.path()]);
        assert_eq!(shown.ended["status"], 0, "{quit:?}: {}", shown.given);
        shown.assert_restored();
    }
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        let steps = json!([{ "until": "REQ/s" }, { "signal": signal }]);
        let shown = in_terminal((80, 24), &steps, &[ground.mounted.path()]);
        assert_eq!(shown.ended["status"], -signal, "{}", shown.given);
        shown.assert_restored();
    }
}

#[test]
fn a_mount_is_shown_with_its_details_in_every_size() {
    let ground = ground();
    let steps = json!([
        { "until": "pid " },
        { "keys": "sr" },
        { "keys": "\u{1b}[B\u{1b}[A" },
        { "size": [20, 5] },
        { "until": "READ/s" },
        { "size": [5, 1] },
        { "size": [200, 60] },
        { "until": "evicted" },
        { "keys": "q" },
    ]);
    let shown = in_terminal((80, 24), &steps, &[ground.mounted.path()]);
    assert_eq!(shown.ended["status"], 0, "{}", shown.given);
    shown.assert_restored();
    // From the beginning in a very small one.
    let steps = json!([{ "until": "/s" }, { "keys": "q" }]);
    in_terminal((20, 5), &steps, &[ground.mounted.path()]).assert_restored();
}

/// Of each run only the last key can be lost: the next one would bring it.
#[test]
fn a_key_that_comes_with_a_new_size_is_not_lost() {
    let ground = ground();
    let steps = json!([{ "until": "REQ/s" }, { "size": [100, 30] }, { "keys": "q" }]);
    for _ in 0..20 {
        in_terminal((80, 24), &steps, &[ground.mounted.path()]).assert_restored();
    }
}

/// The figures of a mount, as `top --once` prints them.
fn once(arguments: &[&Path]) -> Ran {
    let mut command = Command::new(ARRAYFS);
    command.args(["top", "--once", "--interval", "0.1"]);
    run(command.args(arguments))
}

fn line_of(text: &str, mountpoint: &Path) -> Vec<String> {
    let start = format!("{} ", mountpoint.display());
    let line = text.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("{start} is missing in {text}"));
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn one_frame_is_text() {
    let ground = ground();
    let text = once(&[ground.mounted.path()]).success().text();
    assert!(text.starts_with("MOUNT "), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let line = line_of(&text, ground.mounted.path());
    assert_eq!(line.len(), 9, "{text}");
    assert!(line[6].ends_with("/4.0M"), "{text}");
    // To look is no request that counts. What the kernel sends after a close may still come.
    wait_until("a frame without requests", || {
        let text = once(&[ground.mounted.path()]).success().text();
        let line = line_of(&text, ground.mounted.path());
        (&line[1][..], &line[4][..]) == ("0", "0")
    });
    // Another path of the mount will do, and all mounts are shown without.
    let inside = once(&[&ground.mounted.join("x.blp")]).success().text();
    line_of(&inside, ground.mounted.path());
    line_of(&once(&[]).success().text(), ground.mounted.path());
}

#[test]
fn a_daemon_that_is_stopped_or_dead_does_not_hold_up_others() {
    let (ground, stopped, dead) = (ground(), self::ground(), self::ground());
    send(stopped.mounted.daemon(), Signal::STOP);
    send(dead.mounted.daemon(), Signal::KILL);
    let is_dead = || {
        let looked = std::fs::metadata(dead.mounted.path());
        looked.is_err_and(|e| e.raw_os_error() == Some(libc::ENOTCONN))
    };
    wait_until("the mount is dead", is_dead);
    let text = once(&[]).success().text();
    let of = |ground: &Ground| line_of(&text, ground.mounted.path()).join(" ");
    assert!(of(&stopped).contains("not answering"), "{text}");
    assert!(of(&dead).contains("dead: the daemon has ended"), "{text}");
    assert!(of(&ground).contains("/4.0M"), "{text}");
    // In a terminal the figures of others are there before it is known that one does not answer.
    let steps = json!([{ "until": "/4.0M" }, { "until": "not answering" }, { "keys": "q" }]);
    in_terminal((200, 60), &steps, &[]).assert_restored();
    send(stopped.mounted.daemon(), Signal::CONT);
    arrayfs([Path::new("umount"), dead.mounted.path()]).success();
    dead.mounted.assert_ends();
}

#[test]
fn without_a_terminal_it_says_so() {
    let ground = ground();
    let ran = arrayfs([Path::new("top"), ground.mounted.path()]);
    ran.failed_saying(1, &["needs a terminal", "top --once"]);
    arrayfs(["top", "--once", "--interval", "0"]).failed_saying(2, &["--interval"]);
    let elsewhere = scratch_directory();
    once(&[elsewhere.path()]).failed_saying(1, &["not an arrayfs mount"]);
}
