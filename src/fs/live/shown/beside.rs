//! Where files may lie beside the entries of a container, and under which names.
//!
//! They may in the container's own directory, and in those of its groups, but not among views. Used
//! by `tree`, and by [`super::super::creation`].

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::entry_table::{ERROR_TXT, EntryIndex};
use super::open_container::OpenContainer;
use crate::container::inside::ContainerNumber;
use crate::container::names::RESERVED;

impl OpenContainer {
    /// Where the directory of a group lies in that of the container, itself the empty path. None of
    /// what is no directory, and of one of views.
    pub(crate) fn group_path(&self, index: EntryIndex) -> Option<PathBuf> {
        self.entries.group_path(index)
    }

    /// Where an array lies in the container's directory. All entries are looked at.
    pub(crate) fn path_of(&self, array: EntryIndex) -> Option<PathBuf> {
        self.entries.path_of(array)
    }

    /// The container whose own directory the entry is.
    pub(crate) fn part_at(&self, index: EntryIndex) -> Option<ContainerNumber> {
        self.entries.part_of(index)
    }

    /// Whether a file of that name, in a directory of the container or beside the container, is
    /// shown beside the arrays: it is, unless it is part of the container, would pass for a text of
    /// a container itself, or has an entry's name.
    pub(crate) fn shows_beside(&self, at: EntryIndex, name: &OsStr) -> bool {
        let kept = match (self.layout.is_file(), self.part_at(at)) {
            (true, Some(_)) => &RESERVED[..],
            (true, None) => &[][..],
            // Its directory is shown as it is, but for this.
            (false, _) => &[ERROR_TXT][..],
        };
        let is_own = || {
            let own = self
                .outermost()
                .ok()
                .and_then(|outer| outer.own_files.as_ref());
            let path = self.group_path(at).map(|group| group.join(name));
            own.zip(path).is_some_and(|(own, path)| own.has(&path))
        };
        let is_free = || self.entries.find(at, name).is_none() && !is_own();
        let is_kept = kept.iter().any(|kept| OsStr::new(kept) == name);
        !(is_kept || self.layout.has_member(name)) && is_free()
    }

    /// Whether a file at a path below the container's directory is shown beside the arrays. What
    /// lies in groups that are not there hides nothing.
    pub(crate) fn shows_path_beside(&self, path: &Path) -> bool {
        let (mut at, mut names) = (EntryIndex::ROOT, path.iter().peekable());
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return self.shows_beside(at, name);
            }
            match self.entries.find(at, name) {
                Some(group) => at = group,
                None => return true,
            }
        }
        false
    }
}
