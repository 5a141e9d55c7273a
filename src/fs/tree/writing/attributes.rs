//! Mode, owner, times and extended attributes of files, directories and containers.
//!
//! Used by `kernel::adapter`.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::super::attr::Attr;
use super::super::attributes::EntryAttributes;
use super::super::inode::InodeId;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::super::open_file::HandleId;
use super::super::xattr::Xattrs;
use super::content::FileContents;
use super::directories::SourceDirectories;
use super::requests::Requests;
use super::retyped::set_type;
use super::targets::{change_said, with_target};
use crate::commit::added::added_of;
use crate::container::MemberStats;
use crate::disk::{Caller, Disk, NewAttributes, Target, XattrSetting};
use crate::error::{Error, Result};
use crate::live::creation::given::{PREFIX, given_type};
use crate::live::shown::entry::WRITABLE;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::version::ContainerVersion;
use crate::live::{LiveContainer, refused};
use crate::source::FileKind;
use crate::source::acl::{ACCESS, is_list};

/// The bits of a container's mode that its files get: they are not executable.
const READABLE: u32 = 0o666;

/// Attributes of arrays and containers, beside those of the type, that follow from what they hold.
const FOLLOWING: [&str; 7] = [
    "order",
    "codec",
    "stored_bytes",
    "ratio",
    "format",
    "version",
    "state",
];

const CODEC: &str = "user.arrayfs.codec";

fn follows_from_data(name: &OsStr) -> bool {
    let own = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    own.is_some_and(|own| FOLLOWING.contains(&own))
}

/// Sets attributes, as far as they are not computed.
pub(crate) struct AttributeChanges {
    pub(super) fs: Arc<MountedFs>,
    pub(super) attributes: Arc<EntryAttributes>,
    pub(super) xattrs: Arc<Xattrs>,
    pub(super) directories: Arc<SourceDirectories>,
    pub(super) contents: Arc<FileContents>,
    pub(in crate::tree) requests: Requests,
}

impl AttributeChanges {
    /// Sets a length and other attributes, in this order, and says what they are then.
    pub fn set_attributes(
        &self,
        inode: InodeId,
        handle: Option<HandleId>,
        len: Option<u64>,
        to: &NewAttributes,
        caller: Caller,
    ) -> Result<Attr> {
        self.fs.live.ground.writable()?;
        let node = self.fs.inodes.get(inode)?;
        // That of an array may be a commit, which takes long.
        if let (Some(len), Node::Entry(..)) = (len, &*node) {
            self.contents.set_len(inode, handle, len, caller)?;
        }
        let stays = self.fs.enclosing.share_new(inode);
        let set = match (len, &*node) {
            (None, _) | (_, Node::Entry(..)) => Ok(()),
            (Some(len), _) => self.contents.set_len(inode, handle, len, caller),
        };
        let set = set.and_then(|()| match !to.is_empty() || len.is_none() {
            true => self.set_other_attributes(inode, &node, to, caller),
            false => Ok(()),
        });
        // A packer has read it as it was: the use has it look again.
        if stays.is_some() {
            self.fs.enclosing.note_use(inode);
        }
        set.and_then(|()| self.attributes.attr(inode))
    }

    fn set_other_attributes(
        &self,
        inode: InodeId,
        node: &Arc<Node>,
        to: &NewAttributes,
        caller: Caller,
    ) -> Result<()> {
        match &**node {
            Node::Container(_) => self.set_container_attributes(inode, to, caller, true),
            Node::Entry(version, entry) => {
                if *entry != EntryIndex::ROOT {
                    self.fs.live.current.check(version)?;
                }
                let is_directory = *entry == EntryIndex::ROOT;
                let to = self.of_entry(version, *entry, to)?;
                self.set_container_attributes(version.container.into(), &to, caller, is_directory)
            }
            _ => self.set_source_attributes(inode, node, self.fs.live.ground.writable()?, to),
        }
    }

    /// An entry that never shows `w` says nothing of the right to write the container: those bits
    /// stay as they are.
    fn of_entry(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
        to: &NewAttributes,
    ) -> Result<NewAttributes> {
        let opened = self.fs.live.opener.open(version)?;
        let shows_all = opened.kind(entry)? != FileKind::File || opened.is_writable(entry);
        let writable = u32::from(WRITABLE);
        let now = u32::from(version.owner().mode_with_list()) & writable;
        Ok(NewAttributes {
            mode: match shows_all {
                true => to.mode,
                false => to.mode.map(|mode| mode & !writable | now),
            },
            ..*to
        })
    }

    fn set_source_attributes(
        &self,
        inode: InodeId,
        node: &Arc<Node>,
        disk: &dyn Disk,
        to: &NewAttributes,
    ) -> Result<()> {
        with_target(&self.fs, inode, node, |target, now| match node.ordinary() {
            // Contents are told apart by their times.
            Some(of) if to.changes_times() => {
                let (done, foreign) = of.change(now, || disk.set_attributes(target, to));
                if foreign {
                    self.fs.places.invalidate(inode, None);
                }
                done
            }
            _ => disk.set_attributes(target, to),
        })
    }

    /// Of all files of a container: a user who may read one of them may read all. `is_directory`:
    /// of its directory, not of something in it. Other times make a new version. The kernel has
    /// looked at the owner that is shown, which is one of several.
    fn set_container_attributes(
        &self,
        inode: InodeId,
        to: &NewAttributes,
        caller: Caller,
        is_directory: bool,
    ) -> Result<()> {
        let node = self.fs.inodes.get(inode)?;
        let container = node.container().ok_or(Error::NotADirectory)?;
        let version = self.fs.live.current.version_of(inode.into(), container)?;
        let path = self.fs.container_path(inode)?;
        let found = version.recognised.stat(&*self.fs.store, &path)?;
        self.let_in_to_change((inode, container), &version, (&found, &path), to, caller)?;
        let now = self.fs.live.times.now_or_at_commit(&version, to);
        let own_mode = match container.stored {
            // That of an array is its files' alone.
            FileKind::Directory => to.mode.filter(|_| is_directory),
            _ => to.mode.map(|mode| mode & READABLE),
        };
        let (live, times) = (&self.fs.live, (&found, now.atime, now.mtime));
        if now.changes_times() && !live.times.set_times(&version, &path, times)? {
            // Something has just got into the log.
            self.fs.live.times.now_or_at_commit(&version, to);
        }
        let added = match container.stored {
            FileKind::File => added_of(&*self.fs.store, &path)?,
            _ => None,
        };
        self.set_files_of(&version, (&found, &path), to, own_mode)?;
        self.fs.live.drafts.give(inode.into(), to)?;
        self.directories.give_added(added, to)?;
        self.fs.notice_change(inode, &node);
        if !is_directory {
            // The kernel takes the answer for attributes of the array alone.
            self.fs.places.invalidate(inode, None);
        }
        Ok(())
    }

    /// Whether a caller may change these attributes of all files of a container. What is staged is
    /// committed before they are given away: a log that is not the container's owner's would not be
    /// believed.
    fn let_in_to_change(
        &self,
        (inode, container): (InodeId, &LiveContainer),
        version: &ContainerVersion,
        (found, path): (&MemberStats, &Path),
        to: &NewAttributes,
        caller: Caller,
    ) -> Result<()> {
        let files = || std::iter::once(&found.own).chain(found.members.iter().flatten());
        if caller.uid != 0 && files().any(|stat| stat.uid != caller.uid) {
            return Err(refused("set attributes of", path, libc::EPERM));
        }
        let mut owners = files().map(|stat| stat.uid);
        if to.uid.is_some_and(|uid| owners.any(|owner| owner != uid)) {
            let (live, id) = (&self.fs.live, inode.into());
            live.asked.commit_before_move(id, container, path)?;
            if version.writes.state().is_some() {
                return Err(refused("give away", path, libc::EBUSY));
            }
        }
        Ok(())
    }

    /// Sets mode and owners of all files of a container.
    fn set_files_of(
        &self,
        version: &Arc<ContainerVersion>,
        (found, path): (&MemberStats, &Path),
        to: &NewAttributes,
        own_mode: Option<u32>,
    ) -> Result<()> {
        let others = NewAttributes {
            // Users who may list the directory may read the files.
            mode: to.mode.map(|mode| mode & READABLE),
            atime: None,
            mtime: None,
            ..*to
        };
        if others.mode.is_some() || others.uid.is_some() || others.gid.is_some() {
            let live = &self.fs.live;
            live.times
                .set_of_files(version, path, found, &others, own_mode)?;
        }
        if let Some(staged) = version.writes.now().filter(|_| others.uid.is_some()) {
            // A log has to be the owner's to be believed.
            staged.stage.owner_changed();
        }
        Ok(())
    }

    /// `keeps_group_bit`: whether the caller may keep the set-group-id bit of files of a group.
    pub fn set_xattr(
        &self,
        inode: InodeId,
        name: &OsStr,
        (value, how): (&[u8], XattrSetting),
        keeps_group_bit: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        self.fs.live.ground.writable()?;
        if let Some(done) = self.requests.answer(inode, name) {
            return done;
        }
        // Attributes that are computed cannot be written; a copy says again what follows from its
        // data, and of an array what that is already.
        if self.is_said_again(inode, name, value)? {
            return Ok(());
        }
        let change = |disk: &dyn Disk, target: Target<'_>| disk.set_xattr(target, name, value, how);
        match given_type(name, value) {
            Some(to) => set_type(&self.fs, inode, &to?, change),
            None => self.change_xattr(inode, name, change),
        }?;
        match name == ACCESS {
            true => self.take_group_bit(inode, keeps_group_bit),
            false => Ok(()),
        }
    }

    /// Who gives another list to a file takes its set-group-id bit away, as with another mode. The
    /// source's file system has taken the daemon for him.
    fn take_group_bit(&self, inode: InodeId, keeps: &dyn Fn(u32) -> bool) -> Result<()> {
        const SET_GROUP: u16 = 0o2000;
        let (node, disk) = (self.fs.inodes.get(inode)?, self.fs.live.ground.writable()?);
        with_target(&self.fs, inode, &node, |target, _| {
            let now = match target {
                Target::Named { path, .. } => self.fs.store.posix()?.stat_with_list(path)?,
                Target::Open(source) => source.stat()?,
            };
            if now.mode & SET_GROUP == 0 || keeps(now.gid) {
                return Ok(());
            }
            let shown = now.list.map_or(now.mode, |list| list.mode());
            let to = NewAttributes {
                mode: Some((shown & !SET_GROUP).into()),
                ..NewAttributes::default()
            };
            disk.set_attributes(target, &to)
        })
    }

    pub fn remove_xattr(&self, inode: InodeId, name: &OsStr) -> Result<()> {
        let change = |disk: &dyn Disk, target: Target<'_>| disk.remove_xattr(target, name);
        let is_own = follows_from_data(name) || given_type(name, b"[]").is_some();
        let node = self.fs.inodes.get(inode)?;
        let removed = match &*node {
            _ if !is_own => self.change_xattr(inode, name, change),
            // Copies take away what their source lacks.
            Node::Container(_) | Node::Entry(..) => self.fs.live.ground.writable().map(drop),
            _ => change_said(&self.fs, inode, &node, change),
        };
        removed.map_err(|e| match e.is_no_data() {
            true => Error::NoAttribute,
            false => e,
        })
    }

    /// Whether an attribute is one that copies set, and that has no meaning where it is set. Who
    /// gives an array that is stored another codec wants more than that.
    fn is_said_again(&self, inode: InodeId, name: &OsStr, value: &[u8]) -> Result<bool> {
        let is_array = matches!(&*self.fs.inodes.get(inode)?, Node::Entry(..));
        if follows_from_data(name) && !(is_array && name == CODEC) {
            return Ok(true);
        }
        let is_ours = name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        Ok(is_array && is_ours && self.xattrs.xattr(inode, name).is_ok_and(|now| now == value))
    }

    fn change_xattr(
        &self,
        inode: InodeId,
        name: &OsStr,
        change: impl FnOnce(&dyn Disk, Target<'_>) -> Result<()>,
    ) -> Result<()> {
        let disk = self.fs.live.ground.writable()?;
        if !self.xattrs.stored.offers(name) {
            return Err(Error::Unsupported);
        }
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            return Err(refused("set an attribute", Path::new(name), libc::EPERM));
        }
        let node = self.fs.inodes.get(inode)?;
        match &*node {
            Node::Container(_) | Node::Entry(..) if is_list(name) => Err(Error::Unsupported),
            Node::Container(_) | Node::Entry(..) => Err(Error::ReadOnly),
            // It would be lost when this is packed.
            _ if self.fs.enclosing.share_new(inode).is_some() => Err(Error::Unsupported),
            _ => {
                let changed = with_target(&self.fs, inode, &node, |target, _| change(disk, target));
                changed.map_err(|e| match e.is_not_found() {
                    true => self.fs.without_names(inode, e),
                    false => e,
                })
            }
        }
    }
}
