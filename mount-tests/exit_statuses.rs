//! How every command ends: 0 done, 1 failed with a message that says what and where, 2 wrong usage;
//! and which mount a path means to those about mounts.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::harness::mounted::{Mounted, is_mounted};
use crate::harness::process::{Ran, arrayfs, run, send};
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{golden, scratch_directory, wait_until};
use tempfile::TempDir;

/// A directory with a source, which has a container, a matrix, and a file that is none; and with an
/// empty mountpoint.
struct Ground {
    directory: TempDir,
}

fn ground() -> Ground {
    let directory = scratch_directory();
    let source = directory.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::create_dir(directory.path().join("mnt")).unwrap();
    Bloscpack::default().write(&source.join("x.blp"), b"0123456789");
    Matrix::random(1, 1000).write_packed(&source.join("counts"));
    std::fs::write(source.join("notes.txt"), "no container").unwrap();
    Ground { directory }
}

impl Ground {
    fn join(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Runs a command line there, its words apart.
    fn run(&self, line: &str) -> Ran {
        let mut command = std::process::Command::new(crate::harness::process::ARRAYFS);
        command.args(line.split_whitespace());
        run(command.current_dir(self.directory.path()))
    }
}

#[test]
fn what_is_done_ends_with_0() {
    let ground = ground();
    ground.run("mount -o rw source mnt").success();
    let mounted = Mounted::adopt(&ground.join("mnt").canonicalize().unwrap());
    std::fs::write(ground.join("mnt/new"), "new").unwrap();
    for line in [
        "status",
        "status mnt",
        "status --json mnt",
        "status --prometheus mnt",
        "status mnt/x.blp",
        "top --once --interval 0.1 mnt",
        "ls source",
        "ls mnt",
        "info mnt/x.blp",
        "cat mnt/x.blp data",
        "verify source",
        "refresh mnt/new",
        "stage ls mnt",
        "stage commit mnt",
        "pack source/notes.txt packed.blp",
        "unpack packed.blp unpacked",
        "append packed.blp source/notes.txt",
        "--help",
        "--version",
    ] {
        // Daemons that other tests have killed make the status of all mounts a failure.
        let ran = ground.run(line);
        let own = ground.join("mnt").display().to_string();
        let is_of_others = line == "status" && !ran.stderr.contains(&own);
        assert!(ran.code() == Some(0) || is_of_others, "{line}: {ran:?}");
    }
    ground.run("umount mnt").success();
    mounted.assert_ends();
}

#[test]
fn what_fails_ends_with_1_and_names_it() {
    let ground = ground();
    let bad = golden("bloscpack/sources/bad-sum-two.blp");
    std::fs::copy(bad, ground.join("bad.blp")).unwrap();
    for (line, named) in [
        ("mount none mnt", "none"),
        ("mount source none", "none"),
        ("mount -f source none", "none"),
        ("umount none", "none"),
        ("umount mnt", "mnt"),
        ("umount source", "source"),
        ("status none", "none"),
        ("status source", "source"),
        ("status --prometheus mnt", "mnt"),
        ("top --once mnt", "mnt"),
        ("top", "terminal"),
        ("ls none", "none"),
        ("info source/notes.txt", "notes.txt"),
        ("info none", "none"),
        ("cat source/x.blp none", "none"),
        ("cat bad.blp data", "bad.blp"),
        ("verify bad.blp", "bad.blp"),
        ("verify none", "none"),
        ("refresh source/x.blp", "x.blp"),
        ("refresh none", "none"),
        ("stage ls none", "none"),
        ("stage commit none", "none"),
        ("stage discard none", "none"),
        ("pack none", "none"),
        ("unpack none.blp", "none.blp"),
        ("unpack source/notes.txt out", "notes.txt"),
        ("append none.blp source/notes.txt", "none.blp"),
        ("append source/x.blp none", "none"),
    ] {
        let ran = ground.run(line);
        assert_eq!(ran.code(), Some(1), "{line}: {ran:?}");
        assert!(ran.stderr.starts_with("arrayfs: "), "{line}: {ran:?}");
        assert!(ran.stderr.contains(named), "{line}: {ran:?}");
    }
    assert!(!is_mounted(&ground.join("mnt")));
}

#[test]
fn wrong_usage_of_every_command_ends_with_2() {
    let ground = ground();
    for line in [
        "mount",
        "umount",
        "ls",
        "info",
        "cat",
        "verify",
        "status",
        "top",
        "refresh",
        "stage ls",
        "stage commit",
        "stage discard",
        "stage",
        "pack",
        "unpack",
        "append",
    ] {
        let ran = ground.run(&format!("{line} --nonsense"));
        assert_eq!(ran.code(), Some(2), "{line}: {ran:?}");
    }
    for line in [
        "",
        "nonsense",
        "mount source",
        "mount -o nonsense source mnt",
        "mount -o cache=x source mnt",
        "umount",
        "umount a b",
        "info",
        "cat",
        "cat --offset x source/x.blp data",
        "verify",
        "status --json --prometheus",
        "top --once --interval x",
        "top --once --interval 0",
        "refresh",
        "stage",
        "stage commit",
        "pack --level 10 source/notes.txt",
        "append source/x.blp",
        "ls --dialect klingon source",
    ] {
        let ran = ground.run(line);
        assert_eq!(ran.code(), Some(2), "'{line}': {ran:?}");
        assert!(!ran.stderr.is_empty(), "'{line}'");
    }
    assert!(!is_mounted(&ground.join("mnt")));
}

#[test]
fn umount_that_leaves_something_staged_and_status_of_a_dead_mount_end_with_1() {
    let ground = ground();
    ground.run("mount -o rw source mnt").success();
    let mounted = Mounted::adopt(&ground.join("mnt"));
    let val = OpenOptions::new()
        .write(true)
        .open(ground.join("mnt/counts/val"));
    val.unwrap().set_len(4).unwrap();
    ground
        .run("umount mnt")
        .failed_saying(1, &["counts", "stays staged"]);
    mounted.assert_ends();

    ground.run("mount -o ro source mnt").success();
    let mounted = Mounted::adopt(&ground.join("mnt"));
    send(mounted.daemon(), Signal::KILL);
    let is_dead = || {
        let looked = std::fs::metadata(ground.join("mnt"));
        looked.is_err_and(|e| e.raw_os_error() == Some(libc::ENOTCONN))
    };
    wait_until("the mount is dead", is_dead);
    // What lies in it is found by its path alone.
    for line in ["status mnt", "status --json mnt", "status mnt/x.blp/data"] {
        let ran = ground.run(line);
        assert!(ran.text().contains("dead"), "{line}: {ran:?}");
        ran.failed_saying(1, &["the daemon has ended"]);
    }
    ground
        .run("umount mnt/x.blp")
        .failed_saying(1, &["arrayfs umount mnt"]);
    ground.run("umount mnt").success();
    mounted.assert_ends();
}

/// Neither where the path is a mountpoint, nor where it lies in the mount.
#[test]
fn a_daemon_that_is_stopped_holds_up_no_status() {
    let ground = ground();
    ground.run("mount source mnt").success();
    let mounted = Mounted::adopt(&ground.join("mnt"));
    send(mounted.daemon(), Signal::STOP);
    let stat = format!("/proc/{}/stat", mounted.daemon());
    wait_until("the daemon is stopped", || {
        std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
    });
    for line in ["status mnt", "status --json mnt", "status mnt/x.blp"] {
        let ran = ground.run(line);
        let told = ran.text();
        assert!(told.contains("not answering"), "{line}: {told}");
        ran.failed_saying(1, &["has not answered within 5 seconds"]);
    }
    let told = ground.run("status --prometheus mnt/x.blp");
    assert_eq!(told.code(), Some(1), "{told:?}");
    let told = told.text();
    let is_down = |line: &str| line.starts_with("arrayfs_up{") && line.ends_with(" 0");
    assert!(told.lines().any(is_down), "{told}");
    send(mounted.daemon(), Signal::CONT);
}

#[test]
fn a_path_in_a_mount_or_in_its_source_means_the_mount() {
    let ground = ground();
    std::os::unix::fs::symlink("mnt", ground.join("link")).unwrap();
    ground.run("mount source mnt").success();
    let mounted = Mounted::adopt(&ground.join("mnt"));
    let at = ground.join("mnt");
    for path in [
        "mnt/x.blp",
        "mnt/x.blp/data",
        "mnt/x.blp/views/data.npy",
        "mnt/notes.txt",
        "link/x.blp",
    ] {
        let told = ground.run(&format!("status {path}")).success().text();
        assert!(told.starts_with(at.to_str().unwrap()), "{told}");
        assert!(
            told.contains(&format!("{path} lies in this mount")),
            "{told}"
        );
        let spelled = path.split('/').next().unwrap();
        let expected = format!(
            "{path} lies in the arrayfs mount at {spelled}; unmount that: arrayfs umount {spelled}"
        );
        ground
            .run(&format!("umount {path}"))
            .failed_saying(1, &[&expected]);
    }
    let told = ground.run("status mnt/none/deeper").success().text();
    assert!(
        told.contains("mnt/none/deeper would lie in this mount"),
        "{told}"
    );
    for path in ["source", "source/x.blp", "source/none"] {
        let told = ground.run(&format!("status {path}")).success().text();
        assert!(told.starts_with(at.to_str().unwrap()), "{told}");
        assert!(told.contains("shown by this mount"), "{told}");
        let expected = format!(
            "is shown by the arrayfs mount at {0}; unmount that: arrayfs umount {0}",
            at.display()
        );
        ground
            .run(&format!("umount {path}"))
            .failed_saying(1, &[path, &expected]);
    }
    // In the mount itself, as a shell stands there.
    let mut here = std::process::Command::new(crate::harness::process::ARRAYFS);
    let told = run(here.args(["status", "x.blp"]).current_dir(&at))
        .success()
        .text();
    assert!(told.contains("x.blp lies in this mount"), "{told}");
    mounted.assert_alive();
    arrayfs([Path::new("umount"), &ground.join("link")]).success();
    mounted.assert_ends();
}
