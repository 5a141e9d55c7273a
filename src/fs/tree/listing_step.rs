//! The names that one step of a listing has, and the place of each.
//!
//! Made by [`super::listing`]; read by `kernel::directory`.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::attr::Attr;
use super::inode::InodeId;
use super::listing_cache::NameRun;
use crate::error::Result;
use crate::live::shown::cookie::Cookie;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::{OpenContainer, Views};
use crate::live::version::ContainerVersion;
use crate::source::FileKind;

/// About as many names as fit into an answer to the kernel; so many are looked at at once. The
/// lists of them stay below what can be refused ([`crate::memory`]).
pub(super) const STEP: usize = 500;

/// An entry of a listing.
pub struct ListedEntry {
    pub attr: Attr,
    /// Whether the entry could be looked at. If not, the attributes say nothing but what kind it
    /// is, and are not to be believed: a look-up of the entry returns the error.
    pub seen: bool,
}

/// The names of a directory that follow some place, as far as one step goes.
pub struct ListingStep {
    pub(super) directory: InodeId,
    pub(super) names: StepNames,
    pub(super) is_last: bool,
    /// What of the source the names lie in, if they do.
    pub(super) path: Option<PathBuf>,
    /// The container that the directory belongs to.
    pub(super) inside: Option<Inside>,
}

pub(super) enum StepNames {
    /// A part of a run.
    Source(Arc<NameRun>, Range<usize>),
    /// Entries of a container that are shown.
    Container(Vec<(Cookie, EntryIndex)>),
}

/// A directory of a version of a container.
pub(super) struct Inside {
    pub(super) version: Arc<ContainerVersion>,
    pub(super) opened: Arc<OpenContainer>,
    pub(super) directory: EntryIndex,
}

impl Inside {
    pub(super) fn find(&self, name: &OsStr) -> Option<EntryIndex> {
        self.opened.find(self.directory, name)
    }

    /// At most so many entries that are listed behind a place.
    pub(super) fn children_after(
        &self,
        (place, most): (Cookie, usize),
        views: Views,
    ) -> Result<Vec<(Cookie, EntryIndex)>> {
        let opened = &self.opened;
        opened.children_after(self.directory, place, most, views)
    }

    pub(super) fn name(&self, entry: EntryIndex) -> Option<&OsStr> {
        self.opened.name(entry).ok().map(OsString::as_os_str)
    }
}

impl ListingStep {
    pub(super) fn in_source(
        directory: InodeId,
        run: Arc<NameRun>,
        after: Cookie,
        path: PathBuf,
    ) -> Self {
        let start = run.names.partition_point(|name| name.at <= after);
        let end = run.names.len().min(start + STEP);
        ListingStep {
            directory,
            is_last: run.is_last() && end == run.names.len(),
            names: StepNames::Source(run, start..end),
            path: Some(path),
            inside: None,
        }
    }

    /// Names and their places, in order.
    pub fn names(&self) -> Vec<(Cookie, &OsStr)> {
        match &self.names {
            StepNames::Source(run, part) => {
                let names = run.names[part.clone()].iter();
                names.map(|found| (found.at, &*found.name)).collect()
            }
            StepNames::Container(entries) => {
                let name = |entry: &EntryIndex| self.inside.as_ref()?.name(*entry);
                let named = entries.iter();
                let named = named.filter_map(|(at, entry)| Some((*at, name(entry)?)));
                named.collect()
            }
        }
    }

    /// Whether no name follows these.
    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// The container's entry of that name: entries that lie beside one have other names.
    pub(super) fn entry(&self, name: &OsStr) -> Option<EntryIndex> {
        self.inside.as_ref()?.find(name)
    }

    /// What the source's own listing says that an entry is.
    pub(super) fn stored_kind(&self, name: &OsStr) -> FileKind {
        let named = match &self.names {
            StepNames::Source(run, part) => run.names[part.clone()].iter(),
            StepNames::Container(_) => [].iter(),
        };
        let mut named = named.filter(|found| *found.name == *name);
        named.next().map_or(FileKind::File, |found| found.kind)
    }
}
