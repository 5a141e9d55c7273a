//! Where the documents and chunks of a store lie: in files of a directory, or in a zip file.
//!
//! They are asked for by their keys, which are paths below the store's root. Nothing above knows
//! which of the two it is. Used by all of this format that reads stored bytes.

mod directory;
mod followed;
mod inflated;
pub(super) mod zip;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use directory::DirectoryMembers;
pub(super) use inflated::{DecodedBlocks, DecodesWhole};
pub(super) use zip::ZipMembers;

use crate::error::{Error, Fault, Result};
use crate::memory::fallible;
use crate::source::{Source, SourceIdentity};

/// Longest document.
pub(super) const DOCUMENT_MOST: u64 = 32 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberKind {
    File,
    Directory,
    /// Nothing that can be read: a device, or a link that leads to nothing.
    Other,
}

/// The documents and chunks of a store, by their keys.
pub(super) trait Members: Send + Sync {
    /// A document or a chunk; none if there is none, also where a directory lies in its place.
    fn open(&self, key: &Path) -> Result<Option<Arc<dyn Source>>>;

    /// All bytes of one that has been opened.
    fn whole(&self, _key: &Path, source: &dyn Source) -> Result<Vec<u8>> {
        let mut bytes = fallible::zeros(source.len(), "cannot read a document")?;
        source.fetch_one(0, &mut bytes)?;
        Ok(bytes)
    }

    /// What it is told by now; none if there is none.
    fn identity(&self, key: &Path) -> Result<Option<SourceIdentity>> {
        Ok(self.open(key)?.map(|source| source.identity()))
    }

    /// What a directory is told by now: another one when a name in it has come or gone. None where
    /// nothing tells.
    fn directory_identity(&self, _directory: &Path) -> Result<Option<SourceIdentity>> {
        Ok(None)
    }

    /// Tells the names in a directory, in any order. One that cannot be reached has none.
    fn list(&self, directory: &Path, each: &mut dyn FnMut(&[u8], MemberKind)) -> Result<()>;

    /// Whether a directory may have others in it but those of chunks, so that it pays to look: not
    /// where that would take long.
    fn is_looked_through(&self, directory: &Path) -> Result<bool>;

    /// Whether they are far away.
    fn is_far(&self) -> bool;

    /// Tells a directory from others, where several ways may lead to one.
    fn place(&self, directory: &Path) -> Option<SourceIdentity>;

    /// Bytes that the members below a directory occupy, where that is known without looking for
    /// them.
    fn stored_below(&self, _directory: &Path) -> Option<u64> {
        None
    }

    /// Checks what reading does not see.
    fn verify(&self, _report: &mut dyn FnMut(Fault)) -> Result<()> {
        Ok(())
    }
}

/// A document as it was read.
pub(super) struct ReadDocument {
    pub(super) bytes: Vec<u8>,
    pub(super) identity: SourceIdentity,
}

/// Reads a whole document; none if there is none.
pub(super) fn document(members: &dyn Members, key: &Path) -> Result<Option<ReadDocument>> {
    let Some(source) = members.open(key)? else {
        return Ok(None);
    };
    let len = source.len();
    if len > DOCUMENT_MOST {
        let fault = Fault::new("the document is too long").file(&key.display().to_string());
        let fault = fault.expected(format_args!("at most {DOCUMENT_MOST}"));
        return Err(fault.found(len).into());
    }
    Ok(Some(ReadDocument {
        bytes: members.whole(key, &*source)?,
        identity: source.identity(),
    }))
}

/// Names every file below a directory, by its key. Goes no deeper than `depth`.
pub(super) fn files_below(
    members: &dyn Members,
    directory: &Path,
    depth: usize,
    each: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<()> {
    let mut left = vec![(directory.to_owned(), depth)];
    while let Some((directory, depth)) = left.pop() {
        let (mut directories, mut told) = (Vec::new(), Ok(()));
        members.list(&directory, &mut |name, kind| {
            let key = join(&directory, name);
            match kind {
                MemberKind::Directory if depth > 0 => directories.push(key),
                MemberKind::Directory => {}
                MemberKind::File | MemberKind::Other if told.is_ok() => told = each(&key),
                _ => {}
            }
        })?;
        told?;
        let deeper = directories
            .into_iter()
            .map(|key| (key, depth.saturating_sub(1)));
        left.extend(deeper);
    }
    Ok(())
}

/// The key of a name in a directory.
pub(super) fn join(directory: &Path, name: &[u8]) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    directory.join(OsStr::from_bytes(name))
}

/// An error of a member is a fault of the store where it is none of the system's.
pub(super) fn leads_outside(key: &Path) -> Error {
    let fault = Fault::new("a symbolic link that leads out of the source; never followed");
    fault.file(&key.display().to_string()).into()
}
