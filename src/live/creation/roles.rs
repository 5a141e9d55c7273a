//! What becomes of each thing that lies in a new container when that is packed.
//!
//! It goes by the path, by what the format can have, and by what the container's description names:
//! an array whose name begins with a dot is one only if it is named there, since programs use such
//! names for files that are none. Used by [`super::content`] and [`super::carried`].

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::container::creation::{Creation, DESCRIPTOR, GivenDescription};
use crate::container::names::{OF_EVERY_CONTAINER, RESERVED};
use crate::error::Result;
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::source::{FileKind, Store};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DraftRole {
    /// The description of the container.
    Description,
    /// The text that makes its directory a Binsparse container.
    Descriptor,
    Array,
    Group,
    Link,
    /// It follows from the others, and is made anew.
    Dropped,
    /// It lies beside the arrays from then on.
    Beside,
    /// No such container can have it.
    Unfit,
}

/// Something in the directory of drafts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DraftEntry {
    /// From that directory.
    pub(super) path: PathBuf,
    pub(super) kind: FileKind,
}

/// What a format can have, and what a description names.
pub(super) struct DraftRules<'a> {
    creation: &'a dyn Creation,
    arrays: HashSet<&'a str>,
    containers: HashSet<&'a str>,
}

impl<'a> DraftRules<'a> {
    pub(super) fn new(
        creation: &'a dyn Creation,
        description: Option<&'a GivenDescription>,
    ) -> DraftRules<'a> {
        let named = description.iter();
        let arrays = named.flat_map(|given| given.arrays.iter().map(|array| &*array.name));
        let inner = description.iter();
        let inner = inner.flat_map(|given| given.containers.keys().map(|path| &**path));
        DraftRules {
            creation,
            arrays: arrays.collect(),
            containers: inner.collect(),
        }
    }

    /// All that lies in a directory of drafts and in its groups, each with what becomes of it, in
    /// the order of their paths.
    pub(super) fn walk(
        &self,
        store: &dyn Store,
        drafts: &Path,
    ) -> Result<Vec<(DraftEntry, DraftRole)>> {
        let (mut all, mut left) = (Vec::new(), vec![PathBuf::new()]);
        while let Some(directory) = left.pop() {
            for (entry, role) in self.list(store, drafts, &directory)? {
                if role == DraftRole::Group {
                    left.push(entry.path.clone());
                }
                all.push((entry, role));
            }
        }
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(all)
    }

    /// The same of one directory alone.
    pub(super) fn list(
        &self,
        store: &dyn Store,
        drafts: &Path,
        directory: &Path,
    ) -> Result<Vec<(DraftEntry, DraftRole)>> {
        let mut names: Vec<(OsString, FileKind)> = Vec::new();
        store.list(&drafts.join(directory), &mut |name, kind| {
            names.push((name.to_owned(), kind));
        })?;
        let described = |(name, kind): &(OsString, FileKind)| {
            name == DESCRIPTOR && *kind == FileKind::File && self.creation.has_links()
        };
        let is_container = directory.as_os_str().is_empty()
            || names.iter().any(described)
            || directory
                .to_str()
                .is_some_and(|path| self.containers.contains(path));
        let judged = names.into_iter().map(|(name, kind)| {
            let path = directory.join(name);
            let role = self.role(&path, kind, is_container);
            (DraftEntry { path, kind }, role)
        });
        Ok(judged.collect())
    }

    /// `in_container`: it lies in the directory of a container, where some names are reserved.
    fn role(&self, path: &Path, kind: FileKind, in_container: bool) -> DraftRole {
        let (creation, name) = (self.creation, path.file_name().unwrap_or_default());
        let in_root = path.parent() == Some(Path::new(""));
        let reserved = in_container.then(|| self.reserved(name, kind, in_root));
        if let Some(role) = reserved.flatten() {
            return role;
        }
        let is_dotted = name.as_encoded_bytes().starts_with(b".");
        let is_array =
            |path: &str| (!is_dotted || self.arrays.contains(path)) && creation.has_array(path);
        let role = path.to_str().and_then(|path| match kind {
            _ if creation.is_derived(path) => Some(DraftRole::Dropped),
            FileKind::File if is_array(path) => Some(DraftRole::Array),
            FileKind::Directory if creation.has_group(path) => Some(DraftRole::Group),
            FileKind::Symlink if creation.has_links() => Some(DraftRole::Link),
            _ => None,
        });
        if let Some(role) = role {
            return role;
        }
        // Beside a container that is a file only files can lie, also in its groups.
        let fits_beside = match creation.members().is_empty() {
            true => kind == FileKind::File,
            false => in_root,
        };
        match fits_beside {
            true => DraftRole::Beside,
            false => DraftRole::Unfit,
        }
    }

    /// What a container shows by this name beside its arrays is made anew.
    fn reserved(&self, name: &OsStr, kind: FileKind, in_root: bool) -> Option<DraftRole> {
        let names = match self.creation.members().is_empty() {
            true => &RESERVED[..],
            // Its directory is shown as it is, but for these.
            false => &OF_EVERY_CONTAINER[..],
        };
        let name = name.to_str().filter(|name| names.contains(name))?;
        Some(match (name, kind) {
            (ARRAYS_JSON, FileKind::File) if in_root => DraftRole::Description,
            (ARRAYS_JSON, _) if in_root => DraftRole::Unfit,
            (DESCRIPTOR, FileKind::File) if self.creation.has_links() => DraftRole::Descriptor,
            _ => DraftRole::Dropped,
        })
    }
}
