//! `arrayfs pack DIR` and `unpack DIR`: what a scratch mount shows of a packed tree is the tree
//! that was there, and unpacking it gives that back.

use std::ffi::OsStr;
use std::fs::{File, FileTimes, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::mounted::Mounted;
use crate::harness::place::open_directory;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, has_ended, run, send, start, wait_for_end};
use crate::harness::python::script;
use crate::harness::reads::{assert_content, names};
use crate::harness::seeded::Seeded;
use crate::harness::small_disk::SmallDisk;
use crate::harness::snapshot::assert_same_tree_and_times;
use crate::harness::{is_root, scratch_directory, wait_until};

pub const RW: &[&str] = &["rw", "scratch"];

/// A tree that is packed, and a copy of it that is not.
pub struct Ground {
    tree: TempDir,
    pub copy: TempDir,
}

impl Ground {
    fn new() -> Ground {
        Ground {
            tree: open_directory(),
            copy: scratch_directory(),
        }
    }

    pub fn of(make: impl FnOnce(&Path)) -> Ground {
        let ground = Ground::new();
        make(ground.path());
        ground.keep();
        ground
    }

    /// Copies the tree as it is now.
    fn keep(&self) {
        let mut copy = Command::new("cp");
        let from = self.path().join(".");
        run(copy
            .args(["-a", "--sparse=always"])
            .args([&from, self.copy.path()]))
        .success();
    }

    pub fn path(&self) -> &Path {
        self.tree.path()
    }

    fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    pub fn run(&self, command: &str) -> Ran {
        arrayfs([OsStr::new(command), self.path().as_os_str()])
    }

    /// It is packed, and shown as it was.
    #[track_caller]
    fn assert_shown(&self) {
        let mounted = Mounted::new(self.path(), RW);
        assert_same_tree_and_times(self.copy.path(), mounted.path());
        assert_same_root(self.copy.path(), mounted.path());
    }

    #[track_caller]
    pub fn assert_plain(&self) {
        assert_same_tree_and_times(self.copy.path(), self.path());
        assert_same_root(self.copy.path(), self.path());
    }
}

#[track_caller]
fn assert_same_root(one: &Path, other: &Path) {
    let of = |path: &Path| {
        let found = path.metadata().unwrap();
        (found.mtime(), found.mtime_nsec(), found.mode())
    };
    assert_eq!(of(one), of(other));
}

pub fn put(path: PathBuf, bytes: &[u8]) -> PathBuf {
    std::fs::write(&path, bytes).unwrap();
    path
}

pub fn set_times(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    let times = FileTimes::new().set_accessed(time).set_modified(time);
    File::open(path).unwrap().set_times(times).unwrap();
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// Something of everything that a directory can have.
fn fill(at: &Path) {
    let join = |name: &str| at.join(name);
    for directory in ["d.blp", "d.blp/e", "d.blp~", "deep", "deep/er", "empty.blp"] {
        std::fs::create_dir(join(directory)).unwrap();
    }
    let mut seeded = Seeded::new(5);
    put(join("noise"), &seeded.noise(300_000));
    put(join("d.blp/e/rising"), &seeded.rising(20_000_000));
    put(join("empty"), b"");
    put(join("one"), b"1");
    put(join("deep/er/text"), &b"let x = y;\n".repeat(30_000));
    put(join("tilde.blp~"), b"its name is like an escape");
    put(join("x~raw"), b"its name is like another's");
    put(join(".x.arrayfs-stage"), b"its name is like a log's");
    std::fs::create_dir(join(".x.arrayfs-files")).unwrap();
    put(join(".x.arrayfs-files/.y.arrayfs-new"), b"there, too");
    put(join(&"n".repeat(251)), b"a long name");
    put(at.join(OsStr::from_bytes(b"\xff\n \\")), b"no text");
    let linked = put(join("linked"), &seeded.rising(500_000));
    std::fs::hard_link(&linked, join("d.blp/other name")).unwrap();
    std::fs::hard_link(&linked, join("deep/third")).unwrap();
    symlink("d.blp/e/rising", join("link.blp")).unwrap();
    symlink("/nowhere", join("dangling")).unwrap();
    let fifo = join("pipe.blp~");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    let sparse = File::create(join("sparse")).unwrap();
    sparse.set_len(300 << 20).unwrap();
    sparse.write_all_at(b"middle", 100_000_001).unwrap();
    let set_id = put(join("set-id"), b"#!/bin/sh\n");
    std::fs::set_permissions(&set_id, Permissions::from_mode(0o6751)).unwrap();
    set_xattr(&set_id, "user.of", b"a\0file");
    set_xattr(&join("deep"), "user.of", b"a directory");
    let locked = put(join("deep/locked"), b"nobody may");
    std::fs::set_permissions(&locked, Permissions::from_mode(0o400)).unwrap();
    if is_root("owners are kept") {
        std::os::unix::fs::chown(&set_id, Some(1234), Some(4321)).unwrap();
        std::fs::set_permissions(&set_id, Permissions::from_mode(0o6751)).unwrap();
        std::os::unix::fs::chown(join("deep/er"), Some(1234), None).unwrap();
    }
    let all = [
        "one", "linked", "sparse", "d.blp/e", "d.blp", "d.blp~", "deep/er", "deep", "",
    ];
    for (number, name) in all.iter().enumerate() {
        set_times(&join(name), 600_000_000 + number as u64);
    }
}

/// The real program decodes a stored file to what the plain one has.
#[track_caller]
fn assert_blpk_reads(stored: &Path, plain: &Path) {
    let arguments = [OsStr::new("plain"), stored.as_os_str(), plain.as_os_str()];
    script("oracle_bloscpack.py", arguments).success();
}

#[test]
fn a_packed_tree_is_shown_as_it_was_and_unpacked_to_that() {
    let ground = Ground::of(fill);
    let atime = |name: &str| ground.at(name).symlink_metadata().unwrap().atime();
    let atimes = [atime("one"), atime("deep")];
    let said = ground.run("pack").success();
    assert!(said.text().contains("files packed, "), "{said:?}");
    assert_eq!(said.stderr, "");
    assert_eq!([atime("one.blp"), atime("deep")], atimes);
    let linked = ground.at("linked.blp").metadata().unwrap();
    let third = ground.at("deep/third.blp").metadata().unwrap();
    assert_eq!((linked.ino(), linked.nlink()), (third.ino(), 3));
    let stored = |name: &str| ground.at(name).metadata().unwrap();
    // Room in its table is a hole.
    assert!(stored("sparse.blp").blocks() * 512 < 1 << 20);
    assert!(stored("d.blp~/e/rising.blp").len() < 10_000_000);
    assert!(stored("noise.blp").len() < 301_000);
    let plain = |name: &str| ground.copy.path().join(name);
    for (name, of) in [
        ("noise.blp", "noise"),
        ("empty.blp", "empty"),
        ("one.blp", "one"),
        ("d.blp~/e/rising.blp", "d.blp/e/rising"),
        ("deep/er/text.blp", "deep/er/text"),
        ("linked.blp", "linked"),
    ] {
        // A directory of that name has made room.
        assert_blpk_reads(&ground.at(name), &plain(of));
    }
    arrayfs([OsStr::new("verify"), ground.path().as_os_str()]).success();
    ground.assert_shown();
    let again = ground.run("pack").success();
    assert!(again.text().contains(" 0 files packed"), "{again:?}");
    ground.assert_shown();
    ground.run("unpack").success();
    ground.assert_plain();
    assert!(ground.at("sparse").metadata().unwrap().blocks() < 2000);
}

/// What was packed is changed in place like any other file of a scratch mount.
#[test]
fn packed_files_can_be_written() {
    let ground = Ground::new();
    let mut expected = Seeded::new(4).rising(3_000_000);
    put(ground.at("x"), &expected);
    ground.run("pack").success();
    let mounted = Mounted::new(ground.path(), RW);
    let file = OpenOptions::new().write(true).open(mounted.join("x"));
    let file = file.unwrap();
    for (at, bytes) in [(1_000_000, &b"changed"[..]), (3_000_000, b"appended")] {
        file.write_all_at(bytes, at as u64).unwrap();
        expected.resize(expected.len().max(at + bytes.len()), 0);
        expected[at..at + bytes.len()].copy_from_slice(bytes);
        file.sync_all().unwrap();
    }
    drop(file);
    assert_content(&mounted.join("x"), &expected);
    drop(mounted);
    ground.run("unpack").success();
    assert_content(&ground.at("x"), &expected);
}

/// Lists of rights are no attributes that a scratch mount shows.
#[test]
fn lists_of_rights_are_kept() {
    let ground = Ground::new();
    let file = put(ground.at("x"), b"rights");
    let other = put(ground.at("y"), b"none");
    // rw for the owner, r for user 1234, r for the group, mask rw, nothing for others.
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 4, 1234),
        (0x04, 4, u32::MAX),
        (0x10, 6, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    let name = "system.posix_acl_access";
    set_xattr(&file, name, &list);
    // What is made in the directory would get a list.
    set_xattr(ground.path(), "system.posix_acl_default", &list);
    let found = |path: PathBuf| {
        let mut value = [0; 256];
        let n = rustix::fs::getxattr(&path, name, &mut value[..]);
        n.map(|n| (value[..n].to_vec(), path.metadata().unwrap().mode()))
    };
    let before = found(file.clone()).unwrap();
    ground.run("pack").success();
    assert_eq!(found(ground.at("x.blp")), Ok(before.clone()));
    assert!(found(ground.at("y.blp")).is_err());
    ground.run("unpack").success();
    assert_eq!(found(file), Ok(before));
    assert!(found(other).is_err());
}

#[test]
fn what_would_collide_is_left_alone_and_named() {
    let ground = Ground::new();
    for name in ["both", "fine", "other"] {
        put(ground.at(name), name.as_bytes());
    }
    ground.run("pack").success();
    put(ground.at("both"), b"another");
    put(ground.at("broken.blp"), b"no such file");
    put(ground.at("x".repeat(252)), b"too long");
    put(ground.at("new"), b"new");
    let outside = scratch_directory();
    let linked = put(ground.at("linked"), b"linked");
    std::fs::hard_link(&linked, outside.path().join("outside")).unwrap();
    let written = OpenOptions::new()
        .append(true)
        .open(put(ground.at("open"), b"open"));
    let long = "x".repeat(252);
    let named: [&[&str]; 5] = [
        &["/both: left as it is: both.blp is there"],
        &["broken.blp: left as it is"],
        &["xxx: left as it is", "255 bytes"],
        &["linked: left as it is", "hard links"],
        &["open: left as it is", "open for writing"],
    ];
    let ran = ground.run("pack");
    assert_eq!(ran.stderr.lines().count(), named.len(), "{ran:?}");
    assert!(ran.text().contains("5 left as they are"), "{ran:?}");
    ran.failed_saying(1, &named.concat());
    let expected = [
        ".arrayfs-scratch",
        "both",
        "both.blp",
        "broken.blp",
        "fine.blp",
        "linked",
        "new.blp",
        "open",
        "other.blp",
        &long,
    ];
    assert_eq!(names(ground.path()), expected);
    drop(written);
    assert_content(&ground.at("both"), b"another");
    // The mount shows what had a stored file's name under another one; so it is called then.
    std::fs::remove_file(ground.at("broken.blp")).unwrap();
    std::fs::remove_file(ground.at(&long)).unwrap();
    ground.run("unpack").success();
    let expected = ["both", "both~raw", "fine", "linked", "new", "open", "other"];
    assert_eq!(names(ground.path()), expected);
    assert_content(&ground.at("both"), b"both");
    assert_content(&ground.at("both~raw"), b"another");
}

#[test]
fn what_is_mounted_is_refused() {
    let ground = Ground::new();
    for directory in ["above", "above/source", "above/source/below"] {
        std::fs::create_dir(ground.at(directory)).unwrap();
    }
    put(ground.at("above/source/below/x"), b"x");
    let mounted = Mounted::new(ground.at("above/source"), RW);
    let mountpoint = mounted.path().to_str().unwrap();
    for command in ["pack", "unpack"] {
        for directory in ["above", "above/source", "above/source/below"] {
            let path = ground.at(directory);
            let refused = arrayfs([OsStr::new(command), path.as_os_str()]);
            refused.failed_saying(1, &["writes to", "arrayfs umount", mountpoint]);
        }
        for path in [mounted.path(), &mounted.join("below")] {
            let refused = arrayfs([OsStr::new(command), path.as_os_str()]);
            refused.failed_saying(1, &["lies in the arrayfs mount", mountpoint]);
        }
    }
    assert_eq!(names(&ground.at("above/source/below")), ["x"]);
    drop(mounted);
    std::fs::create_dir(ground.at("mountpoint")).unwrap();
    let words = ["mount", "-o", "rw,scratch"];
    let paths = [ground.at("above"), ground.at("mountpoint")];
    put(ground.at("above/large"), &Seeded::new(2).rising(30_000_000));
    let mut packing = start(
        Command::new(ARRAYFS)
            .arg("pack")
            .arg(&paths[0])
            .stdout(Stdio::null()),
    );
    let packing = packing.as_mut().unwrap();
    let log = ground.at("above/.arrayfs-convert");
    wait_until("it has begun", || log.exists());
    send(packing.id(), Signal::STOP);
    let mut refused = Command::new(ARRAYFS);
    let refused = run(refused.args(words).args(&paths));
    send(packing.id(), Signal::CONT);
    refused.failed_saying(
        1,
        &["cannot be mounted writable", "is locked (flock) by process"],
    );
    assert_eq!(wait_for_end(packing).code(), Some(0));
}

#[test]
fn options_of_a_single_file_are_wrong_for_a_directory() {
    let ground = Ground::new();
    put(ground.at("x"), &Seeded::new(1).rising(100_000));
    let with = |words: &[&str]| {
        let path = ground.path().as_os_str();
        let words = words.iter().map(OsStr::new);
        arrayfs([OsStr::new("pack"), path].into_iter().chain(words))
    };
    for (wrong, named) in [
        ("--dtype=<f8", "--dtype"),
        ("out", "OUT"),
        ("--filter=none", "--filter"),
        ("--force", "--force"),
        ("--codec=snappy", "codec=snappy"),
        ("--chunk=1K", "chunk=1K"),
        ("-s", "--no-shuffle"),
    ] {
        with(&[wrong]).failed_saying(2, &[named]);
    }
    assert_eq!(names(ground.path()), ["x"]);
    with(&[
        "-c", "zlib", "-l", "1", "-z", "64K", "-k", "crc32", "-t", "4",
    ])
    .success();
    let said = arrayfs([OsStr::new("info"), ground.at("x.blp").as_os_str()]).success();
    for part in ["zlib", "crc32", "65536"] {
        assert!(said.text().contains(part), "{}", said.text());
    }
    assert_blpk_reads(
        &ground.at("x.blp"),
        &put(
            ground.copy.path().join("x"),
            &Seeded::new(1).rising(100_000),
        ),
    );
}

/// What a killed daemon has left is unpacked as the next mount would show it.
#[test]
fn unpacking_recovers_first() {
    let ground = Ground::new();
    let mounted = Mounted::new(ground.path(), RW);
    let path = mounted.join("z.blp");
    std::fs::write(&path, Seeded::new(3).rising(1_000_000)).unwrap();
    std::fs::create_dir(mounted.join("d.blp")).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(b"synced", 500_000).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let daemon = mounted.daemon();
    send(daemon, Signal::KILL);
    wait_until("the daemon has ended", || has_ended(daemon));
    drop(arrayfs([OsStr::new("umount"), mounted.path().as_os_str()]));
    mounted.assert_ends();
    let mut expected = Seeded::new(3).rising(1_000_000);
    expected[500_000..500_006].copy_from_slice(b"synced");
    ground.run("unpack").success();
    assert_eq!(names(ground.path()), ["d.blp", "z.blp"]);
    assert_content(&ground.at("z.blp"), &expected);
}

/// The second names of what renames replace are a store's own: no mount shows them, and recovery
/// removes them.
#[test]
fn a_name_that_a_store_has_for_itself_is_refused() {
    let ground = Ground::of(|at| {
        std::fs::create_dir(at.join("d.blp")).unwrap();
        put(at.join("d.blp/.arrayfs-renaming-5"), b"somebody's");
        put(at.join(".arrayfs-renaming-notes"), b"no such name");
        set_times(at, 600_000_000);
    });
    let said = ["d.blp/.arrayfs-renaming-5", "give it another name first"];
    ground.run("pack").failed_saying(1, &said);
    ground.assert_plain();
    std::fs::remove_file(ground.at("d.blp/.arrayfs-renaming-5")).unwrap();
    ground.run("pack").success();
    let mounted = Mounted::new(ground.path(), RW);
    assert_content(&mounted.join(".arrayfs-renaming-notes"), b"no such name");
}

#[test]
fn other_file_systems_below_are_not_entered() {
    if !is_root("a file system below") {
        return;
    }
    let ground = Ground::new();
    let disk = SmallDisk::new("size=4m", None);
    put(disk.join("x"), b"not ours");
    std::fs::create_dir(ground.at("below")).unwrap();
    put(ground.at("y"), b"ours");
    let bind = rustix::mount::mount_bind(disk.path(), ground.at("below"));
    bind.unwrap();
    let ran = ground.run("pack");
    let flags = rustix::mount::UnmountFlags::DETACH;
    rustix::mount::unmount(ground.at("below"), flags).unwrap();
    ran.failed_saying(1, &["below: left as it is: another file system"]);
    assert_eq!(names(disk.path()), ["x"]);
    assert_eq!(names(ground.path()), [".arrayfs-scratch", "below", "y.blp"]);
}

#[test]
fn a_file_that_is_called_like_a_temporary_one_is_kept() {
    let tree = open_directory();
    let path = tree.path().join(".arrayfs-pack-5");
    std::fs::write(&path, b"mine").unwrap();
    for command in ["pack", "unpack"] {
        let done = arrayfs([OsStr::new(command), tree.path().as_os_str()]);
        done.failed_saying(1, &[".arrayfs-pack-5", "another name"]);
        assert_content(&path, b"mine");
    }
}

#[test]
fn what_is_half_converted_is_not_mounted_to_be_written() {
    let tree = open_directory();
    let log = tree.path().join(".arrayfs-convert");
    std::fs::write(&log, b"").unwrap();
    let mountpoint = scratch_directory();
    let at = mountpoint.path().as_os_str();
    let options = [OsStr::new("-o"), OsStr::new("rw,scratch")];
    let mount = [
        OsStr::new("mount"),
        options[0],
        options[1],
        tree.path().as_os_str(),
        at,
    ];
    arrayfs(mount).failed_saying(1, &["was interrupted", "run that again"]);
    std::fs::remove_file(log).unwrap();
    arrayfs(mount).success();
    arrayfs([OsStr::new("umount"), at]).success();
}
