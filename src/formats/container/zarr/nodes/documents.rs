//! The documents of one directory, of either version: what they make of it. Used by [`super`].

use std::path::Path;

use serde_json::{Map, Value};

use super::{AS_READ, Discovery, Documented, NODE, NodeContent, OF_GROUPS};
use crate::container::describe::value_room;
use crate::container::zarr::document::DocumentRefusal;
use crate::container::zarr::members::document;
use crate::container::zarr::{json, version_2, version_3};
use crate::error::{Error, Fault, Result};
use crate::memory::set_aside;

impl Discovery<'_> {
    /// What the documents of a directory say; none if it has none.
    pub(super) fn documented(&mut self, key: &Path) -> Result<Option<Documented>> {
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
    pub(super) fn read(
        &mut self,
        key: &Path,
    ) -> Result<Option<std::result::Result<Value, DocumentRefusal>>> {
        let named = |fault: Fault| fault.file(&key.display().to_string());
        let read = match document(self.members, key) {
            Ok(None) => {
                // It may come.
                self.found.documents.push((key.to_owned(), None));
                return Ok(None);
            }
            Ok(Some(read)) => read,
            Err(e) if e.is_permission_denied() => {
                let fault = named(Fault::new("the document may not be read"));
                return Ok(Some(Err(DocumentRefusal::Fault(Box::new(fault)))));
            }
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
