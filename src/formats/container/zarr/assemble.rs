//! From the nodes of a store to a container: shown names, groups, arrays, attributes, and the
//! Binsparse containers that lie in groups. Used by [`super`] when a store is opened.
//!
//! Every group belongs to a draft: the store itself, or the innermost Binsparse container around
//! it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::MAKE_NODES;
use super::array::{ArrayPlace, OpenChunks, ZarrArray};
use super::check::{NodeHolds, StoreCheck};
use super::current::{ReadChunks, StoreDirectories, StoreState};
use super::members::Members;
use super::nodes::{NodeContent, Nodes, StoreNode, discover};
use super::text::ZarrText;
use crate::array::Array;
use crate::array::nested::NestedBlocks;
use crate::container::inside::join;
use crate::container::stored::ArrayDetails;
use crate::container::{Container, Inner, Unreadable, binsparse, names};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::memory::set_aside;
use crate::source::SourceIdentity;

/// What an array takes while the container is put together.
const NODE: u64 = 4 << 10;

/// Name of the array of a store that is one.
const ROOT_ARRAY: &str = "data";

/// Why nothing of it can be written.
const ONLY_READ: &str = "Zarr is only read here";

/// A container while it is put together.
struct StoreDraft {
    container: Container,
    /// The draft that it lies in, and the path of its group there.
    parent: usize,
    path: String,
    /// Of a Binsparse container: its descriptor, and the arrays of the group itself.
    descriptor: Option<Vec<u8>>,
    members: Vec<binsparse::Member>,
}

/// Where a group is shown: in which draft, and under which path.
#[derive(Clone)]
struct GroupPlace {
    draft: usize,
    path: String,
}

struct StoreAssembly<'a> {
    members: &'a Arc<dyn Members>,
    nested: &'a Arc<NestedBlocks>,
    drafts: Vec<StoreDraft>,
    /// Of each node that is a group.
    groups: HashMap<usize, GroupPlace>,
    documents: &'a HashMap<&'a Path, SourceIdentity>,
    open: Arc<OpenChunks>,
    /// Arrays by their paths from the root.
    read: BTreeMap<String, Arc<dyn ReadChunks>>,
}

/// The container of a store.
pub(super) fn container(
    members: &Arc<dyn Members>,
    nested: &Arc<NestedBlocks>,
    budget: &Arc<Budget>,
) -> Result<Container> {
    let nodes = discover(&**members, budget)?;
    let room = NODE.saturating_mul(nodes.nodes.len() as u64);
    set_aside(room, "cannot open a store", || {
        assemble(members, nested, nodes)
    })?
}

fn assemble(
    members: &Arc<dyn Members>,
    nested: &Arc<NestedBlocks>,
    nodes: Nodes,
) -> Result<Container> {
    let Nodes {
        nodes,
        faults,
        documents,
        directories,
        charge: _charge,
    } = nodes;
    let identified = documents
        .iter()
        .filter_map(|(key, was)| Some((key.as_path(), (*was)?)));
    let known: HashMap<&Path, SourceIdentity> = identified.collect();
    let mut assembly = StoreAssembly {
        members,
        nested,
        documents: &known,
        open: Arc::new(OpenChunks::new(members.is_far())),
        drafts: Vec::new(),
        groups: HashMap::new(),
        read: BTreeMap::new(),
    };
    let (own, held) = (own_files(&nodes), nodes.iter().map(held).collect());
    let names = shown_names(&nodes)?;
    let paths = paths(&nodes, &names);
    for (number, node) in nodes.into_iter().enumerate() {
        let name = names.get(number).map_or("", String::as_str);
        let full = paths.get(number).map_or("", String::as_str);
        assembly.add(number, node, (name, full))?;
    }
    for (number, fault) in faults {
        let path = paths.get(number).map_or("", String::as_str);
        if let Some(draft) = assembly.drafts.first_mut() {
            draft.container.faults.push(match path.is_empty() {
                true => fault,
                false => fault.array(path),
            });
        }
    }
    let StoreAssembly { drafts, read, .. } = assembly;
    let mut container = finish(drafts)?;
    let state = StoreState::new(members, documents, directories, read);
    container.unchanged = Some(Arc::new(state));
    container.own_files = Some(Arc::new(own));
    container.checks.push(Arc::new(StoreCheck {
        members: Arc::clone(members),
        nodes: held,
    }));
    container.is_only_read(ONLY_READ);
    Ok(container)
}

/// What lies in the directory of a node.
fn held(node: &StoreNode) -> (PathBuf, NodeHolds) {
    let holds = match &node.content {
        NodeContent::Group => NodeHolds::Nodes,
        NodeContent::Array(Ok(array)) => {
            let pairs = array.shape.iter().zip(array.outer_chunk());
            let counts = pairs.map(|(len, chunk)| len.div_ceil(*chunk)).collect();
            NodeHolds::Chunks(array.keys, counts)
        }
        NodeContent::Array(Err(_)) | NodeContent::Unknown(_) => NodeHolds::Unknown,
    };
    (node.key.clone(), holds)
}

/// Which files of the store's directory are its own.
fn own_files(nodes: &[StoreNode]) -> StoreDirectories {
    match nodes.first() {
        Some(StoreNode {
            content: NodeContent::Array(_),
            ..
        }) => StoreDirectories::All,
        _ => StoreDirectories::Of(nodes.iter().map(|node| node.key.clone()).collect()),
    }
}

/// An array as the two things that it is.
fn both<A: Array + ReadChunks + 'static>(array: A) -> (Arc<dyn Array>, Arc<dyn ReadChunks>) {
    let array = Arc::new(array);
    (Arc::clone(&array) as _, array)
}

/// Shown names of all nodes, in their groups; the number behind a name is the place among them.
fn shown_names(nodes: &[StoreNode]) -> Result<Vec<String>> {
    let mut shown = vec![String::new(); nodes.len()];
    let mut at = 1;
    while at < nodes.len() {
        let Some(parent) = nodes.get(at).map(|node| node.parent) else {
            break;
        };
        let rest = nodes.get(at..).unwrap_or_default();
        let count = rest.iter().take_while(|node| node.parent == parent).count();
        let stored: Vec<&[u8]> = rest.iter().take(count).map(|node| &node.name[..]).collect();
        let is_own = parent == 0 || nodes.get(parent).is_some_and(is_binsparse);
        // Below the container's own directory an array may have any name.
        let taken = if is_own { &names::RESERVED[..] } else { &[] };
        for (slot, name) in shown
            .iter_mut()
            .skip(at)
            .zip(names::shown_beside(&stored, taken)?)
        {
            *slot = name;
        }
        at += count.max(1);
    }
    Ok(shown)
}

/// Shown paths from the root.
fn paths(nodes: &[StoreNode], names: &[String]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::with_capacity(nodes.len());
    for (number, (node, name)) in nodes.iter().zip(names).enumerate() {
        let above = paths.get(node.parent).map_or("", String::as_str);
        let path = match (number, &node.content) {
            (0, NodeContent::Array(_)) => ROOT_ARRAY.to_owned(),
            (0, _) => String::new(),
            _ => join(above, name),
        };
        paths.push(path);
    }
    paths
}

fn is_binsparse(node: &StoreNode) -> bool {
    matches!(node.content, NodeContent::Group)
        && node.attributes.contains_key(binsparse::DESCRIPTOR)
}

impl StoreAssembly<'_> {
    fn add(&mut self, number: usize, node: StoreNode, (name, full): (&str, &str)) -> Result<()> {
        let above = self.groups.get(&node.parent).cloned();
        let Some(above) = above.filter(|_| number > 0) else {
            return self.add_root(node, full);
        };
        let path = join(&above.path, name);
        match node.content {
            NodeContent::Group if is_binsparse(&node) => {
                self.begin(number, &node.attributes, (above.draft, path), node.version);
                Ok(())
            }
            NodeContent::Group => {
                if let Some(draft) = self.drafts.get_mut(above.draft) {
                    Arc::make_mut(&mut draft.container.groups).push(path.clone());
                    draft.container.describe(&path, node.attributes);
                }
                let draft = above.draft;
                self.groups.insert(number, GroupPlace { draft, path });
                Ok(())
            }
            _ => self.add_array(above.draft, (&path, full), node),
        }
    }

    fn add_root(&mut self, node: StoreNode, full: &str) -> Result<()> {
        match node.content {
            NodeContent::Array(_) => {
                self.begin(0, &Map::new(), (0, String::new()), node.version);
                self.add_array(0, (ROOT_ARRAY, full), node)
            }
            _ => {
                self.begin(0, &node.attributes, (0, String::new()), node.version);
                Ok(())
            }
        }
    }

    /// Begins a draft.
    fn begin(
        &mut self,
        number: usize,
        attributes: &Map<String, Value>,
        (parent, path): (usize, String),
        version: u8,
    ) {
        let descriptor = attributes.get(binsparse::DESCRIPTOR).map(descriptor_text);
        let mut container = match descriptor {
            Some(_) => Container::new(binsparse::NAME, ""),
            None => Container::new(super::NAME, version_name(version)),
        };
        let others = attributes
            .iter()
            .filter(|(key, _)| *key != binsparse::DESCRIPTOR);
        let others: Map<String, Value> = others.map(|(k, v)| (k.clone(), v.clone())).collect();
        if descriptor.is_some() {
            // The others follow from the descriptor.
            container.describe("", others.clone());
        }
        container.attributes = others;
        let draft = self.drafts.len();
        self.drafts.push(StoreDraft {
            container,
            parent,
            path,
            descriptor,
            members: Vec::new(),
        });
        let path = String::new();
        self.groups.insert(number, GroupPlace { draft, path });
    }

    /// Adds an array, or what cannot be shown as one.
    fn add_array(
        &mut self,
        draft: usize,
        (path, full): (&str, &str),
        node: StoreNode,
    ) -> Result<()> {
        let own = MAKE_NODES.iter().map(|name| node.key.join(name));
        let mut own =
            own.filter_map(|key| Some((self.documents.get(key.as_path()).copied()?, key)));
        let own = own.next();
        let (members, nested) = (Arc::clone(self.members), Arc::clone(self.nested));
        let (key, open) = (node.key, Arc::clone(&self.open));
        let Some(draft) = self.drafts.get_mut(draft) else {
            return Ok(());
        };
        let document = match node.content {
            NodeContent::Array(Ok(document)) => Ok(*document),
            NodeContent::Array(Err(refusal)) | NodeContent::Unknown(refusal) => Err(refusal),
            NodeContent::Group => return Ok(()),
        };
        draft.container.describe(path, node.attributes);
        let array = document.map_err(Error::from).and_then(|document| {
            let (was, own) = own.ok_or_else(|| Fault::new("the document has gone"))?;
            let at = ArrayPlace {
                members,
                key,
                nested,
                document: (own, was),
                open,
            };
            let dims = document.dims.clone();
            let (array, read): (Arc<dyn Array>, Arc<dyn ReadChunks>) = match document.is_text() {
                true => both(ZarrText::new(path, document, &at)?),
                false => both(ZarrArray::new(path, document, &at)?),
            };
            self.read.insert(full.to_owned(), read);
            let details = ArrayDetails {
                dims,
                ..ArrayDetails::default()
            };
            draft.container.detail(path, details);
            Ok(array)
        });
        draft.add(path, array)
    }
}

impl StoreDraft {
    fn add(&mut self, path: &str, array: Result<Arc<dyn Array>>) -> Result<()> {
        let unreadable = match array {
            Ok(array) => {
                self.container.arrays.push(Arc::clone(&array));
                self.note(path, Ok(array));
                return Ok(());
            }
            Err(Error::NotShown(not)) => Unreadable {
                name: path.to_owned(),
                reason: not.why,
                is_whole: true,
                entry: true,
            },
            Err(Error::Fault(fault)) => {
                let reason = fault.to_string();
                self.container.faults.push(fault.array(path));
                Unreadable {
                    name: path.to_owned(),
                    reason,
                    is_whole: false,
                    entry: true,
                }
            }
            Err(other) => return Err(other),
        };
        self.note(path, Err(unreadable.reason.clone()));
        self.container.add_unreadable([unreadable]);
        Ok(())
    }

    /// Notes what a Binsparse container's own group has.
    fn note(&mut self, path: &str, array: std::result::Result<Arc<dyn Array>, String>) {
        if self.descriptor.is_some() && !path.contains('/') {
            let name = path.to_owned();
            self.members.push(binsparse::Member { name, array });
        }
    }

    /// Checks the rules of a Binsparse container, once all its arrays are there.
    fn examine(&mut self) -> Result<()> {
        let Some(text) = self.descriptor.take() else {
            return Ok(());
        };
        let examined = binsparse::examine(&text, &self.members)?;
        examined.put_into(&mut self.container, Arc::new(text));
        Ok(())
    }
}

/// A descriptor as text: an object, or a text of one.
fn descriptor_text(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        value => value.to_string().into_bytes(),
    }
}

fn version_name(version: u8) -> String {
    match version {
        0 => String::new(),
        version => version.to_string(),
    }
}

/// Puts the drafts into each other, the innermost first: each comes after the one it lies in.
fn finish(mut drafts: Vec<StoreDraft>) -> Result<Container> {
    while let Some(mut draft) = drafts.pop() {
        draft.examine()?;
        draft.container.inner.reverse();
        let Some(outer) = drafts.get_mut(draft.parent) else {
            return Ok(draft.container);
        };
        outer.container.inner.push(Inner {
            path: draft.path,
            container: Arc::new(draft.container),
        });
    }
    Err(Fault::new("the store has no root").into())
}
