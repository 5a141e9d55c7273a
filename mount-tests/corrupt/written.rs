//! Damaged HDF5 and NetCDF files that are written to: nothing else is harmed, nothing hangs, and
//! what a sync has acknowledged is in the file, or staged.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::good;
use crate::harness::depth::{rounds, some_of};
use crate::harness::mounted::Mounted;
use crate::harness::place::open_directory;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, assert_same, walk, xattr};
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::writers::Bloscpack;
use crate::harness::{golden, scratch_directory, within_patience};

/// One of so many of the broken files is tried, in a sample and in the whole.
const BROKEN: (u64, u64) = (3, 1);
/// Good files in which bytes are changed.
const CHANGED: (u64, u64) = (30, 300);

/// Larger files are left out: of most the structure is a small part.
const LONGEST: u64 = 300_000;
/// So many bytes of an array are written.
const PIECE: usize = 4096;

/// What the daemon may say of a file that is damaged, or turns out to be.
const REFUSED: [i32; 8] = [
    libc::EIO,
    libc::ESTALE,
    libc::EINVAL,
    libc::EROFS,
    libc::EACCES,
    libc::EPERM,
    libc::ENOMEM,
    libc::EFBIG,
];

/// Files that are sound, in the same mount; none of them is written to.
const BESIDE: [&str; 2] = ["beside.blp", "beside.h5"];

/// A directory with them.
fn source() -> TempDir {
    let source = open_directory();
    let plain = Seeded::new(1).rising(10_000);
    Bloscpack::default().write(&source.path().join(BESIDE[0]), &plain);
    let sample = golden("binsparse/sources/gzip1-shuffle.h5");
    std::fs::copy(sample, source.path().join(BESIDE[1])).unwrap();
    source
}

fn broken(format: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden(format).join("sources")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_broken = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("bad-") && path.is_file()
    };
    paths.filter(is_broken).collect()
}

/// Copies of some of these files, in each of which up to three bytes are others.
fn with_other_bytes(source: &Path, mut good: Vec<PathBuf>, seed: u64) {
    let mut random = Seeded::new(seed);
    good.retain(|path| path.is_file() && path.metadata().unwrap().len() < LONGEST);
    for number in 0..rounds(CHANGED) {
        let origin = &good[random.below(good.len())];
        let mut bytes = std::fs::read(origin).unwrap();
        for _ in 0..=random.below(3) {
            // Structures lie at the front.
            let most = if random.below(3) == 0 {
                bytes.len()
            } else {
                bytes.len().min(6000)
            };
            bytes[random.below(most)] ^= 1 << random.below(8);
        }
        let name = origin.file_name().unwrap().to_string_lossy();
        std::fs::write(source.join(format!("{number:04}-{name}")), bytes).unwrap();
    }
}

/// What has been acknowledged of an array: where, and which bytes.
type Acknowledged = BTreeMap<PathBuf, (u64, Vec<u8>)>;

/// Of arrays that may be written.
#[derive(Default, Debug)]
struct Counts {
    tried: usize,
    /// What was written is in the file.
    committed: usize,
    staged: usize,
}

/// Writes other values to every array that may be written, each time the same number of bytes.
/// Arrays that have to agree with others stay staged, and would keep the others of their file from
/// being committed: they are given up, but for some.
fn write_everything(mountpoint: &Path) -> (Acknowledged, Counts) {
    let (mut acknowledged, mut counts) = (Acknowledged::new(), Counts::default());
    let mut containers: Vec<PathBuf> = std::fs::read_dir(mountpoint)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && !BESIDE.iter().any(|beside| path.ends_with(beside)))
        .collect();
    containers.sort();
    for container in containers {
        write_container(&container, &mut acknowledged, &mut counts);
    }
    (acknowledged, counts)
}

fn write_container(container: &Path, acknowledged: &mut Acknowledged, counts: &mut Counts) {
    let (files, _) = walk(container);
    for path in files {
        let metadata = path.metadata();
        let may = metadata.is_ok_and(|metadata| metadata.permissions().mode() & 0o222 != 0);
        // Texts have lines and ends, which any bytes would not have.
        let dtype = xattr(&path, "user.arrayfs.dtype").unwrap_or_default();
        if !may || dtype.is_empty() || dtype == "str" || dtype.contains("|S") {
            continue;
        }
        counts.tried += 1;
        match write_to(&path) {
            Ok(Some(written)) => {
                let clean = xattr(container, "user.arrayfs.state").unwrap() == "clean";
                counts.committed += usize::from(clean);
                counts.staged += usize::from(!clean);
                let given_up =
                    !clean && !counts.staged.is_multiple_of(3) && is_discarded(container);
                if !given_up {
                    acknowledged.insert(path, written);
                }
                if !clean && !given_up {
                    break;
                }
            }
            Ok(None) => {}
            Err(e) => {
                let code = e.raw_os_error().unwrap_or_default();
                let fine = REFUSED.contains(&code) || e.kind() == ErrorKind::UnexpectedEof;
                assert!(fine, "{}: {e}", path.display());
            }
        }
    }
}

fn is_discarded(container: &Path) -> bool {
    let none = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(container, "user.arrayfs.discard", b"1", none).is_ok()
}

fn write_to(path: &Path) -> std::io::Result<Option<(u64, Vec<u8>)>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let len = file.metadata()?.len();
    if len == 0 || len > 1 << 30 {
        return Ok(None);
    }
    let at = len / 3;
    let mut bytes = vec![0; PIECE.min((len - at) as usize)];
    file.read_exact_at(&mut bytes, at)?;
    bytes.iter_mut().step_by(8).for_each(|byte| *byte ^= 1);
    file.write_all_at(&bytes, at)?;
    file.sync_all()?;
    Ok(Some((at, bytes)))
}

/// Each of them is shown as it was written.
fn assert_shown(mountpoint: &Path, acknowledged: &Acknowledged, when: &str) {
    for (path, (at, bytes)) in acknowledged {
        let path = mountpoint.join(path);
        let mut found = vec![0; bytes.len()];
        let file = std::fs::File::open(&path);
        let read = file.and_then(|file| file.read_exact_at(&mut found, *at));
        let what = format!("{when}: {}", path.display());
        read.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_same(what, &found, bytes);
    }
}

fn nothing_else_is_harmed(source: TempDir, least: usize) {
    let options = ["cache=32M", "log_level=off"];
    let limits = [("ARRAYFS_HDF5_LIMITS", "5,512")];
    let stored = BESIDE.map(|name| std::fs::read(source.path().join(name)).unwrap());
    let writable = [&options[..], &["rw"]].concat();
    let mounted = Mounted::with_environment(source.path(), &writable, &limits);
    let shown = std::fs::read(mounted.join("beside.blp/data")).unwrap();
    let mountpoint = mounted.path().to_owned();
    let (acknowledged, counts) = within_patience("everything is written", move || {
        let (acknowledged, counts) = write_everything(&mountpoint);
        let inside = |path: PathBuf| path.strip_prefix(&mountpoint).unwrap().to_owned();
        let acknowledged = acknowledged.into_iter();
        let acknowledged: Acknowledged =
            acknowledged.map(|(path, of)| (inside(path), of)).collect();
        assert_shown(&mountpoint, &acknowledged, "in the mount that wrote it");
        (acknowledged, counts)
    });
    println!("{counts:?}");
    assert!(
        counts.committed >= least && counts.staged * 20 >= least,
        "{counts:?}"
    );
    mounted.assert_alive();
    assert_content(&mounted.join("beside.blp/data"), &shown);
    drop(mounted);
    for (name, before) in BESIDE.iter().zip(&stored) {
        assert_content(&source.path().join(name), before);
    }
    let read_only = [&options[..], &["ro"]].concat();
    let again = Mounted::with_environment(source.path(), &read_only, &limits);
    assert_shown(again.path(), &acknowledged, "in the next mount");
}

/// By the rules that they break: each is open to nobody who writes, or takes what is written.
#[test]
fn broken_files_that_are_written_to_harm_nothing_else() {
    let source = source();
    for format in ["binsparse", "bpcells"] {
        for path in some_of(broken(format), rounds(BROKEN), 0) {
            std::fs::copy(&path, source.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    nothing_else_is_harmed(source, 0);
}

#[test]
fn files_with_other_bytes_that_are_written_to_harm_nothing_else() {
    let source = source();
    with_other_bytes(source.path(), good("binsparse"), 21);
    nothing_else_is_harmed(source, 5);
}

#[test]
fn matrices_with_other_bytes_that_are_written_to_harm_nothing_else() {
    let source = source();
    with_other_bytes(source.path(), good("bpcells"), 22);
    nothing_else_is_harmed(source, 10);
}

/// Of every type, layout, index and filter.
#[test]
fn datasets_of_every_kind_with_other_bytes_that_are_written_to_harm_nothing_else() {
    let (source, corpus) = (source(), scratch_directory());
    let seed = run_seed().to_string();
    script("write_hdf5/corpus.py", [corpus.path(), Path::new(&seed)]).success();
    let entries = std::fs::read_dir(corpus.path()).unwrap();
    let mut good: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    good.sort();
    with_other_bytes(source.path(), good, 23);
    nothing_else_is_harmed(source, 20);
}
