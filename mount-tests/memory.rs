//! The memory bound: whatever is read, and whatever a file claims, the daemon's peak stays below
//! its cache plus 64 MiB.

mod described;
mod recovered;
mod unordered;
mod writing;
mod written_hdf5;

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::process::memory_figure;
use crate::harness::python::Written;
use crate::harness::reads::{assert_content, assert_same, open_direct, walk};
use crate::harness::seeded::Seeded;
use crate::harness::writers::{Bloscpack, Matrix, Packing};
use crate::harness::{copy_directory, golden, scratch_directory};

use unordered::{cell_without_order, write_without_order};

const CACHE: u64 = 16 << 20;
const BESIDE: u64 = 64 << 20;

/// `over`: what a decode takes that needs more than the whole cache; it is admitted alone.
fn assert_bounded(mounted: &Mounted, over: u64) {
    assert_bounded_by(mounted, CACHE + BESIDE + over);
}

fn assert_bounded_by(mounted: &Mounted, limit: u64) {
    mounted.assert_alive();
    let peak = memory_figure(mounted.daemon(), "VmHWM");
    assert!(
        peak <= limit,
        "{} MiB at the peak, {} are allowed",
        peak >> 20,
        limit >> 20
    );
    assert!(peak > 1 << 20, "a figure that can be believed: {peak}");
}

/// Ten times the cache in both formats, in the block sizes that their writers choose.
#[test]
fn reading_ten_times_the_cache_stays_within_the_bound() {
    let source = scratch_directory();
    let matrix = Matrix::random(1, 10_000_000);
    matrix.write_packed(&source.path().join("counts"));
    let plain = Seeded::new(2).rising(80 << 20);
    let packed = Bloscpack {
        chunk_size: 1 << 20,
        ..Bloscpack::default()
    };
    packed.write(&source.path().join("x.blp"), &plain);
    let [val, index, ..] = matrix.arrays().map(|array| array.3);
    assert_all_read_in_bounds(
        source.path(),
        &[
            ("counts/val", &val),
            ("counts/index", &index),
            ("x.blp/data", &plain),
        ],
        0,
    );
}

/// Blocks that, with what decoding them takes, are larger than the whole cache.
#[test]
fn blocks_of_half_the_cache_stay_within_the_bound() {
    let source = scratch_directory();
    let plain = Seeded::new(3).rising(80 << 20);
    let packing = Packing::Lz4 {
        block: 8 << 20,
        shuffle: true,
    };
    let packed = Bloscpack {
        chunk_size: 8 << 20,
        packing,
        ..Bloscpack::default()
    };
    packed.write(&source.path().join("x.blp"), &plain);
    // The block, and twice its size to decode it, less what the cache has room for.
    let over = 3 * (8 << 20) + (8 << 20) - CACHE;
    assert_all_read_in_bounds(source.path(), &[("x.blp/data", &plain)], over);
}

/// By four readers at once, each beginning with another array, past the page cache.
fn assert_all_read_in_bounds(source: &Path, expected: &[(&str, &[u8])], over: u64) {
    let mounted = Mounted::new(source, &["cache=16M"]);
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let mounted = &mounted;
            scope.spawn(move || {
                for (path, bytes) in expected.iter().cycle().skip(reader).take(expected.len()) {
                    read_through(&mounted.join(path), bytes);
                }
            });
        }
    });
    assert_bounded(&mounted, over);
    let cache = &mounted.status()["cache"];
    assert!(cache["used"].as_u64() <= Some(CACHE), "{cache}");
    let all: usize = expected.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(
        cache["decoded_bytes"].as_u64() >= Some(all as u64),
        "{cache}"
    );
}

/// Front to back past the page cache, comparing as it goes.
fn read_through(path: &Path, expected: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = open_direct(path).unwrap();
    let mut buffer = memmap2::MmapMut::map_anon(1 << 20).unwrap();
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at as u64).unwrap() {
            0 => break,
            n => {
                assert_same(path, &buffer[..n], &expected[at..at + n]);
                at += n;
            }
        }
    }
    assert_eq!(at, expected.len(), "{}", path.display());
}

#[test]
fn claims_of_gigabytes_cost_no_memory() {
    let source = scratch_directory();
    copy_directory(
        &golden("bloscpack/sources"),
        &source.path().join("bloscpack"),
    );
    for format in ["bpcells", "binsparse", "daphne"] {
        let sources = golden(format).join("sources");
        copy_directory(&sources, &source.path().join(format));
    }
    let claims = [
        "bloscpack/bad-nbytes-2G.blp",
        "bloscpack/bad-nchunks-2^40-offsets.blp",
        "bloscpack/bad-meta-comp-4G.blp",
        "binsparse/bad-chunk-bomb.h5",
        "daphne/bad-nzb-huge.dbdf",
        "daphne/bad-absurd-max.dbdf",
    ];
    for claim in claims {
        assert!(
            source.path().join(claim).exists(),
            "{claim} is in the corpus"
        );
    }
    let mounted = Mounted::new(source.path(), &["cache=16M", "views"]);
    let bad = |path: &PathBuf| path.to_string_lossy().contains("/bad-");
    let (files, _) = walk(mounted.path());
    let files: Vec<PathBuf> = files.into_iter().filter(bad).collect();
    assert!(files.len() > 200, "{} files of bad containers", files.len());
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let files = &files;
            scope.spawn(move || {
                files
                    .iter()
                    .skip(reader)
                    .step_by(4)
                    .for_each(|file| read_some(file))
            });
        }
    });
    assert_bounded(&mounted, 0);
}

/// A mount of every container of the corpora and of one whose bytes are known, and the files of
/// all.
fn mounted_corpora(source: &Path) -> (Mounted, Vec<PathBuf>, Vec<u8>) {
    for format in ["bpcells", "bloscpack", "binsparse", "daphne"] {
        let sources = golden(format).join("sources");
        copy_directory(&sources, &source.join(format));
    }
    let known = Seeded::new(4).rising(3 << 20);
    Bloscpack::default().write(&source.join("known.blp"), &known);
    let mounted = Mounted::new(source, &["cache=16M", "views"]);
    let (files, _) = walk(mounted.path());
    assert!(files.len() > 1000, "{} files", files.len());
    (mounted, files, known)
}

fn read_by_four(files: &[PathBuf]) {
    std::thread::scope(|scope| {
        for reader in 0..4 {
            scope.spawn(move || {
                let own = files.iter().skip(reader).step_by(4);
                own.for_each(|file| read_some(file));
            });
        }
    });
}

/// Every container of the corpora, by four readers with a small cache; what is read afterwards is
/// right.
#[test]
fn all_formats_are_read_within_the_bound() {
    let source = scratch_directory();
    let (mounted, files, known) = mounted_corpora(source.path());
    read_by_four(&files);
    assert_bounded(&mounted, 0);
    let path = mounted.join("known.blp/data");
    assert_same(&path, &std::fs::read(&path).unwrap(), &known);
}

/// The same with less and less address space: reads may fail, the daemon may not, and with memory
/// all is right again.
#[test]
fn all_formats_are_read_where_memory_is_refused() {
    let source = scratch_directory();
    let (mounted, files, known) = mounted_corpora(source.path());
    let at_rest = memory_figure(mounted.daemon(), "VmSize");
    let every = rounds((4, 1)) as usize;
    for room in [80, 64, 32, 8, 0].into_iter().step_by(every) {
        limit_address_space(mounted.daemon(), Some(at_rest + (room << 20)));
        read_by_four(&files);
        mounted.assert_alive();
    }
    limit_address_space(mounted.daemon(), None);
    let path = mounted.join("known.blp/data");
    assert_same(&path, &std::fs::read(&path).unwrap(), &known);
}

fn limit_address_space(daemon: u32, bytes: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(Pid::from_raw(daemon as i32), Resource::As, limit).unwrap();
}

/// A Bloscpack file of no data whose metadata are `text`, as a zlib stream.
fn write_metadata(path: &Path, text: &[u8]) {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut stored = vec![0; compressor.zlib_compress_bound(text.len())];
    let len = compressor.zlib_compress(text, &mut stored).unwrap();
    let sizes = [text.len(), len, len].map(|size| (size as u32).to_le_bytes());
    let header = [&b"blpk\x03\x02\0\x01"[..], &[0; 24]].concat();
    let section = [b"JSON\0\0\0\0\0\0\x01\x09", sizes.as_flattened(), &[0; 8]].concat();
    std::fs::write(path, [&header, &section, &stored[..len]].concat()).unwrap();
}

/// So many files in a sample, and in the whole.
const INFLATING: (u64, u64) = (80, 200);

/// 15 KB each in the file; as values they would take gigabytes.
#[test]
fn metadata_that_inflate_cost_little_memory() {
    let source = scratch_directory();
    let megabytes = |times: &str| times.repeat((15 << 20) / times.len());
    let texts = [
        format!("\"{}\"", megabytes("a")),
        format!("[0{}]", megabytes(",0")),
        format!("[0{}]", megabytes(",NaN")),
        format!("{{\"shape\":[0{}]}}", megabytes(",{}")),
        format!("{}0{}", "[".repeat(7 << 20), "]".repeat(7 << 20)),
        // As long as what `arrays.json` shows: each of these lists stands on a line of its own.
        format!(
            "{}0{}{}",
            "[".repeat(100),
            ",0".repeat(32_500),
            "]".repeat(100)
        ),
    ];
    for number in 0..rounds(INFLATING) as usize {
        let path = source.path().join(format!("{number}.blp"));
        let text = texts.get(number % 16).unwrap_or(&texts[5]);
        write_metadata(&path, text.as_bytes());
    }
    let mounted = Mounted::new(source.path(), &["cache=16M"]);
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let mounted = &mounted;
            scope.spawn(move || {
                for number in (reader..rounds(INFLATING) as usize).step_by(4) {
                    let container = mounted.join(format!("{number}.blp"));
                    let names = std::fs::read_dir(&container).unwrap().count();
                    assert!(names >= 3, "{names} entries");
                    let described = std::fs::metadata(container.join("arrays.json")).unwrap();
                    assert!(described.len() > 100);
                }
            });
        }
    });
    let shown = std::fs::read(mounted.join("0.blp/metadata.json")).unwrap();
    assert!(shown == texts[0].as_bytes());
    assert_bounded(&mounted, 0);
}

/// One shuffled block, which is decoded in as much memory again. Its content does not come into it.
fn write_large_block(path: &Path, plain: u32) {
    let stored = vec![0xff; plain as usize / 200];
    let header = [
        &b"blpk\x03\0\0\x04"[..],
        &plain.to_le_bytes(),
        &plain.to_le_bytes(),
    ]
    .concat();
    let counts = [1u64.to_le_bytes(), [0; 8]].concat();
    let start = 20u32.to_le_bytes();
    let length = (stored.len() as u32).to_le_bytes();
    let sizes = [plain, plain, 24 + stored.len() as u32].map(u32::to_le_bytes);
    let chunk = [
        &b"\x02\x01\x31\x04"[..],
        sizes.as_flattened(),
        &start,
        &length,
        &stored,
    ]
    .concat();
    std::fs::write(path, [header, counts, chunk].concat()).unwrap();
}

/// There is room for the block, and not for what decoding it takes.
#[test]
fn memory_that_is_refused_fails_the_read_and_not_the_daemon() {
    use std::os::unix::fs::FileExt;
    const BLOCK: u32 = 512 << 20;
    let source = scratch_directory();
    write_large_block(&source.path().join("large.blp"), BLOCK);
    Bloscpack::default().write(&source.path().join("small.blp"), b"small");
    let mounted = Mounted::new(source.path(), &["cache=16M"]);
    let file = open_direct(&mounted.join("large.blp/data")).unwrap();
    let room = memory_figure(mounted.daemon(), "VmSize") + u64::from(BLOCK / 2 * 3);
    limit_address_space(mounted.daemon(), Some(room));
    let refused = file.read_at(&mut [0; 4096], 0).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOMEM), "{refused}");
    let small = std::fs::read(mounted.join("small.blp/data")).unwrap();
    assert_eq!(small, b"small");
    mounted.assert_alive();
}

/// 1 GiB in 1024 chunks of gzip: half of the readers by way of the page cache, half past it.
#[test]
fn a_gigabyte_of_gzip_is_read_by_four_within_64_mebibytes() {
    let written = Written::new("huge");
    let mounted = Mounted::new(written.source(), &["cache=64M"]);
    let path = mounted.join("huge.h5/x");
    assert_eq!(path.metadata().unwrap().len(), 1 << 30);
    let chunks: Vec<Vec<u8>> = (0..13).map(chunk_of_runs).collect();
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (path, chunks) = (&path, &chunks);
            scope.spawn(move || match reader % 2 {
                0 => read_chunks(&open_direct(path).unwrap(), chunks, reader * 300),
                _ => read_chunks(&File::open(path).unwrap(), chunks, reader * 300),
            });
        }
    });
    assert_bounded_by(&mounted, (64 << 20) + BESIDE);
    let cache = &mounted.status()["cache"];
    assert!(cache["used"].as_u64() <= Some(64 << 20), "{cache}");
    assert!(cache["decoded_bytes"].as_u64() >= Some(1 << 30), "{cache}");
}

/// What `write_hdf5.py` puts into every 13th chunk.
fn chunk_of_runs(kind: u32) -> Vec<u8> {
    let elements = (0..1 << 18).map(|i: u32| (i >> 10) + kind * 1_000_003);
    elements.flat_map(u32::to_le_bytes).collect()
}

/// Once round, from chunk `first` on.
fn read_chunks(file: &File, chunks: &[Vec<u8>], first: usize) {
    use std::os::unix::fs::FileExt;
    let mut buffer = memmap2::MmapMut::map_anon(1 << 20).unwrap();
    for chunk in (0..1024).map(|n| (first + n) % 1024) {
        let at = (chunk as u64) << 20;
        file.read_exact_at(&mut buffer, at).unwrap();
        assert!(
            buffer[..] == chunks[chunk % 13][..],
            "chunk {chunk} differs"
        );
    }
}

/// Chunks of one column: a request has as many pieces as bytes.
#[test]
fn a_piece_for_every_byte_stays_within_the_bound() {
    use std::os::unix::fs::FileExt;
    const STEP: usize = 1 << 20;
    let written = Written::new("columns");
    let mounted = Mounted::new(written.source(), &["cache=64M"]);
    let path = mounted.join("columns.h5/x");
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let file = open_direct(path).unwrap();
                let mut buffer = memmap2::MmapMut::map_anon(STEP).unwrap();
                for step in 0..4 {
                    let at = (2 * reader + step) % 16 * STEP as u64;
                    file.read_exact_at(&mut buffer, at).unwrap();
                    let byte = |at: u64| (at.wrapping_mul(2_654_435_761) >> 24) as u8;
                    let expected: Vec<u8> = (at..).take(STEP).map(byte).collect();
                    assert_same(path, &buffer, &expected);
                }
            });
        }
    });
    assert_bounded_by(&mounted, (64 << 20) + BESIDE);
}

/// The beginning, the middle and the end; whether that succeeds does not matter here.
fn read_some(path: &Path) {
    use std::os::unix::fs::FileExt;
    let Ok(file) = open_direct(path) else { return };
    let size = file.metadata().map_or(0, |meta| meta.len());
    let mut buffer = memmap2::MmapMut::map_anon(1 << 20).unwrap();
    for at in [0, size / 2, size.saturating_sub(4096)] {
        let _ = file.read_at(&mut buffer, at);
    }
}

/// What a file asks to be kept of it is more than the cache has: that file is refused, and no
/// other.
#[test]
fn tables_that_do_not_fit_fail_the_open_and_not_the_daemon() {
    let source = scratch_directory();
    // More than what may be kept whatever the cache has.
    let blocks = 2_000_000u64;
    let mut table = [
        &[1, 1][..],
        &blocks.to_le_bytes(),
        &1u64.to_le_bytes(),
        &[1],
    ]
    .concat();
    for row in 0..blocks {
        table.extend([row.to_le_bytes(), [0; 8]].as_flattened());
        table.extend([1, 0, 0, 0, 1, 0, 0, 0, 0]);
    }
    std::fs::write(source.path().join("table.dbdf"), table).unwrap();
    write_without_order(&source.path().join("small.dbdf"), 3, 3);
    let mounted = Mounted::new(source.path(), &["cache=4M"]);
    let refused = std::fs::read(mounted.join("table.dbdf/values")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::ENOMEM), "{refused}");
    let expected: Vec<u8> = (0..64).map(cell_without_order).collect();
    let small = std::fs::read(mounted.join("small.dbdf/values")).unwrap();
    assert_eq!(small, expected);
    mounted.assert_alive();
}

/// What is kept of opened containers has room whatever the cache has.
#[test]
fn ten_thousand_datasets_fit_beside_the_smallest_cache() {
    let written = Written::new("many");
    let mounted = Mounted::new(written.source(), &["cache=1M"]);
    for number in [0u32, 1234, 9999] {
        let path = format!("many.h5/{:03}/{number:05}", number % 100);
        assert_content(&mounted.join(path), &number.to_le_bytes());
    }
    assert_bounded_by(&mounted, (1 << 20) + BESIDE);
}
