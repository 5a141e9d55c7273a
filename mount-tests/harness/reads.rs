//! Reads whose every byte is accounted for.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use memmap2::MmapMut;
use sha2::{Digest, Sha256};

/// Opens past the page cache.
pub fn open_direct(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

/// Reads exactly this range past the page cache; less only at the end of the file.
pub fn read_direct(path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let file = open_direct(path)?;
    // O_DIRECT wants memory at a page's start.
    let mut buffer = MmapMut::map_anon(len.max(1).next_multiple_of(4096))?;
    let mut done = 0;
    while done < len {
        match file.read_at(&mut buffer[done..len], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(buffer[..done].to_vec())
}

/// Compares, and says where the first difference is instead of showing megabytes.
#[track_caller]
pub fn assert_same(what: impl AsRef<Path>, found: &[u8], expected: &[u8]) {
    let what = what.as_ref().display();
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(
        at,
        None,
        "{what}: differs at that byte of {}",
        expected.len()
    );
    assert_eq!(found.len(), expected.len(), "{what}: length");
}

#[track_caller]
pub fn assert_content(path: &Path, expected: &[u8]) {
    let found = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_same(path, &found, expected);
}

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Every regular file below a directory, and every failure on the way.
pub fn walk(directory: &Path) -> (Vec<PathBuf>, Vec<io::Error>) {
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    let mut ahead = vec![directory.to_owned()];
    while let Some(directory) = ahead.pop() {
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(e) => {
                failures.push(e);
                continue;
            }
        };
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) {
                Ok((kind, path)) if kind.is_dir() => ahead.push(path),
                Ok((kind, path)) if kind.is_file() => files.push(path),
                Ok(_) => {}
                Err(e) => failures.push(e),
            }
        }
    }
    files.sort();
    (files, failures)
}

/// The extended attribute as text.
pub fn xattr(path: &Path, name: &str) -> io::Result<String> {
    let mut value = vec![0; 4096];
    let n = rustix::fs::getxattr(path, name, &mut value[..])?;
    value.truncate(n);
    Ok(String::from_utf8(value).unwrap())
}

/// The names in a directory, sorted.
#[track_caller]
pub fn names(directory: &Path) -> Vec<String> {
    let names = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
