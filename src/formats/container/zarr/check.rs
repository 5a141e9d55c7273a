//! What only a full check of a store sees: files that are none of it, nodes in arrays, consolidated
//! metadata that tell something else than the nodes' own documents. Used by [`super::assemble`].
//!
//! What a writer left and nothing reads is told, and no fault.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::json;
use super::keys::KeyEncoding;
use super::members::{MemberKind, Members, document, files_below, join};
use crate::container::describe::value_room;
use crate::container::{Check, TellFault};
use crate::error::{Error, Fault, NotShown, Result};
use crate::memory::budget::Budget;
use crate::memory::set_aside;

/// Names that are told at most.
const NAMED: usize = 3;

/// What lies in a directory of a store.
pub(super) enum NodeHolds {
    Nodes,
    /// Chunks of these keys: as many along each dimension.
    Chunks(KeyEncoding, Vec<u64>),
    /// What cannot be read may be anything.
    Unknown,
}

/// Rules of a store as a whole.
pub(super) struct StoreCheck {
    pub(super) members: Arc<dyn Members>,
    /// Nodes by their keys.
    pub(super) nodes: BTreeMap<PathBuf, NodeHolds>,
}

/// Files that are found where they do not belong.
#[derive(Default)]
struct StrayFiles {
    count: u64,
    first: Vec<String>,
}

impl StrayFiles {
    fn add(&mut self, key: &Path) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(key.display().to_string());
        }
    }

    fn told(self, what: &str) -> Option<NotShown> {
        let first = self.first.join(", ");
        (self.count > 0).then(|| NotShown::new(format!("{} {what}: {first}", self.count)))
    }
}

impl Check for StoreCheck {
    fn check(&self, _budget: &Arc<Budget>, report: TellFault<'_>) -> Result<()> {
        self.members.verify(report)?;
        for (key, holds) in &self.nodes {
            if let NodeHolds::Chunks(..) = holds {
                self.nodes_in_array(key, report)?;
            }
        }
        Ok(())
    }

    fn remarks(&self, tell: &mut dyn FnMut(NotShown)) -> Result<()> {
        let (mut left, mut outside) = (StrayFiles::default(), StrayFiles::default());
        for (key, holds) in &self.nodes {
            match holds {
                NodeHolds::Nodes => self.left_in_group(key, &mut left)?,
                NodeHolds::Chunks(keys, counts) => {
                    self.left_in_array(key, (*keys, counts), &mut outside)?;
                }
                NodeHolds::Unknown => {}
            }
        }
        let told = left.told("files left by other programs, which are not shown");
        let told = told
            .into_iter()
            .chain(outside.told("files in arrays that are no chunks of them"));
        told.for_each(&mut *tell);
        self.consolidated(tell)
    }
}

impl StoreCheck {
    fn left_in_group(&self, key: &Path, left: &mut StrayFiles) -> Result<()> {
        self.members.list(key, &mut |name, kind| {
            if kind != MemberKind::Directory && is_leftover(name) {
                left.add(&join(key, name));
            }
        })
    }

    fn left_in_array(
        &self,
        key: &Path,
        (keys, counts): (KeyEncoding, &[u64]),
        outside: &mut StrayFiles,
    ) -> Result<()> {
        let depth = counts.len() + 1;
        files_below(&*self.members, key, depth, &mut |file| {
            let below = file.strip_prefix(key).unwrap_or(file);
            let name = below.to_str();
            let place = name.and_then(|name| keys.place(name, counts.len()));
            let is_within = |place: Vec<u64>| place.iter().zip(counts).all(|(at, n)| at < n);
            let is_document = |name: &str| super::OF_NODES.contains(&name);
            if !place.is_some_and(is_within) && !name.is_some_and(is_document) {
                outside.add(file);
            }
            Ok(())
        })
    }

    /// What lies in an array is shown nowhere.
    fn nodes_in_array(&self, key: &Path, report: TellFault<'_>) -> Result<()> {
        const DEEPEST: usize = 32;
        files_below(&*self.members, key, DEEPEST, &mut |file| {
            let name = file.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
            let makes_node = super::MAKE_NODES.iter().any(|made| made.as_bytes() == name);
            if makes_node && file.parent() != Some(key) {
                let fault = Fault::new("a node lies in an array; it is not shown");
                report(fault.file(&file.display().to_string()));
            }
            Ok(())
        })
    }

    /// Whether consolidated metadata say what the nodes do. They are used by nothing here.
    fn consolidated(&self, tell: &mut dyn FnMut(NotShown)) -> Result<()> {
        let (Some(v2), Some(v3)) = (self.read(".zmetadata")?, self.read("zarr.json")?) else {
            return Ok(());
        };
        let told = |key: &str| {
            let why = "consolidated metadata say something else of it than its own document, which counts";
            NotShown {
                array: Some(key.to_owned()),
                ..NotShown::new(why)
            }
        };
        let listed =
            |document: &Value| document.get("metadata").and_then(Value::as_object).cloned();
        for (key, value) in listed(&v2).unwrap_or_default() {
            if !is_within(&key) {
                let why = "consolidated metadata name what lies elsewhere";
                tell(NotShown {
                    array: Some(key),
                    ..NotShown::new(why)
                });
            } else if self
                .read(&key)?
                .is_some_and(|own| plain(own) != plain(value))
            {
                tell(told(&key));
            }
        }
        let inline = v3.get("consolidated_metadata").and_then(listed);
        for (key, value) in inline.unwrap_or_default() {
            let document = format!("{key}/zarr.json");
            if is_within(&document)
                && self
                    .read(&document)?
                    .is_some_and(|own| plain(own) != plain(value))
            {
                tell(told(&key));
            }
        }
        Ok(())
    }

    /// A document; null if there is none, nothing if it is none.
    fn read(&self, key: &str) -> Result<Option<Value>> {
        let read = match document(&*self.members, Path::new(key)) {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(Some(Value::Null)),
            Err(Error::Fault(_) | Error::NotShown(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let room = value_room(&read.bytes);
        let parsed = set_aside(room, "cannot read a document", || json::parse(&read.bytes))?;
        Ok(parsed.ok())
    }
}

/// Files that systems and writers leave, of which nobody asks what they are.
fn is_leftover(name: &[u8]) -> bool {
    let left: [&[u8]; 3] = [b".DS_Store", b"Thumbs.db", b"__MACOSX"];
    left.contains(&name) || name.ends_with(b".partial") || name.starts_with(b"._")
}

/// A document without what may be left out of it.
fn plain(document: Value) -> Value {
    let Value::Object(object) = document else {
        return match document {
            Value::Null => Value::Object(Map::new()),
            other => other,
        };
    };
    let is_empty = |value: &Value| match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Null => true,
        _ => false,
    };
    let counts = |(key, value): &(String, Value)| {
        let may_be_left = ["attributes", "storage_transformers", "dimension_names"];
        key != "consolidated_metadata" && !(may_be_left.contains(&&**key) && is_empty(value))
    };
    Value::Object(object.into_iter().filter(counts).collect())
}

/// Whether a key names what lies in the store.
fn is_within(key: &str) -> bool {
    let mut parts = Path::new(key).components();
    !key.contains('\0') && parts.all(|part| matches!(part, Component::Normal(_)))
}
