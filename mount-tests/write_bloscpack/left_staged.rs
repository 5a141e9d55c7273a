//! What an unmount leaves staged: it is named, the mount is gone all the same, and the exit status
//! says it.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::harness::mounted::{Mounted, is_mounted};
use crate::harness::process::{Ran, arrayfs};
use crate::harness::{golden, scratch_directory};

const NUMPY: &str = "bloscpack/sources/np-3d.blp";

fn umount(mountpoint: &Path) -> Ran {
    arrayfs([Path::new("umount"), mountpoint])
}

/// Four bytes behind the last row: no whole one.
#[test]
fn umount_names_what_stays_staged_and_ends_with_1() {
    let source = scratch_directory();
    std::fs::copy(golden(NUMPY), source.path().join("x.blp")).unwrap();
    let mounted = Mounted::new(source.path(), &["rw"]);
    let data = mounted.join("x.blp/data");
    let file = OpenOptions::new().write(true).open(&data).unwrap();
    file.write_all_at(b"more", data.metadata().unwrap().len())
        .unwrap();
    drop(file);
    let said = umount(mounted.path());
    assert!(!is_mounted(mounted.path()));
    mounted.assert_ends();
    said.failed_saying(1, &["x.blp: stays staged: ", "rows"]);
    // It stays for the next mount, too, until somebody settles it.
    let again = Mounted::new(source.path(), &["rw"]);
    let len = again.join("x.blp/data").metadata().unwrap().len();
    let stored = arrayfs([
        "cat".as_ref(),
        source.path().join("x.blp").as_os_str(),
        "data".as_ref(),
    ]);
    assert_eq!(stored.success().stdout.len() as u64, len);
    let said = umount(again.path());
    again.assert_ends();
    said.failed_saying(1, &["x.blp: stays staged: "]);
    let discard = [
        "stage".as_ref(),
        "discard".as_ref(),
        source.path().as_os_str(),
    ];
    arrayfs(discard).success();
    let clean = Mounted::new(source.path(), &["rw"]);
    assert_eq!(clean.join("x.blp/data").metadata().unwrap().len(), len - 4);
    umount(clean.path()).success();
    clean.assert_ends();
}
