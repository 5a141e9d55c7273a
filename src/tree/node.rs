//! What an inode stands for.
//!
//! Made by [`super::arrival`] for entries of the source and by [`super::Tree::lookup`] for entries of a
//! container; kept by [`super::inode`]. A node never changes its kind: what becomes something else gets
//! another inode.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry_table::EntryIndex;
use super::version::ContainerVersion;
use crate::container::Recognised;
use crate::source::{FileId, FileIdentity, FileKind};

pub(super) enum Node {
    /// A directory of the source that is no container.
    Directory(PathBuf),
    /// A regular file of the source, shown as it is.
    File(OrdinaryFile),
    /// A link, pipe, socket or device of the source: shown, never opened.
    Special(PathBuf, FileKind),
    /// A name in the source of which a listing knows no more than what kind it is: looking at it failed. Looking it up
    /// finds another node, or says why not.
    Unseen(PathBuf, FileKind),
    /// A file or directory of the source that is shown as a container's directory.
    Container(ContainerNode),
    /// Something in one version of a container: an array, a view, a text, a directory, a link.
    Entry(Arc<ContainerVersion>, EntryIndex),
}

pub(super) struct OrdinaryFile {
    pub(super) path: PathBuf,
    /// Another file at this path is another inode.
    pub(super) id: FileId,
    /// Identity when it was found to be no container.
    seen: Mutex<Option<FileIdentity>>,
    /// Identity when it was last opened: tells whether the kernel's cached pages still hold.
    read: Mutex<Option<FileIdentity>>,
}

pub(super) struct ContainerNode {
    pub(super) path: PathBuf,
    /// What it is in the source: a file or a directory.
    pub(super) stored: FileKind,
    known: Mutex<KnownContainer>,
}

/// A container's format and the version that is shown.
pub(super) struct KnownContainer {
    pub(super) recognised: Recognised,
    /// Of its file or directory, when it was recognised.
    pub(super) seen: Option<FileIdentity>,
    /// None until somebody looks into it.
    pub(super) version: Option<Arc<ContainerVersion>>,
}

impl OrdinaryFile {
    pub(super) fn new(path: &Path, id: FileId) -> Self {
        OrdinaryFile {
            path: path.to_owned(),
            id,
            seen: Mutex::default(),
            read: Mutex::default(),
        }
    }

    /// Notes that the file is opened as `identity` and says whether it was the same the last time.
    pub(super) fn content_unchanged(&self, identity: FileIdentity) -> bool {
        lock(&self.read).replace(identity) == Some(identity)
    }
}

impl ContainerNode {
    pub(super) fn new(path: &Path, stored: FileKind, recognised: Recognised) -> Self {
        ContainerNode {
            path: path.to_owned(),
            stored,
            known: Mutex::new(KnownContainer {
                recognised,
                seen: None,
                version: None,
            }),
        }
    }

    pub(super) fn known(&self) -> MutexGuard<'_, KnownContainer> {
        lock(&self.known)
    }
}

impl Node {
    /// Where it lies in the source; nowhere, if it is in a container.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Node::Directory(path) | Node::Special(path, _) | Node::Unseen(path, _) => Some(path),
            Node::File(file) => Some(&file.path),
            Node::Container(container) => Some(&container.path),
            Node::Entry(..) => None,
        }
    }

    /// The container that it is.
    pub(super) fn container(&self) -> Option<&ContainerNode> {
        match self {
            Node::Container(container) => Some(container),
            _ => None,
        }
    }

    /// The file that it stands for, whatever its path leads to by now.
    pub(super) fn file(&self) -> Option<FileId> {
        match self {
            Node::File(file) => Some(file.id),
            _ => None,
        }
    }

    /// Whether an entry of the source of this kind and identity is what it stands for.
    pub(super) fn is_still(&self, kind: FileKind, id: FileId) -> bool {
        match self {
            Node::Directory(_) => kind == FileKind::Directory,
            Node::File(file) => kind == FileKind::File && file.id == id,
            Node::Special(_, special) => kind == *special,
            Node::Container(container) => kind == container.stored,
            Node::Unseen(..) | Node::Entry(..) => false,
        }
    }

    /// Notes that an entry of the source was looked into, what it is, and the identity that it had then.
    pub(super) fn note(&self, recognised: Option<Recognised>, identity: FileIdentity) {
        match self {
            Node::File(file) => *lock(&file.seen) = Some(identity),
            Node::Container(container) => {
                let mut known = container.known();
                known.seen = Some(identity);
                if let Some(recognised) = recognised {
                    known.recognised = recognised;
                }
            }
            Node::Directory(_) | Node::Special(..) | Node::Unseen(..) | Node::Entry(..) => {}
        }
    }

    /// What a file was recognised as, if it has been looked into as it is now.
    pub(super) fn recall(&self, identity: FileIdentity) -> Option<Option<Recognised>> {
        match self {
            Node::File(file) => (*lock(&file.seen) == Some(identity)).then_some(None),
            Node::Container(container) => {
                let known = container.known();
                (known.seen == Some(identity)).then(|| Some(known.recognised.clone()))
            }
            Node::Directory(_) | Node::Special(..) | Node::Unseen(..) | Node::Entry(..) => None,
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
