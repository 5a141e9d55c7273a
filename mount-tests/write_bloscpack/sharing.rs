//! A source whose files can share bytes: what a commit leaves alone takes no room in the new file.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::fstatvfs;
use rustix::mount::{UnmountFlags, unmount};

use super::{assert_stored, written_by_dd};
use crate::harness::mounted::Mounted;
use crate::harness::process::run;
use crate::harness::seeded::Seeded;
use crate::harness::writers::{Bloscpack, Packing};
use crate::harness::{is_root, scratch_directory};

/// Of smaller files nothing is shared.
const LEN: usize = 80 << 20;

/// An XFS in a file, as long as this lives.
struct Xfs<'a>(&'a Path);

impl<'a> Xfs<'a> {
    /// None where it cannot be made.
    fn mount(image: &Path, at: &'a Path) -> Option<Self> {
        File::create(image).unwrap().set_len(320 << 20).unwrap();
        let make = format!(
            "command -v mkfs.xfs && mkfs.xfs -q -m reflink=1 {}",
            image.display()
        );
        if run(Command::new("sh").args(["-c", &make])).code() != Some(0) {
            eprintln!("not tested, needs mkfs.xfs: files that share bytes");
            return None;
        }
        let mounted = run(Command::new("mount").args(["-o", "loop"]).args([image, at]));
        if mounted.code() != Some(0) {
            eprintln!("not tested, needs loop devices: {}", mounted.stderr);
        }
        (mounted.code() == Some(0)).then_some(Xfs(at))
    }
}

impl Drop for Xfs<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

fn free(file: &File) -> u64 {
    rustix::fs::syncfs(file).unwrap();
    let system = fstatvfs(file).unwrap();
    system.f_bfree * system.f_frsize
}

#[test]
fn what_stays_is_shared_with_the_new_file() {
    if !is_root("a file system in a file") {
        return;
    }
    let directory = scratch_directory();
    let source = directory.path().join("source");
    std::fs::create_dir(&source).unwrap();
    let Some(_xfs) = Xfs::mount(&directory.path().join("image"), &source) else {
        return;
    };
    let container = source.join("x.blp");
    let mut plain = Seeded::new(11).noise(LEN);
    let stored = Bloscpack {
        packing: Packing::Stored,
        ..Bloscpack::default()
    };
    stored.write(&container, &plain);
    let old = File::open(&container).unwrap();
    let before = free(&old);
    let mounted = Mounted::new(&source, &["rw"]);
    plain[5 << 20..][..6].copy_from_slice(b"change");
    written_by_dd(&mounted.path().join("x.blp/data"), 5 << 20, b"change").success();
    assert_stored(&container, &plain);
    assert_ne!(
        old.metadata().unwrap().ino(),
        container.metadata().unwrap().ino()
    );
    let taken = before.saturating_sub(free(&old));
    assert!(taken < LEN as u64 / 2, "the new file takes {taken} bytes");
}
