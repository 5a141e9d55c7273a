//! Directories that turn out to be containers while they are filled, and new containers that turn
//! out to be stored ones.
//!
//! `tar x` and `cp -r` make a directory by whatever name and write files into it: arrays as they
//! are shown, or a container's files as they are stored. A directory with the file by which a
//! container is recognised (`version`) that gets an array as it is shown becomes a new container:
//! it is hidden as the directory of its drafts, and an empty container takes its place. A new
//! container into which a stored file is written becomes the directory of what was put into it.
//! Either way what lies in it keeps its inodes. Used by [`super::closing`] and [`super::rename`],
//! when a file has got its content or its name.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::super::inode::InodeId;
use super::super::mounted_fs::MountedFs;
use super::super::node::Node;
use super::super::open_file::HandleId;
use super::directories::SourceDirectories;
use crate::commit::drafts::drafts_path;
use crate::commit::new_container::NewModes;
use crate::commit::tidy::remove_tree;
use crate::container::creation::{Creation, FileForm};
use crate::container::{FORMATS, Recognised};
use crate::disk::{Caller, NewAttributes, Renaming, Target, XattrSetting};
use crate::error::{Error, Result};
use crate::live::LiveContainer;
use crate::live::creation::drafts::CLOSED;
use crate::live::recognition::Recognition;
use crate::live::shown::entry_table::ARRAYS_JSON;
use crate::source::acl::{ACCESS, DEFAULT};
use crate::source::{FileKind, Listed, Stat};
use crate::stage::drafts_name;

/// Enough to tell a stored file from an array.
const HEAD: usize = 16;

/// Makes containers of directories, and directories of new containers.
pub(crate) struct Promotion {
    pub(super) fs: Arc<MountedFs>,
    pub(super) directories: Arc<SourceDirectories>,
}

impl Promotion {
    /// A file that was written is closed.
    pub(super) fn closed(&self, handle: HandleId) {
        let file = self.fs.open_files.inode_of(handle).ok();
        if let Some(file) = file
            && let Some(parent) = self.fs.inodes.parent(file)
            && let Some(path) = self.fs.inodes.paths(file).into_iter().next()
            && let Some(name) = path.file_name()
        {
            self.arrived(parent, name);
        }
    }

    /// A file has got its name. An error in what that makes of its directory is not the request's.
    pub(super) fn arrived(&self, parent: InodeId, name: &OsStr) {
        match self.promote_or_demote(parent, name) {
            Ok(()) | Err(Error::NotFound) => {}
            Err(e) => {
                let path = self.fs.inodes.path(parent).unwrap_or_default();
                let shown = self.fs.store.display(&path);
                log::warn!("{}: stays a directory of files: {e}", shown.display());
            }
        }
    }

    /// A file is there that was written. If it makes its directory a container, that is a new one
    /// from now on; and if it is one of a container as it is stored, a new one is the directory of
    /// such files.
    fn promote_or_demote(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        if parent == InodeId::ROOT || !is_of_some_container(name) {
            return Ok(());
        }
        // Files that are closed side by side make one container.
        let _locked = self.fs.live.new.lock_promotion();
        match &*self.fs.inodes.get(parent)? {
            Node::Directory(_) if !self.fs.enclosing.is_below_container(parent) => {
                self.look_into(parent, &self.directories.find(parent)?.path, name)
            }
            Node::Container(container) if container.stored == FileKind::Directory => {
                let Some(drafts) = self.fs.live.drafts.of(parent.into())? else {
                    return Ok(());
                };
                let creation = container.known().recognised.format.creation();
                let form = creation.and_then(|creation| self.form_of(creation, &drafts.path, name));
                match form {
                    Some(FileForm::Stored) => self.take_stored(parent, container),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// An ordinary directory has got a file that a container can have.
    fn look_into(&self, inode: InodeId, path: &Path, name: &OsStr) -> Result<()> {
        let stat = self.fs.store.stat(path)?;
        let found = self.fs.recognise(path, &stat)?;
        let Recognition::Container(recognised) = found else {
            return Ok(());
        };
        let Some(creation) = recognised.format.creation() else {
            return Ok(());
        };
        let first = recognised.layout().identifying().first();
        let mut names = vec![name.to_owned()];
        // It is the one by which the container is recognised: others may have come before.
        if first.is_some_and(|first| OsStr::new(first) == name) {
            let mut add = |Listed { name, .. }: Listed<'_>| names.push(name.to_owned());
            self.fs.store.list(path, &mut add)?;
        }
        let forms = names
            .iter()
            .filter_map(|name| self.form_of(creation, path, name));
        let forms: Vec<FileForm> = forms.collect();
        let is_shown = forms.contains(&FileForm::Shown) && !forms.contains(&FileForm::Stored);
        match is_shown
            && recognised.damage.is_none()
            && !self.fs.live.stored.is_stored(&recognised, path)?
        {
            true => self.turn(inode, recognised, creation, (path, &stat)),
            false => Ok(()),
        }
    }

    fn form_of(&self, creation: &dyn Creation, directory: &Path, name: &OsStr) -> Option<FileForm> {
        if name == ARRAYS_JSON {
            return Some(FileForm::Shown);
        }
        let mut head = [0; HEAD];
        let n = self.fs.store.head(&directory.join(name), &mut head).ok()?;
        creation.form_of(name, &head[..n])
    }

    /// What is put into a new container is a stored one.
    fn take_stored(&self, inode: InodeId, container: &LiveContainer) -> Result<()> {
        // The packer that holds the lock finds that out as well.
        let Some(_locked) = container.new.try_lock_creation() else {
            return Ok(());
        };
        let Some(drafts) = self.fs.live.drafts.of(inode.into())? else {
            return Ok(());
        };
        let _alone = self.fs.live.new.exclusive();
        let path = self.fs.container_path(inode)?;
        let empty = self.fs.store.stat(&path)?;
        let recognised = container.known().recognised.clone();
        if !self.fs.live.drafts.is_pristine(&recognised, &path)? {
            return Err(self.fs.live.ground.changed(&path));
        }
        let (live, id) = (&self.fs.live, inode.into());
        live.stored
            .take_as_stored(id, container, &drafts, (&path, &empty))?;
        live.drafts.watch_no_more(id);
        Ok(())
    }

    fn turn(
        &self,
        inode: InodeId,
        recognised: Recognised,
        creation: &dyn Creation,
        (path, stat): (&Path, &Stat),
    ) -> Result<()> {
        self.fs.live.drafts.make_way(&drafts_path(path))?;
        let (disk, spot) = (
            self.fs.live.ground.writable()?,
            self.fs.live.ground.spot(path)?,
        );
        let owner = Caller::of(stat.uid, stat.gid);
        let at = self
            .fs
            .live
            .ground
            .new_place((&spot, creation), owner, &|| true)?;
        let modes = NewModes {
            files: u32::from(stat.mode) & 0o666,
            directory: stat.mode.into(),
        };
        let to = NewAttributes::default();
        let new = self.fs.live.drafts.write_empty(&at, creation, modes, &to)?;
        let drafts = drafts_name(&spot.name);
        let (place, hidden) = (spot.place(&spot.name), spot.place(&drafts));
        let _alone = self.fs.live.new.exclusive();
        let moving = self.fs.moves.begin();
        let still = self.fs.store.stat(path)?;
        if still.id != stat.id {
            new.discard();
            return Err(self.fs.live.ground.changed(path));
        }
        new.appear_as(&drafts)?;
        let lists = self.lists_of(path, stat);
        let closed = self.fs.live.stored.set_mode(path, stat, CLOSED);
        let turned = closed
            .and_then(|()| self.give_lists(lists, &spot.directory.join(&drafts)))
            .and_then(|()| disk.rename(hidden, place, Renaming::Exchange));
        if let Err(e) = turned {
            let mode = stat.list.as_ref().map_or(stat.mode, |list| list.mode());
            self.fs.live.stored.set_mode(path, stat, mode.into())?;
            remove_tree(disk, &*self.fs.store, &spot, &drafts)?;
            return Err(e);
        }
        let container = LiveContainer::new(FileKind::Directory, recognised);
        container.new.begin(stat.id);
        let node = Node::Container(container.into());
        self.fs.inodes.becomes(inode, node)?;
        moving.made();
        self.fs.live.drafts.watch(inode.into());
        self.directories.names_changed(inode);
        Ok(())
    }

    /// The access control lists of a directory, each by its name; none if it has none.
    fn lists_of(&self, path: &Path, stat: &Stat) -> [(&'static str, Option<Vec<u8>>); 2] {
        [ACCESS, DEFAULT].map(|name| {
            let posix = self.fs.store.posix().ok();
            let list =
                posix.and_then(|posix| posix.xattr(path, Some(stat.id), OsStr::new(name)).ok());
            (name, list)
        })
    }

    /// Gives the directory of a new container the lists of the one whose place it takes, instead of
    /// those that it has inherited.
    fn give_lists(&self, lists: [(&str, Option<Vec<u8>>); 2], path: &Path) -> Result<()> {
        let (disk, id) = (
            self.fs.live.ground.writable()?,
            self.fs.store.stat(path)?.id,
        );
        let to = Target::Named { path, id };
        lists.iter().try_for_each(|(name, list)| match list {
            Some(list) => disk.set_xattr(to, OsStr::new(name), list, XattrSetting::Any),
            // It may have none, or the file system none at all.
            None => disk.remove_xattr(to, OsStr::new(name)).or(Ok(())),
        })
    }
}

/// Whether a container of a kind that can be made, and is a directory, can have a file of this
/// name.
fn is_of_some_container(name: &OsStr) -> bool {
    let mut creations = FORMATS.iter().filter_map(|format| format.creation());
    creations.any(|creation| {
        let layout = creation.layout();
        layout.has_member(name)
            || !layout.is_file()
                && (name == ARRAYS_JSON
                    || name.to_str().is_some_and(|name| creation.has_array(name)))
    })
}
