//! Nothing outside of the source is reached, also on a system that cannot say so in one call.

use std::ffi::OsStr;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, run};
use crate::harness::seccomp::forget_openat2;
use crate::harness::writers::Bloscpack;
use crate::harness::{is_root, scratch_directory};

/// A mount whose daemon has no `openat2`.
fn mounted_without_openat2(source: &Path, mountpoint: &Path) -> Mounted {
    let mut command = Command::new(ARRAYFS);
    command.arg("mount").args([source, mountpoint]);
    // SAFETY: what runs between fork and exec makes two system calls and touches no memory but its
    // own.
    unsafe { command.pre_exec(forget_openat2) };
    run(&mut command).success();
    Mounted::adopt(mountpoint)
}

fn fill(directory: &Path, says: &str, others: &str) {
    std::fs::create_dir_all(directory.join("sub")).unwrap();
    for file in ["file", others, "sub/file", &format!("sub/{others}")] {
        std::fs::write(directory.join(file), says).unwrap();
    }
    symlink(says, directory.join("link")).unwrap();
    Bloscpack::default().write(&directory.join("x.blp"), says.as_bytes());
}

fn read_at(directory: &File, path: &str) -> rustix::io::Result<Vec<u8>> {
    let file = openat(directory, path, OFlags::RDONLY, Mode::empty())?;
    let mut bytes = vec![0; 100];
    let n = rustix::io::read(&file, &mut bytes)?;
    bytes.truncate(n);
    Ok(bytes)
}

fn lists(directory: &File, name: &str) -> bool {
    rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(0)).unwrap();
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(directory, &mut space);
    while let Some(Ok(entry)) = entries.next() {
        if OsStr::from_bytes(entry.file_name().to_bytes()) == name {
            return true;
        }
    }
    false
}

/// The kernel knows a directory; in the source a link that leads outside takes its place.
#[test]
fn a_link_put_in_for_a_directory_leads_nowhere_without_openat2() {
    if !is_root("a daemon with a filter of system calls") {
        return;
    }
    let (places, outside) = (scratch_directory(), scratch_directory());
    let (source, mountpoint) = (places.path().join("source"), places.path().join("mnt"));
    std::fs::create_dir(&mountpoint).unwrap();
    fill(&source.join("d"), "inside", "own");
    fill(outside.path(), "outside", "secret");
    let mounted = mounted_without_openat2(&source, &mountpoint);
    let directory = File::open(mounted.join("d")).unwrap();
    let below = File::open(mounted.join("d/sub")).unwrap();
    assert_eq!(read_at(&directory, "own").unwrap(), b"inside");
    assert_eq!(read_at(&directory, "sub/file").unwrap(), b"inside");

    std::fs::rename(source.join("d"), source.join("old")).unwrap();
    symlink(outside.path(), source.join("d")).unwrap();
    // The way to one leads through a link, the name of the other one is a link's.
    let ends = [(&below, Errno::LOOP), (&directory, Errno::STALE)];
    for (directory, nowhere) in ends {
        assert_eq!(read_at(directory, "secret").map(drop), Err(nowhere));
        let secret = statat(directory, "secret", AtFlags::SYMLINK_NOFOLLOW);
        assert_eq!(secret.map(drop), Err(nowhere));
        assert!(!lists(directory, "secret"));
    }
    assert_eq!(
        read_at(&directory, "x.blp/data").map(drop),
        Err(Errno::STALE)
    );
    for path in ["file", "sub/file"] {
        assert_ne!(
            read_at(&directory, path).as_deref(),
            Ok(&b"outside"[..]),
            "{path}"
        );
    }
    let target = readlinkat(&directory, "link", Vec::new());
    assert_ne!(target.as_deref(), Ok(c"outside"));

    std::fs::remove_file(source.join("d")).unwrap();
    std::fs::rename(source.join("old"), source.join("d")).unwrap();
    assert_eq!(read_at(&directory, "x.blp/data").unwrap(), b"inside");
    assert!(lists(&directory, "own"));
}
