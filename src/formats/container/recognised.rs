//! Which format a file or directory is of, and how it is opened as that.
//!
//! A container is recognised by its content, once; what commits leave for later openings of the
//! same version lies here, too. Used by all that opens containers.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::left_by_commits::LeftByCommits;
use super::{Candidate, Container, FORMATS, Format, Layout, OpenRequest, Preferences, Verdict};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::{Identity, Stat, Store};

/// A recognised container.
#[derive(Clone)]
pub struct Recognised {
    pub format: &'static dyn Format,
    /// Why it cannot be opened, if that is known already.
    pub damage: Option<Box<Fault>>,
    pub preferences: Preferences,
    pub left: Arc<LeftByCommits>,
}

/// A container and its companions as the source has them.
pub struct MemberStats {
    pub own: Stat,
    /// In the order of [`Layout::identifying`].
    pub members: Vec<Option<Stat>>,
    /// In the order of [`Layout::sidecars`].
    sidecars: Vec<Option<Stat>>,
}

impl MemberStats {
    pub fn identity(&self) -> Identity {
        match &self.members[..] {
            [] => Identity::of_file(&self.own, &self.sidecars),
            members => Identity::of_directory(members),
        }
    }
}

/// The path of a file beside another, whose name is longer by `suffix`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Tries every format on a file or directory.
pub fn recognise(candidate: &Candidate<'_>) -> Result<Option<Recognised>> {
    let is_looked_into = !candidate.is_file() || candidate.store.is_looked_into(candidate.path);
    if candidate.preferences.files_only || !is_looked_into {
        return Ok(None);
    }
    for &format in FORMATS {
        let damage = match format.recognise(candidate)? {
            Verdict::No => continue,
            Verdict::Yes => None,
            Verdict::Damaged(fault) => Some(Box::new(fault)),
        };
        let preferences = candidate.preferences;
        return Ok(Some(Recognised {
            format,
            damage,
            preferences,
            left: Arc::default(),
        }));
    }
    Ok(None)
}

impl Recognised {
    /// What was recognised, for another version of the container.
    pub fn anew(self) -> Recognised {
        Recognised {
            left: Arc::default(),
            ..self
        }
    }

    /// Opens the container and gives every fault its coordinates.
    pub fn open(
        &self,
        store: &Arc<dyn Store>,
        path: &Path,
        budget: &Arc<Budget>,
    ) -> Result<Container> {
        let request = OpenRequest {
            store,
            path,
            preferences: self.preferences,
            budget,
            left: &self.left,
        };
        let mut container = match &self.damage {
            Some(fault) => Container::refused(self.format.name(), Fault::clone(fault)),
            None => match self.format.open(&request) {
                Err(Error::Fault(fault)) => Container::refused(self.format.name(), *fault),
                other => other.map_err(|e| e.of_container(&store.display(path)))?,
            },
        };
        container.place(&store.display(path));
        container.is_far = store.is_far();
        Ok(container)
    }

    /// Identity of the container as it is now.
    pub fn identity(&self, store: &dyn Store, path: &Path) -> Result<Identity> {
        Ok(self.stat(store, path)?.identity())
    }

    /// The container and its companions as they are now.
    pub fn stat(&self, store: &dyn Store, path: &Path) -> Result<MemberStats> {
        self.stat_by(path, &|paths| store.stat_all(paths))
    }

    /// The container and its companions as they are now, each asked for by `ask`.
    pub fn stat_by(
        &self,
        path: &Path,
        ask: &dyn Fn(&[PathBuf]) -> Vec<Result<Stat>>,
    ) -> Result<MemberStats> {
        let own = std::iter::once(path.to_owned());
        let all: Vec<_> = own.chain(self.companions(path)).collect();
        let mut found = ask(&all).into_iter();
        let own = found.next().ok_or(Error::NotFound)??;
        let companion = |found: Result<Stat>| match found {
            Ok(stat) => Ok(Some(stat)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        };
        let mut members: Vec<_> = found.map(companion).collect::<Result<_>>()?;
        let sidecars = members.split_off(self.layout().identifying().len().min(members.len()));
        Ok(MemberStats {
            own,
            members,
            sidecars,
        })
    }

    /// Paths of the files whose identities belong to that of the container at `path`, in the order
    /// of [`Identity::companions`].
    pub fn companions<'a>(&self, path: &'a Path) -> impl Iterator<Item = PathBuf> + use<'a> {
        self.members(path).chain(self.sidecars(path))
    }

    /// The directory in which the files of the container at `path` lie, and the name of the only
    /// one or the first one.
    pub fn first_file(&self, path: &Path) -> Option<(PathBuf, OsString)> {
        match self.layout().identifying().first() {
            Some(first) => Some((path.to_owned(), first.into())),
            None => {
                let above = path.parent().unwrap_or(Path::new(""));
                Some((above.to_owned(), path.file_name()?.to_owned()))
            }
        }
    }

    /// Names of the files that make the identity of a container whose first one has this name.
    pub fn file_names(&self, first: &OsStr) -> Vec<OsString> {
        match self.layout() {
            Layout::File { .. } => vec![first.to_owned()],
            layout => layout.identifying().iter().map(OsString::from).collect(),
        }
    }

    /// Paths of these files.
    pub fn files(&self, path: &Path) -> Vec<PathBuf> {
        match self.layout() {
            Layout::File { .. } => vec![path.to_owned()],
            Layout::Directory(_) => self.members(path).collect(),
        }
    }

    /// How its files lie.
    pub fn layout(&self) -> Layout {
        self.format.layout()
    }

    fn members<'a>(&self, path: &'a Path) -> impl Iterator<Item = PathBuf> + use<'a> {
        let members = self.layout().identifying().iter();
        members.map(move |name| path.join(name))
    }

    fn sidecars<'a>(&self, path: &'a Path) -> impl Iterator<Item = PathBuf> + use<'a> {
        let sidecars = self.layout().sidecars().iter();
        sidecars.map(move |suffix| beside(path, suffix))
    }
}
