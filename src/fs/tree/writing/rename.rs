//! Renaming, of files, directories and containers alike.
//!
//! Used by `kernel::adapter`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::container_directory::ContainerDirectory;
use super::super::inode::{Dirent, InodeId};
use super::super::lookup::NameLookup;
use super::super::mounted_fs::MountedFs;
use super::super::moves::Moving;
use super::super::node::Node;
use super::directories::{Side, SourceDirectories};
use super::promote::Promotion;
use super::rename_into::RenamesInto;
use super::rename_new::{Emptied, RenamesOfNew};
use super::replace::{replace_directory, replace_other_kind};
use super::strays::Strays;
use crate::disk::Renaming;
use crate::error::{Error, Result};
use crate::live::committing::moves_its_log;
use crate::live::creation::outcome::PackOutcome;
use crate::live::directory::SourceDirectory;
use crate::live::{InUse, LiveContainer, refused};
use crate::source::{FileKind, Stat};
use crate::sync::{RwLockReadGuard, RwLockWriteGuard};

/// The name that it gets, and what that led to before.
struct RenameTarget {
    link: Dirent,
    directory: SourceDirectory,
    replaced: Option<Stat>,
}

/// A container that another has replaced, and where it lay.
struct ReplacedContainer(Arc<Node>);

/// A move under way.
struct Begun<'a> {
    moving: Moving<'a>,
    /// Nothing is put into a container while the name of one changes.
    alone: Option<RwLockWriteGuard<'a, ()>>,
    _stays: Option<RwLockReadGuard<'a, ()>>,
}

/// Renames whatever is shown, each kind in its own way.
pub(crate) struct Renames {
    pub(super) fs: Arc<MountedFs>,
    pub(super) names: Arc<NameLookup>,
    pub(super) directories: Arc<SourceDirectories>,
    pub(super) strays: Arc<Strays>,
    pub(super) promotion: Arc<Promotion>,
    pub(super) into: RenamesInto,
    pub(super) of_new: RenamesOfNew,
}

impl Renames {
    pub fn rename(
        &self,
        from: (InodeId, &OsStr),
        to: (InodeId, &OsStr),
        how: Renaming,
    ) -> Result<()> {
        self.fs.live.ground.writable()?;
        if self.renames_entry(from, to, how)? {
            return Ok(());
        }
        let mut moved = self.directories.side(from)?;
        self.takes(to, &moved)?;
        if self.of_new.rename(&moved, to, how)? {
            return Ok(());
        }
        let mut emptied = Emptied::new(&self.of_new);
        // What lies below is not to be looked for meanwhile; paths above may have changed until no
        // other thread moves.
        let begun = self.begin_move(&moved, to, &mut emptied)?;
        moved.directory = self.directories.find(from.0)?;
        let to = self.target(to)?;
        self.check_ends(&moved, &to, &begun)?;
        let over = self.replaced_file(&to, &moved.stat, how);
        let follow = self.announce_followers(&moved, &to, how)?;
        let renamed = self.rename_stored(&moved, &to, how);
        begun.moving.made();
        // If it has come to nothing, that is what is found.
        follow
            .iter()
            .for_each(|path| self.fs.live.added.finish_moving_added(path));
        let container = renamed?.or(over);
        self.note_renamed(&moved, &to, how);
        begun.moving.made();
        drop(begun);
        // Its stage goes when nothing waits for the move any more: a thread may be writing its log.
        if let Some(replaced) = &container
            && let Some(container) = replaced.0.container()
        {
            self.fs.live.discarding.discard_removed(container);
        }
        self.directories.tidy_added(from.0);
        if moved.stat.kind == FileKind::File {
            self.promotion.arrived(to.link.parent, &to.link.name);
            self.strays.tell_moved_beside((&to.link, &moved.stat));
        }
        Ok(())
    }

    /// Where a name is to lead from now on.
    fn target(&self, (parent, name): (InodeId, &OsStr)) -> Result<RenameTarget> {
        let directory = self.directories.find_to_fill(parent, name)?;
        directory.new_place(name)?;
        let replaced = match self.fs.store.stat(&directory.join(name)) {
            Ok(stat) => Some(stat),
            Err(e) if e.is_not_found() => None,
            Err(e) => return Err(e),
        };
        Ok(RenameTarget {
            link: Dirent::new(parent, name),
            directory,
            replaced,
        })
    }

    /// Whether both ends are still what the move has begun for.
    fn check_ends(&self, moved: &Side, to: &RenameTarget, begun: &Begun<'_>) -> Result<()> {
        let ends = [
            Some((&moved.link, &moved.stat)),
            to.replaced.as_ref().map(|stat| (&to.link, stat)),
        ];
        for (link, stat) in ends.into_iter().flatten() {
            let (_, node) = self.directories.as_looked_up(link, stat)?;
            let Some(container) = node.container() else {
                continue;
            };
            let path = self.fs.inodes.path(link.parent)?.join(&link.name);
            if begun.alone.is_none() {
                return Err(self.fs.live.ground.changed(&path));
            }
            // A program has begun to fill it since.
            if container.new.is_new() {
                return Err(refused("rename", &path, libc::EBUSY));
            }
        }
        Ok(())
    }

    /// Has the inodes follow to their new names.
    fn note_renamed(&self, moved: &Side, to: &RenameTarget, how: Renaming) {
        match (how, &to.replaced) {
            (Renaming::Exchange, Some(stat)) => {
                let ends = ((&moved.link, &moved.stat), (&to.link, stat));
                self.fs.inodes.exchanged(ends.0, ends.1);
                self.look_again(&moved.link, stat);
            }
            (_, replaced) => {
                let replaced = replaced.as_ref();
                if let Some(stat) = replaced.filter(|stat| !is_same(stat, &moved.stat)) {
                    self.directories.forget_name(&to.link, stat);
                }
                self.fs.inodes.renamed(&moved.link, &to.link, &moved.stat);
            }
        }
        self.look_again(&to.link, &moved.stat);
        self.directories.names_changed(moved.link.parent);
        self.directories.names_changed(to.link.parent);
    }

    /// A container that is a file, over which something is about to be renamed.
    fn replaced_file(
        &self,
        to: &RenameTarget,
        moved: &Stat,
        how: Renaming,
    ) -> Option<ReplacedContainer> {
        let (link, replaced) = (&to.link, to.replaced.as_ref());
        let file = replaced.filter(|stat| stat.kind == FileKind::File && how == Renaming::Over);
        // Two names of one file stay as they are.
        let other = file.filter(|stat| !is_same(stat, moved))?;
        let (_, node) = self.fs.inodes.named(link, other)?;
        node.container().is_some().then(|| ReplacedContainer(node))
    }

    fn rename_stored(
        &self,
        moved: &Side,
        to: &RenameTarget,
        how: Renaming,
    ) -> Result<Option<ReplacedContainer>> {
        let (link, directory) = (&to.link, &to.directory);
        match &to.replaced {
            // In the mount both are directories; in the source only one is.
            Some(stat) if how == Renaming::Over && differ(stat.kind, moved.stat.kind) => {
                replace_other_kind(&self.directories, moved, directory, &link.name, stat)?;
                Ok(None)
            }
            // They are empty only to us.
            Some(stat)
                if how == Renaming::Over
                    && stat.kind == FileKind::Directory
                    && !is_same(stat, &moved.stat)
                    && self.directories.is_named_container(link, stat)
                    && self
                        .directories
                        .is_named_container(&moved.link, &moved.stat) =>
            {
                let (_, node) = self.directories.as_looked_up(link, stat)?;
                replace_directory(&self.directories, moved, directory, &link.name)?;
                Ok(Some(ReplacedContainer(node)))
            }
            _ => {
                let (old, new) = (moved.place(), directory.place(&link.name));
                self.fs.live.ground.writable()?.rename(old, new, how)?;
                Ok(None)
            }
        }
    }

    /// Has the added files of containers follow these to the names that they are about to get. Says
    /// where to.
    fn announce_followers(
        &self,
        moved: &Side,
        to: &RenameTarget,
        how: Renaming,
    ) -> Result<Vec<PathBuf>> {
        let RenameTarget {
            link,
            directory,
            replaced,
        } = to;
        let is_one_file = |link: &Dirent, stat: &Stat| {
            stat.kind == FileKind::File && self.directories.is_named_container(link, stat)
        };
        let (old, new) = (moved.path(), directory.join(&link.name));
        let replaces = replaced.as_ref();
        let replaces = replaces.is_some_and(|stat| is_one_file(link, stat));
        let (live, mut follow) = (&self.fs.live, Vec::new());
        if is_one_file(&moved.link, &moved.stat) || how != Renaming::Exchange && replaces {
            follow.extend(live.added.begin_moving_added(&old, &new, (how, replaces))?);
        }
        if how == Renaming::Exchange && replaces {
            follow.extend(live.added.begin_moving_added(&new, &old, (how, false))?);
        }
        Ok(follow)
    }

    /// A container's directory takes files, and containers are none: in one of any kind another
    /// would be a file, without the files that were put into it.
    fn takes(&self, to: (InodeId, &OsStr), moved: &Side) -> Result<()> {
        if self
            .directories
            .is_named_container(&moved.link, &moved.stat)
        {
            return match self.fs.enclosing.is_of_container(to.0) {
                true => Err(self.directories.only_files(to)),
                false => Ok(()),
            };
        }
        match moved.stat.kind {
            FileKind::File => self.strays.refuse_stray_moved(moved, to),
            _ => self.directories.refuse_in_container(to.0, to.1),
        }
    }

    /// Renames from or to an entry of a container: a file takes the place of an array, and an array
    /// cannot be moved. False if both names are those of files of the source.
    fn renames_entry(
        &self,
        from: (InodeId, &OsStr),
        to: (InodeId, &OsStr),
        how: Renaming,
    ) -> Result<bool> {
        let refuse = |code| {
            let path = self.fs.path_in(from.0, from.1);
            Err(refused("rename", &path, code))
        };
        let is_changed = |directory: &ContainerDirectory| {
            let known = directory.container.known();
            known.recognised.format.is_changed()
        };
        if let Some(above) = ContainerDirectory::find(&self.fs, from.0)?
            && above.entry(from.1).is_some()
        {
            return match how {
                _ if !is_changed(&above) => Err(Error::ReadOnly),
                Renaming::Over => {
                    self.strays.tell_not_moved(&above, from.1);
                    refuse(libc::EPERM)
                }
                _ => refuse(libc::EINVAL),
            };
        }
        // What lies among drafts is one of them.
        let Some(below) = ContainerDirectory::find(&self.fs, to.0)? else {
            return Ok(false);
        };
        match below.entry(to.1) {
            None => Ok(false),
            Some(_) if !is_changed(&below) => Err(Error::ReadOnly),
            Some(_) if how == Renaming::Exchange => refuse(libc::EINVAL),
            Some((_, true)) if how == Renaming::NoReplace => refuse(libc::EEXIST),
            Some((entry, _)) => self
                .into
                .rename(from, (to.0, &below), (to.1, entry))
                .map(|()| true),
        }
    }

    /// What is moved, and what it is moved over, if those are containers.
    fn moved_containers(
        &self,
        moved: &Side,
        to: (InodeId, &OsStr),
    ) -> Result<Vec<(InodeId, Arc<Node>, PathBuf)>> {
        let link = Dirent::new(to.0, to.1);
        let own = moved.path();
        let mut sides = vec![(&moved.link, own, moved.stat.clone())];
        match self.directories.find(to.0) {
            Ok(directory) => {
                let path = directory.join(to.1);
                if let Ok(over) = self.fs.store.stat(&path) {
                    sides.push((&link, path, over));
                }
            }
            // There is nothing yet in which it could be.
            Err(Error::NotFound) => {}
            Err(e) => return Err(e),
        }
        let mut found = Vec::new();
        for (link, path, stat) in sides {
            if let Some((inode, node)) = self.fs.inodes.named(link, &stat)
                && node.container().is_some()
            {
                found.push((inode, node, path));
            }
        }
        Ok(found)
    }

    /// Begins to move when the containers are new no more and nothing is staged of them: drafts and
    /// a log would be left behind under the old name.
    fn begin_move(
        &self,
        moved: &Side,
        to: (InodeId, &OsStr),
        emptied: &mut Emptied<'_>,
    ) -> Result<Begun<'_>> {
        const TRIES: usize = 16;
        let is_clean = |node: &Arc<Node>| {
            let Some(container) = node.container() else {
                return true;
            };
            let version = container.known().version.clone();
            version.is_none_or(|version| {
                version.writes.keeps_place().is_none() || moves_its_log(container, &version)
            })
        };
        for _ in 0..TRIES {
            let containers = self.moved_containers(moved, to)?;
            for (inode, node, path) in &containers {
                if let Some(container) = node.container() {
                    // What a daemon before has left is found when it is looked into.
                    self.fs
                        .live
                        .current
                        .version_of((*inode).into(), container)?;
                    self.pack_to_move((*inode, container), path, emptied)?;
                    let id = (*inode).into();
                    self.fs.live.asked.commit_before_move(id, container, path)?;
                }
            }
            self.fs.moves.let_others_through();
            let (any, new) = (!containers.is_empty(), &self.fs.live.new);
            let (alone, stays) = (any.then(|| new.exclusive()), (!any).then(|| new.shared()));
            let moving = self.fs.moves.begin();
            if containers.iter().all(|(_, node, _)| is_clean(node)) {
                return Ok(Begun {
                    moving,
                    alone,
                    _stays: stays,
                });
            }
        }
        let path = moved.path();
        let shown = self.fs.store.display(&path);
        log::warn!(
            "{}: cannot be renamed: it is being written and synced",
            shown.display()
        );
        Err(refused("rename", &path, libc::EBUSY))
    }

    /// A new container takes the place of another, or another its place, when it is packed, or as
    /// the empty one that it is.
    fn pack_to_move(
        &self,
        (inode, container): (InodeId, &LiveContainer),
        path: &Path,
        emptied: &mut Emptied<'_>,
    ) -> Result<()> {
        let busy = || refused("rename", path, libc::EBUSY);
        match self.fs.live.packing.pack_now(inode.into(), InUse::Spared) {
            Ok(PackOutcome::Packed) => Ok(()),
            Ok(PackOutcome::Empty) => emptied.add(inode, container).map_err(|_| busy()),
            Ok(PackOutcome::Unfilled(why)) => {
                let shown = self.fs.store.display(path);
                log::warn!("{}: cannot be renamed: {why}", shown.display());
                Err(busy())
            }
            // The log says why.
            Err(Error::Invalid(_)) => Err(busy()),
            Err(e) => Err(e),
        }
    }

    /// What an entry is may go by its name: if it is something else now, the kernel is to look the
    /// name up afresh.
    fn look_again(&self, link: &Dirent, stat: &Stat) {
        let Some((inode, node)) = self.fs.inodes.named(link, stat) else {
            return;
        };
        let before = node.container().is_some();
        let above = self
            .directories
            .find(link.parent)
            .map(|directory| directory.path);
        match above.and_then(|above| self.names.shown_kind(link, &above)) {
            Ok(kind) if stat.kind == FileKind::File && before != (kind == FileKind::Directory) => {
                self.fs.places.invalidate(inode, Some(link.clone()));
            }
            _ => {}
        }
    }
}

fn differ(one: FileKind, other: FileKind) -> bool {
    (one == FileKind::Directory) != (other == FileKind::Directory)
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    one.id == other.id && one.mount == other.mount
}
