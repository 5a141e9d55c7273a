//! What an inode stands for.
//!
//! Made by [`super::arrival`] for entries of the source and by [`super::lookup`] for entries
//! of a container; kept by [`super::inode`], which knows where it lies. A node never changes its
//! kind: what becomes something else gets another inode; but for a directory that is filled with
//! what makes it a container, which gets another node.

use std::sync::Arc;

use super::ordinary::OrdinaryFile;
use crate::container::Recognised;
use crate::live::LiveContainer;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::version::ContainerVersion;
use crate::source::{FileId, FileKind, MountId, SourceIdentity, Stat};

/// Two words, for there may be millions.
#[derive(Clone)]
pub(crate) enum Node {
    /// A directory of the source that is no container.
    Directory(Arc<StoredAt>),
    /// A regular file of the source, shown as it is.
    File(Arc<OrdinaryFile>),
    /// A link, pipe, socket or device of the source: shown, never opened.
    Special(Arc<StoredAt>, FileKind),
    /// A name in the source of which a listing knows no more than what kind it is: looking at it
    /// failed. Looking it up finds another node, or says why not.
    Unseen(FileKind),
    /// A file or directory of the source that is shown as a container's directory.
    Container(Arc<LiveContainer>),
    /// Something in one version of a container: an array, a view, a text, a directory, a link.
    Entry(Arc<ContainerVersion>, EntryIndex),
}

/// Which file of the source it is: another one of the same name is another inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredAt {
    pub(super) id: FileId,
    pub(super) mount: MountId,
}

impl StoredAt {
    pub(super) fn of(stat: &Stat) -> StoredAt {
        StoredAt {
            id: stat.id,
            mount: stat.mount,
        }
    }
}

impl Node {
    /// The container that it is.
    pub(super) fn container(&self) -> Option<&Arc<LiveContainer>> {
        match self {
            Node::Container(container) => Some(container),
            _ => None,
        }
    }

    /// The file that it stands for, whatever its names lead to by now.
    pub(super) fn file(&self) -> Option<FileId> {
        match self {
            Node::File(file) => Some(file.at.id),
            Node::Directory(at) | Node::Special(at, _) => Some(at.id),
            Node::Unseen(_) | Node::Container(_) | Node::Entry(..) => None,
        }
    }

    /// Whether it is the same inode under all names of what it stands for, of which the table need
    /// not have all.
    pub(super) fn can_have_many_names(&self) -> bool {
        matches!(self, Node::File(_) | Node::Special(..))
    }

    /// The file of the source that is shown as it is.
    pub(super) fn ordinary(&self) -> Option<&OrdinaryFile> {
        match self {
            Node::File(file) => Some(file),
            _ => None,
        }
    }

    /// Whether what a name in the source leads to is what it stands for.
    pub(super) fn is_still(&self, stat: &Stat) -> bool {
        match self {
            Node::Directory(at) => stat.kind == FileKind::Directory && **at == StoredAt::of(stat),
            Node::File(file) => stat.kind == FileKind::File && file.at == StoredAt::of(stat),
            Node::Special(at, kind) => stat.kind == *kind && **at == StoredAt::of(stat),
            Node::Container(container) => stat.kind == container.stored,
            Node::Unseen(_) | Node::Entry(..) => false,
        }
    }

    /// Notes that an entry of the source was looked into, what it is, and the identity that it had
    /// then.
    pub(super) fn note(&self, recognised: Option<Recognised>, identity: SourceIdentity) {
        match self {
            Node::File(file) => file.note(identity),
            Node::Container(container) => {
                let mut known = container.known();
                known.seen = Some(identity);
                if let Some(recognised) = recognised {
                    known.recognised = recognised;
                }
            }
            Node::Directory(_) | Node::Special(..) | Node::Unseen(_) | Node::Entry(..) => {}
        }
    }

    /// What a file was recognised as, if it has been looked into as it is now.
    pub(super) fn recall(&self, identity: SourceIdentity) -> Option<Option<Recognised>> {
        match self {
            Node::File(file) => file.was_seen_as(identity).then_some(None),
            Node::Container(container) => {
                let known = container.known();
                (known.seen == Some(identity)).then(|| Some(known.recognised.clone()))
            }
            Node::Directory(_) | Node::Special(..) | Node::Unseen(_) | Node::Entry(..) => None,
        }
    }
}
