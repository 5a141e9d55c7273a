//! BPCells directories that are written through a mount: what is shown while their arrays do not
//! fit together yet, what the directory holds as soon as they do, and what survives whatever comes
//! between.

mod beside;
mod derived;
mod failing;
mod killed;
mod made;
mod model;
mod raw;
mod round_trip;
mod staged;
mod turned;
mod visible;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::harness::place::{Place, open_directory};
use crate::harness::process::{Ran, arrayfs, run};
use crate::harness::python::script;
use crate::harness::reads::xattr;
use crate::harness::{copy_directory, golden, scratch_directory, wait_until};
use raw::{Raw, is_text};

/// What the files of the mount that belong to it have in their names.
const OURS: &[u8] = b".arrayfs-";

/// Of the corpus: it has row numbers beyond its rows, which no reader minds. It is shown, and
/// cannot be committed.
const NOT_CONSISTENT: &str = "m-d1z-bits";

/// Asks the oracle about pairs of paths; it must be content with all.
#[track_caller]
fn oracle(command: &str, pairs: &[(PathBuf, PathBuf)]) {
    let paths = pairs.iter().flat_map(|(one, two)| [one, two]);
    let arguments = [OsStr::new(command)]
        .into_iter()
        .chain(paths.map(|path| path.as_os_str()));
    let asked = script("oracle_bpcells.py", arguments);
    let said = format!("{}{}", asked.text(), asked.stderr);
    assert_eq!(asked.code(), Some(0), "{command}: {said}");
}

/// Raw arrays as directories of files, by the numbers of their places in the list.
fn written_raw<'a>(raws: impl IntoIterator<Item = &'a Raw>) -> TempDir {
    let directory = scratch_directory();
    for (number, raw) in raws.into_iter().enumerate() {
        let own = directory.path().join(number.to_string());
        std::fs::create_dir(&own).unwrap();
        raw.write_into(&own);
    }
    directory
}

/// Copies the good containers of the corpus into a directory.
fn copy_corpus(to: &Path) {
    for entry in std::fs::read_dir(golden("bpcells/sources")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with("bad-") && name != NOT_CONSISTENT {
            copy_directory(&path, &to.join(name));
        }
    }
}

/// Makes containers as a writer of the format does.
fn encode(containers: &[(PathBuf, &Raw)]) {
    let written = written_raw(containers.iter().map(|(_, raw)| *raw));
    let path = |number: usize| written.path().join(number.to_string());
    let pair = |(number, (to, _)): (usize, &(PathBuf, &Raw))| (path(number), to.clone());
    let pairs: Vec<_> = containers.iter().enumerate().map(pair).collect();
    oracle("encode", &pairs);
}

/// Containers hold these arrays, stored by the letter of the format, and `verify` finds nothing
/// either.
#[track_caller]
fn judge(containers: &[(PathBuf, &Raw)]) {
    let written = written_raw(containers.iter().map(|(_, raw)| *raw));
    let path = |number: usize| written.path().join(number.to_string());
    let pair = |(number, (of, _)): (usize, &(PathBuf, &Raw))| (of.clone(), path(number));
    let pairs: Vec<_> = containers.iter().enumerate().map(pair).collect();
    oracle("judge", &pairs);
    let paths = containers.iter().map(|(path, _)| path.as_os_str());
    arrayfs([OsStr::new("verify")].into_iter().chain(paths)).success();
}

/// A mount of a source with these containers.
fn place_with<'a>(containers: &[(&str, &'a Raw)]) -> Place {
    let source = open_directory();
    let at = |(name, raw): &(&str, &'a Raw)| (source.path().join(name), *raw);
    encode(&containers.iter().map(at).collect::<Vec<_>>());
    Place::over(source, &[])
}

/// What the container holds, as soon as it is committed: at the close that a test makes, unless
/// another test has started a program meanwhile (see `write_bloscpack::assert_stored`).
#[track_caller]
fn assert_stored(container: &Path, expected: &Raw) {
    wait_stored(container, expected);
    judge(&[(container.to_owned(), expected)]);
}

/// The same without a judge.
#[track_caller]
fn wait_stored(container: &Path, expected: &Raw) {
    let what = format!("{} holds what was written", container.display());
    // As long as a log is there it is what the log says.
    wait_until(&what, || ours(container) == 0 && holds(container, expected));
}

/// Files of the mount in the container's directory, and those beside it that go by its name.
fn ours(container: &Path) -> usize {
    let own = [b".", container.file_name().unwrap().as_bytes(), OURS].concat();
    let beside = names(container.parent().unwrap())
        .into_iter()
        .filter(|name| name.as_bytes().starts_with(&own));
    beside.count() + names(container).iter().filter(|name| is_ours(name)).count()
}

fn is_ours(name: &OsStr) -> bool {
    name.as_bytes().windows(OURS.len()).any(|at| at == OURS)
}

/// None of a directory that is not there.
fn names(directory: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

fn holds(container: &Path, expected: &Raw) -> bool {
    expected.names().iter().all(|&name| {
        let found = match is_text(name) {
            true => std::fs::read(container.join(name)).ok(),
            false => {
                let told = arrayfs(["cat".as_ref(), container.as_os_str(), name.as_ref()]);
                (told.code() == Some(0)).then_some(told.stdout)
            }
        };
        found.is_some_and(|found| found == expected.get(name))
    })
}

/// Inode numbers and contents of the files that lie in a container's directory, but for those of
/// the mount.
fn members(container: &Path) -> BTreeMap<OsString, (u64, Vec<u8>)> {
    let member = |name: OsString| {
        let path = container.join(&name);
        let inode = path.metadata().unwrap().ino();
        (name, (inode, std::fs::read(&path).unwrap()))
    };
    let files = names(container).into_iter().filter(|name| !is_ours(name));
    let files = files.filter(|name| container.join(name).is_file());
    files.map(member).collect()
}

fn contents(container: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let content = |(name, (_, content))| (name, content);
    members(container).into_iter().map(content).collect()
}

fn state(directory: &Path) -> String {
    xattr(directory, "user.arrayfs.state").unwrap()
}

fn is_staged(directory: &Path) -> bool {
    state(directory).starts_with("staged: ")
}

/// What it says then.
#[track_caller]
fn wait_staged(directory: &Path) -> String {
    let what = format!("something of {} is staged", directory.display());
    wait_until(&what, || is_staged(directory));
    state(directory)
}

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

/// All of an array, through a handle.
fn rewrite(file: &File, bytes: &[u8]) {
    file.set_len(0).unwrap();
    file.write_all_at(bytes, 0).unwrap();
}

/// All of an array, by a process, whose close returns errors.
fn cp(bytes: &[u8], to: &Path) -> Ran {
    let directory = scratch_directory();
    let from = directory.path().join("from");
    std::fs::write(&from, bytes).unwrap();
    run(Command::new("cp").args([&from, to]))
}

fn errno<T>(done: io::Result<T>) -> Option<i32> {
    done.err().and_then(|e| e.raw_os_error())
}
