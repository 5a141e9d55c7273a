//! The entries of an opened container: a small tree built once, then looked up in.
//!
//! Names are paths of shown components (`container::names`), so a directory exists where a name says so.
//! The same container always yields the same entries in the same order: an [`EntryIndex`] survives
//! closing and opening again. Used by `opened`.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use crate::container::inside::join;
use crate::container::{Container, Text};
use crate::error::{Error, Result};
use crate::source::Kind;

/// Number of an entry within its container; 0 is the container's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EntryIndex(pub(super) u32);

impl EntryIndex {
    pub(super) const ROOT: EntryIndex = EntryIndex(0);
}

/// Number of a container among those of a file: 0 is the outermost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part(pub(super) usize);

/// Number of an array among all of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArrayNumber(pub(super) usize);

pub(super) enum Content {
    /// Children in the order of their names; a container's own directory says which one's.
    Directory(Vec<EntryIndex>, Option<Part>),
    Array(ArrayNumber),
    /// `views/<array>.npy`
    Npy(ArrayNumber),
    Text(Arc<[u8]>),
    /// A second way to a group.
    Link(OsString),
    /// Known, but nothing that could be read; what opening it gives.
    Unreadable(Error),
    ArraysJson(Part),
    ErrorTxt(Part),
}

pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) content: Content,
}

#[derive(Default)]
pub(super) struct Entries {
    entries: Vec<Entry>,
    /// Only while entries are being added.
    directories: HashMap<(EntryIndex, String), EntryIndex>,
}

pub(super) const ARRAYS_JSON: &str = "arrays.json";
pub(super) const ERROR_TXT: &str = "error.txt";
pub(super) const VIEWS: &str = "views";

impl Entries {
    /// The entries of a container and of those inside of it, `all` as [`Container::all`] has them.
    pub(super) fn new(all: &[(Arc<str>, Arc<Container>)]) -> Self {
        let mut entries = Entries::default();
        entries.push("".into(), Content::Directory(Vec::new(), Some(Part(0))));
        let mut first = 0;
        for (number, (group, container)) in all.iter().enumerate() {
            let at = entries.directory(EntryIndex::ROOT, group);
            entries.add_container(at, Part(number), group, container, first);
            first += container.arrays.len();
        }
        entries.sort();
        entries.directories = HashMap::new();
        entries
    }

    /// `first`: number of the container's first array.
    fn add_container(
        &mut self,
        at: EntryIndex,
        part: Part,
        group: &str,
        container: &Container,
        first: usize,
    ) {
        if let Some(entry) = self.entries.get_mut(at.0 as usize)
            && let Content::Directory(_, owner) = &mut entry.content
        {
            *owner = Some(part);
        }
        self.add(at, ARRAYS_JSON, Content::ArraysJson(part));
        self.add(at, ERROR_TXT, Content::ErrorTxt(part));
        let views = self.directory(at, VIEWS);
        for (number, array) in container.arrays.iter().enumerate() {
            let number = ArrayNumber(first + number);
            self.add(at, array.name(), Content::Array(number));
            let view = format!("{}.npy", array.name());
            self.add(views, &view, Content::Npy(number));
        }
        for Text { name, content } in &container.texts {
            self.add(at, name, Content::Text(Arc::clone(content)));
        }
        for path in &container.groups {
            self.directory(at, path);
        }
        for link in &container.links {
            let target = relative(&join(group, &link.name), &link.target);
            self.add(at, &link.name, Content::Link(target.into()));
        }
        for member in container.unreadable.iter().filter(|member| member.entry) {
            let error = member.error().of_array(group, &member.name);
            self.add(at, &member.name, Content::Unreadable(error));
        }
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
                let index = self.link(at, name, Content::Directory(Vec::new(), None));
                self.directories.insert(known, index);
                index
            }
        }
    }

    fn is_directory(&self, index: EntryIndex) -> bool {
        matches!(self.entry(index), Ok(entry) if matches!(entry.content, Content::Directory(..)))
    }

    /// Adds a file at a path below `at`.
    fn add(&mut self, at: EntryIndex, path: &str, content: Content) {
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.directory(at, group);
        self.link(parent, name, content);
    }

    fn link(&mut self, parent: EntryIndex, name: &str, content: Content) -> EntryIndex {
        let index = self.push(name.into(), content);
        if let Some(entry) = self.entries.get_mut(parent.0 as usize)
            && let Content::Directory(children, _) = &mut entry.content
        {
            children.push(index);
        }
        index
    }

    fn push(&mut self, name: OsString, content: Content) -> EntryIndex {
        self.entries.push(Entry { name, content });
        EntryIndex(u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX))
    }

    /// Look-ups search in the order of names.
    fn sort(&mut self) {
        for at in 0..self.entries.len() {
            let Content::Directory(children, _) = &mut self.entries[at].content else {
                continue;
            };
            let mut sorted = std::mem::take(children);
            self.sort_children(&mut sorted);
            while self.rename_repeated(&sorted) {
                self.sort_children(&mut sorted);
            }
            if let Content::Directory(children, _) = &mut self.entries[at].content {
                *children = sorted;
            }
        }
    }

    /// Directories before files of the same name.
    fn sort_children(&self, children: &mut [EntryIndex]) {
        children.sort_by(|a, b| {
            let names = self.name(*a).cmp(self.name(*b));
            names.then_with(|| self.is_directory(*b).cmp(&self.is_directory(*a)))
        });
    }

    /// A view named like a group makes way for it (`x.npy` beside a group `x.npy`): `~`, which no stored
    /// name has. Says whether there was one.
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

    pub(super) fn entry(&self, index: EntryIndex) -> Result<&Entry> {
        self.entries.get(index.0 as usize).ok_or(Error::NotFound)
    }

    pub(super) fn children(&self, parent: EntryIndex) -> Result<&[EntryIndex]> {
        match &self.entry(parent)?.content {
            Content::Directory(children, _) => Ok(children),
            _ => Err(Error::NotADirectory),
        }
    }

    pub(super) fn find(&self, parent: EntryIndex, name: &OsStr) -> Option<EntryIndex> {
        let children = self.children(parent).ok()?;
        let at = children
            .binary_search_by(|child| self.name(*child).cmp(name))
            .ok()?;
        children.get(at).copied()
    }

    pub(super) fn kind(&self, index: EntryIndex) -> Result<Kind> {
        Ok(match self.entry(index)?.content {
            Content::Directory(..) => Kind::Directory,
            Content::Link(_) => Kind::Symlink,
            _ => Kind::File,
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

    fn names(entries: &Entries, at: EntryIndex) -> Vec<String> {
        let children = entries.children(at).unwrap().iter();
        let name = |i: &EntryIndex| entries.name(*i).to_string_lossy().into_owned();
        children.map(name).collect()
    }

    #[test]
    fn paths_become_directories() {
        let mut container = Container::new("x", "1");
        container.groups.push("a/empty".into());
        container.unreadable.push(Unreadable {
            name: "a/b/outside".into(),
            reason: String::new(),
            is_whole: true,
            entry: true,
        });
        container.links.push(Link {
            name: "a/b/up".into(),
            target: "a/empty".into(),
        });
        container.inner.push(Inner {
            path: "a/inner".into(),
            container: Arc::new(Container::new("y", "1")),
        });
        let entries = Entries::new(&Arc::new(container).all());
        let root = EntryIndex::ROOT;
        assert_eq!(
            names(&entries, root),
            ["a", "arrays.json", "error.txt", "views"]
        );
        let a = entries.find(root, OsStr::new("a")).unwrap();
        assert_eq!(names(&entries, a), ["b", "empty", "inner"]);
        let b = entries.find(a, OsStr::new("b")).unwrap();
        assert_eq!(names(&entries, b), ["outside", "up"]);
        let up = entries.find(b, OsStr::new("up")).unwrap();
        let Content::Link(target) = &entries.entry(up).unwrap().content else {
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
        container.groups.push("a".into());
        for _ in 0..2 {
            container.texts.push(Text {
                name: "a".into(),
                content: Arc::from([]),
            });
        }
        let entries = Entries::new(&Arc::new(container).all());
        let root = EntryIndex::ROOT;
        let shown = ["a", "arrays.json", "a~", "a~~", "error.txt", "views"];
        assert_eq!(names(&entries, root), shown);
        let a = entries.find(root, OsStr::new("a")).unwrap();
        assert_eq!(entries.kind(a).unwrap(), Kind::Directory);
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
