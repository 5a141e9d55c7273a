//! What becomes of each thing that lies in a new container when that is packed.
//!
//! It goes by the path, by what the format can have, and by what the container's description names:
//! an array whose name begins with a dot is one only if it is named there, since programs use such
//! names for files that are none. Of files that may make a directory a BPCells container the first
//! bytes are looked at. Used by [`super::content`] and [`super::added`].

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::container::creation::{
    Creation, DESCRIPTOR, GivenDescription, LONGEST_OF_DIRECTORY, VERSION, VERSION_HEAD,
    describes_packed, is_packed_array, is_packed_version,
};
use crate::container::names::{OF_EVERY_CONTAINER, RESERVED};
use crate::error::{Error, Result};
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::memory::fallible;
use crate::source::{FileKind, Listed, Store};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DraftRole {
    /// The description of the container.
    Description,
    /// The description of a BPCells or Binsparse container in a group, by itself.
    GroupDescription,
    /// The description of any other group.
    PlainDescription,
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

/// What the directory of an entry is: in that of a container some names are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DraftDirectory {
    Plain,
    Container,
    /// A BPCells container in a group.
    Packed,
}

/// What a format can have, and what a description names.
pub(super) struct DraftRules<'a> {
    creation: &'a dyn Creation,
    description: Option<&'a GivenDescription>,
    arrays: HashSet<&'a str>,
}

impl<'a> DraftRules<'a> {
    pub(super) fn new(
        creation: &'a dyn Creation,
        description: Option<&'a GivenDescription>,
    ) -> DraftRules<'a> {
        let named = description.iter();
        let arrays = named.flat_map(|given| given.arrays.iter().map(|array| &*array.name));
        DraftRules {
            creation,
            description,
            arrays: arrays.collect(),
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

    /// What lies in one directory of drafts, each with what becomes of it.
    pub(super) fn list(
        &self,
        store: &dyn Store,
        drafts: &Path,
        directory: &Path,
    ) -> Result<Vec<(DraftEntry, DraftRole)>> {
        let mut names: Vec<(OsString, FileKind)> = Vec::new();
        store.list(
            &drafts.join(directory),
            &mut |Listed { name, kind, .. }| {
                names.push((name.to_owned(), kind));
            },
        )?;
        let of = self.directory(store, (drafts, directory), &names)?;
        let judged = names.into_iter().map(|(name, kind)| {
            let path = directory.join(name);
            let role = self.role(&path, kind, of);
            (DraftEntry { path, kind }, role)
        });
        Ok(judged.collect())
    }

    /// What a directory is with these entries.
    fn directory(
        &self,
        store: &dyn Store,
        (drafts, path): (&Path, &Path),
        names: &[(OsString, FileKind)],
    ) -> Result<DraftDirectory> {
        let has_file = |name: &str| names.contains(&(name.into(), FileKind::File));
        let has_groups = self.creation.has_links();
        let said = |path: &str| {
            let description = self.description?;
            description
                .containers
                .get(path)
                .map(|_| description.has_packed(path))
        };
        let said = path.to_str().and_then(said);
        if path.as_os_str().is_empty() || has_groups && has_file(DESCRIPTOR) {
            return Ok(DraftDirectory::Container);
        }
        Ok(match said {
            Some(false) => DraftDirectory::Container,
            Some(true) => DraftDirectory::Packed,
            None if has_groups && self.is_packed(store, (drafts, path), names)? => {
                DraftDirectory::Packed
            }
            None => DraftDirectory::Plain,
        })
    }

    /// Whether it is a BPCells container by what lies in it.
    fn is_packed(
        &self,
        store: &dyn Store,
        (drafts, path): (&Path, &Path),
        names: &[(OsString, FileKind)],
    ) -> Result<bool> {
        let files = names.iter().filter(|(_, kind)| *kind == FileKind::File);
        let files: Vec<&str> = files.filter_map(|(name, _)| name.to_str()).collect();
        if !files.iter().any(|name| is_packed_array(name)) {
            return Ok(false);
        }
        let head = |name: &str, most: usize| {
            let mut head = fallible::zeros(most as u64, "cannot read what a directory is")?;
            let n = store.head(&drafts.join(path).join(name), &mut head)?;
            head.truncate(n);
            Ok::<_, Error>(head)
        };
        let version = path.join(VERSION);
        // A text of this name may be an array like any other.
        let is_array = version
            .to_str()
            .is_some_and(|path| self.arrays.contains(path));
        if files.contains(&VERSION) && !is_array && is_packed_version(&head(VERSION, VERSION_HEAD)?)
        {
            return Ok(true);
        }
        Ok(files.contains(&ARRAYS_JSON)
            && describes_packed(&head(ARRAYS_JSON, LONGEST_OF_DIRECTORY)?))
    }

    fn role(&self, path: &Path, kind: FileKind, of: DraftDirectory) -> DraftRole {
        let (creation, name) = (self.creation, path.file_name().unwrap_or_default());
        let in_root = path.parent() == Some(Path::new(""));
        let reserved = match of {
            DraftDirectory::Plain => None,
            _ => self.reserved(name, kind, in_root),
        };
        let is_group = of == DraftDirectory::Packed
            || of == DraftDirectory::Container && !in_root && creation.has_links();
        if name == ARRAYS_JSON && kind == FileKind::File && is_group {
            return DraftRole::GroupDescription;
        }
        let describes_group = || {
            let group = path.parent().and_then(Path::to_str);
            !in_root && creation.has_links() && group.is_some_and(|group| creation.has_group(group))
        };
        if name == ARRAYS_JSON && kind == FileKind::File && describes_group() {
            return DraftRole::PlainDescription;
        }
        if let Some(role) = reserved {
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
        let fits_beside = match creation.layout().is_file() {
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
        let names = match self.creation.layout().is_file() {
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
