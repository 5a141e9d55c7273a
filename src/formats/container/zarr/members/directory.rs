//! A store that is a directory: its members are files.
//!
//! Links that stay in the source are followed, as stores have them whose files are kept elsewhere
//! (git-annex). Used by [`super::super`].

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::followed::{LinkWay, follow};
use super::{MemberKind, Members, leads_outside};
use crate::error::{Error, Result};
use crate::source::{FileKind, Source, SourceIdentity, Stat, Store};

/// A directory of so many bytes has few names in it, whatever the file system.
const SMALL: u64 = 64 << 10;

pub(in super::super) struct DirectoryMembers {
    store: Arc<dyn Store>,
    root: PathBuf,
}

impl DirectoryMembers {
    pub(in super::super) fn new(store: &Arc<dyn Store>, root: &Path) -> DirectoryMembers {
        DirectoryMembers {
            store: Arc::clone(store),
            root: root.to_owned(),
        }
    }

    fn path(&self, key: &Path) -> PathBuf {
        match key.as_os_str().is_empty() {
            true => self.root.clone(),
            false => self.root.join(key),
        }
    }

    /// Does something with a path, and with that to which its links lead if it has any; none if
    /// there is nothing.
    fn at<T>(&self, key: &Path, with: &mut dyn FnMut(&Path) -> Result<T>) -> Result<Option<T>> {
        let path = self.path(key);
        match with(&path) {
            Ok(done) => Ok(Some(done)),
            Err(e) if is_link(&e) => match follow(&*self.store, &path)? {
                LinkWay::To(found) if found == path => Err(e),
                LinkWay::To(found) => present(with(&found)),
                LinkWay::Nowhere => Ok(None),
                LinkWay::Outside => Err(leads_outside(key)),
            },
            Err(e) => present(Err(e)),
        }
    }

    /// Whether a link is a second way to something in the store, which is shown at its own place.
    fn leads_back(&self, key: &Path) -> Result<bool> {
        let way = follow(&*self.store, &self.path(key))?;
        Ok(matches!(way, LinkWay::To(found) if found.starts_with(&self.root)))
    }

    fn stat(&self, key: &Path) -> Result<Option<Stat>> {
        self.at(key, &mut |path| {
            let stat = self.store.stat(path)?;
            match stat.kind {
                FileKind::Symlink => Err(Error::io("a link", rustix::io::Errno::LOOP)),
                _ => Ok(stat),
            }
        })
    }
}

/// What is not there is none.
fn present<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(e) if is_missing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

fn code(error: &Error) -> Option<i32> {
    match error {
        Error::Io { cause, .. } => cause.raw_os_error(),
        _ => None,
    }
}

/// Nothing is there that has bytes.
fn is_missing(error: &Error) -> bool {
    use libc::{EINVAL, EISDIR, ENAMETOOLONG, ENOTDIR};
    let codes = [EINVAL, EISDIR, ENAMETOOLONG, ENOTDIR];
    matches!(
        error,
        Error::NotFound | Error::NotADirectory | Error::IsADirectory
    ) || error.is_not_found()
        || code(error).is_some_and(|code| codes.contains(&code))
}

fn is_link(error: &Error) -> bool {
    code(error) == Some(libc::ELOOP)
}

impl Members for DirectoryMembers {
    fn open(&self, key: &Path) -> Result<Option<Arc<dyn Source>>> {
        self.at(key, &mut |path| self.store.open(path))
    }

    fn identity(&self, key: &Path) -> Result<Option<SourceIdentity>> {
        let stat = self.stat(key)?;
        let file = stat.filter(|stat| stat.kind == FileKind::File);
        Ok(file.map(|stat| stat.identity()))
    }

    fn directory_identity(&self, directory: &Path) -> Result<Option<SourceIdentity>> {
        Ok(self.stat(directory)?.map(|stat| stat.identity()))
    }

    fn list(&self, directory: &Path, each: &mut dyn FnMut(&[u8], MemberKind)) -> Result<()> {
        let mut links: Vec<Vec<u8>> = Vec::new();
        let listed = self.at(directory, &mut |path| {
            links.clear();
            self.store.list(path, &mut |listed| {
                let name = listed.name.as_bytes();
                match listed.kind {
                    FileKind::File => each(name, MemberKind::File),
                    FileKind::Directory => each(name, MemberKind::Directory),
                    FileKind::Symlink => links.push(name.to_owned()),
                    FileKind::Other(_) => each(name, MemberKind::Other),
                }
            })
        });
        listed?;
        for name in links {
            let kind = match self.stat(&super::join(directory, &name)) {
                Ok(Some(stat)) if stat.kind == FileKind::File => MemberKind::File,
                Ok(Some(stat)) if stat.kind == FileKind::Directory => {
                    match self.leads_back(&super::join(directory, &name))? {
                        true => MemberKind::Other,
                        false => MemberKind::Directory,
                    }
                }
                Ok(_) => MemberKind::Other,
                // Whoever opens it is told.
                Err(Error::Fault(_)) => MemberKind::File,
                Err(e) => return Err(e),
            };
            each(&name, kind);
        }
        Ok(())
    }

    /// A directory is a second name of each one in it, where the file system counts them.
    fn is_looked_through(&self, directory: &Path) -> Result<bool> {
        let stat = self.stat(directory)?;
        let has_others = |stat: Stat| stat.nlink != 2 && stat.size <= SMALL;
        Ok(!self.store.is_far() && stat.is_some_and(has_others))
    }

    fn is_far(&self) -> bool {
        self.store.is_far()
    }

    fn place(&self, directory: &Path) -> Option<SourceIdentity> {
        let stat = self.stat(directory).ok().flatten()?;
        self.store.as_posix()?;
        Some(stat.identity().without_content())
    }
}
