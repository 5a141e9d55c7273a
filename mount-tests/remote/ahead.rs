//! What is asked for before it is read: nodes below a node, blocks of the next strides.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::mount;
use crate::harness::object_server::{Asked, ObjectServer};
use crate::harness::reads::read_direct;
use crate::harness::{process, python, scratch_directory, wait_until};

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
fn who_reads_in_strides_finds_the_next_blocks_asked_for_and_no_others() {
    let (server, _, known) = served("(200, 256, 512)", "(1, 256, 512)");
    let mounted = mount(&server, "", &[]);
    let (array, frame) = (mounted.join("a.h5/x"), 256 * 512);
    let places = places(&server);
    let file = File::open(&array).unwrap();
    let mut read = [0; 100];
    file.read_exact_at(&mut read, 199 * frame).unwrap();
    server.take_asked();
    let mut asked = Vec::new();
    for number in 0..20 {
        let at = number * 10 * frame;
        if number > 8 {
            let place = places[10 * number as usize];
            // By a thread of its own.
            wait_until("the next block is asked for", || {
                asked.extend(server.take_asked());
                let mut ranges = asked
                    .iter()
                    .filter_map(|asked: &Asked| asked.range.as_ref());
                ranges.any(|range| range.contains(&place))
            });
        }
        file.read_exact_at(&mut read, at).unwrap();
        assert!(read == known[at as usize..][..100], "{number}");
    }
    asked.extend(server.take_asked());
    // None twice, none between.
    let bytes = bytes_of(&asked);
    assert!(bytes < 24 * frame, "{bytes}");
}

/// Where each chunk lies.
fn places(server: &ObjectServer) -> Vec<u64> {
    let directory = scratch_directory();
    let path = directory.path().join("a.h5");
    std::fs::write(&path, server.object("a.h5")).unwrap();
    let tell = "import sys, h5py
with h5py.File(sys.argv[1]) as file:
    chunks = file['x'].id
    for number in range(chunks.get_num_chunks()):
        print(chunks.get_chunk_info(number).byte_offset)
";
    let mut python = std::process::Command::new(python::interpreter());
    let told = process::run(python.args(["-c", tell]).arg(&path)).success();
    told.text()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

#[test]
fn an_array_of_which_nearly_nothing_is_stored_is_begun_at_once() {
    let directory = scratch_directory();
    let path = directory.path().join("a.h5");
    let write = "import sys, h5py, numpy
with h5py.File(sys.argv[1], 'w') as file:
    array = file.create_dataset('x', (1 << 50,), 'u1', chunks=(4096,), compression=1)
    array[:4096] = numpy.arange(4096) % 251
";
    let mut python = std::process::Command::new(python::interpreter());
    process::run(python.args(["-c", write]).arg(&path)).success();
    let server = ObjectServer::start();
    server.put("a.h5", std::fs::read(&path).unwrap());
    let mounted = mount(&server, "", &[]);
    let mut read = [0; 4096];
    let file = File::open(mounted.join("a.h5/x")).unwrap();
    file.read_exact_at(&mut read, 0).unwrap();
    assert!((0..4096).all(|at| read[at] == (at % 251) as u8));
}

#[test]
fn what_has_been_read_is_there_as_long_as_there_is_memory_for_it() {
    let (server, stored, known) = served("(40, 1024, 1024)", "(1, 1024, 1024)");
    let mounted = mount(&server, "", &["cache=256M"]);
    let array = mounted.join("a.h5/x");
    assert!(std::fs::read(&array).unwrap() == known);
    assert!(bytes_of(&server.take_asked()) < stored + (4 << 20));
    // The kernel has nothing of it any more.
    let file = File::open(&array).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    assert!(std::fs::read(&array).unwrap() == known);
    assert!(bytes_of(&server.take_asked()) < stored / 10);
}
