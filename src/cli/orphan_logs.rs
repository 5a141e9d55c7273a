//! Logs whose container is gone: it was renamed or removed in the source, where its log does not
//! follow.
//!
//! Used by `arrayfs stage`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::container::root_at;
use super::failure::Failure;
use super::given_path::real;
use crate::commit::found_logs::{discard_orphan, is_log_of, orphan_bytes};
use crate::container::{Candidate, Preferences, Recognised, recognise};
use crate::disk::Disk;
use crate::error::Error;
use crate::source::{FileKind, Listed, Store};
use crate::stage::container_of_log;

pub(super) struct OrphanLog {
    store: Arc<dyn Store>,
    disk: Option<Arc<dyn Disk>>,
    directory: PathBuf,
    name: OsString,
}

impl OrphanLog {
    pub(super) fn shown(&self) -> PathBuf {
        self.store.display(&self.directory.join(&self.name))
    }

    /// Of the container that it was made for.
    pub(super) fn container(&self) -> String {
        let container = container_of_log(&self.name).unwrap_or_default();
        container.to_string_lossy().into_owned()
    }

    /// Bytes that are staged.
    pub(super) fn bytes(&self) -> u64 {
        // A log that cannot be read is reported when it is discarded.
        orphan_bytes(&*self.store, &self.directory, &self.name).unwrap_or(0)
    }

    pub(super) fn discard(&self) -> Result<(), Error> {
        let (store, disk) = (Arc::clone(&self.store), self.disk.clone());
        let disk = disk.ok_or(Error::ReadOnly)?;
        discard_orphan(disk, store, &self.directory, &self.name)
    }
}

/// Those at or below a path.
pub(super) fn find_orphans(
    path: &Path,
    preferences: Preferences,
    failed: &mut dyn FnMut(Error),
) -> Result<Vec<OrphanLog>, Failure> {
    // A path in a mount, and one within a container, is that of no log.
    let Ok(stored) = real(path) else {
        return Ok(Vec::new());
    };
    let root = root_at(&stored, path)?;
    let mut search = OrphanSearch {
        store: root.store,
        disk: root.disk,
        preferences,
        found: Vec::new(),
    };
    let kind = search.store.stat(&root.path)?.kind;
    let searched = match (kind, root.path.file_name()) {
        (FileKind::Directory, _) => search.below(root.path),
        (_, Some(name)) if container_of_log(name).is_some() => {
            let directory = root.path.parent().unwrap_or(Path::new(""));
            search.among(directory, &[name.to_owned()])
        }
        _ => Ok(()),
    };
    searched.unwrap_or_else(failed);
    Ok(search.found)
}

struct OrphanSearch {
    store: Arc<dyn Store>,
    disk: Option<Arc<dyn Disk>>,
    preferences: Preferences,
    found: Vec<OrphanLog>,
}

impl OrphanSearch {
    fn below(&mut self, root: PathBuf) -> Result<(), Error> {
        let mut left = vec![root];
        while let Some(directory) = left.pop() {
            let mut logs = Vec::new();
            self.store
                .list(&directory, &mut |Listed { name, kind, .. }| {
                    if kind == FileKind::Directory {
                        left.push(directory.join(name));
                    } else if container_of_log(name).is_some() {
                        logs.push(name.to_owned());
                    }
                })?;
            logs.sort();
            self.among(&directory, &logs)?;
        }
        Ok(())
    }

    fn among(&mut self, directory: &Path, logs: &[OsString]) -> Result<(), Error> {
        if logs.is_empty() {
            return Ok(());
        }
        let mut files = Vec::new();
        self.store
            .list(directory, &mut |Listed { name, kind, .. }| {
                if kind == FileKind::File && logs.iter().any(|log| is_log_of(log, name)) {
                    files.push(name.to_owned());
                }
            })?;
        for log in logs {
            let mut owners = files.iter().filter(|file| is_log_of(log, file));
            if !owners.any(|file| self.is_of_container(directory, file)) {
                self.found.push(OrphanLog {
                    store: Arc::clone(&self.store),
                    disk: self.disk.clone(),
                    directory: directory.to_owned(),
                    name: log.clone(),
                });
            }
        }
        Ok(())
    }

    /// Whether a file is a container that can have logs, or the file of one beside which these lie.
    fn is_of_container(&self, directory: &Path, file: &OsStr) -> bool {
        let path = directory.join(file);
        let of_directory = self.recognised(directory, FileKind::Directory);
        let is_first = |found: Recognised| {
            let first = found.first_file(directory);
            first.is_some_and(|(_, name)| name == file)
        };
        let of_file = || self.recognised(&path, FileKind::File);
        of_directory.is_some_and(is_first)
            || of_file().is_some_and(|found| found.format.is_changed())
    }

    fn recognised(&self, path: &Path, kind: FileKind) -> Option<Recognised> {
        let candidate = Candidate::new(&*self.store, path, kind, self.preferences);
        recognise(&candidate).ok().flatten()
    }
}
