//! The entries of an opened container: a small tree built once, then looked up in.
//!
//! Names are paths of shown components (`container::names`), so a directory exists where a name
//! says so. The same container always yields the same entries in the same order: an [`EntryIndex`]
//! survives closing and opening again. Used by `open_container`.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use super::array_names::ArrayNames;
use super::cookie::{Cookie, NameHash, Numbering};
use crate::container::inside::{ContainerNumber, join};
use crate::container::{Container, Text, daphne};
use crate::error::{Error, Result};
use crate::source::FileKind;

/// Number of an entry within its container; 0 is the container's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryIndex(pub(crate) u32);

impl EntryIndex {
    pub(crate) const ROOT: EntryIndex = EntryIndex(0);
}

/// Number of an array among all of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ArrayNumber(pub(crate) usize);

pub(crate) enum EntryContent {
    Directory(ShownDirectory),
    Array(ArrayNumber),
    /// `views/<array>.npy`
    Npy(ArrayNumber),
    Text(ContainerNumber, Arc<Vec<u8>>),
    /// A second way to a group.
    Link(OsString),
    /// It has a name, but cannot be read: the error that opening it gives.
    Unreadable(Error),
    /// `views/stored`: the bytes of the container, if it is one file.
    Stored,
    ArraysJson(ContainerNumber),
    /// `arrays.json` of a group that is no container, by its path.
    GroupJson(Box<str>),
    ErrorTxt(ContainerNumber),
}

pub(crate) struct ShownDirectory {
    children: Children,
    /// If it is a container's own: which one's.
    pub(crate) part: Option<ContainerNumber>,
    /// The directory in which it is; itself, if there is none.
    above: EntryIndex,
}

impl ShownDirectory {
    fn below(above: EntryIndex) -> ShownDirectory {
        ShownDirectory {
            children: Children::default(),
            part: None,
            above,
        }
    }
}

/// Entries of a directory in the order of their cookies, which are of the names that they have in
/// the end.
#[derive(Default)]
struct Children(Vec<(Cookie, EntryIndex)>);

pub(crate) struct ShownEntry {
    pub(crate) name: OsString,
    pub(crate) content: EntryContent,
}

#[derive(Default)]
pub(crate) struct EntryTable {
    entries: Vec<ShownEntry>,
    names: ArrayNames,
    /// Only while entries are being added.
    directories: HashMap<(EntryIndex, String), EntryIndex>,
}

pub const ARRAYS_JSON: &str = "arrays.json";
pub const ERROR_TXT: &str = "error.txt";
pub const VIEWS: &str = "views";
const STORED: &str = "stored";

impl EntryTable {
    /// The entries of a container and of those inside of it, `all` as [`Container::all`] has them.
    /// `is_file`: whether it is one file.
    pub(crate) fn new(
        all: &[(Arc<str>, Arc<Container>)],
        names: ArrayNames,
        is_file: bool,
    ) -> Self {
        let mut entries = EntryTable {
            names,
            ..EntryTable::default()
        };
        let root = ShownDirectory {
            part: Some(ContainerNumber::OUTERMOST),
            ..ShownDirectory::below(EntryIndex::ROOT)
        };
        entries.push("".into(), EntryContent::Directory(root));
        let mut first = 0;
        for (number, (group, container)) in all.iter().enumerate() {
            let at = entries.directory(EntryIndex::ROOT, group);
            entries.add_container(at, ContainerNumber(number), group, container, first);
            first += container.written().count();
        }
        if is_file {
            let views = entries.directory(EntryIndex::ROOT, VIEWS);
            entries.add(views, STORED, EntryContent::Stored);
        }
        // The columns of a frame are no group that would be copied by itself.
        if all
            .first()
            .is_some_and(|(_, container)| container.format != daphne::NAME)
        {
            entries.describe_groups();
        }
        entries.sort();
        entries.names.complete();
        entries.directories = HashMap::new();
        entries
    }

    /// `first`: number of the container's first array.
    fn add_container(
        &mut self,
        at: EntryIndex,
        part: ContainerNumber,
        group: &str,
        container: &Container,
        first: usize,
    ) {
        if let Some(entry) = self.entries.get_mut(at.0 as usize)
            && let EntryContent::Directory(directory) = &mut entry.content
        {
            directory.part = Some(part);
        }
        self.add(at, ARRAYS_JSON, EntryContent::ArraysJson(part));
        self.add(at, ERROR_TXT, EntryContent::ErrorTxt(part));
        let views = self.directory(at, VIEWS);
        for (number, array) in container.arrays.iter().enumerate() {
            let number = ArrayNumber(first + number);
            let known = self.names.number(number);
            let entry = self.add(at, array.name(), EntryContent::Array(known));
            self.names.note(number, entry);
            let view = format!("{}.npy", array.name());
            self.add(views, &view, EntryContent::Npy(known));
        }
        for (number, lines) in container.lines.iter().enumerate() {
            let number = ArrayNumber(first + container.arrays.len() + number);
            self.add(at, lines.name(), EntryContent::Array(number));
        }
        for Text { name, content } in &container.texts {
            self.add(at, name, EntryContent::Text(part, Arc::clone(content)));
        }
        for path in &*container.groups {
            self.directory(at, path);
        }
        for link in &*container.links {
            let target = relative(&join(group, &link.name), &link.target);
            self.add(at, &link.name, EntryContent::Link(target.into()));
        }
        for member in container.unreadable.iter().filter(|member| member.entry) {
            let error = member.error().of_array(group, &member.name);
            self.add(at, &member.name, EntryContent::Unreadable(error));
        }
    }

    /// Each group says what lies in it.
    fn describe_groups(&mut self) {
        for at in 0..self.entries.len() {
            let group = EntryIndex(u32::try_from(at).unwrap_or(u32::MAX));
            let Some(path) = self.group_path(group) else {
                continue;
            };
            if let (None, Some(path)) = (self.part_of(group), path.to_str())
                && !self.has_child(group, ARRAYS_JSON)
            {
                let content = EntryContent::GroupJson(path.into());
                self.link(group, ARRAYS_JSON, content);
            }
        }
    }

    /// Whether a directory, whose entries are not sorted yet, has one of this name.
    fn has_child(&self, at: EntryIndex, name: &str) -> bool {
        let Ok(ShownEntry {
            content: EntryContent::Directory(directory),
            ..
        }) = self.entry(at)
        else {
            return false;
        };
        let mut children = directory.children.0.iter();
        children.any(|(_, child)| self.entry(*child).is_ok_and(|child| child.name == name))
    }

    /// The directory at a path below `at`, made if it is not there.
    fn directory(&mut self, at: EntryIndex, path: &str) -> EntryIndex {
        path.split('/')
            .filter(|part| !part.is_empty())
            .fold(at, |at, name| self.child_directory(at, name))
    }

    fn child_directory(&mut self, at: EntryIndex, name: &str) -> EntryIndex {
        let known = (at, name.to_owned());
        match self.directories.get(&known) {
            Some(&index) => index,
            None => {
                let directory = EntryContent::Directory(ShownDirectory::below(at));
                let index = self.link(at, name, directory);
                self.directories.insert(known, index);
                index
            }
        }
    }

    fn is_directory(&self, index: EntryIndex) -> bool {
        matches!(self.entry(index), Ok(entry) if matches!(entry.content, EntryContent::Directory(..)))
    }

    /// Adds a file at a path below `at`.
    fn add(&mut self, at: EntryIndex, path: &str, content: EntryContent) -> EntryIndex {
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.directory(at, group);
        self.link(parent, name, content)
    }

    fn link(&mut self, parent: EntryIndex, name: &str, content: EntryContent) -> EntryIndex {
        let index = self.push(name.into(), content);
        if let Some(entry) = self.entries.get_mut(parent.0 as usize)
            && let EntryContent::Directory(directory) = &mut entry.content
        {
            // Placed when all are there.
            directory.children.0.push((Cookie::START, index));
        }
        index
    }

    fn push(&mut self, name: OsString, content: EntryContent) -> EntryIndex {
        self.entries.push(ShownEntry { name, content });
        EntryIndex(u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX))
    }

    /// Look-ups and listings go by cookies.
    fn sort(&mut self) {
        for at in 0..self.entries.len() {
            let EntryContent::Directory(directory) = &mut self.entries[at].content else {
                continue;
            };
            let mut sorted: Vec<_> = directory
                .children
                .0
                .iter()
                .map(|(_, index)| *index)
                .collect();
            self.sort_children(&mut sorted);
            while self.rename_repeated(&sorted) {
                self.sort_children(&mut sorted);
            }
            let placed = self.place(sorted);
            if let EntryContent::Directory(directory) = &mut self.entries[at].content {
                directory.children = placed;
            }
        }
    }

    fn place(&self, children: Vec<EntryIndex>) -> Children {
        let hashed = children.into_iter();
        let hashed = hashed.map(|index| (NameHash::of(self.name(index)), index));
        let mut hashed: Vec<_> = hashed.collect();
        // Those of one hash stay in the order of their names.
        hashed.sort_by_key(|(hash, _)| *hash);
        let mut numbering = Numbering::default();
        let placed = hashed.into_iter();
        let placed = placed.map(|(hash, index)| (numbering.next(hash), index));
        Children(placed.collect())
    }

    /// Directories before files of the same name.
    fn sort_children(&self, children: &mut [EntryIndex]) {
        children.sort_by(|a, b| {
            let names = self.name(*a).cmp(self.name(*b));
            names.then_with(|| self.is_directory(*b).cmp(&self.is_directory(*a)))
        });
    }

    /// A view named like a group makes way for it (`x.npy` beside a group `x.npy`): `~`, which no
    /// stored name has. Says whether there was one.
    fn rename_repeated(&mut self, sorted: &[EntryIndex]) -> bool {
        let pairs = sorted.windows(2);
        let same = |pair: &&[EntryIndex]| self.name(pair[0]) == self.name(pair[1]);
        let repeated: Vec<EntryIndex> = pairs.filter(same).map(|pair| pair[1]).collect();
        for index in &repeated {
            if let Some(entry) = self.entries.get_mut(index.0 as usize) {
                entry.name.push("~");
            }
        }
        !repeated.is_empty()
    }

    fn name(&self, index: EntryIndex) -> &OsStr {
        self.entry(index)
            .map_or(OsStr::new(""), |entry| &entry.name)
    }

    pub(crate) fn entry(&self, index: EntryIndex) -> Result<&ShownEntry> {
        self.entries.get(index.0 as usize).ok_or(Error::NotFound)
    }

    /// Children that follow a place in the listing.
    pub(crate) fn children_after(
        &self,
        parent: EntryIndex,
        place: Cookie,
    ) -> Result<&[(Cookie, EntryIndex)]> {
        match &self.entry(parent)?.content {
            EntryContent::Directory(directory) => {
                let Children(all) = &directory.children;
                let at = all.partition_point(|(cookie, _)| *cookie <= place);
                Ok(&all[at..])
            }
            _ => Err(Error::NotADirectory),
        }
    }

    pub(crate) fn find(&self, parent: EntryIndex, name: &OsStr) -> Option<EntryIndex> {
        let hash = NameHash::of(name);
        let all = self.children_after(parent, Cookie::START).ok()?;
        let first = all.partition_point(|(cookie, _)| cookie.hash() < hash);
        let alike = all[first..].iter();
        let mut alike = alike.take_while(|(cookie, _)| cookie.hash() == hash);
        let found = alike.find(|(_, index)| self.name(*index) == name)?;
        Some(found.1)
    }

    /// Where the directory of a group lies in that of the container, itself the empty path. None of
    /// what is no directory, and of one of views.
    pub(crate) fn group_path(&self, index: EntryIndex) -> Option<PathBuf> {
        let (mut names, mut at) = (Vec::new(), index);
        loop {
            let entry = self.entry(at).ok()?;
            let EntryContent::Directory(directory) = &entry.content else {
                return None;
            };
            if at == EntryIndex::ROOT {
                return Some(names.into_iter().rev().collect());
            }
            if entry.name == VIEWS && self.part_of(directory.above).is_some() {
                return None;
            }
            names.push(&entry.name);
            at = directory.above;
        }
    }

    /// Where an entry lies in the container's directory. All entries are looked at.
    pub(crate) fn path_of(&self, index: EntryIndex) -> Option<PathBuf> {
        let name = &self.entry(index).ok()?.name;
        let all = self.entries.iter().enumerate();
        let mut above = all.filter_map(|(at, entry)| match &entry.content {
            EntryContent::Directory(directory) => {
                let mut children = directory.children.0.iter();
                children.find(|(_, child)| *child == index)?;
                self.group_path(EntryIndex(u32::try_from(at).ok()?))
            }
            _ => None,
        });
        above.next().map(|above| above.join(name))
    }

    /// The container whose own directory this is.
    pub(crate) fn part_of(&self, index: EntryIndex) -> Option<ContainerNumber> {
        match &self.entry(index).ok()?.content {
            EntryContent::Directory(directory) => directory.part,
            _ => None,
        }
    }

    /// Whether an entry of a container's own directory is that of its views.
    pub(crate) fn is_views(&self, index: EntryIndex) -> bool {
        self.is_directory(index) && self.name(index) == VIEWS
    }

    /// Further names of arrays.
    pub(crate) fn names(&self) -> &ArrayNames {
        &self.names
    }

    pub(crate) fn kind(&self, index: EntryIndex) -> Result<FileKind> {
        Ok(match self.entry(index)?.content {
            EntryContent::Directory(..) => FileKind::Directory,
            EntryContent::Link(_) => FileKind::Symlink,
            _ => FileKind::File,
        })
    }
}

/// The target of a symbolic link at `from` that leads to `to`; both are paths from one root.
fn relative(from: &str, to: &str) -> String {
    let here: Vec<&str> = from.split('/').collect();
    let here = &here[..here.len() - 1];
    let there: Vec<&str> = to.split('/').filter(|part| !part.is_empty()).collect();
    let common = here.iter().zip(&there).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", here.len() - common);
    let parts: Vec<&str> = up.chain(there[common..].iter().copied()).collect();
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{Inner, Link, Unreadable};

    fn names(entries: &EntryTable, at: EntryIndex) -> Vec<String> {
        let children = entries.children_after(at, Cookie::START).unwrap();
        let name = |i: EntryIndex| entries.name(i).to_string_lossy().into_owned();
        let mut names: Vec<_> = children.iter().map(|(_, i)| name(*i)).collect();
        names.sort();
        names
    }

    #[test]
    fn paths_become_directories() {
        let mut container = Container::new("x", "1");
        Arc::make_mut(&mut container.groups).push("a/empty".into());
        container.add_unreadable([Unreadable {
            name: "a/b/outside".into(),
            reason: String::new(),
            is_whole: true,
            entry: true,
        }]);
        container.links = Arc::new(vec![Link {
            name: "a/b/up".into(),
            target: "a/empty".into(),
        }]);
        container.inner.push(Inner {
            path: "a/inner".into(),
            container: Arc::new(Container::new("y", "1")),
        });
        let entries = EntryTable::new(&Arc::new(container).all(), ArrayNames::default(), false);
        let root = EntryIndex::ROOT;
        assert_eq!(
            names(&entries, root),
            ["a", "arrays.json", "error.txt", "views"]
        );
        let a = entries.find(root, OsStr::new("a")).unwrap();
        assert_eq!(names(&entries, a), ["arrays.json", "b", "empty", "inner"]);
        let b = entries.find(a, OsStr::new("b")).unwrap();
        assert_eq!(names(&entries, b), ["arrays.json", "outside", "up"]);
        let up = entries.find(b, OsStr::new("up")).unwrap();
        let EntryContent::Link(target) = &entries.entry(up).unwrap().content else {
            panic!("not a link");
        };
        assert_eq!(target, "../empty");
        let inner = entries.find(a, OsStr::new("inner")).unwrap();
        assert_eq!(
            names(&entries, inner),
            ["arrays.json", "error.txt", "views"]
        );
    }

    #[test]
    fn a_file_makes_way_for_a_group_of_its_name() {
        let mut container = Container::new("x", "1");
        Arc::make_mut(&mut container.groups).push("a".into());
        for _ in 0..2 {
            container.texts.push(Text {
                name: "a".into(),
                content: Arc::default(),
            });
        }
        let entries = EntryTable::new(&Arc::new(container).all(), ArrayNames::default(), false);
        let root = EntryIndex::ROOT;
        let shown = ["a", "arrays.json", "a~", "a~~", "error.txt", "views"];
        assert_eq!(names(&entries, root), shown);
        let a = entries.find(root, OsStr::new("a")).unwrap();
        assert_eq!(entries.kind(a).unwrap(), FileKind::Directory);
    }

    #[test]
    fn links_are_relative() {
        assert_eq!(relative("c", "a/b"), "a/b");
        assert_eq!(relative("x/y/c", "x/z"), "../z");
        assert_eq!(relative("x/c", ""), "..");
        assert_eq!(relative("c", ""), ".");
        assert_eq!(relative("x/c", "x"), ".");
    }
}
