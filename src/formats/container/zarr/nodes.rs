//! The hierarchy of a store: which of its directories are arrays and groups, and what their
//! documents say.
//!
//! Each node's own document decides: `zarr.json`, else `.zarray`, else `.zgroup`. A directory
//! without one is a group if there is a node below it. Nothing looks into the directories of
//! chunks. Used by [`super::assemble`].

mod documents;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::current::{SeenDirectory, digest};
use super::document::{ArrayDocument, DocumentRefusal};
use super::members::{MemberKind, Members, join};
use crate::error::{Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::source::SourceIdentity;
use std::sync::Arc;

/// Deepest nesting of groups.
const DEEPEST: usize = 512;

/// What a node takes beside its document, and how many times that it takes as read.
const NODE: u64 = 1 << 10;
const AS_READ: u64 = 8;

/// What the document of a group may have.
const OF_GROUPS: [&str; 4] = [
    "zarr_format",
    "node_type",
    "attributes",
    "consolidated_metadata",
];

pub(super) struct StoreNode {
    /// Its directory, below the root.
    pub(super) key: PathBuf,
    /// Its number among the nodes; the root's own is its parent.
    pub(super) parent: usize,
    pub(super) name: Vec<u8>,
    pub(super) content: NodeContent,
    pub(super) attributes: Map<String, Value>,
    pub(super) version: u8,
}

pub(super) enum NodeContent {
    Group,
    Array(std::result::Result<Box<ArrayDocument>, DocumentRefusal>),
    /// It cannot be told which of the two.
    Unknown(DocumentRefusal),
}

/// All nodes, each behind its parent, those of a group in order of their names.
pub(super) struct Nodes {
    pub(super) nodes: Vec<StoreNode>,
    /// What is wrong beside the nodes themselves: the number of the node, and what.
    pub(super) faults: Vec<(usize, Fault)>,
    /// Documents as they were when they were read, by their keys.
    pub(super) documents: Vec<(PathBuf, Option<SourceIdentity>)>,
    pub(super) directories: Vec<SeenDirectory>,
    pub(super) charge: Vec<Hold>,
}

pub(super) struct Discovery<'m> {
    members: &'m dyn Members,
    budget: &'m Arc<Budget>,
    found: Nodes,
    /// Of a store whose directories cannot be listed: those that its consolidated metadata name.
    consolidated: Option<BTreeSet<PathBuf>>,
    /// Directories on the ways to groups that were reached by links, so that none is met twice.
    met: HashSet<SourceIdentity>,
}

/// A directory with documents: what they make of it.
struct Documented {
    content: NodeContent,
    attributes: Map<String, Value>,
    version: u8,
    faults: Vec<Fault>,
}

/// Finds all nodes of a store.
pub(super) fn discover(members: &dyn Members, budget: &Arc<Budget>) -> Result<Nodes> {
    let mut discovery = Discovery {
        members,
        budget,
        found: Nodes {
            nodes: Vec::new(),
            faults: Vec::new(),
            documents: Vec::new(),
            directories: Vec::new(),
            charge: Vec::new(),
        },
        consolidated: None,
        met: HashSet::new(),
    };
    discovery.root()?;
    let mut at = 0;
    while at < discovery.found.nodes.len() {
        discovery.children(at)?;
        at += 1;
    }
    Ok(discovery.found)
}

impl Discovery<'_> {
    fn root(&mut self) -> Result<()> {
        let key = PathBuf::new();
        // A link may lead back to it.
        self.has_been_met(&key);
        let found = self.documented(&key)?;
        let mut root = found.unwrap_or_else(|| Documented {
            content: NodeContent::Group,
            attributes: Map::new(),
            version: 0,
            faults: Vec::new(),
        });
        // Whatever its document was to say, it is a group of what lies below.
        if let NodeContent::Unknown(refusal) = root.content {
            root.content = NodeContent::Group;
            match refusal {
                DocumentRefusal::Fault(fault) => root.faults.push(*fault),
                not_shown => return Err(not_shown.into()),
            }
        }
        self.add(key, (0, Vec::new()), root);
        Ok(())
    }

    fn add(&mut self, key: PathBuf, (parent, name): (usize, Vec<u8>), of: Documented) {
        let number = self.found.nodes.len();
        let faults = of.faults.into_iter().map(|fault| (number, fault));
        self.found.faults.extend(faults);
        self.found.nodes.push(StoreNode {
            key,
            parent,
            name,
            content: of.content,
            attributes: of.attributes,
            version: of.version,
        });
    }

    /// Adds what lies in a group, or finds out what must not lie in an array.
    fn children(&mut self, number: usize) -> Result<()> {
        let Some(node) = self.found.nodes.get(number) else {
            return Ok(());
        };
        let key = node.key.clone();
        match &node.content {
            NodeContent::Group => {}
            NodeContent::Array(Ok(array)) => {
                let (keys, dimensions) = (array.keys, array.shape.len());
                let is_of_chunks = |name: &[u8]| {
                    let name = std::str::from_utf8(name);
                    name.is_ok_and(|name| keys.is_directory(name, 0, dimensions))
                };
                return self.look_into_array(number, &key, &is_of_chunks);
            }
            NodeContent::Array(Err(_)) | NodeContent::Unknown(_) => return Ok(()),
        }
        let depth = key.iter().count();
        if depth >= DEEPEST {
            let fault = Fault::new("groups are nested too deeply").expected(DEEPEST);
            self.found.faults.push((number, fault));
            return Ok(());
        }
        self.charge(NODE)?;
        let names = match self.directories(&key) {
            Err(e) if e.is_permission_denied() && number > 0 => {
                let fault = Fault::new("the group may not be listed");
                self.found.faults.push((number, fault));
                return Ok(());
            }
            other => other?,
        };
        for name in names {
            let below = join(&key, &name);
            if name == b"__MACOSX" || self.has_been_met(&below) {
                continue;
            }
            match self.documented(&below)? {
                // Such names are kept for what is to come.
                Some(found) if found.version == 3 && name.starts_with(b"__") => {}
                Some(found) => self.add(below, (number, name), found),
                None if self.has_nodes(&below, DEEPEST - depth)? => {
                    let implied = Documented {
                        content: NodeContent::Group,
                        attributes: Map::new(),
                        version: 0,
                        faults: Vec::new(),
                    };
                    self.add(below, (number, name), implied);
                }
                // It may become one.
                None => self.directories(&below).map(drop)?,
            }
        }
        Ok(())
    }

    fn charge(&mut self, bytes: u64) -> Result<()> {
        match self.found.charge.last_mut() {
            Some(charge) => charge.keep_more(bytes),
            None => {
                self.found.charge.push(self.budget.keep(bytes)?);
                Ok(())
            }
        }
    }

    /// Names of the directories in one, in order.
    fn directories(&mut self, key: &Path) -> Result<Vec<Vec<u8>>> {
        if self.consolidated.is_some() {
            return Ok(self.consolidated_in(key));
        }
        // Before it is listed, so that what comes later is seen.
        let identity = self.members.directory_identity(key)?;
        let (mut names, mut bytes) = (Vec::new(), 0u64);
        let listed = self.members.list(key, &mut |name, kind| {
            if kind == MemberKind::Directory {
                bytes = bytes.saturating_add(name.len() as u64 + 64);
                names.push(name.to_owned());
            }
        });
        if listed.is_err() && self.members.is_far() && key.as_os_str().is_empty() {
            self.consolidated = self.consolidated_nodes()?;
            if self.consolidated.is_some() {
                return Ok(self.consolidated_in(key));
            }
        }
        listed?;
        self.charge(bytes)?;
        names.sort_unstable();
        self.found.directories.push(SeenDirectory {
            key: key.to_owned(),
            identity,
            names: digest(&names),
        });
        Ok(names)
    }

    /// Nodes that consolidated metadata name, with the groups above them; none if there are none.
    fn consolidated_nodes(&mut self) -> Result<Option<BTreeSet<PathBuf>>> {
        let mut keys = BTreeSet::new();
        let mut add = |node: &Path| keys.extend(node.ancestors().map(Path::to_owned));
        let listed = |document: Option<&Value>| {
            let metadata = document
                .and_then(|document| document.get("metadata"))
                .cloned();
            metadata.and_then(|metadata| metadata.as_object().cloned())
        };
        let inline = match self.read(Path::new("zarr.json"))? {
            Some(Ok(document)) => listed(document.get("consolidated_metadata")),
            _ => None,
        };
        let beside = match self.read(Path::new(".zmetadata"))? {
            Some(Ok(document)) => listed(Some(&document)),
            _ => None,
        };
        let found = inline.is_some() || beside.is_some();
        for node in inline.into_iter().flatten() {
            add(Path::new(&node.0));
        }
        for document in beside.into_iter().flatten() {
            add(Path::new(&document.0).parent().unwrap_or(Path::new("")));
        }
        Ok(found.then_some(keys))
    }

    /// Of these, the names in a directory.
    fn consolidated_in(&self, key: &Path) -> Vec<Vec<u8>> {
        let nodes = self.consolidated.iter().flatten();
        let below = nodes.filter(|node| node.parent() == Some(key));
        let names = below.filter_map(|node| Some(node.file_name()?.as_encoded_bytes().to_vec()));
        names.collect()
    }

    /// Whether a way leads to a directory that another has led to: links may go round in circles.
    fn has_been_met(&mut self, key: &Path) -> bool {
        let place = self.members.place(key);
        place.is_some_and(|place| !self.met.insert(place))
    }

    /// Whether there is a node below a directory that has no document.
    fn has_nodes(&mut self, key: &Path, depth: usize) -> Result<bool> {
        const LOOKED_AT: usize = 10_000;
        if let Some(nodes) = &self.consolidated {
            return Ok(nodes.iter().any(|node| node.parent() == Some(key)));
        }
        let (mut left, mut looked) = (vec![(key.to_owned(), depth)], 0);
        while let Some((key, depth)) = left.pop() {
            let (mut below, mut has_document) = (Vec::new(), false);
            self.members.list(&key, &mut |name, kind| match kind {
                MemberKind::Directory => below.push(join(&key, name)),
                MemberKind::File => {
                    has_document |= super::MAKE_NODES.iter().any(|made| made.as_bytes() == name);
                }
                MemberKind::Other => {}
            })?;
            looked += 1;
            if has_document && looked > 1 {
                return Ok(true);
            }
            if let (Some(depth), true) = (depth.checked_sub(1), looked < LOOKED_AT) {
                left.extend(below.into_iter().map(|key| (key, depth)));
            }
        }
        Ok(false)
    }

    /// An array has no nodes in it.
    fn look_into_array(
        &mut self,
        number: usize,
        key: &Path,
        is_of_chunks: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()> {
        if !self.members.is_looked_through(key)? {
            return Ok(());
        }
        let mut below = Vec::new();
        self.members.list(key, &mut |name, kind| {
            if kind == MemberKind::Directory && !is_of_chunks(name) {
                below.push(name.to_owned());
            }
        })?;
        below.sort_unstable();
        for name in below {
            for document in super::MAKE_NODES {
                if self
                    .members
                    .identity(&join(key, &name).join(document))?
                    .is_some()
                {
                    let fault = Fault::new("a node lies in an array; it is not shown");
                    let fault = fault.found(String::from_utf8_lossy(&name));
                    self.found.faults.push((number, fault));
                    break;
                }
            }
        }
        Ok(())
    }
}
