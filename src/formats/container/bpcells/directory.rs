//! The named arrays of a container that is a directory: one file each (docs/formats.md).
//!
//! Numeric files have a header and are as long as the file; a stray tail of less than one element
//! is ignored, as by BPCells itself. Files of other names are never looked at.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::fields::{Field, Fields, Number};
use super::header;
use super::names::Names;
use crate::array::Array;
use crate::container::OpenRequest;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::source::{Source, Store, StoredRanges};

/// Members of at most so many bytes are asked for as a whole where they are far away, of others so
/// many: headers, and what is looked at next.
const SMALL: u64 = 64 << 10;
const FIRST: u64 = 16 << 10;

/// Enough for the one line that is looked at, `storage_order`.
const LINE: usize = 256;

pub(super) struct Directory<'a> {
    store: &'a dyn Store,
    path: &'a Path,
    budget: &'a Arc<Budget>,
    opened: RefCell<MemberSources>,
}

/// The files of a container as they were opened, by their names.
pub(super) type MemberSources = BTreeMap<String, Arc<dyn Source>>;

impl<'a> Directory<'a> {
    pub(super) fn new(request: &OpenRequest<'a>, members: &[&str]) -> Self {
        if request.store.is_far() && request.store.knows_all_names(request.path) {
            let paths = members.iter().map(|member| request.path.join(member));
            for source in paths.flat_map(|path| request.store.open(&path)) {
                let first = match source.len() {
                    len @ ..=SMALL => len,
                    _ => FIRST,
                };
                source.expect(std::slice::from_ref(&(0..first)));
            }
        }
        Directory {
            store: request.store.as_ref(),
            path: request.path,
            budget: request.budget,
            opened: RefCell::default(),
        }
    }

    /// The first bytes of a file.
    pub(super) fn head(&self, name: &str, most: usize) -> Result<Vec<u8>> {
        let mut head = vec![0; most];
        let read = self.store.head(&self.path.join(name), &mut head);
        head.truncate(read.map_err(|e| unusable(name, e))?);
        Ok(head)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        let opened = self.store.open(&self.path.join(name));
        let source = opened.map_err(|e| unusable(name, e))?;
        let mut opened = self.opened.borrow_mut();
        opened.insert(name.to_owned(), Arc::clone(&source));
        Ok(source)
    }

    /// The files that were opened.
    pub(super) fn into_opened(self) -> MemberSources {
        self.opened.into_inner()
    }
}

impl Fields for Directory<'_> {
    fn field(&self, name: &str, number: Number) -> Result<Arc<dyn Field>> {
        let source = self.open(name)?;
        numeric(name, source, number)
    }

    fn names(&self, name: &str) -> Result<Arc<dyn Array>> {
        let source = self.open(name)?;
        Ok(Arc::new(Names::new(name, source, Arc::clone(self.budget))?))
    }

    fn first_line(&self, name: &str) -> Result<Vec<u8>> {
        let mut line = self.head(name, LINE)?;
        line.truncate(memchr::memchr(b'\n', &line).unwrap_or(line.len()));
        line.truncate(line.strip_suffix(b"\r").unwrap_or(&line).len());
        Ok(line)
    }
}

/// The numeric array in a file of this name.
pub(super) fn numeric(
    name: &str,
    source: Arc<dyn Source>,
    number: Number,
) -> Result<Arc<dyn Field>> {
    let Some(bytes) = source.len().checked_sub(header::LEN as u64) else {
        return Err(Fault::new("the file is too short for its header")
            .file(name)
            .bytes(0..header::LEN as u64)
            .expected(format_args!("{} bytes", header::LEN))
            .found(source.len())
            .into());
    };
    let mut head = [0; header::LEN];
    source
        .fetch_one(0, &mut head)
        .map_err(|e| e.map_fault(|fault| fault.file(name)))?;
    header::check(&head, number).map_err(|e| e.map_fault(|fault| fault.file(name)))?;
    let len = bytes / number.width();
    Ok(Arc::new(NumericFile {
        name: name.to_owned(),
        source,
        number,
        len,
    }))
}

/// A numeric array in its own file, after a header.
struct NumericFile {
    name: String,
    source: Arc<dyn Source>,
    number: Number,
    len: u64,
}

impl Field for NumericFile {
    fn number(&self) -> Number {
        self.number
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn stored_bytes(&self) -> u64 {
        self.source.len()
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.source
            .fetch_one(at.saturating_add(header::LEN as u64), out)
            .map_err(|e| e.map_fault(|fault| fault.file(&self.name)))
    }

    fn stored(&self, range: Range<u64>, _round: u32, needed: &mut StoredRanges) -> Result<bool> {
        needed.name(&self.source, place(&range));
        Ok(false)
    }

    fn locate(&self, fault: Fault, range: Range<u64>) -> Fault {
        fault.file(&self.name).bytes(place(&range))
    }
}

/// Where bytes of the elements lie in their file.
fn place(elements: &Range<u64>) -> Range<u64> {
    let stored = |at: u64| at.saturating_add(header::LEN as u64);
    stored(elements.start)..stored(elements.end)
}

/// A member that is missing or no regular file is damage of the container; anything else (no
/// permission, a failing disk, too many open files) says nothing about it and stays an error.
fn unusable(name: &str, error: Error) -> Error {
    if error.is_not_found() {
        return Fault::new("the file is missing").file(name).into();
    }
    let is_none = match &error {
        Error::NotADirectory | Error::IsADirectory => true,
        Error::Io { cause, .. } => is_no_file(cause),
        _ => false,
    };
    match is_none {
        true => Fault::new("not a regular file").file(name).into(),
        false => error,
    }
}

/// Errors of opening a directory, a symbolic link, a socket, a pipe or a device as a file.
fn is_no_file(cause: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory};
    let odd = [libc::ELOOP, libc::ENXIO, libc::ENODEV, libc::ESPIPE].map(Some);
    matches!(cause.kind(), InvalidInput | IsADirectory | NotADirectory)
        || odd.contains(&cause.raw_os_error())
}
