//! A log that the release before this one has left when it was killed: in the middle of changing a
//! file in place.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::reads::assert_content;
use crate::harness::scratch_directory;
use crate::harness::writers::{Bloscpack, Packing};

/// As that release wrote it (version 2), sealed and synced: bytes of an array, and what the file is
/// to be made of.
const LOG: &str = "7aa50100230000009f886f43f4007af4e6136b648479663d0000000000000000\
    0205782e626c7009626c6f73637061636b0100c0018084dfe00b000104646174\
    61800100000000007aa50300680000005a4367ee3e4a700fe7136b648479663d\
    0000000000000000000000000000000000000000000000002000000000000000\
    0201120840000000400000005000000001010101010101010101010101010101\
    0101010101010101010101010101010101010101010101010101010101010101\
    01017772697474656e206279207468657aa5030068000000ddf530c55cdcb6d7\
    e8136b648479663d000000000000000000000000000000000000000000000000\
    700000000000000002011208400000004000000050000000206c617374207265\
    6c65617365020202020202020202020202020202020202020202020202020202\
    0202020202020202020202020202020202020202020202027aa5040004000000\
    f3e800854397cf4fe9136b648479663d00000000000000000100c00100000000\
    7aa5040014000000ae9d462fbba1415fea136b648479663d0000000000000000\
    02010100b096a3b00d9bbef08803eed7ed840701000000007aa5040001000000\
    eed64da385acb99eeb136b648479663db8010000000000000600000000000000";

/// The array holds two chunks of so many bytes.
const CHUNK: usize = 64;
const FIRST: usize = 32;
const LAST: usize = 112;

/// Of the file, before: seconds since 1970.
const TIME: u64 = 1_577_836_800;

const WRITTEN: &[u8] = b"written by the last release";

fn log() -> Vec<u8> {
    let digits = LOG
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).unwrap());
    digits
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

/// How far it came with the file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Came {
    ToNothing,
    HalfWay,
    ToTheEnd,
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let as_it_is = Bloscpack {
        typesize: 8,
        chunk_size: CHUNK,
        packing: Packing::Stored,
        checksum: false,
        offsets: false,
    };
    as_it_is.pack(plain)
}

fn leave(directory: &Path, came: Came) {
    let path = directory.join("x.blp");
    let (mut file, new) = (packed(&before()), with_its_flags(packed(&after())));
    let changed = match came {
        Came::ToNothing => FIRST,
        Came::HalfWay => LAST,
        Came::ToTheEnd => new.len(),
    };
    file[FIRST..changed].copy_from_slice(&new[FIRST..changed]);
    std::fs::write(&path, &file).unwrap();
    if came == Came::ToNothing {
        let time = UNIX_EPOCH + Duration::from_secs(TIME);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    let path = directory.join(".x.blp.arrayfs-stage");
    std::fs::write(&path, log()).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
}

/// What that release says of a chunk beside that it is stored as it is: one stream for each block.
fn with_its_flags(mut file: Vec<u8>) -> Vec<u8> {
    for chunk in [FIRST, LAST] {
        file[chunk + 2] |= 0x10;
    }
    file
}

fn before() -> Vec<u8> {
    [[1; CHUNK], [2; CHUNK]].concat()
}

fn after() -> Vec<u8> {
    let mut plain = before();
    plain[50..50 + WRITTEN.len()].copy_from_slice(WRITTEN);
    plain
}

#[test]
fn what_the_last_release_was_changing_in_place_is_finished() {
    for came in [Came::ToNothing, Came::HalfWay, Came::ToTheEnd] {
        let source = scratch_directory();
        leave(source.path(), came);
        let container = source.path().join("x.blp");
        let cat = [OsStr::new("cat"), container.as_os_str(), OsStr::new("data")];
        let read = arrayfs(cat).success().stdout;
        assert_eq!(read, after(), "{came:?}, read through the log");
        let settled = arrayfs(["stage".as_ref(), "commit".as_ref(), container.as_os_str()]);
        settled.success();
        assert_eq!(
            std::fs::read(&container).unwrap(),
            with_its_flags(packed(&after()))
        );
        assert_eq!(
            std::fs::read_dir(source.path()).unwrap().count(),
            1,
            "{came:?}"
        );
        leave(source.path(), came);
        let mounted = Mounted::new(source.path(), &["rw"]);
        assert_content(&mounted.join("x.blp/data"), &after());
        drop(mounted);
        assert_eq!(
            std::fs::read(&container).unwrap(),
            with_its_flags(packed(&after()))
        );
        assert_eq!(
            std::fs::read_dir(source.path()).unwrap().count(),
            1,
            "{came:?}"
        );
    }
}
