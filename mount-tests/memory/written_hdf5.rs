//! HDF5 files that are written: the daemon holds a chunk, what its encoding makes of it, and
//! nothing else of that size; its workers never see one.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{BESIDE, CACHE};
use crate::harness::mounted::Mounted;
use crate::harness::place::open_directory;
use crate::harness::process::{memory_figure, nobody_starts, workers};
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::Seeded;

/// Bytes of a dataset.
const LEN: usize = 64 << 20;
/// What one worker may take, whatever is written.
const WORKER: u64 = 64 << 20;

fn peak(process: u32) -> u64 {
    memory_figure(process, "VmHWM")
}

/// Writes all of a dataset with gzip in so many chunks; gives what the daemon took more for it.
fn taken(chunks: usize, commit: &str) -> u64 {
    let source = open_directory();
    let stored = source.path().join("x.h5");
    let many = chunks.to_string();
    let arguments = [Path::new("in_chunks"), &stored, Path::new(&many)];
    script("write_hdf5/scenario.py", arguments).success();
    let mounted = Mounted::new(source.path(), &["rw", "cache=16M", commit]);
    let path = mounted.join("x.h5/numbers");
    // Who closes a copy of the handle commits a part of a chunk, which has to be read for the rest.
    let nobody_else = nobody_starts();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let before = peak(mounted.daemon());
    // What does not get smaller is as long as it can be when it is encoded.
    let noise = Seeded::new(chunks as u64).noise(LEN);
    for (number, piece) in noise.chunks(1 << 20).enumerate() {
        file.write_all_at(piece, (number << 20) as u64).unwrap();
    }
    drop(file);
    drop(nobody_else);
    let container = mounted.join("x.h5");
    assert_eq!(xattr(&container, "user.arrayfs.state").unwrap(), "clean");
    let taken = peak(mounted.daemon()) - before;
    let workers = workers(mounted.daemon());
    assert!(!workers.is_empty());
    for worker in workers {
        let peak = peak(worker);
        assert!(peak <= WORKER, "a worker took {} MiB", peak >> 20);
        assert!(peak > 1 << 20, "a figure that can be believed: {peak}");
    }
    assert_content(&path, &noise);
    println!("{} MiB for {LEN} bytes in {chunks} chunks", taken >> 20);
    taken
}

/// Which is stored as one: once as it is, once encoded, and half of it for everything else.
#[test]
fn nothing_of_a_chunk_s_size_is_held_beside_its_encoding() {
    for commit in ["commit=replace", "commit=inplace"] {
        let (taken, chunk) = (taken(1, commit), LEN as u64);
        let most = CACHE + 2 * chunk + chunk / 2;
        assert!(
            taken <= most,
            "{commit}: {} MiB for one of {}",
            taken >> 20,
            chunk >> 20
        );
        assert!(taken > chunk, "{commit}: {} MiB are too few", taken >> 20);
    }
}

#[test]
fn a_dataset_of_many_chunks_is_written_within_the_bound() {
    for commit in ["commit=replace", "commit=inplace"] {
        let taken = taken(1024, commit);
        assert!(taken <= CACHE + BESIDE / 2, "{commit}: {} MiB", taken >> 20);
    }
}
