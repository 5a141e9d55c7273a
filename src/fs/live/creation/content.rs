//! The content of a new container, as its drafts make it up.
//!
//! Everything is noted as it was when it was read, so that it can be found out whether it still is
//! when the container has been written. Files are open only while they are read: there may be more
//! of them than the process may have open. Used by [`super::pack`].

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::given::said_of_draft;
use super::roles::{DraftEntry, DraftRole, DraftRules};
use super::state::UNFILLED;
use crate::container::creation::{
    Creation, GivenContent, GivenDescription, GivenType, LONGEST_DESCRIPTION, PackingRule,
    RawArray, packed_member, split,
};
use crate::disk::{NewAttributes, NewTime};
use crate::error::{Error, Result};
use crate::live::directory::SourceDirectory;
use crate::live::ground::Ground;
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::memory::budget::Hold;
use crate::memory::fallible;
use crate::source::{FileKind, ReopenedSource, Stat, Store, Timestamp, open_same};

/// Longest `binsparse.json` that is read.
const LONGEST_DESCRIPTOR: u64 = 1 << 20;

/// The content that the drafts of a container make up.
#[derive(Default)]
pub(super) struct DraftContent {
    pub(super) given: GivenContent,
    /// All that lies there.
    pub(super) entries: Vec<DraftEntry>,
    /// The types that attributes give: of which array, and how many bytes it has.
    typed: Vec<(String, GivenType, u64)>,
    /// The files that were read, as they were then.
    read: Vec<(PathBuf, Stat)>,
    /// When an array was last written.
    written: Option<Timestamp>,
    /// Who may read all arrays, and who may write one: an array that no mount can write has no
    /// `w`, and copies have the modes of what they were copied from.
    mode: Option<u16>,
    /// The group that each one's group bits are for; none if they are not for one group alone.
    groups: Vec<Option<u32>>,
    /// For texts, and what they were parsed to.
    charges: Vec<Hold>,
}

/// Reads what lies in a directory, as the content of a container.
struct DraftReader<'a> {
    ground: &'a Ground,
    drafts: &'a SourceDirectory,
    /// The container's file or directory.
    container: &'a Stat,
    content: DraftContent,
}

impl DraftReader<'_> {
    fn read_own_description(&mut self) -> Result<()> {
        let (name, path) = (Path::new(ARRAYS_JSON), self.drafts.path.join(ARRAYS_JSON));
        let stat = match self.ground.store.stat(&path) {
            Err(e) if e.is_not_found() => return Ok(()),
            other => other?,
        };
        if stat.kind != FileKind::File {
            return Ok(());
        }
        owned_as(self.container, name, &stat)?;
        let (description, charge) = read_description(self.ground, &path)?;
        self.content.given.description = Some(description);
        self.note_read(name, stat, charge);
        Ok(())
    }

    fn read_all(&mut self, all: &[(DraftEntry, DraftRole)]) -> Result<()> {
        for (entry, role) in all {
            let path = entry.path.to_str().unwrap_or_default();
            match role {
                DraftRole::Array => self.read_array(path)?,
                DraftRole::Group => self.content.given.groups.push(path.to_owned()),
                DraftRole::Descriptor => self.read_descriptor(path)?,
                DraftRole::GroupDescription => self.read_group_description(path)?,
                DraftRole::Unfit => {
                    let path = entry.path.display();
                    let why = format!("{path} cannot be a part of such a container");
                    return Err(Error::Invalid(why));
                }
                DraftRole::Description
                | DraftRole::PlainDescription
                | DraftRole::Link
                | DraftRole::Dropped
                | DraftRole::Beside => {}
            }
        }
        Ok(())
    }

    fn read_group_description(&mut self, path: &str) -> Result<()> {
        let (at, stat) = self.own_draft(path)?;
        let (description, charge) = read_description(self.ground, &at)?;
        let group = split(path).0.to_owned();
        self.content.given.inner.insert(group, description);
        self.note_read(path, stat, charge);
        Ok(())
    }

    /// What groups say that are no containers. Says whether there are any.
    fn read_plain_descriptions(&mut self, all: &[(DraftEntry, DraftRole)]) -> Result<bool> {
        let plain = all.iter();
        let plain = plain.filter(|(_, role)| *role == DraftRole::PlainDescription);
        let mut any = false;
        for (entry, _) in plain {
            let path = entry.path.to_str().unwrap_or_default();
            let (at, stat) = self.own_draft(path)?;
            let (description, charge) = read_description(self.ground, &at)?;
            let whole = self.content.given.description.get_or_insert_default();
            whole.take_group(split(path).0, description);
            self.note_read(path, stat, charge);
            any = true;
        }
        Ok(any)
    }

    fn read_descriptor(&mut self, path: &str) -> Result<()> {
        let (at, stat) = self.own_draft(path)?;
        let (text, charge) = read_text(self.ground, &at, LONGEST_DESCRIPTOR)?;
        let directory = split(path).0.to_owned();
        self.content.given.descriptors.insert(directory, text);
        self.note_read(path, stat, charge);
        Ok(())
    }

    fn read_array(&mut self, path: &str) -> Result<()> {
        let (at, stat) = self.own_draft(path)?;
        let (store, content) = (&self.ground.store, &mut self.content);
        let source = store.open(&at)?;
        if source.id() != stat.id {
            return Err(self.ground.changed(&at));
        }
        let said = said_of_draft(&**store, &at, stat.id)?;
        if !said.is_empty() {
            content.typed.push((path.to_owned(), said, stat.size));
        }
        // With a list of rights the group's bits are not the group's.
        let rights = OsStr::new("system.posix_acl_access");
        let group = source
            .posix()
            .and_then(|file| file.xattr(rights))
            .is_err()
            .then_some(stat.gid);
        content.groups.push(group);
        content.written = content.written.max(Some(stat.mtime));
        content.mode = Some(content.mode.map_or(stat.mode, |mode| {
            mode & stat.mode | (mode | stat.mode) & 0o222
        }));
        content.read.push((path.into(), stat));
        let (store, identity) = (Arc::clone(store), source.identity());
        let reopened = ReopenedSource::new(source, move || open_same(&*store, &at, &identity));
        let array = RawArray::new(path, Arc::new(reopened));
        content.given.arrays.push(Arc::new(array));
        Ok(())
    }

    /// A link has to lead to a group or an array of the container.
    fn resolve_links(&mut self, all: &[(DraftEntry, DraftRole)]) -> Result<()> {
        let is_target = |role: DraftRole| matches!(role, DraftRole::Array | DraftRole::Group);
        let targets = all.iter().filter(|(_, role)| is_target(*role));
        let targets: BTreeSet<&Path> = targets.map(|(entry, _)| &*entry.path).collect();
        for (entry, _) in all.iter().filter(|(_, role)| *role == DraftRole::Link) {
            let source = self.ground.store.posix()?;
            let target = source.read_link(&self.drafts.path.join(&entry.path))?;
            let resolved = resolved(&entry.path, Path::new(&target));
            let known = resolved
                .as_deref()
                .filter(|path| path.as_os_str().is_empty() || targets.contains(path));
            let (Some(name), Some(known)) = (entry.path.to_str(), known.and_then(Path::to_str))
            else {
                let (path, target) = (entry.path.display(), target.display());
                return Err(Error::Invalid(format!(
                    "{path} leads to {target}, which is no group or array of the container"
                )));
            };
            let links = &mut self.content.given.links;
            links.insert(name.to_owned(), known.to_owned());
        }
        Ok(())
    }

    /// Where a draft lies, which must be its container's owner's.
    fn own_draft(&self, path: &str) -> Result<(PathBuf, Stat)> {
        let at = self.drafts.path.join(path);
        let stat = self.ground.store.stat(&at)?;
        owned_as(self.container, Path::new(path), &stat)?;
        Ok((at, stat))
    }

    /// A text has been read, whose memory is charged.
    fn note_read(&mut self, path: impl AsRef<Path>, stat: Stat, charge: Hold) {
        self.content.charges.push(charge);
        self.content.read.push((path.as_ref().to_owned(), stat));
    }
}

/// The `arrays.json` at a path, and what it is charged.
pub(crate) fn read_description(ground: &Ground, path: &Path) -> Result<(GivenDescription, Hold)> {
    let (text, _charged) = read_text(ground, path, LONGEST_DESCRIPTION)?;
    let room = ground.budget().keep(GivenDescription::room(&text))?;
    Ok((GivenDescription::parse(&text)?, room))
}

fn read_text(ground: &Ground, path: &Path, most: u64) -> Result<(Vec<u8>, Hold)> {
    let len = ground.store.stat(path)?.size;
    if len > most {
        let name = path.file_name().unwrap_or_default().display();
        let why = format!("{name} has {len} bytes, at most {most} are read");
        return Err(Error::Invalid(why));
    }
    let charge = ground.budget().keep(len)?;
    let mut text = fallible::zeros(len, "cannot read what describes a container")?;
    let n = ground.store.head(path, &mut text)?;
    text.truncate(n);
    Ok((text, charge))
}

/// A draft of which the container is made must have the container's owner, who may read it then.
fn owned_as(container: &Stat, path: &Path, stat: &Stat) -> Result<()> {
    match stat.uid == container.uid {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "{} belongs to another user than the container",
            path.display()
        ))),
    }
}

/// Where a link leads, from the directory that its own path is from; none if out of that.
fn resolved(link: &Path, target: &Path) -> Option<PathBuf> {
    let mut path = link.parent()?.to_owned();
    for part in target.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            _ => return None,
        }
    }
    Some(path)
}

impl DraftContent {
    /// Of the drafts of a container.
    pub(super) fn of_drafts(
        ground: &Ground,
        drafts: &SourceDirectory,
        creation: &dyn Creation,
        container: &Stat,
    ) -> Result<DraftContent> {
        let mut reader = DraftReader {
            ground,
            drafts,
            container,
            content: DraftContent::default(),
        };
        reader.read_own_description()?;
        let rules = DraftRules::new(creation, reader.content.given.description.as_ref());
        let mut all = rules.walk(&*ground.store, &drafts.path)?;
        if reader.read_plain_descriptions(&all)? {
            // What they name are arrays, whatever it is called.
            let rules = DraftRules::new(creation, reader.content.given.description.as_ref());
            all = rules.walk(&*ground.store, &drafts.path)?;
        }
        reader.read_all(&all)?;
        reader.resolve_links(&all)?;
        let mut content = reader.content;
        content.entries = all.into_iter().map(|(entry, _)| entry).collect();
        content.given.take_groups();
        content.take_types(creation)?;
        content.given.describe_by_descriptors()?;
        Ok(content)
    }

    /// Of the added files of a container that can be arrays of it. `shown`: whether one is.
    pub(super) fn of_added(
        ground: &Ground,
        added: &SourceDirectory,
        (creation, container): (&dyn Creation, &Stat),
        shown: &dyn Fn(&Path) -> bool,
    ) -> Result<DraftContent> {
        let mut reader = DraftReader {
            ground,
            drafts: added,
            container,
            content: DraftContent::default(),
        };
        let all = DraftRules::new(creation, None).walk(&*ground.store, &added.path)?;
        for (entry, role) in &all {
            if let (DraftRole::Array, true, Some(path)) =
                (role, shown(&entry.path), entry.path.to_str())
            {
                reader.read_array(path)?;
            }
        }
        let mut content = reader.content;
        content.entries = all.into_iter().map(|(entry, _)| entry).collect();
        Ok(content)
    }

    /// Whether drafts are as they were read, and their container as it was.
    pub(super) fn is_still(
        &self,
        store: &dyn Store,
        (drafts, creation): (&SourceDirectory, &dyn Creation),
        (path, container): (&Path, &Stat),
    ) -> Result<bool> {
        let what = |stat: &Stat| (stat.identity(), stat.mode, stat.uid, stat.gid);
        let rules = DraftRules::new(creation, self.given.description.as_ref());
        let now = rules.walk(store, &drafts.path)?;
        let mut still = what(&store.stat(path)?) == what(container)
            && now.iter().map(|(entry, _)| entry).eq(&self.entries);
        for (path, read) in &self.read {
            still = still && what(&store.stat(&drafts.path.join(path))?) == what(read);
        }
        Ok(still)
    }

    /// The types that attributes give count before what is described. Those of arrays that a
    /// BPCells container is made of are not given: they are looked at when it is made.
    fn take_types(&mut self, creation: &dyn Creation) -> Result<()> {
        if self.typed.is_empty() || creation.fixes_types() {
            return Ok(());
        }
        let packed: BTreeSet<String> = match creation.has_links() {
            true => self
                .given
                .packed_directories()?
                .into_iter()
                .map(str::to_owned)
                .collect(),
            false => BTreeSet::new(),
        };
        for (path, to, bytes) in &self.typed {
            let member = packed_member(path);
            if let Some((directory, name)) = member.filter(|(of, _)| packed.contains(*of)) {
                let own = self.given.inner.entry(directory.to_owned()).or_default();
                own.note_type(name, to, *bytes);
                continue;
            }
            let described = self.given.description.take();
            self.given.description = Some(creation.typed(described, path, to, *bytes)?);
        }
        Ok(())
    }

    /// Of the container's files: no user may read it who could not read the empty one and every
    /// array, or write it who could not write the empty one and an array.
    pub(super) fn attributes(&self, now: &Stat) -> NewAttributes {
        let is_for_this = self.groups.iter().all(|group| *group == Some(now.gid));
        let of_group = if is_for_this { u16::MAX } else { !0o070 };
        let mode = now.mode & self.mode.unwrap_or(u16::MAX) & of_group & 0o666;
        NewAttributes {
            mode: Some(mode.into()),
            uid: None,
            gid: Some(now.gid),
            atime: None,
            mtime: self.written.map(NewTime::At),
        }
    }

    /// Arrays that will be bytes for want of a type, in formats that have others.
    pub(super) fn untyped(&self, creation: &dyn Creation) -> Result<Vec<String>> {
        let mut untyped = self.given.untyped()?;
        untyped.retain(|path| creation.is_bytes_untyped(path));
        Ok(untyped)
    }

    /// When an array was last written.
    pub(super) fn written(&self) -> Option<Timestamp> {
        self.written
    }

    /// Its arrays, and their types, are those of another container as well.
    pub(super) fn add_to(&self, creation: &dyn Creation, given: &mut GivenContent) -> Result<()> {
        given.arrays.extend(self.given.arrays.iter().cloned());
        given
            .arrays
            .sort_unstable_by(|one, other| one.name().cmp(other.name()));
        for (path, to, bytes) in &self.typed {
            let described = given.description.take();
            given.description = Some(creation.typed(described, path, to, *bytes)?);
        }
        Ok(())
    }

    /// The files that were read, by their paths, as they were then.
    pub(super) fn read_files(&self) -> impl Iterator<Item = (&Path, &Stat)> {
        self.read.iter().map(|(path, stat)| (&**path, stat))
    }

    /// What is missing yet; none if it can be packed.
    pub(super) fn lacks(&self, creation: &dyn Creation) -> Result<Option<String>> {
        if !self.has_something() {
            return Ok(Some(UNFILLED.into()));
        }
        match creation.packing() {
            PackingRule::WithAnArray => Ok(None),
            PackingRule::AsDescribed => self.given.lacks(),
        }
    }

    /// Whether there is anything that a container can be made of. A description alone is nothing,
    /// unless it is of one that holds no arrays.
    fn has_something(&self) -> bool {
        let given = &self.given;
        let is_of_groups = |said: &GivenDescription| {
            said.arrays.is_empty()
                && !(given.groups.is_empty() && said.attributes.is_empty() && said.more.is_empty())
        };
        !given.arrays.is_empty() || given.description.as_ref().is_some_and(is_of_groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_path_of_the_container_or_out_of_it() {
        let leads = |link: &str, target: &str| {
            let path = resolved(Path::new(link), Path::new(target))?;
            Some(path.to_str().unwrap().to_owned())
        };
        for (link, target, path) in [
            ("b", "a", "a"),
            ("g/b", "a", "g/a"),
            ("g/b", "../h/./a/", "h/a"),
            ("g/b", "..", ""),
            ("g/h/b", "../../x", "x"),
        ] {
            assert_eq!(leads(link, target).as_deref(), Some(path), "{link}");
        }
        for (link, target) in [("b", "/etc"), ("b", ".."), ("g/b", "../../x")] {
            assert_eq!(leads(link, target), None, "{link}");
        }
    }
}
