//! What is asked for before it is read: nodes below a node, blocks of the next strides.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::mount;
use crate::harness::object_server::{Asked, ObjectServer};
use crate::harness::reads::read_direct;
use crate::harness::{process, python, scratch_directory};

/// Random numbers in an array of this shape, in chunks that no filter makes smaller.
fn noise(path: &Path, shape: &str, chunk: &str) -> Vec<u8> {
    let write = format!(
        "import sys, h5py, numpy
values = numpy.random.default_rng(1).integers(0, 256, {shape}, 'u1')
with h5py.File(sys.argv[1], 'w') as file:
    file.create_dataset('x', data=values, chunks={chunk}, compression=1)
values.tofile(sys.argv[1] + '.raw')
"
    );
    let mut python = std::process::Command::new(python::interpreter());
    process::run(python.args(["-c", &write]).arg(path)).success();
    std::fs::read(path.with_extension("h5.raw")).unwrap()
}

fn served(shape: &str, chunk: &str) -> (ObjectServer, u64, Vec<u8>) {
    let directory = scratch_directory();
    let path = directory.path().join("a.h5");
    let known = noise(&path, shape, chunk);
    let bytes = std::fs::read(&path).unwrap();
    let (server, stored) = (ObjectServer::start(), bytes.len() as u64);
    server.put("a.h5", bytes);
    (server, stored, known)
}

fn bytes_of(asked: &[Asked]) -> u64 {
    let ranges = asked.iter().filter_map(|asked| asked.range.as_ref());
    ranges.map(|range| range.end - range.start).sum()
}

#[test]
fn nodes_of_a_tree_of_chunks_are_asked_for_and_not_what_lies_between() {
    // 4,096 chunks in some hundred nodes of three levels, with chunks between them.
    let (server, stored, known) = served("(64, 1024, 1024)", "(1, 128, 128)");
    assert!(stored > 60 << 20, "{stored}");
    let mounted = mount(&server, "", &[]);
    let read = read_direct(&mounted.join("a.h5/x"), 32 << 20, 4096).unwrap();
    assert!(read == known[32 << 20..][..4096]);
    let asked = server.take_asked();
    let bytes = bytes_of(&asked);
    assert!(bytes < stored / 5, "{bytes} of {stored}");
}

#[test]
fn who_reads_in_strides_finds_the_next_blocks_asked_for() {
    let (server, _, known) = served("(100, 512, 512)", "(1, 512, 512)");
    let mounted = mount(&server, "", &[]);
    let (array, frame) = (File::open(mounted.join("a.h5/x")).unwrap(), 512 * 512);
    for number in 0..100 {
        let at = number * frame + 100 * 512;
        let mut read = [0; 100];
        array.read_exact_at(&mut read, at as u64).unwrap();
        assert!(read == known[at..][..100], "{number}");
        if number == 5 {
            let asked = server.take_asked();
            let ranges = asked.iter().filter_map(|asked| asked.range.as_ref());
            // Chunks lie one behind the other.
            let farthest = ranges.map(|range| range.end).max();
            assert!(farthest > Some(9 * frame as u64), "{asked:?}");
        }
    }
    // Nor is any chunk asked for twice.
    let asked = server.take_asked();
    let bytes = bytes_of(&asked);
    assert!(bytes < 110 * frame as u64, "{bytes}");
}
