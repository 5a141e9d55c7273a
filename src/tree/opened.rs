//! An opened container as a small tree of entries: arrays, texts, views.
//!
//! The entries of one version are always the same and in the same order, so an [`EntryIndex`] survives
//! closing and opening again. Sizes are asked of the arrays when an entry is first described.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::Settings;
use super::attr::{Attr, Owner};
use super::handle::{ArrayHandle, Handle};
use super::inode::InodeId;
use super::version::Version;
use crate::array::read::CachedArray;
use crate::array::{Array, Info, npy};
use crate::cache::{ArrayIndex, BlockCache, VersionId};
use crate::container::{Container, describe};
use crate::error::{Error, Fault, Result};
use crate::source::{Identity, Kind, Store};

/// Number of an entry within its container; 0 is the container's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EntryIndex(pub(super) u32);

impl EntryIndex {
    pub(super) const ROOT: EntryIndex = EntryIndex(0);
}

pub(super) enum Content {
    /// In the order of their names.
    Directory(Vec<EntryIndex>),
    /// Index into `container.arrays`.
    Array(usize),
    /// `views/<array>.npy`
    Npy(usize),
    Text(Arc<[u8]>),
    ArraysJson,
    ErrorTxt,
}

pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) content: Content,
}

pub(super) struct Opened {
    version: VersionId,
    path: PathBuf,
    pub(super) container: Container,
    members: &'static [&'static str],
    owner: Owner,
    entries: Vec<Entry>,
    arrays_json: OnceLock<Arc<[u8]>>,
    /// Faults found while opening and while describing the arrays; asking costs describing them all.
    faults: OnceLock<Arc<[u8]>>,
}

pub(super) const ARRAYS_JSON: &str = "arrays.json";
pub(super) const ERROR_TXT: &str = "error.txt";
pub(super) const VIEWS: &str = "views";

impl Opened {
    /// Also says which identity the container has now, after everything was opened.
    pub(super) fn new(
        version: &Version,
        container: Container,
        store: &dyn Store,
    ) -> Result<(Self, Identity)> {
        let members = version.recognised.format.members();
        let stat = store.stat(&version.path)?;
        let mut owner = Owner::of(&stat);
        let mut identities = Vec::with_capacity(members.len().max(1));
        if members.is_empty() {
            identities.push(Some(stat.identity));
        }
        for name in members {
            match store.stat(&version.path.join(name)) {
                Ok(member) => {
                    owner.restrict(&member);
                    identities.push(Some(member.identity));
                }
                Err(e) if e.is_not_found() => identities.push(None),
                Err(e) => return Err(e),
            }
        }
        let mut opened = Opened {
            version: version.id,
            path: store.display(&version.path),
            entries: Vec::new(),
            container,
            members,
            owner,
            arrays_json: OnceLock::new(),
            faults: OnceLock::new(),
        };
        opened.add_entries();
        Ok((opened, Identity(identities)))
    }

    fn add_entries(&mut self) {
        self.add_directory("");
        let root = EntryIndex::ROOT;
        let names: Vec<String> = self
            .container
            .arrays
            .iter()
            .map(|array| array.name().to_owned())
            .collect();
        for (index, name) in names.iter().enumerate() {
            self.add(root, name, Content::Array(index));
        }
        let texts: Vec<(String, Arc<[u8]>)> = self
            .container
            .texts
            .iter()
            .map(|t| (t.name.clone(), Arc::clone(&t.content)))
            .collect();
        for (name, content) in texts {
            self.add(root, &name, Content::Text(content));
        }
        self.add(root, ARRAYS_JSON, Content::ArraysJson);
        let views = self.add_directory(VIEWS);
        self.link(root, views);
        for (index, name) in names.iter().enumerate() {
            self.add(views, &format!("{name}.npy"), Content::Npy(index));
        }
        self.add(root, ERROR_TXT, Content::ErrorTxt);
        self.sort();
    }

    fn add_directory(&mut self, name: &str) -> EntryIndex {
        self.push(name, Content::Directory(Vec::new()))
    }

    fn add(&mut self, parent: EntryIndex, name: &str, content: Content) {
        let index = self.push(name, content);
        self.link(parent, index);
    }

    fn push(&mut self, name: &str, content: Content) -> EntryIndex {
        self.entries.push(Entry {
            name: name.into(),
            content,
        });
        EntryIndex(u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX))
    }

    fn link(&mut self, parent: EntryIndex, child: EntryIndex) {
        if let Some(entry) = self.entries.get_mut(parent.0 as usize)
            && let Content::Directory(children) = &mut entry.content
        {
            children.push(child);
        }
    }

    /// Look-ups search in the order of names.
    fn sort(&mut self) {
        for at in 0..self.entries.len() {
            if let Content::Directory(children) = &mut self.entries[at].content {
                let mut sorted = std::mem::take(children);
                sorted.sort_by(|a, b| self.name(*a).cmp(self.name(*b)));
                self.entries[at].content = Content::Directory(sorted);
            }
        }
    }

    fn name(&self, index: EntryIndex) -> &OsStr {
        self.entry(index)
            .map_or(OsStr::new(""), |entry| &entry.name)
    }

    pub(super) fn entry(&self, index: EntryIndex) -> Result<&Entry> {
        self.entries.get(index.0 as usize).ok_or(Error::NotFound)
    }

    pub(super) fn find(&self, parent: EntryIndex, name: &OsStr) -> Option<EntryIndex> {
        let Content::Directory(children) = &self.entry(parent).ok()?.content else {
            return None;
        };
        let at = children
            .binary_search_by(|child| self.name(*child).cmp(name))
            .ok()?;
        Some(children[at]).filter(|index| self.shown(*index))
    }

    /// Entries of a directory that are shown.
    pub(super) fn children(&self, parent: EntryIndex) -> Result<Vec<EntryIndex>> {
        match &self.entry(parent)?.content {
            Content::Directory(children) => Ok(children
                .iter()
                .copied()
                .filter(|i| self.shown(*i))
                .collect()),
            _ => Err(Error::NotADirectory),
        }
    }

    /// `error.txt` is there when there is something to say.
    fn shown(&self, index: EntryIndex) -> bool {
        match self.entry(index).map(|entry| &entry.content) {
            Ok(Content::ErrorTxt) => !self.error_txt().is_empty(),
            other => other.is_ok(),
        }
    }

    /// Whether a stored file of that name in a container directory is shown beside the arrays: it is,
    /// unless it is part of the container.
    pub(super) fn shows_beside(&self, name: &OsStr) -> bool {
        !self.members.is_empty() && !self.members.iter().any(|member| OsStr::new(member) == name)
    }

    fn array(&self, index: usize) -> Result<&Arc<dyn Array>> {
        self.container.arrays.get(index).ok_or(Error::NotFound)
    }

    fn info(&self, index: usize) -> Result<Info> {
        let array = self.array(index)?;
        array
            .info()
            .map_err(|e| e.map_fault(|f| f.array(array.name()).container(&self.path)))
    }

    pub(super) fn kind(&self, index: EntryIndex) -> Result<Kind> {
        Ok(match self.entry(index)?.content {
            Content::Directory(_) => Kind::Directory,
            _ => Kind::File,
        })
    }

    pub(super) fn attr(
        &self,
        index: EntryIndex,
        inode: InodeId,
        settings: &Settings,
    ) -> Result<Attr> {
        let file = |size, stored| Attr::file(inode, &self.owner, size, stored, settings);
        let text = |bytes: &[u8]| file(bytes.len() as u64, bytes.len() as u64);
        Ok(match &self.entry(index)?.content {
            Content::Directory(_) => Attr::directory(inode, &self.owner, settings),
            Content::Array(array) => {
                let info = self.info(*array)?;
                file(info.bytes, info.stored_bytes)
            }
            Content::Npy(array) => {
                let info = self.info(*array)?;
                file(npy::header(&info).len() as u64 + info.bytes, 0)
            }
            Content::Text(bytes) => text(bytes),
            // Made up, not stored: no blocks.
            Content::ArraysJson => file(self.arrays_json()?.len() as u64, 0),
            Content::ErrorTxt => file(self.error_txt().len() as u64, 0),
        })
    }

    pub(super) fn open(
        self: &Arc<Self>,
        index: EntryIndex,
        cache: &Arc<BlockCache>,
    ) -> Result<Handle> {
        Ok(match &self.entry(index)?.content {
            Content::Directory(_) => return Err(Error::IsADirectory),
            Content::Array(array) => self.open_array(*array, Arc::from([]), cache)?,
            Content::Npy(array) => {
                let header = npy::header(&self.info(*array)?);
                self.open_array(*array, Arc::from(header), cache)?
            }
            Content::Text(bytes) => Handle::Bytes(Arc::clone(bytes)),
            Content::ArraysJson => Handle::Bytes(self.arrays_json()?),
            Content::ErrorTxt => Handle::Bytes(self.error_txt()),
        })
    }

    fn open_array(
        self: &Arc<Self>,
        index: usize,
        prefix: Arc<[u8]>,
        cache: &Arc<BlockCache>,
    ) -> Result<Handle> {
        let cached = CachedArray {
            bytes: self.info(index)?.bytes,
            array: Arc::clone(self.array(index)?),
            cache: Arc::clone(cache),
            version: self.version,
            index: ArrayIndex(u32::try_from(index).unwrap_or(u32::MAX)),
            container: self.path.clone(),
            prefix,
        };
        Ok(Handle::Array(ArrayHandle::new(cached)))
    }

    /// The array or view behind an entry, for its attributes.
    pub(super) fn described(&self, index: EntryIndex) -> Result<Option<Info>> {
        match self.entry(index)?.content {
            Content::Array(array) | Content::Npy(array) => self.info(array).map(Some),
            _ => Ok(None),
        }
    }

    fn arrays_json(&self) -> Result<Arc<[u8]>> {
        if let Some(text) = self.arrays_json.get() {
            return Ok(Arc::clone(text));
        }
        let text = Arc::from(describe::arrays_json(&self.container)?);
        Ok(Arc::clone(self.arrays_json.get_or_init(|| text)))
    }

    /// One line per fault; empty when the container is sound as far as opening can tell.
    pub(super) fn error_txt(&self) -> Arc<[u8]> {
        let text = self.faults.get_or_init(|| {
            let described = (0..self.container.arrays.len()).filter_map(|i| match self.info(i) {
                Err(Error::Fault(fault)) => Some(*fault),
                _ => None,
            });
            let faults: Vec<Fault> = self
                .container
                .faults
                .iter()
                .cloned()
                .chain(described)
                .collect();
            let lines = faults
                .into_iter()
                .map(|fault| format!("{}\n", within(fault)));
            Arc::from(lines.collect::<String>().into_bytes())
        });
        Arc::clone(text)
    }
}

/// A line of `error.txt` lies in the container that it speaks of.
fn within(mut fault: Fault) -> Fault {
    fault.container = None;
    fault
}
