//! The file that takes what the system's log does not: where nobody listens at `/dev/log`, as in
//! most containers.
//!
//! It lies where programs of this user keep what they did, one for each mountpoint, is made when
//! there is something to say, and is bounded: what is full is kept as the old one until the next is
//! full. Used by [`super`].

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// So long a file may become.
const FULL: u64 = 1 << 20;

pub(super) struct StateFile {
    paths: Vec<PathBuf>,
    mode: u32,
    opened: Option<OpenedFile>,
}

struct OpenedFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl StateFile {
    /// `of`: the mountpoint, in which the file never lies.
    pub(super) fn new(of: &Path, mode: u32) -> StateFile {
        let mut name = escaped(of);
        name.push(".log");
        let paths = directories()
            .into_iter()
            .filter(|directory| !directory.starts_with(of))
            .map(|directory| directory.join(&name));
        StateFile {
            paths: paths.collect(),
            mode,
            opened: None,
        }
    }

    /// Where it lies, if there was something to say.
    pub(super) fn path(&self) -> Option<&Path> {
        self.opened.as_ref().map(|opened| &*opened.path)
    }

    /// Appends a line with its end.
    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        let is_full = |opened: &OpenedFile| opened.bytes >= FULL;
        if let Some(full) = self.opened.take_if(|opened| is_full(opened)) {
            let renamed = std::fs::rename(&full.path, full.path.with_extension("log.old"));
            // It is bounded, whatever becomes of what it has.
            renamed.or_else(|_| full.file.set_len(0))?;
        }
        if self.opened.is_none() {
            self.opened = Some(self.open()?);
        }
        let opened = self.opened.as_mut().ok_or(io::ErrorKind::NotFound)?;
        opened.file.write_all(line.as_bytes())?;
        opened.bytes = opened.bytes.saturating_add(line.len() as u64);
        Ok(())
    }

    /// In the first directory where it can be.
    fn open(&self) -> io::Result<OpenedFile> {
        let mut failed = io::ErrorKind::NotFound.into();
        for path in &self.paths {
            match open(path, self.mode) {
                Ok(opened) => return Ok(opened),
                Err(e) => failed = e,
            }
        }
        Err(failed)
    }
}

fn open(path: &Path, mode: u32) -> io::Result<OpenedFile> {
    if let Some(directory) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
    }
    let file = super::append(path, mode)?;
    let bytes = file.metadata()?.len();
    let path = path.to_owned();
    Ok(OpenedFile { path, file, bytes })
}

/// What this user says comes first; else root and other users have their places.
fn directories() -> Vec<PathBuf> {
    let of = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let usual = match rustix::process::geteuid().is_root() {
        true => [Some("/var/log".into()), Some("/run".into())],
        false => {
            let home = of("HOME").map(|home| home.join(".local/state"));
            [home, of("XDG_RUNTIME_DIR")]
        }
    };
    let all = [of("XDG_STATE_HOME")].into_iter().chain(usual).flatten();
    let absolute = all.filter(|directory| directory.is_absolute());
    absolute.map(|state| state.join("arrayfs")).collect()
}

/// A path as a name, as systemd names units by paths.
fn escaped(path: &Path) -> OsString {
    let path = path.as_os_str().as_bytes();
    let trimmed = path.strip_prefix(b"/").unwrap_or(path);
    let mut name = Vec::with_capacity(trimmed.len());
    for &byte in trimmed {
        match byte {
            b'/' => name.push(b'-'),
            b':' | b'_' | b'.' => name.push(byte),
            byte if byte.is_ascii_alphanumeric() => name.push(byte),
            byte => name.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    // Names have a length.
    const LONGEST: usize = 200;
    let from = name.len().saturating_sub(LONGEST);
    let name = OsString::from_vec(name.split_off(from));
    match name.as_bytes() {
        [] | [b'.', ..] => [OsStr::new("-"), &name].into_iter().collect(),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mountpoint_is_a_name() {
        let name = |path: &str| escaped(Path::new(path)).into_string().unwrap();
        assert_eq!(name("/mnt/data"), "mnt-data");
        assert_eq!(name("/mnt/my data/ü-1"), "mnt-my\\x20data-\\xc3\\xbc\\x2d1");
        assert_eq!((name("/"), name("/.x")), ("-".into(), "-.x".into()));
        assert!(name(&"/long".repeat(1000)).len() <= 201);
    }

    #[test]
    fn lines_go_to_the_first_place_there_is_and_the_file_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let (missing, good) = (
            Path::new("/proc/none/x.log"),
            directory.path().join("a/x.log"),
        );
        let mut file = StateFile {
            paths: vec![missing.to_owned(), good.clone()],
            mode: 0o600,
            opened: None,
        };
        assert!(file.path().is_none() && !good.exists());
        let line = format!("{}\n", "x".repeat(99_999));
        for _ in 0..35 {
            file.append(&line).unwrap();
        }
        assert_eq!(file.path(), Some(&*good));
        let len = |path: &Path| std::fs::metadata(path).unwrap().len();
        let (now, old) = (len(&good), len(&good.with_extension("log.old")));
        assert!(now < FULL + 100_000 && (FULL..FULL + 100_000).contains(&old));
    }
}
