//! Containers: how a stored file or directory is recognised, opened and described.
//!
//! A format is one folder here and one line in [`FORMATS`]. It says whether a candidate is one of
//! its containers ([`Format::recognise`], from the first bytes alone), which files make up its
//! identity, and opens it into a [`Container`]: arrays, texts, attributes and the faults found on
//! the way. It never decodes while opening, and reads no more than it needs to know names, types
//! and sizes.
//!
//! Within a folder files are named by what they do: what recognises a container, what describes its
//! arrays, what reads them, what checks them. The head of its `mod.rs` says which is which, and the
//! way of a read. Used by `tree` (the mount) and by the commands that work without a mount.

mod binsparse;
pub mod bloscpack;
pub mod bpcells;
mod candidate;
mod chunked_write;
pub mod creation;
pub mod daphne;
pub mod describe;
#[cfg(test)]
mod far;
#[doc(hidden)]
pub mod fuzzed;
pub mod hdf5;
#[cfg(test)]
mod in_memory;
pub mod in_sequence;
pub mod inside;
pub mod layout;
pub mod left_by_commits;
mod lookalike;
pub mod names;
pub mod netcdf;
pub mod only_read;
#[cfg(test)]
mod out_of_memory;
pub mod own_lengths;
mod plain_write;
mod recognised;
pub mod restated;
pub mod stored;
mod walked;
pub mod writable;
mod zarr;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::array::Array;
use crate::array::dtype::Dtype;
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::budget::Budget;
use crate::source::{Source, Store};

pub use candidate::Candidate;
use creation::Creation;
pub use layout::{AllMembers, Layout, OwnFiles};
use left_by_commits::LeftByCommits;
pub use lookalike::lookalike;
use only_read::OnlyRead;
use recognised::beside;
pub use recognised::{MemberStats, Recognised, recognise};
use stored::{ArrayDetails, FileDetails};
use writable::WritableContainer;

/// Every format, in the order in which they are tried.
pub static FORMATS: &[&dyn Format] = &[
    &bpcells::BpCells,
    &bloscpack::Bloscpack,
    &hdf5::Hdf5,
    &netcdf::NetCdf,
    &daphne::Daphne,
    &zarr::Zarr,
    &zarr::ZippedZarr,
];

/// What a format says about a candidate.
pub enum Verdict {
    /// Not one of this format.
    No,
    /// A container; opening it finds out whether it is sound.
    Yes,
    /// Meant to be one, by everything but what makes it readable: shown with an `error.txt`.
    Damaged(Fault),
}

/// What a user may decide about formats (`-o dialect=`), and what the program adds to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preferences {
    pub dialect: Dialect,
    /// Nothing is a container.
    pub files_only: bool,
    pub logs_in_files: LogsInFiles,
}

/// Reads a stored file with what a log in the file itself says; none if it has no such log.
pub type ReadThroughLog = fn(&Arc<dyn Source>, &Arc<Budget>) -> Result<Option<Arc<dyn Source>>>;

/// How files of scratch stores are read, which have their logs in themselves; none: as if they had
/// none.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogsInFiles(pub Option<ReadThroughLog>);

impl PartialEq for LogsInFiles {
    /// One and the same function may have several addresses.
    fn eq(&self, other: &LogsInFiles) -> bool {
        self.0.is_some() == other.0.is_some()
    }
}

impl Eq for LogsInFiles {}

/// Which of the two forms of DAPHNE files to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Tell by the content.
    #[default]
    Auto,
    /// As the specification says.
    Spec,
    /// As the program writes them.
    Daphne,
}

/// A container format.
pub trait Format: Send + Sync {
    /// Name in `arrays.json` and xattrs.
    fn name(&self) -> &'static str;

    /// Cheap: at most the first bytes of the file, or of a file in the directory.
    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict>;

    /// How the files of its containers lie.
    fn layout(&self) -> Layout {
        Layout::FILE
    }

    /// Whether containers of this format can be changed; then there may be logs of changes beside
    /// them.
    fn is_changed(&self) -> bool {
        false
    }

    /// What the names of its containers end with, behind a dot: a directory that is made under such
    /// a name is to be a new one.
    fn extensions(&self) -> &'static [&'static str];

    /// What is named so, and is none of this format, is told as damaged: behind a dot.
    fn promised_by(&self) -> &'static [&'static str] {
        self.extensions()
    }

    /// Whether a container is one by its name alone: nothing in it says so.
    fn goes_by_name(&self) -> bool {
        false
    }

    /// How new containers of this format are made, if they can be.
    fn creation(&self) -> Option<&'static dyn Creation> {
        None
    }

    /// Opens a container. Damage goes into [`Container::faults`]; an error means that the source
    /// could not be read at all.
    fn open(&self, request: &OpenRequest<'_>) -> Result<Container>;
}

/// What a format is given to open a container.
pub struct OpenRequest<'a> {
    pub store: &'a Arc<dyn Store>,
    pub path: &'a Path,
    pub preferences: Preferences,
    /// What is kept beyond a decode, and sized by the container, is charged here.
    pub budget: &'a Arc<Budget>,
    pub left: &'a Arc<LeftByCommits>,
}

/// An opened container.
///
/// Names are shown names (see [`names`]): in a container with groups they are paths, components
/// separated by `/`. They are unique across arrays, texts, groups, links, unreadable members and
/// inner containers. What is said of many arrays is shared with the container after a commit that
/// leaves it as it is ([`writable::Successor`]).
#[derive(Clone)]
pub struct Container {
    pub format: &'static str,
    /// Version of the format, as the container spells it.
    pub version: String,
    pub arrays: Vec<Arc<dyn Array>>,
    pub texts: Vec<Text>,
    /// Texts that can be written as the arrays can: they have neither a view nor a line in
    /// `arrays.json`, and the numbers behind those of the arrays.
    pub lines: Vec<Arc<dyn Array>>,
    /// Groups that would not exist by the names of their members: empty ones.
    pub groups: Arc<Vec<String>>,
    /// Second ways to a group, shown as symbolic links.
    pub links: Arc<Vec<Link>>,
    /// Of the outermost container: arrays of it, and of those inside, that are another one by a
    /// further name; by their paths, the path of that one.
    pub further_names: Arc<BTreeMap<String, String>>,
    /// Members that are not shown, or only as an entry that answers EIO.
    pub unreadable: Arc<Vec<Unreadable>>,
    /// Types without data: they have no entry.
    pub types: Vec<CommittedType>,
    /// Containers in groups of this one.
    pub inner: Vec<Inner>,
    /// Of the container itself, for `arrays.json`.
    pub attributes: Attributes,
    /// Of its arrays, types and groups, by their names; by none, those that a container's group has
    /// itself, where its format tells others beside.
    pub described: Arc<BTreeMap<String, Attributes>>,
    /// How its arrays, types, groups and what cannot be shown are stored, by their names; by none,
    /// the container itself.
    pub details: Arc<BTreeMap<String, ArrayDetails>>,
    /// Of the outermost container: what the file says beside its arrays.
    pub file: Arc<FileDetails>,
    /// Arrays that have a type but no space for elements (HDF5's H5S_NULL): shown as empty ones.
    pub without_space: Arc<BTreeSet<String>>,
    /// What cannot be trusted, one line of `error.txt` each.
    pub faults: Vec<Fault>,
    /// Rules between arrays.
    pub checks: Vec<Arc<dyn Check>>,
    /// Of the outermost container: what of its directory is its own, and whether that is still as
    /// it was when it was read, where its identity does not tell.
    pub own_files: Option<Arc<dyn OwnFiles>>,
    pub unchanged: Option<Arc<dyn StillStored>>,
    /// How it can be changed; none if it cannot.
    pub writable: Option<Arc<dyn WritableContainer>>,
    pub only_read: OnlyRead,
    /// Of the outermost container: its store is far away.
    pub is_far: bool,
}

pub type Attributes = serde_json::Map<String, serde_json::Value>;

/// A second way to a group.
#[derive(Clone)]
pub struct Link {
    pub name: String,
    /// Path of the group, from the root of the outermost container.
    pub target: String,
}

/// A member that cannot be shown, with the reason for `arrays.json`.
#[derive(Debug, Clone)]
pub struct Unreadable {
    pub name: String,
    /// "an external link to other.h5:/x; never followed"
    pub reason: String,
    /// No damage; otherwise there is a fault as well.
    pub is_whole: bool,
    /// Whether there is an entry of that name that answers EIO.
    pub entry: bool,
}

impl Unreadable {
    /// What opening its entry gives.
    pub fn error(&self) -> Error {
        let error = match self.is_whole {
            true => NotShown::new(self.reason.clone()).into(),
            false => Error::from(Fault::new(self.reason.clone())),
        };
        error.of_array("", &self.name)
    }
}

/// A type that has a name of its own, for others to be of it (HDF5's committed datatypes).
#[derive(Debug, Clone)]
pub struct CommittedType {
    pub name: String,
    /// What an array of it would be, with the dimensions that each element has; or why it could not
    /// be shown.
    pub dtype: std::result::Result<(Dtype, Vec<u64>), String>,
}

/// A container in a group of another.
#[derive(Clone)]
pub struct Inner {
    /// Path of the group, relative to the container that it lies in.
    pub path: String,
    pub container: Arc<Container>,
}

/// Where a check reports the faults that it finds.
pub type TellFault<'a> = &'a mut dyn FnMut(Fault);

/// Rules between the arrays of a container that only a full check can see.
pub trait Check: Send + Sync {
    /// Reports every broken rule that it finds; an error means that it could not go on. Memory is
    /// charged to `budget`, of which the caller holds none.
    fn check(&self, budget: &Arc<Budget>, report: TellFault<'_>) -> Result<()>;

    /// Tells what lies in the container that is no part of it, and is not shown.
    fn remarks(&self, _tell: &mut dyn FnMut(NotShown)) -> Result<()> {
        Ok(())
    }
}

/// Tells whether a container is what it was when it was opened, where it has more files than could
/// all make its identity.
pub trait StillStored: Send + Sync {
    /// Of what says which arrays there are: one number for one content.
    fn documents(&self) -> u64;

    /// Whether that is as it was. Asked for every entry, so it looks now and then alone.
    fn is_unchanged(&self) -> Result<bool>;

    /// Whether an array, as far as it has been read, is as it was.
    fn is_array_unchanged(&self, name: &str) -> Result<bool>;
}

/// A small file shown beside the arrays.
#[derive(Clone)]
pub struct Text {
    pub name: String,
    pub content: Arc<Vec<u8>>,
}

impl Container {
    pub fn new(format: &'static str, version: impl Into<String>) -> Self {
        Container {
            format,
            version: version.into(),
            arrays: Vec::new(),
            texts: Vec::new(),
            lines: Vec::new(),
            groups: Arc::default(),
            links: Arc::default(),
            further_names: Arc::default(),
            unreadable: Arc::default(),
            types: Vec::new(),
            inner: Vec::new(),
            attributes: Attributes::new(),
            described: Arc::default(),
            details: Arc::default(),
            file: Arc::default(),
            without_space: Arc::default(),
            faults: Vec::new(),
            checks: Vec::new(),
            own_files: None,
            unchanged: None,
            writable: None,
            only_read: OnlyRead::default(),
            is_far: false,
        }
    }

    /// A container of which nothing can be shown but the reason.
    pub fn refused(format: &'static str, fault: Fault) -> Self {
        let mut container = Container::new(format, "");
        container.faults.push(fault);
        container
    }

    /// Whether what its attributes mean is NetCDF's to say: fill values, scales and ranges.
    pub fn follows_netcdf(&self) -> bool {
        self.format == netcdf::NetCdf.name() || self.file.netcdf4.is_some()
    }

    /// Notes the attributes of an array or a group.
    pub fn describe(&mut self, name: &str, attributes: Attributes) {
        if !attributes.is_empty() {
            Arc::make_mut(&mut self.described).insert(name.to_owned(), attributes);
        }
    }

    /// Notes how an array, a type or a group is stored.
    pub fn detail(&mut self, name: &str, details: ArrayDetails) {
        if !details.is_empty() {
            Arc::make_mut(&mut self.details).insert(name.to_owned(), details);
        }
    }

    /// Notes members that cannot be shown.
    pub fn add_unreadable(&mut self, members: impl IntoIterator<Item = Unreadable>) {
        let mut members = members.into_iter().peekable();
        if members.peek().is_some() {
            Arc::make_mut(&mut self.unreadable).extend(members);
        }
    }

    /// The array of this name.
    pub fn array(&self, name: &str) -> Option<&Arc<dyn Array>> {
        self.arrays.iter().find(|array| array.name() == name)
    }

    /// What can be written, if the container can be: arrays and lines, by their numbers.
    pub fn written(&self) -> impl Iterator<Item = &Arc<dyn Array>> {
        self.arrays.iter().chain(&self.lines)
    }

    /// Adds an array that the container needs, or the fault that keeps it from being shown.
    pub fn add(&mut self, name: &str, array: Result<Arc<dyn Array>>) -> Result<()> {
        match array.map_err(Error::needed) {
            Ok(array) => self.arrays.push(array),
            Err(Error::Fault(fault)) => self.faults.push(fault.array(name)),
            Err(other) => return Err(other),
        }
        Ok(())
    }
}

/// Opens a container that was not recognised first.
#[cfg(test)]
pub(crate) fn open_as(
    format: &dyn Format,
    store: &Arc<dyn Store>,
    path: &Path,
    preferences: Preferences,
) -> Result<Container> {
    format.open(&OpenRequest {
        store,
        path,
        preferences,
        budget: &Budget::by_default(),
        left: &Default::default(),
    })
}
