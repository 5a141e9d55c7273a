//! Requests of commands to the daemon: to commit, to discard, to refresh.
//!
//! They set a reserved attribute on what lies at the path that they were given, so the kernel
//! checks that the caller may write there, and no path has to be passed. The status says what is
//! still staged afterwards, and why. Used by `attributes`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::inode::InodeId;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::super::written_here::WrittenHere;
use super::super::xattr::{APPLY, COMMIT, COMMIT_QUICKLY, DISCARD, REFRESH};
use super::directories::SourceDirectories;
use crate::disk::Settling;
use crate::error::{Error, Result};
use crate::live::{ContainerId, HURRY, InUse, StaleLogs, refused};
use crate::source::{FileKind, Stat};

/// Does what commands ask for.
pub(crate) struct Requests {
    pub(super) fs: Arc<MountedFs>,
    pub(super) written_here: Arc<WrittenHere>,
    pub(super) directories: Arc<SourceDirectories>,
}

impl Requests {
    /// Does what setting this attribute asks for; none if it asks for nothing.
    pub(super) fn answer(&self, inode: InodeId, name: &OsStr) -> Option<Result<()>> {
        match name.to_str()? {
            COMMIT => Some(self.commit_below(inode, StaleLogs::Kept, Settling::Everything)),
            COMMIT_QUICKLY => Some(self.commit_below(inode, StaleLogs::Kept, Settling::IfCheap)),
            APPLY => Some(self.commit_below(inode, StaleLogs::Applied, Settling::Everything)),
            DISCARD => Some(self.discard_below(inode)),
            REFRESH => Some(self.refresh(inode)),
            _ => None,
        }
    }

    /// The containers at or below an inode; of what lies in one, that one.
    fn path_asked_of(&self, inode: InodeId) -> Result<PathBuf> {
        match &*self.fs.inodes.get(inode)? {
            Node::Entry(version, _) => self.fs.inodes.path(version.container.into()),
            _ => self.fs.inodes.path(inode),
        }
    }

    fn lies_below(&self, inode: InodeId, path: &Path) -> bool {
        let all = self.fs.inodes.paths(inode);
        all.iter().any(|own| own.starts_with(path))
    }

    /// Commits everything that is staged at or below an inode, and sees to it that the rest is
    /// safe.
    fn commit_below(&self, inode: InodeId, stale: StaleLogs, how: Settling) -> Result<()> {
        let path = self.path_asked_of(inode)?;
        let hurry = || {
            if how == Settling::IfCheap {
                self.fs.live.hurry_for(HURRY);
            }
        };
        hurry();
        self.settle(inode, how)?;
        for (new, _) in self.fs.live.new.all() {
            if self.lies_below(new.into(), &path) {
                // What stays new has noted why.
                let _ = self.fs.live.packing.pack_now(new, InUse::Spared);
            }
        }
        for (staged, version) in self.fs.live.written.all() {
            if self.lies_below(staged.into(), &path) {
                hurry();
                match stale {
                    StaleLogs::Kept => {
                        drop(self.fs.live.committer.commit_or_keep(staged, &version))
                    }
                    StaleLogs::Applied => self.fs.live.asked.commit_or_apply(staged, &version),
                }
            }
        }
        Ok(())
    }

    /// Has what is held back of a file put in its place, or of all files.
    fn settle(&self, inode: InodeId, how: Settling) -> Result<()> {
        let one = match &*self.fs.inodes.get(inode)? {
            Node::File(file) => Some(file.at.id),
            _ => None,
        };
        if let Some(disk) = &self.fs.disk {
            disk.settle(one, how);
        }
        Ok(())
    }

    /// Discards everything that is staged at or below an inode, unless it is open for writing.
    fn discard_below(&self, inode: InodeId) -> Result<()> {
        let path = self.path_asked_of(inode)?;
        let mut done = Ok(());
        for (staged, version) in self.fs.live.written.all() {
            if self.lies_below(staged.into(), &path) {
                done = done.and(self.fs.live.discarding.discard(staged, &version));
            }
        }
        // What has been put into a new container are files, which are removed like any others.
        let with_drafts = |new: &ContainerId| {
            let inode = (*new).into();
            self.fs.enclosing.shows_drafts(inode) && self.lies_below(inode, &path)
        };
        let mut new = self.fs.live.new.all().into_iter();
        match new.find(|(new, _)| with_drafts(new)) {
            Some((new, _)) => {
                let path = self.fs.inodes.path(new.into()).unwrap_or_default();
                log::warn!(
                    "{}: is new: what was put into it is not staged; rm -r removes it",
                    self.fs.store.display(&path).display()
                );
                done.and(Err(refused("discard what is new in", &path, libc::EBUSY)))
            }
            None => done,
        }
    }

    /// What was made or written through the mount is looked into again: it may be a container.
    pub(crate) fn refresh(&self, inode: InodeId) -> Result<()> {
        self.fs.store.refresh(&self.path_asked_of(inode)?);
        let node = self.fs.inodes.get(inode)?;
        let path = match &*node {
            Node::Entry(..) | Node::Special(..) | Node::Unseen(_) => return Ok(()),
            Node::File(_) => return self.look_into_again(inode),
            Node::Directory(_) | Node::Container(_) => self.fs.inodes.path(inode)?,
        };
        let is_below = |known: &InodeId| *known != InodeId::ROOT && self.lies_below(*known, &path);
        let known: Vec<InodeId> = self.fs.inodes.all().into_iter().filter(is_below).collect();
        let mut done = self.forget_ours_below(&path);
        for inode in known {
            done = done.and(self.look_into_again(inode));
        }
        self.directories.names_changed(inode);
        done
    }

    /// One file, or the name of a directory; it must not be open for writing.
    fn look_into_again(&self, inode: InodeId) -> Result<()> {
        let node = self.fs.inodes.get(inode)?;
        let path = self.fs.inodes.path(inode)?;
        if let Node::File(file) = &*node {
            let open = self.fs.open_files.of_inode(inode);
            if open.iter().any(|open| open.written().is_some()) {
                return Err(refused("look again into", &path, libc::EBUSY));
            }
            self.written_here.remove(file.at.id);
            file.look_again();
        }
        if let (Node::File(_) | Node::Directory(_), Some(link)) =
            (&*node, self.fs.inodes.link(inode))
        {
            self.directories.names_changed(link.parent);
            self.fs.places.invalidate(inode, Some(link));
        }
        Ok(())
    }

    /// Also files that the kernel does not know any more. Those that are being written stay
    /// ordinary.
    fn forget_ours_below(&self, path: &Path) -> Result<()> {
        if self.written_here.is_empty() {
            return Ok(());
        }
        let written = self.written_files();
        let mut directories = vec![path.to_owned()];
        while let Some(directory) = directories.pop() {
            let mut each = |name: &OsStr, stat: &Stat| match stat.kind {
                FileKind::Directory => directories.push(directory.join(name)),
                FileKind::File if !written.contains(&stat.id) => self.written_here.remove(stat.id),
                FileKind::File | FileKind::Symlink | FileKind::Other(_) => {}
            };
            match self.fs.store.list_stats(&directory, &mut each) {
                // It is a container, or has gone meanwhile.
                Err(Error::NotADirectory | Error::NotFound) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// The ordinary files that are open for writing.
    fn written_files(&self) -> Vec<crate::source::FileId> {
        let inodes = self.fs.open_files.inodes().into_iter();
        let open = inodes.flat_map(|inode| self.fs.open_files.of_inode(inode));
        open.filter_map(|file| Some(file.written()?.1.at.id))
            .collect()
    }
}
