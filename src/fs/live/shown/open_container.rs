//! An opened container: its entries, their attributes, and opening them.
//!
//! Sizes are asked of the arrays when an entry is first described. Used by `tree`.

mod group_texts;
mod part;
mod successor;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::array_names::ArrayNames;
use super::cookie::Cookie;
use super::entry_stat::EntryStat;
use super::entry_table::{ArrayNumber, EntryContent, EntryIndex, EntryTable};
use super::open_entry::{OpenArray, OpenContent, OpenEntry};
use super::shared_array::{SharedArray, StoredBytes};
use super::tombstones::Tombstones;
use crate::array::dtype::Dtype;
use crate::array::read::CachedArray;
use crate::array::{Array, Info, npy};
use crate::cache::{ArrayIndex, BlockCache, VersionId};
use crate::container::describe::{self, TextsToRead, ToldText};
use crate::container::inside::{ContainerNumber, Located};
use crate::container::writable::{Change, WritableContainer};
use crate::container::{Container, Layout};
use crate::error::{Error, Result};
use crate::live::owner::Owner;
use crate::live::version::ContainerVersion;
use crate::memory::budget::{Budget, Hold};
use crate::memory::set_aside;
use crate::source::{FileKind, Identity, Store};
use group_texts::GroupTexts;
use part::{KeptDescription, OpenPart};

pub struct OpenContainer {
    /// Under which its blocks are cached.
    blocks: VersionId,
    path: PathBuf,
    pub(super) layout: Layout,
    tombstones: Arc<Tombstones>,
    /// The outermost container first.
    parts: Vec<OpenPart>,
    arrays: Vec<Located>,
    pub(super) entries: Arc<EntryTable>,
    group_texts: KeptDescription<GroupTexts>,
    /// Bytes of the file that it is, if it is one.
    stored: u64,
    weight: usize,
    /// For as long as it is open.
    _charge: Hold,
}

/// An entry that follows from arrays.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DerivedEntry {
    /// An array that follows from others.
    Array(ArrayNumber),
    View(ArrayNumber),
    ArraysJson(ContainerNumber),
    GroupJson,
    Text(ContainerNumber),
    Stored,
}

/// Whether listings of containers have `views`; it is found by its name in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Views {
    #[default]
    Unlisted,
    Listed,
}

impl OpenContainer {
    /// Also says which identity the container has now, after everything was opened. Its memory is
    /// charged to `budget`.
    pub(crate) fn new(
        version: &ContainerVersion,
        path: &Path,
        container: Container,
        store: &dyn Store,
        budget: &Arc<Budget>,
    ) -> Result<(Self, Identity)> {
        let stats = version.recognised.stat(store, path)?;
        let stored = stats.identity().file().map(|file| file.size());
        let at = (store.display(path), version.blocks());
        let opened = OpenContainer::of(version, at, (container, stored), budget)?;
        Ok((opened, stats.identity()))
    }

    /// One that is shown at a path, whose blocks are cached under this number. `stored`: the bytes
    /// of the file that it is, if it is one.
    pub(crate) fn of(
        version: &ContainerVersion,
        (path, blocks): (PathBuf, VersionId),
        (container, stored): (Container, Option<u64>),
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let container = Arc::new(container);
        let weight = describe::weight(&container);
        let charge = budget.keep_built(weight as u64);
        set_aside(4 * weight as u64, "cannot open a container", || {
            let (all, arrays) = (container.all(), container.all_written());
            let names = ArrayNames::new(&container.further_names, &arrays);
            OpenContainer {
                blocks,
                path,
                layout: version.recognised.layout(),
                tombstones: Arc::clone(&version.tombstones),
                entries: Arc::new(EntryTable::new(&all, names, stored.is_some())),
                group_texts: KeptDescription::default(),
                stored: stored.unwrap_or(0),
                arrays,
                weight,
                _charge: charge,
                parts: all.into_iter().map(OpenPart::new).collect(),
            }
        })
    }

    pub(crate) fn container(&self, part: ContainerNumber) -> Result<&Arc<Container>> {
        self.part(part).map(|part| &part.container)
    }

    /// The container itself.
    pub(crate) fn outermost(&self) -> Result<&Arc<Container>> {
        self.container(ContainerNumber::OUTERMOST)
    }

    /// A container and those inside of it, in their order.
    pub(crate) fn parts_of(&self, part: ContainerNumber) -> Result<Vec<ContainerNumber>> {
        let numbered = self.parts.iter().enumerate();
        let numbered = numbered.map(|(number, part)| (Arc::as_ptr(&part.container), number));
        let numbers: HashMap<_, _> = numbered.collect();
        let all = self.container(part)?.all().into_iter();
        let numbers = all.filter_map(|(_, part)| numbers.get(&Arc::as_ptr(&part)).copied());
        Ok(numbers.map(ContainerNumber).collect())
    }

    /// How it and those inside of it can be changed, if they can be.
    pub(crate) fn writable(&self) -> Option<&Arc<dyn WritableContainer>> {
        self.outermost().ok()?.writable.as_ref()
    }

    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    fn part(&self, part: ContainerNumber) -> Result<&OpenPart> {
        self.parts.get(part.0).ok_or(Error::NotFound)
    }

    pub(crate) fn name(&self, index: EntryIndex) -> Result<&OsString> {
        self.entries.entry(index).map(|entry| &entry.name)
    }

    /// Where an entry lies in the directory of the container.
    pub(crate) fn place_of(&self, index: EntryIndex) -> Option<PathBuf> {
        let directory = self.entries.group_path(index);
        directory.or_else(|| self.entries.path_of(index))
    }

    /// Whether it is the version as it is stored now.
    pub(crate) fn is_current(&self, version: &ContainerVersion) -> bool {
        self.blocks == version.blocks()
    }

    pub(crate) fn find(&self, parent: EntryIndex, name: &OsStr) -> Option<EntryIndex> {
        self.entries
            .find(parent, name)
            .filter(|index| self.shown(*index))
    }

    /// An array that was removed from a directory.
    pub(crate) fn find_removed(&self, parent: EntryIndex, name: &OsStr) -> Option<EntryIndex> {
        let index = self.entries.find(parent, name)?;
        let was_array = self.array_at(index).is_some();
        (was_array && self.tombstones.contains(index)).then_some(index)
    }

    /// Entries of a directory that are shown and follow a place in its listing; at most so many.
    pub(crate) fn children_after(
        &self,
        parent: EntryIndex,
        place: Cookie,
        most: usize,
        views: Views,
    ) -> Result<Vec<(Cookie, EntryIndex)>> {
        let children = self.entries.children_after(parent, place)?.iter().copied();
        let has_views = views == Views::Unlisted && self.entries.part_of(parent).is_some();
        let listed = children.filter(|(_, index)| !has_views || !self.entries.is_views(*index));
        let shown = listed.filter(|(_, index)| self.shown(*index));
        Ok(shown.take(most).collect())
    }

    /// Whether an entry is the container as it is stored.
    pub(crate) fn is_stored(&self, index: EntryIndex) -> bool {
        let entry = self.entries.entry(index);
        entry.is_ok_and(|entry| matches!(entry.content, EntryContent::Stored))
    }

    /// `error.txt` is there when there is something to say; an entry that was removed is not.
    fn shown(&self, index: EntryIndex) -> bool {
        if self.tombstones.contains(index) {
            return false;
        }
        match self.entries.entry(index).map(|entry| &entry.content) {
            Ok(EntryContent::ErrorTxt(part)) => !self.error_txt(*part).is_empty(),
            other => other.is_ok(),
        }
    }

    pub(crate) fn array(&self, number: ArrayNumber) -> Result<&Located> {
        self.arrays.get(number.0).ok_or(Error::NotFound)
    }

    /// Type, shape and storage of the stored array.
    pub(crate) fn info(&self, number: ArrayNumber) -> Result<Info> {
        let located = self.array(number)?;
        let info = located.array.info();
        info.map_err(|e| located.locate(e).of_container(&self.path))
    }

    pub(crate) fn kind(&self, index: EntryIndex) -> Result<FileKind> {
        self.entries.kind(index)
    }

    /// The target of a link.
    pub(crate) fn read_link(&self, index: EntryIndex) -> Result<OsString> {
        match &self.entries.entry(index)?.content {
            EntryContent::Link(target) => Ok(target.clone()),
            _ => Err(Error::Unsuitable),
        }
    }

    /// An array that cannot be described is shown without size; opening it says why.
    pub(crate) fn stat(&self, index: EntryIndex, owner: &Owner) -> Result<EntryStat> {
        let file = |size, stored| EntryStat::new(FileKind::File, size, stored, owner);
        // The rest of it is there when it is opened.
        let told = |told: ToldText<Arc<Vec<u8>>>| EntryStat {
            follows: !told.is_whole,
            ..file(told.text.len() as u64, 0)
        };
        Ok(match &self.entries.entry(index)?.content {
            EntryContent::Directory(..) => EntryStat::new(FileKind::Directory, 0, 0, owner),
            EntryContent::Array(array) => EntryStat {
                names: self.names_of(*array),
                ..match self.info(*array) {
                    Ok(info) => file(info.bytes, info.stored().unwrap_or(info.bytes)),
                    Err(Error::Fault(_) | Error::NotShown(_)) => file(0, 0),
                    Err(e) => return Err(e),
                }
            },
            EntryContent::Npy(array) => match self.info(*array) {
                Ok(info) => file(npy::header(&info).len() as u64 + info.bytes, 0),
                Err(Error::Fault(_) | Error::NotShown(_)) => file(0, 0),
                Err(e) => return Err(e),
            },
            EntryContent::Text(_, bytes) => file(bytes.len() as u64, bytes.len() as u64),
            EntryContent::Link(target) => {
                EntryStat::new(FileKind::Symlink, target.len() as u64, 0, owner)
            }
            EntryContent::Stored => file(self.stored, self.stored),
            // Made up, not stored: no blocks.
            EntryContent::Unreadable(_) => file(0, 0),
            EntryContent::ArraysJson(part) => told(self.arrays_json(*part, TextsToRead::Few)?),
            EntryContent::GroupJson(path) => told(self.group_json(path, TextsToRead::Few)?),
            EntryContent::ErrorTxt(part) => file(self.error_txt(*part).len() as u64, 0),
        })
    }

    pub(crate) fn open(
        self: &Arc<Self>,
        index: EntryIndex,
        cache: &Arc<BlockCache>,
    ) -> Result<OpenEntry> {
        let entry = self.entries.entry(index)?;
        let content = match &entry.content {
            EntryContent::Directory(..) => return Err(Error::IsADirectory),
            EntryContent::Link(_) | EntryContent::Stored => return Err(Error::Unsuitable),
            EntryContent::Array(array) => self.open_array(*array, Arc::from([]), cache)?,
            EntryContent::Npy(array) => {
                let header = npy::header(&self.info(*array)?);
                self.open_array(*array, Arc::from(header), cache)?
            }
            EntryContent::Text(_, bytes) => OpenContent::Bytes(Arc::clone(bytes)),
            EntryContent::Unreadable(error) => return Err(error.clone().of_container(&self.path)),
            EntryContent::ArraysJson(part) => {
                OpenContent::Bytes(self.arrays_json(*part, TextsToRead::All)?.text)
            }
            EntryContent::GroupJson(path) => {
                OpenContent::Bytes(self.group_json(path, TextsToRead::All)?.text)
            }
            EntryContent::ErrorTxt(part) => OpenContent::Bytes(self.error_txt(*part)),
        };
        Ok(OpenEntry::new(content, Arc::clone(self)))
    }

    /// An array of its own, by the number that it has.
    pub(crate) fn stored_array(&self, number: ArrayNumber) -> Result<Arc<dyn Array>> {
        self.array(number).map(|located| Arc::clone(&located.array))
    }

    /// The arrays by their paths; several may lead to one.
    pub(crate) fn numbers_by_path(&self) -> HashMap<String, ArrayNumber> {
        let number = |number| self.entries.names().number(ArrayNumber(number));
        let numbered = self.arrays.iter().enumerate();
        let paths = numbered.map(|(at, located)| (located.path(), number(at)));
        paths.collect()
    }

    /// The entry that stands for the file to which a name leads: another one, if the name is a
    /// further one of an array.
    pub(crate) fn file_of(&self, name: EntryIndex) -> EntryIndex {
        self.entries.names().file(name)
    }

    /// Under how many names an array is shown; one that was opened before they were removed counts
    /// as one.
    fn names_of(&self, number: ArrayNumber) -> u32 {
        let names = self.entries.names();
        let (all, first) = (names.entries(number), names.entries(number).first());
        let is_one = |entry: EntryIndex| Some(&names.file(entry)) == first;
        let removed = self.tombstones.count(is_one);
        let shown = all.len().saturating_sub(removed);
        u32::try_from(shown).unwrap_or(u32::MAX).max(1)
    }

    /// Whether an entry is an array that can be written: everything else follows from arrays, or is
    /// of a container that is only read.
    pub(crate) fn is_writable(&self, index: EntryIndex) -> bool {
        let number = self.array_at(index);
        number.is_some_and(|number| self.permits(number))
    }

    /// Whether an array can be written.
    pub(crate) fn permits(&self, number: ArrayNumber) -> bool {
        let nothing = Change::Write { offset: 0, len: 0 };
        let (Some(writable), Ok(located)) = (self.writable(), self.array(number)) else {
            return false;
        };
        writable.permits(located.address(), nothing).is_ok()
    }

    /// Whether an array that can be written shows what follows from others until it is.
    pub(crate) fn follows(&self, number: ArrayNumber) -> bool {
        let (Some(writable), Ok(located)) = (self.writable(), self.array(number)) else {
            return false;
        };
        writable.follows(located.address())
    }

    /// The array that an entry is.
    pub(crate) fn array_at(&self, index: EntryIndex) -> Option<ArrayNumber> {
        match self.entries.entry(index).ok()?.content {
            EntryContent::Array(number) => Some(number),
            _ => None,
        }
    }

    /// The kind of an entry that follows from arrays which can be written.
    pub(crate) fn derived(&self, index: EntryIndex) -> Option<DerivedEntry> {
        self.writable()?;
        match self.entries.entry(index).ok()?.content {
            EntryContent::Array(number) => {
                let is_derived = !self.permits(number) || self.follows(number);
                is_derived.then_some(DerivedEntry::Array(number))
            }
            EntryContent::Npy(number) => Some(DerivedEntry::View(number)),
            EntryContent::ArraysJson(part) => Some(DerivedEntry::ArraysJson(part)),
            EntryContent::GroupJson(_) => Some(DerivedEntry::GroupJson),
            EntryContent::Text(part, _) => Some(DerivedEntry::Text(part)),
            EntryContent::Stored => Some(DerivedEntry::Stored),
            _ => None,
        }
    }

    /// An array as it is stored.
    pub(crate) fn cached_array(
        &self,
        number: ArrayNumber,
        prefix: Arc<[u8]>,
        cache: &Arc<BlockCache>,
    ) -> Result<CachedArray> {
        let located = self.array(number)?;
        Ok(CachedArray {
            bytes: self.info(number)?.bytes,
            array: Arc::clone(&located.array),
            cache: Arc::clone(cache),
            version: self.blocks,
            index: ArrayIndex(u32::try_from(number.0).unwrap_or(u32::MAX)),
            container: self.path.clone(),
            group: Arc::clone(&located.group),
            prefix,
            is_far: located.is_far,
        })
    }

    /// An array of which nothing is ever replaced.
    fn open_array(
        &self,
        number: ArrayNumber,
        prefix: Arc<[u8]>,
        cache: &Arc<BlockCache>,
    ) -> Result<OpenContent> {
        let cached = self.cached_array(number, prefix, cache)?;
        let shared = SharedArray::new(cached, StoredBytes::default());
        Ok(OpenContent::Array(OpenArray::new(shared, None)))
    }

    /// Why there is nothing but a name of an entry.
    pub(crate) fn why_unreadable(&self, index: EntryIndex) -> Option<String> {
        match &self.entries.entry(index).ok()?.content {
            EntryContent::Unreadable(Error::NotShown(not)) => Some(not.why.clone()),
            EntryContent::Unreadable(error) => Some(error.to_string()),
            _ => None,
        }
    }

    /// The array that an entry is, or is a view of.
    pub(crate) fn shown_array(&self, index: EntryIndex) -> Option<ArrayNumber> {
        match self.entries.entry(index).ok()?.content {
            EntryContent::Array(number) | EntryContent::Npy(number) => Some(number),
            _ => None,
        }
    }

    /// The text array that an entry is a view of.
    pub(crate) fn text_viewed(&self, index: EntryIndex) -> Result<Option<ArrayNumber>> {
        match self.entries.entry(index)?.content {
            EntryContent::Npy(number) => {
                let info = self.info(number)?;
                Ok((info.dtype == Dtype::Text).then_some(number))
            }
            _ => Ok(None),
        }
    }

    /// The array or view behind an entry and its container's format, for its attributes.
    pub(crate) fn described(&self, index: EntryIndex) -> Result<Option<(&'static str, Info)>> {
        match self.entries.entry(index)?.content {
            EntryContent::Array(array) | EntryContent::Npy(array) => {
                let format = self.array(array)?.format;
                self.info(array).map(|info| Some((format, info)))
            }
            _ => Ok(None),
        }
    }

    fn arrays_json(
        &self,
        part: ContainerNumber,
        read: TextsToRead,
    ) -> Result<ToldText<Arc<Vec<u8>>>> {
        let part = self.part(part)?;
        part.arrays_json.get(read, || {
            describe::arrays_json_restated(&part.container, &[], read)
        })
    }

    /// One line per fault; empty when the container is sound as far as opening can tell, or there
    /// is no memory to say more.
    pub(crate) fn error_txt(&self, part: ContainerNumber) -> Arc<Vec<u8>> {
        let Ok(part) = self.part(part) else {
            return Arc::default();
        };
        if let Some(text) = part.error_txt.get() {
            return Arc::clone(text);
        }
        let room = 4 * self.weight as u64;
        match set_aside(room, "cannot tell of faults", || part.faults()) {
            Ok(text) => Arc::clone(part.error_txt.get_or_init(|| text)),
            Err(_) => Arc::default(),
        }
    }
}
