//! The same of a daemon that is written to: what is staged is charged, and where it is as well.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use super::assert_bounded;
use crate::harness::mounted::Mounted;
use crate::harness::reads::assert_content;
use crate::harness::scratch_directory;
use crate::harness::writers::{Bloscpack, Packing};

const WRITERS: usize = 2;
const WRITES: usize = 250_000;
const APART: usize = 48;

fn number(writer: usize, write: usize) -> [u8; 8] {
    ((writer as u64 + 1) << 32 | write as u64).to_le_bytes()
}

/// Where they are would take some 50 MB, if nobody counted.
#[test]
fn small_writes_here_and_there_stay_within_the_bound() {
    let source = scratch_directory();
    let packed = Bloscpack {
        chunk_size: 1 << 20,
        packing: Packing::Lz4 {
            block: 256 << 10,
            shuffle: true,
        },
        ..Bloscpack::default()
    };
    let name = |writer: usize| format!("{writer}.blp");
    for writer in 0..WRITERS {
        packed.write(&source.path().join(name(writer)), &vec![0; WRITES * APART]);
    }
    let mounted = Mounted::new(source.path(), &["rw", "cache=16M"]);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = mounted.join(name(writer)).join("data");
            scope.spawn(move || {
                let file = OpenOptions::new().write(true).open(path).unwrap();
                for step in 0..WRITES {
                    // A prime, so each is written once, and far from the one before.
                    let write = step * 104_729 % WRITES;
                    let bytes = number(writer, write);
                    file.write_all_at(&bytes, (write * APART) as u64).unwrap();
                }
            });
        }
    });
    assert_bounded(&mounted, 0);
    for writer in 0..WRITERS {
        let expected = (0..WRITES).flat_map(|write| {
            let mut bytes = [0; APART];
            bytes[..8].copy_from_slice(&number(writer, write));
            bytes
        });
        let expected: Vec<u8> = expected.collect();
        assert_content(&mounted.join(name(writer)).join("data"), &expected);
    }
}
