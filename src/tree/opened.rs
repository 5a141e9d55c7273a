//! An opened container: what its entries are like, and opening them.
//!
//! Sizes are asked of the arrays when an entry is first described. Used by `tree`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::Settings;
use super::attr::{Attr, Owner};
use super::entries::{ArrayNumber, Content, ERROR_TXT, Entries, EntryIndex, Part};
use super::handle::{Handle, OpenArray, Readable};
use super::inode::InodeId;
use super::version::Version;
use crate::array::read::CachedArray;
use crate::array::{Info, npy};
use crate::cache::{ArrayIndex, BlockCache, VersionId};
use crate::container::inside::Located;
use crate::container::{Container, describe};
use crate::error::{Error, Fault, Result};
use crate::source::{Identity, Kind, Store};

pub(super) struct Opened {
    version: VersionId,
    path: PathBuf,
    members: &'static [&'static str],
    owner: Owner,
    /// The outermost container first.
    parts: Vec<OpenedPart>,
    arrays: Vec<Located>,
    entries: Entries,
}

/// The container, or one in a group of it.
struct OpenedPart {
    container: Arc<Container>,
    arrays_json: OnceLock<Arc<[u8]>>,
    /// Faults found while opening and while describing the arrays; asking costs describing them all.
    error_txt: OnceLock<Arc<[u8]>>,
}

impl Opened {
    /// Also says which identity the container has now, after everything was opened.
    pub(super) fn new(
        version: &Version,
        container: Container,
        store: &dyn Store,
    ) -> Result<(Self, Identity)> {
        let stats = version.recognised.stat(store, &version.path)?;
        let mut owner = Owner::of(&stats.own);
        for member in stats.members.iter().flatten() {
            owner.restrict(member);
        }
        let container = Arc::new(container);
        let all = container.all();
        let opened = Opened {
            version: version.id,
            path: store.display(&version.path),
            members: version.recognised.format.members(),
            owner,
            entries: Entries::new(&all),
            arrays: container.all_arrays(),
            parts: all.into_iter().map(OpenedPart::new).collect(),
        };
        Ok((opened, stats.identity()))
    }

    pub(super) fn container(&self, part: Part) -> Result<&Arc<Container>> {
        self.part(part).map(|part| &part.container)
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        self.container(Part(0)).map_or(0, describe::weight)
    }

    fn part(&self, part: Part) -> Result<&OpenedPart> {
        self.parts.get(part.0).ok_or(Error::NotFound)
    }

    pub(super) fn name(&self, index: EntryIndex) -> Result<&OsString> {
        self.entries.entry(index).map(|entry| &entry.name)
    }

    pub(super) fn find(&self, parent: EntryIndex, name: &OsStr) -> Option<EntryIndex> {
        self.entries
            .find(parent, name)
            .filter(|index| self.shown(*index))
    }

    /// Entries of a directory that are shown.
    pub(super) fn children(&self, parent: EntryIndex) -> Result<Vec<EntryIndex>> {
        let children = self.entries.children(parent)?.iter().copied();
        Ok(children.filter(|index| self.shown(*index)).collect())
    }

    /// `error.txt` is there when there is something to say.
    fn shown(&self, index: EntryIndex) -> bool {
        match self.entries.entry(index).map(|entry| &entry.content) {
            Ok(Content::ErrorTxt(part)) => !self.error_txt(*part).is_empty(),
            other => other.is_ok(),
        }
    }

    /// Whether a stored file of that name in a container directory is shown beside the arrays: it is,
    /// unless it is part of the container or would pass for what is wrong with it.
    pub(super) fn shows_beside(&self, name: &OsStr) -> bool {
        let mut taken = self.members.iter().chain(&[ERROR_TXT]);
        !self.members.is_empty() && !taken.any(|taken| OsStr::new(taken) == name)
    }

    fn array(&self, number: ArrayNumber) -> Result<&Located> {
        self.arrays.get(number.0).ok_or(Error::NotFound)
    }

    fn info(&self, number: ArrayNumber) -> Result<Info> {
        let located = self.array(number)?;
        let info = located.array.info();
        info.map_err(|e| located.locate(e).of_container(&self.path))
    }

    pub(super) fn kind(&self, index: EntryIndex) -> Result<Kind> {
        self.entries.kind(index)
    }

    /// The target of a link.
    pub(super) fn read_link(&self, index: EntryIndex) -> Result<OsString> {
        match &self.entries.entry(index)?.content {
            Content::Link(target) => Ok(target.clone()),
            _ => Err(Error::Unsuitable),
        }
    }

    /// An array that cannot be described is shown without size; opening it says why.
    pub(super) fn attr(
        &self,
        index: EntryIndex,
        inode: InodeId,
        settings: &Settings,
    ) -> Result<Attr> {
        let file = |size, stored| Attr::file(inode, &self.owner, size, stored, settings);
        Ok(match &self.entries.entry(index)?.content {
            Content::Directory(..) => Attr::directory(inode, &self.owner, settings),
            Content::Array(array) => match self.info(*array) {
                Ok(info) => file(info.bytes, info.stored_bytes),
                Err(Error::Fault(_)) => file(0, 0),
                Err(e) => return Err(e),
            },
            Content::Npy(array) => match self.info(*array) {
                Ok(info) => file(npy::header(&info).len() as u64 + info.bytes, 0),
                Err(Error::Fault(_)) => file(0, 0),
                Err(e) => return Err(e),
            },
            Content::Text(bytes) => file(bytes.len() as u64, bytes.len() as u64),
            Content::Link(target) => Attr::link(inode, &self.owner, target.len() as u64, settings),
            // Made up, not stored: no blocks.
            Content::Unreadable(_) => file(0, 0),
            Content::ArraysJson(part) => file(self.arrays_json(*part)?.len() as u64, 0),
            Content::ErrorTxt(part) => file(self.error_txt(*part).len() as u64, 0),
        })
    }

    pub(super) fn open(
        self: &Arc<Self>,
        index: EntryIndex,
        cache: &Arc<BlockCache>,
    ) -> Result<Handle> {
        let entry = self.entries.entry(index)?;
        let content = match &entry.content {
            Content::Directory(..) => return Err(Error::IsADirectory),
            Content::Link(_) => return Err(Error::Unsuitable),
            Content::Array(array) => self.open_array(*array, Arc::from([]), cache)?,
            Content::Npy(array) => {
                let header = npy::header(&self.info(*array)?);
                self.open_array(*array, Arc::from(header), cache)?
            }
            Content::Text(bytes) => Readable::Bytes(Arc::clone(bytes)),
            Content::Unreadable(error) => return Err(error.clone().of_container(&self.path)),
            Content::ArraysJson(part) => Readable::Bytes(self.arrays_json(*part)?),
            Content::ErrorTxt(part) => Readable::Bytes(self.error_txt(*part)),
        };
        Ok(Handle::inside(content, Arc::clone(self)))
    }

    fn open_array(
        self: &Arc<Self>,
        number: ArrayNumber,
        prefix: Arc<[u8]>,
        cache: &Arc<BlockCache>,
    ) -> Result<Readable> {
        let located = self.array(number)?;
        let cached = CachedArray {
            bytes: self.info(number)?.bytes,
            array: Arc::clone(&located.array),
            cache: Arc::clone(cache),
            version: self.version,
            index: ArrayIndex(u32::try_from(number.0).unwrap_or(u32::MAX)),
            container: self.path.clone(),
            group: Arc::clone(&located.group),
            prefix,
        };
        Ok(Readable::Array(OpenArray::new(cached)))
    }

    /// The array or view behind an entry and its container's format, for its attributes.
    pub(super) fn described(&self, index: EntryIndex) -> Result<Option<(&'static str, Info)>> {
        match self.entries.entry(index)?.content {
            Content::Array(array) | Content::Npy(array) => {
                let format = self.array(array)?.format;
                self.info(array).map(|info| Some((format, info)))
            }
            _ => Ok(None),
        }
    }

    /// The container whose own directory the entry is.
    pub(super) fn part_at(&self, index: EntryIndex) -> Option<Part> {
        match self.entries.entry(index).ok()?.content {
            Content::Directory(_, part) => part,
            _ => None,
        }
    }

    fn arrays_json(&self, part: Part) -> Result<Arc<[u8]>> {
        let part = self.part(part)?;
        if let Some(text) = part.arrays_json.get() {
            return Ok(Arc::clone(text));
        }
        let text = Arc::from(describe::arrays_json(&part.container)?);
        Ok(Arc::clone(part.arrays_json.get_or_init(|| text)))
    }

    /// One line per fault; empty when the container is sound as far as opening can tell.
    pub(super) fn error_txt(&self, part: Part) -> Arc<[u8]> {
        match self.part(part) {
            Ok(part) => Arc::clone(part.error_txt.get_or_init(|| part.faults())),
            Err(_) => Arc::from([]),
        }
    }
}

impl OpenedPart {
    fn new((_, container): (Arc<str>, Arc<Container>)) -> Self {
        OpenedPart {
            container,
            arrays_json: OnceLock::new(),
            error_txt: OnceLock::new(),
        }
    }

    fn faults(&self) -> Arc<[u8]> {
        let described = self
            .container
            .all_arrays()
            .into_iter()
            .filter_map(|located| match located.array.check_structure() {
                Err(error) => located.locate(error).fault(),
                Ok(()) => None,
            });
        let faults = self.container.all_faults().into_iter().chain(described);
        let lines = faults.map(|fault| format!("{}\n", within(fault)));
        Arc::from(lines.collect::<String>().into_bytes())
    }
}

/// A line of `error.txt` lies in the container that it speaks of.
fn within(mut fault: Fault) -> Fault {
    fault.container = None;
    fault
}
