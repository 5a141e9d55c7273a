//! Damage of every kind, by a seeded generator: nothing that a file contains crashes, hangs or
//! escapes; a bad block harms itself alone and is logged once, with its coordinates. `written` has
//! what becomes of damaged files that are written to.

mod written;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::process::arrayfs;
use crate::harness::reads::{assert_same, read_direct, walk};
use crate::harness::seeded::Seeded;
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{
    copy_directory, golden, other_corpora, scratch_directory, wait_until, within_patience,
};

/// In a sample, and in the whole.
const MUTANTS_OF_EACH: (u64, u64) = (4, 8);

/// Good containers, small ones of every kind.
fn good(format: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden(format).join("sources")).unwrap();
    let is_good = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        !name.starts_with("bad-") && !name.starts_with('_')
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut good: Vec<PathBuf> = paths.filter(is_good).collect();
    good.sort();
    good
}

/// One kind of damage at one place.
fn damage(bytes: &mut Vec<u8>, random: &mut Seeded) {
    if bytes.is_empty() {
        return bytes.extend(random.noise(9));
    }
    // The headers are at the front; most damage elsewhere is noise to the codec.
    let most = if random.below(2) == 0 {
        bytes.len()
    } else {
        bytes.len().min(128)
    };
    let at = random.below(most);
    match random.below(6) {
        0 | 1 => bytes[at] ^= 1 << random.below(8),
        2 => bytes.truncate(at),
        3 => {
            let more = random.below(5000);
            bytes.extend(random.noise(more));
        }
        4 => {
            let end = (at + 1 + random.below(64)).min(bytes.len());
            bytes[at..end].fill(if random.below(2) == 0 { 0 } else { 0xff });
        }
        _ => {
            let value = random.next().to_le_bytes();
            let end = (at + 8).min(bytes.len());
            bytes[at..end].copy_from_slice(&value[..end - at]);
        }
    }
}

/// A directory of some hundred damaged files.
fn file_mutants(format: &str, seed: u64) -> TempDir {
    let (directory, mut random) = (scratch_directory(), Seeded::new(seed));
    let mut good = good(format);
    good.retain(|path| path.is_file());
    for number in 0..rounds(MUTANTS_OF_EACH) * 50 {
        let origin = &good[random.below(good.len())];
        let mut bytes = std::fs::read(origin).unwrap();
        for _ in 0..=random.below(3) {
            damage(&mut bytes, &mut random);
        }
        let name = format!(
            "{number:04}-{}",
            origin.file_name().unwrap().to_string_lossy()
        );
        std::fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
}

/// A directory of damaged BPCells directories: one member of each is another, or missing.
fn bpcells_mutants(seed: u64) -> TempDir {
    let (directory, mut random) = (scratch_directory(), Seeded::new(seed));
    let directories = good("bpcells").into_iter().filter(|path| path.is_dir());
    for origin in directories {
        for number in 0..rounds(MUTANTS_OF_EACH) {
            let name = format!("{}-{number}", origin.file_name().unwrap().to_string_lossy());
            let copy = directory.path().join(name);
            copy_directory(&origin, &copy);
            let (members, _) = walk(&copy);
            let member = &members[random.below(members.len())];
            if random.below(12) == 0 {
                std::fs::remove_file(member).unwrap();
            } else {
                let mut bytes = std::fs::read(member).unwrap();
                damage(&mut bytes, &mut random);
                std::fs::write(member, bytes).unwrap();
            }
        }
    }
    directory
}

/// Lists and reads everything, whole and by pieces past the page cache.
fn read_everything(mountpoint: &Path) -> usize {
    let (files, failures) = walk(mountpoint);
    let reads = files.iter().flat_map(|file| {
        // What is damaged beyond recognition is shown as it is; past the page cache, such files
        // can only be read as their own file system allows it.
        let is_plain = file.parent() == Some(mountpoint);
        let pieces = if is_plain { Ok(()) } else { read_pieces(file) };
        [read_whole(file), pieces]
    });
    let failures: Vec<_> = failures
        .into_iter()
        .chain(reads.filter_map(Result::err))
        .collect();
    for e in &failures {
        let allowed = [Some(libc::EIO), Some(libc::ESTALE)].contains(&e.raw_os_error());
        assert!(allowed, "{e}");
    }
    files.len()
}

/// As much as these containers could hold; a file may claim more.
const MOST: u64 = 8 << 20;

fn read_whole(path: &Path) -> std::io::Result<()> {
    File::open(path)?
        .take(MOST)
        .read_to_end(&mut Vec::new())
        .map(drop)
}

fn read_pieces(path: &Path) -> std::io::Result<()> {
    let size = path.metadata()?.len();
    for at in (0..size.min(MOST)).step_by(100_000) {
        read_direct(path, at, 4096)?;
    }
    read_direct(path, size.saturating_sub(10), 20).map(drop)
}

fn survives(mutants: TempDir) {
    let options = ["cache=8M", "log_level=off", "views"];
    let limits = [("ARRAYFS_HDF5_LIMITS", "5,512")];
    let mounted = Mounted::with_environment(mutants.path(), &options, &limits);
    let mountpoint = mounted.path().to_owned();
    let read = within_patience("everything is read", move || read_everything(&mountpoint));
    assert!(read > 500, "{read} files");
    mounted.assert_alive();
    let verified = arrayfs([Path::new("verify"), mutants.path()]);
    assert_eq!(verified.code(), Some(1), "{}", verified.text());
    let broken = "panicked";
    assert!(!verified.stderr.contains(broken), "{}", verified.stderr);
    for line in verified.stderr.lines() {
        assert!(line.starts_with("arrayfs: "), "{line}");
    }
}

#[test]
fn damaged_bloscpack_files_cost_errors_and_nothing_else() {
    survives(file_mutants("bloscpack", 1));
}

#[test]
fn damaged_hdf5_and_netcdf_files_cost_errors_and_nothing_else() {
    survives(file_mutants("binsparse", 4));
}

#[test]
fn damaged_matrices_in_hdf5_files_cost_errors_and_nothing_else() {
    survives(file_mutants("bpcells", 5));
}

#[test]
fn damaged_daphne_files_cost_errors_and_nothing_else() {
    survives(file_mutants("daphne", 6));
}

#[test]
fn damaged_files_of_other_formats_cost_errors_and_nothing_else() {
    for (format, seed) in other_corpora().iter().zip(7..) {
        survives(file_mutants(format, seed));
    }
}

#[test]
fn damaged_matrices_and_fragments_cost_errors_and_nothing_else() {
    survives(bpcells_mutants(2));
}

#[test]
fn verify_ends_with_0_or_1_for_every_damaged_container() {
    let mutants = bpcells_mutants(3);
    let (mut sound, mut faulty) = (0, 0);
    for entry in std::fs::read_dir(mutants.path()).unwrap().step_by(4) {
        let path = entry.unwrap().path();
        let ran = arrayfs([Path::new("verify"), &path]);
        match ran.code() {
            Some(0) => sound += 1,
            Some(1) => {
                faulty += 1;
                assert!(!ran.stderr.is_empty(), "{}", path.display());
            }
            _ => panic!("{}: {ran:?}", path.display()),
        }
    }
    assert!(sound > 0 && faulty > 20, "{sound} sound, {faulty} faulty");
}

const CHUNK: usize = 50_000;

/// Twenty chunks, of which the eighth has a flipped bit in its packed bytes.
fn with_a_bad_chunk(path: &Path, plain: &[u8]) -> std::ops::Range<u64> {
    let kind = Bloscpack {
        chunk_size: CHUNK,
        ..Bloscpack::default()
    };
    let mut packed = kind.pack(plain);
    let offset = |chunk: usize, packed: &[u8]| {
        let at = 32 + 8 * chunk;
        u64::from_le_bytes(packed[at..at + 8].try_into().unwrap())
    };
    let stored = offset(7, &packed)..offset(8, &packed);
    packed[stored.start as usize + 100] ^= 4;
    std::fs::write(path, packed).unwrap();
    stored
}

#[test]
fn a_bad_block_harms_no_other() {
    let source = scratch_directory();
    let plain = Seeded::new(4).rising(20 * CHUNK);
    with_a_bad_chunk(&source.path().join("x.blp"), &plain);
    let mounted = Mounted::new(source.path(), &[]);
    let data = mounted.join("x.blp/data");
    for chunk in 0..20 {
        let read = read_direct(&data, (chunk * CHUNK) as u64, CHUNK);
        match chunk {
            7 => assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EIO)),
            _ => assert_same(&data, &read.unwrap(), &plain[chunk * CHUNK..][..CHUNK]),
        }
    }
    // Through the page cache a fault takes the pages that it touches, and no others.
    let file = File::open(&data).unwrap();
    let (bad, page) = (7 * CHUNK..8 * CHUNK, 4096);
    for at in (0..plain.len()).step_by(page) {
        let mut buffer = vec![0; page.min(plain.len() - at)];
        let touches = at < bad.end && at + page > bad.start;
        match file.read_exact_at(&mut buffer, at as u64) {
            Ok(()) => assert!(
                !touches && buffer == plain[at..at + buffer.len()],
                "page at {at}"
            ),
            Err(e) => assert!(
                touches && e.raw_os_error() == Some(libc::EIO),
                "page at {at}: {e}"
            ),
        }
    }
}

/// The kernel takes a short answer for the end of the file: zeros for readers, a smaller size for
/// all.
#[test]
fn a_read_that_runs_into_a_bad_block_gets_no_made_up_bytes() {
    let source = scratch_directory();
    let plain = Seeded::new(4).rising(20 * CHUNK);
    with_a_bad_chunk(&source.path().join("x.blp"), &plain);
    for options in [&[][..], &["direct_io"]] {
        let mounted = Mounted::new(source.path(), options);
        let data = mounted.join("x.blp/data");
        for before in [1, 900, 4096, 4100, 45_000] {
            let at = 7 * CHUNK - before;
            let direct = read_direct(&data, at as u64, before + 3000);
            assert_eq!(direct.unwrap_err().raw_os_error(), Some(libc::EIO));
            let mut buffer = vec![0; before + 3000];
            let file = File::open(&data).unwrap();
            match file.read_at(&mut buffer, at as u64) {
                Ok(n) => assert_same(&data, &buffer[..n], &plain[at..at + n]),
                Err(e) => assert_eq!(e.raw_os_error(), Some(libc::EIO)),
            }
            assert_eq!(file.metadata().unwrap().len(), plain.len() as u64);
        }
    }
}

#[test]
fn a_bad_block_is_logged_once_with_its_coordinates() {
    let source = scratch_directory();
    let stored = with_a_bad_chunk(
        &source.path().join("x.blp"),
        &Seeded::new(5).rising(20 * CHUNK),
    );
    let log = source.path().join("log");
    let mounted = Mounted::new(source.path(), &[&format!("log={}", log.display())]);
    let data = mounted.join("x.blp/data");
    for _ in 0..5 {
        assert!(std::fs::read(&data).is_err());
        assert!(read_direct(&data, 7 * CHUNK as u64, 10).is_err());
    }
    let errors = || -> Vec<String> {
        let log = std::fs::read_to_string(&log).unwrap();
        log.lines()
            .filter(|line| line.contains(" ERROR "))
            .map(str::to_owned)
            .collect()
    };
    wait_until("the fault is logged", || !errors().is_empty());
    let errors = errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let container = source.path().join("x.blp");
    // The bytes are those of the chunk, without its checksum.
    let bytes = format!("bytes {}..{}", stored.start, stored.end - 4);
    for part in [
        container.to_str().unwrap(),
        "data",
        "block 7",
        &bytes,
        "expected",
        "found",
    ] {
        assert!(
            errors[0].contains(part),
            "'{part}' is missing in {}",
            errors[0]
        );
    }
}

#[test]
fn a_bad_chunk_of_a_matrix_harms_its_block_alone() {
    let source = scratch_directory();
    let counts = source.path().join("counts");
    let matrix = Matrix::random(6, 200_000);
    matrix.write_packed(&counts);
    // A step of the index that no width gives: neither chunk 700 nor 701 can be trusted.
    let mut idx = std::fs::read(counts.join("val_idx")).unwrap();
    idx[8 + 4 * 701] ^= 1;
    std::fs::write(counts.join("val_idx"), idx).unwrap();
    let mounted = Mounted::new(source.path(), &[]);
    let [val, index, ..] = matrix.arrays().map(|array| array.3);
    let found = read_direct(&mounted.join("counts/index"), 0, index.len()).unwrap();
    assert_same("counts/index", &found, &index);
    // A block is 256 KiB: 512 chunks of 128 values.
    let shown = mounted.join("counts/val");
    for (block, bytes) in val.chunks(256 << 10).enumerate() {
        let read = read_direct(&shown, (block * (256 << 10)) as u64, bytes.len());
        match block {
            1 => assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EIO)),
            _ => assert_same(&shown, &read.unwrap(), bytes),
        }
    }
    mounted.assert_alive();
}
