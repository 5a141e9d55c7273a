//! The hierarchy of a store: which of its directories are arrays and groups, and what their
//! documents say.
//!
//! Each node's own document decides: `zarr.json`, else `.zarray`, else `.zgroup`. A directory
//! without one is a group if there is a node below it. Nothing looks into the directories of
//! chunks. Used by [`super::assemble`].

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::current::{SeenDirectory, digest};
use super::document::{ArrayDocument, DocumentRefusal};
use super::members::{MemberKind, Members, document, join};
use super::{json, version_2, version_3};
use crate::container::describe::value_room;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::set_aside;
use crate::source::SourceIdentity;
use std::sync::Arc;

/// Deepest nesting of groups.
const DEEPEST: usize = 64;

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
        for name in self.directories(&key)? {
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
        // Before it is listed, so that what comes later is seen.
        let identity = self.members.directory_identity(key)?;
        let (mut names, mut bytes) = (Vec::new(), 0u64);
        self.members.list(key, &mut |name, kind| {
            if kind == MemberKind::Directory {
                bytes = bytes.saturating_add(name.len() as u64 + 64);
                names.push(name.to_owned());
            }
        })?;
        self.charge(bytes)?;
        names.sort_unstable();
        self.found.directories.push(SeenDirectory {
            key: key.to_owned(),
            identity,
            names: digest(&names),
        });
        Ok(names)
    }

    /// Whether a way leads to a directory that another has led to: links may go round in circles.
    fn has_been_met(&mut self, key: &Path) -> bool {
        let place = self.members.place(key);
        place.is_some_and(|place| !self.met.insert(place))
    }

    /// Whether there is a node below a directory that has no document.
    fn has_nodes(&mut self, key: &Path, depth: usize) -> Result<bool> {
        const LOOKED_AT: usize = 10_000;
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

    /// What the documents of a directory say; none if it has none.
    fn documented(&mut self, key: &Path) -> Result<Option<Documented>> {
        if let Some(document) = self.read(&key.join("zarr.json"))? {
            return Ok(Some(self.of_version_3(document)));
        }
        if let Some(document) = self.read(&key.join(".zarray"))? {
            return self.array_of_version_2(key, document).map(Some);
        }
        if let Some(document) = self.read(&key.join(".zgroup"))? {
            return self.group_of_version_2(key, document).map(Some);
        }
        Ok(None)
    }

    /// A document; none if there is none.
    fn read(&mut self, key: &Path) -> Result<Option<std::result::Result<Value, DocumentRefusal>>> {
        let named = |fault: Fault| fault.file(&key.display().to_string());
        let read = match document(self.members, key) {
            Ok(None) => return Ok(None),
            Ok(Some(read)) => read,
            Err(Error::Fault(fault)) => return Ok(Some(Err(DocumentRefusal::Fault(fault)))),
            Err(Error::NotShown(not)) => return Ok(Some(Err(DocumentRefusal::NotShown(not.why)))),
            Err(e) => return Err(e),
        };
        self.found
            .documents
            .push((key.to_owned(), Some(read.identity)));
        self.charge(NODE.saturating_add(AS_READ.saturating_mul(read.bytes.len() as u64)))?;
        let room = value_room(&read.bytes);
        let _charge = self.budget.keep(room)?;
        let parsed = set_aside(room, "cannot read a document", || json::parse(&read.bytes))?;
        Ok(Some(parsed.map_err(|(what, at)| {
            let at = at as u64;
            let fault = named(Fault::new(format!("the document is no JSON: {what}")));
            DocumentRefusal::Fault(Box::new(fault.bytes(at..at)))
        })))
    }

    fn of_version_3(
        &mut self,
        document: std::result::Result<Value, DocumentRefusal>,
    ) -> Documented {
        let broken = |refusal| Documented {
            content: NodeContent::Unknown(refusal),
            attributes: Map::new(),
            version: 3,
            faults: Vec::new(),
        };
        let mut document = match document {
            Ok(document) => document,
            Err(refusal) => return broken(refusal),
        };
        if document.get("zarr_format").and_then(Value::as_u64) != Some(3) {
            let found = document.get("zarr_format").unwrap_or(&Value::Null);
            let fault = DocumentRefusal::fault("the document has another version");
            return broken(fault.expected(3).found(found));
        }
        let mut faults = Vec::new();
        let attributes = document.get_mut("attributes").map(Value::take);
        let attributes = attributes_of(attributes.unwrap_or(Value::Null), &mut faults);
        let content = match document.get("node_type").and_then(Value::as_str) {
            Some("group") => match version_3::unknown_fields(&document, &OF_GROUPS) {
                Ok(()) => NodeContent::Group,
                Err(refusal) => NodeContent::Unknown(refusal),
            },
            Some("array") => {
                let array = version_3::array(&document);
                NodeContent::Array(array.map(|mut array| {
                    if array.dims.is_empty() {
                        array.dims = version_2::dims(&attributes, array.shape.len());
                    }
                    Box::new(array)
                }))
            }
            _ => {
                let found = document.get("node_type").unwrap_or(&Value::Null);
                let fault = DocumentRefusal::fault("the node is of no type");
                NodeContent::Unknown(fault.expected("array or group").found(found))
            }
        };
        Documented {
            content,
            attributes,
            version: 3,
            faults,
        }
    }

    /// The attributes beside a node of version 2.
    fn attributes(&mut self, key: &Path, faults: &mut Vec<Fault>) -> Result<Map<String, Value>> {
        Ok(match self.read(&key.join(".zattrs"))? {
            None => Map::new(),
            Some(Ok(attributes)) => attributes_of(attributes, faults),
            Some(Err(DocumentRefusal::Fault(fault))) => {
                faults.push(*fault);
                Map::new()
            }
            Some(Err(DocumentRefusal::NotShown(why))) => {
                faults.push(Fault::new(why));
                Map::new()
            }
        })
    }

    fn array_of_version_2(
        &mut self,
        key: &Path,
        document: std::result::Result<Value, DocumentRefusal>,
    ) -> Result<Documented> {
        let mut faults = Vec::new();
        let attributes = self.attributes(key, &mut faults)?;
        let array = document.and_then(|document| version_2::array(&document, &attributes));
        Ok(Documented {
            content: NodeContent::Array(array.map(Box::new)),
            attributes,
            version: 2,
            faults,
        })
    }

    fn group_of_version_2(
        &mut self,
        key: &Path,
        document: std::result::Result<Value, DocumentRefusal>,
    ) -> Result<Documented> {
        let mut faults = Vec::new();
        let attributes = self.attributes(key, &mut faults)?;
        let version = document
            .as_ref()
            .map(|document| document.get("zarr_format").cloned());
        match version {
            Ok(found) if found.as_ref().and_then(Value::as_u64) == Some(2) => {}
            Ok(found) => {
                let fault = Fault::new("the group's document has another version");
                let found = found.unwrap_or(Value::Null);
                faults.push(fault.expected(2).found(found).file(".zgroup"));
            }
            Err(DocumentRefusal::Fault(fault)) => faults.push(Fault::clone(fault)),
            Err(DocumentRefusal::NotShown(why)) => faults.push(Fault::new(why.clone())),
        }
        Ok(Documented {
            content: NodeContent::Group,
            attributes,
            version: 2,
            faults,
        })
    }
}

fn attributes_of(value: Value, faults: &mut Vec<Fault>) -> Map<String, Value> {
    match value {
        Value::Object(attributes) => attributes,
        Value::Null => Map::new(),
        _ => {
            faults.push(Fault::new("the attributes are no object"));
            Map::new()
        }
    }
}
