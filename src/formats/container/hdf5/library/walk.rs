//! The walk through a file: breadth first over groups, every object once, however many links lead
//! to it.
//!
//! Objects are told apart by their token, which hard links give without opening anything. An object
//! that cannot be read costs its own entry, never the whole file. What the walk collects is bounded
//! in number and in bytes.

use std::collections::HashMap;
use std::ffi::CString;

use hdf5_sys::h5i::{H5I_type_t, H5Iget_type};
use hdf5_sys::h5o::H5Oopen_by_token;
use serde::Serialize;

use super::dataset::LibraryDataset;
use super::identifier::{Identifier, Outcome};
use super::links::{self, LeadsTo, ListedLink, Missing};
use super::{attribute, scales, softlink, types};
use crate::container::hdf5::index::{
    AttributeEntry, DatasetEntry, GroupEntry, LinkEntry, LinkTarget, Problem, TypeEntry,
};
use crate::container::names;

/// Links of one file.
const LINKS_MOST: usize = 4_000_000;
/// Bytes of what is collected, about as it lies in memory.
const BYTES_MOST: u64 = 192 << 20;
/// Problems of one file that are reported one by one.
const PROBLEMS_MOST: usize = 1000;
/// What an entry takes beside its own bytes.
const ENTRY_BYTES: u64 = 64;
/// Said of what the bounds above leave out: no damage.
const TOO_MUCH: &str = "there is more in the file than can be listed";
const ATTRIBUTES: &str = "some attributes: there is more in the file than can be listed";
/// Stands for the members of a group that are left out.
const OTHERS: &[u8] = b"*";
/// Name of datasets that may hold a descriptor.
const DESCRIPTOR: &[u8] = b"binsparse";

/// What a token stands for.
#[derive(Clone)]
enum Known {
    Group(u32),
    Dataset(u32),
    Type(u32),
    /// There was no room for it.
    LeftOut,
    Unreadable(String),
}

pub(super) struct FileWalk<'a> {
    file: &'a Identifier,
    known: HashMap<u64, Known>,
    pub(super) groups: Vec<GroupEntry>,
    pub(super) datasets: Vec<DatasetEntry>,
    pub(super) types: Vec<TypeEntry>,
    pub(super) problems: Vec<Problem>,
    pub(super) left_out: Vec<Problem>,
    links_left: usize,
    bytes_left: u64,
}

impl<'a> FileWalk<'a> {
    /// Walks from the group with this token, the root.
    pub(super) fn through(file: &'a Identifier, root: u64) -> FileWalk<'a> {
        FileWalk::within(file, root, LINKS_MOST, BYTES_MOST)
    }

    /// Walks from the group with this token, with room for so many links and bytes.
    pub(super) fn within(
        file: &'a Identifier,
        root: u64,
        links_left: usize,
        bytes_left: u64,
    ) -> FileWalk<'a> {
        let mut walk = FileWalk {
            file,
            known: HashMap::new(),
            groups: Vec::new(),
            datasets: Vec::new(),
            types: Vec::new(),
            problems: Vec::new(),
            left_out: Vec::new(),
            links_left,
            bytes_left,
        };
        walk.add_group(root, 0, Vec::new());
        let mut at = 0;
        while at < walk.groups.len() {
            if let Err(why) = walk.expand(at) {
                walk.problem(at, None, why);
            }
            at += 1;
        }
        softlink::resolve(&mut walk.groups);
        walk
    }

    fn add_group(&mut self, token: u64, parent: u32, name: Vec<u8>) -> u32 {
        let number = self.groups.len() as u32;
        self.known.insert(token, Known::Group(number));
        self.groups.push(GroupEntry {
            token,
            parent,
            name,
            attributes: Vec::new(),
            links: Vec::new(),
        });
        number
    }

    fn expand(&mut self, at: usize) -> Outcome<()> {
        let group = open(self.file, self.groups[at].token)?;
        self.groups[at].attributes = self.attributes(&group, at, None);
        let (stored, missing) = links::of(&group, self.links_left);
        match missing {
            Some(Missing::Damage(why)) => self.problem(at, None, why),
            Some(Missing::TooMany) => self.leave_out(at, OTHERS, TOO_MUCH),
            None => {}
        }
        self.links_left -= stored.len();
        let mut found = Vec::with_capacity(stored.len());
        for link in stored {
            let bytes = link.name.count_bytes() as u64 + ENTRY_BYTES;
            if !self.take(bytes) {
                self.leave_out(at, OTHERS, TOO_MUCH);
                break;
            }
            found.push(LinkEntry {
                target: self.target(&group, at, &link),
                name: link.name.into_bytes(),
                soft: None,
                age: link.age,
            });
        }
        self.groups[at].links = found;
        Ok(())
    }

    fn target(&mut self, group: &Identifier, at: usize, link: &ListedLink) -> LinkTarget {
        match link.to {
            LeadsTo::Object(token) => self.object(token, at, &link.name),
            LeadsTo::Path(size) => match links::path(group, &link.name, size) {
                Ok(path) if self.take(path.len() as u64) => LinkTarget::Dangling { path },
                Ok(_) => not_followed(TOO_MUCH),
                Err(reason) => self.lost(at, &link.name, reason),
            },
            LeadsTo::Elsewhere(size) => match links::elsewhere(group, &link.name, size) {
                Ok((file, path)) if self.take((file.len() + path.len()) as u64) => {
                    LinkTarget::External { file, path }
                }
                Ok(_) => not_followed(TOO_MUCH),
                Err(reason) => self.lost(at, &link.name, reason),
            },
            LeadsTo::Foreign(class) => not_followed(&format!("a link of class {class}")),
            LeadsTo::Endless(len) => not_followed(&format!(
                "a link that holds {len} bytes, more than {} KiB",
                links::VALUE_MOST >> 10
            )),
            LeadsTo::Unsaid(len) => not_followed(&format!(
                "a link whose name has {len} bytes, more than {} KiB",
                links::NAME_MOST >> 10
            )),
        }
    }

    /// A link whose value cannot be had.
    fn lost(&mut self, at: usize, name: &CString, reason: String) -> LinkTarget {
        self.problem(at, Some(name.as_bytes()), reason.clone());
        unknown(reason)
    }

    fn object(&mut self, token: u64, at: usize, name: &CString) -> LinkTarget {
        let known = match self.known.get(&token) {
            Some(known) => known.clone(),
            None => self.meet(token, at, name),
        };
        match known {
            Known::Group(group) => LinkTarget::Group(group),
            Known::Dataset(dataset) => {
                self.read_text(dataset, name);
                LinkTarget::Dataset(dataset)
            }
            Known::Type(number) => LinkTarget::Type(number),
            Known::LeftOut => not_followed(TOO_MUCH),
            Known::Unreadable(reason) => unknown(reason),
        }
    }

    /// Opens an object that no link has led to before.
    fn meet(&mut self, token: u64, at: usize, name: &CString) -> Known {
        let name = name.as_bytes();
        let known = match self.open_new(token, at, name) {
            Ok(known) => known,
            Err(reason) => {
                self.problem(at, Some(name), reason.clone());
                Known::Unreadable(reason)
            }
        };
        self.known.insert(token, known.clone());
        known
    }

    fn open_new(&mut self, token: u64, at: usize, name: &[u8]) -> Outcome<Known> {
        let object = open(self.file, token)?;
        // SAFETY: the handle is an object.
        match unsafe { H5Iget_type(object.id()) } {
            H5I_type_t::H5I_GROUP => {
                if !self.take(name.len() as u64 + ENTRY_BYTES) {
                    return Ok(Known::LeftOut);
                }
                let number = self.add_group(token, at as u32, name.to_vec());
                Ok(Known::Group(number))
            }
            H5I_type_t::H5I_DATASET => self.add_dataset(object, token, at, name),
            H5I_type_t::H5I_DATATYPE => Ok(self.add_type(&object, token, at, name)),
            _ => Err("an object of a kind that is not known".into()),
        }
    }

    fn add_dataset(
        &mut self,
        object: Identifier,
        token: u64,
        at: usize,
        name: &[u8],
    ) -> Outcome<Known> {
        let opened = LibraryDataset::new(object)?;
        let mut dataset = opened.describe(token)?;
        if !self.take(size(&dataset)) {
            return Ok(Known::LeftOut);
        }
        dataset.attributes = self.attributes(opened.handle(), at, Some(name));
        dataset.details.scales = scales::of(opened.handle(), &dataset.attributes);
        let number = self.datasets.len() as u32;
        self.datasets.push(dataset);
        Ok(Known::Dataset(number))
    }

    /// One that cannot be described is no damage: there are no data of it.
    fn add_type(&mut self, object: &Identifier, token: u64, at: usize, name: &[u8]) -> Known {
        let mut found = TypeEntry {
            token,
            element: types::described(object),
            attributes: Vec::new(),
        };
        if !self.take(size(&found)) {
            return Known::LeftOut;
        }
        found.attributes = self.attributes(object, at, Some(name));
        let number = self.types.len() as u32;
        self.types.push(found);
        Known::Type(number)
    }

    /// Any of the links to a dataset may name it as a descriptor.
    fn read_text(&mut self, number: u32, name: &CString) {
        if name.as_bytes() != DESCRIPTOR {
            return;
        }
        let Some(dataset) = self.datasets.get(number as usize) else {
            return;
        };
        if dataset.text.is_some() {
            return;
        }
        let text = open(self.file, dataset.token)
            .and_then(LibraryDataset::new)
            .and_then(|opened| opened.text(dataset));
        if let Ok(Some(text)) = text
            && self.take(text.len() as u64)
        {
            self.datasets[number as usize].text = Some(text);
        }
    }

    fn attributes(
        &mut self,
        of: &Identifier,
        at: usize,
        name: Option<&[u8]>,
    ) -> Vec<AttributeEntry> {
        let mut unread = Vec::new();
        let found = attribute::all(of, &mut |attribute, why| {
            if unread.len() < PROBLEMS_MOST {
                unread.push((attribute.to_vec(), why));
            }
        });
        for (attribute, why) in unread {
            let attribute = names::escape(&attribute);
            self.problem(at, name, format!("attribute {attribute}: {why}"));
        }
        let mut kept = Vec::with_capacity(found.len());
        for attribute in found {
            if !self.take(size(&attribute)) {
                self.leave_out(at, name.unwrap_or(OTHERS), ATTRIBUTES);
                break;
            }
            kept.push(attribute);
        }
        kept
    }

    fn take(&mut self, bytes: u64) -> bool {
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                true
            }
            None => false,
        }
    }

    fn problem(&mut self, at: usize, name: Option<&[u8]>, what: String) {
        if self.problems.len() >= PROBLEMS_MOST {
            return;
        }
        let mut path = self.path(at);
        path.extend(name.map(<[u8]>::to_vec));
        self.problems.push(Problem { path, what });
        if self.problems.len() == PROBLEMS_MOST {
            let what = "there are more problems than are listed".into();
            let path = Vec::new();
            self.problems.push(Problem { path, what });
        }
    }

    /// Notes that members of a group, or attributes of one, are left out.
    fn leave_out(&mut self, at: usize, name: &[u8], what: &str) {
        if self.left_out.len() >= PROBLEMS_MOST {
            return;
        }
        let mut path = self.path(at);
        path.push(name.to_vec());
        let what = what.into();
        self.left_out.push(Problem { path, what });
    }

    /// Names from the root to a group; a group's number is larger than that of the group it lies
    /// in.
    fn path(&self, mut at: usize) -> Vec<Vec<u8>> {
        let mut path = Vec::new();
        while at != 0 {
            path.push(self.groups[at].name.clone());
            at = self.groups[at].parent as usize;
        }
        path.reverse();
        path
    }
}

/// Opens an object by its token.
pub(super) fn open(file: &Identifier, token: u64) -> Outcome<Identifier> {
    // SAFETY: the handle is a file; the library checks what lies at that address.
    Identifier::new(unsafe { H5Oopen_by_token(file.id(), links::token(token)) })
}

fn not_followed(reason: &str) -> LinkTarget {
    let reason = reason.to_owned();
    LinkTarget::NotFollowed { reason }
}

fn unknown(reason: String) -> LinkTarget {
    LinkTarget::Unknown { reason }
}

/// About the memory that a value takes: its serialised size and something for the structures.
fn size(value: &impl Serialize) -> u64 {
    let bytes = postcard::experimental::serialized_size(value).unwrap_or(0);
    bytes as u64 + 4 * ENTRY_BYTES
}
