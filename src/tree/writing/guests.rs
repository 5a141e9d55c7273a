//! Files made in the directory of a container that is one file: what programs write beside an array before they rename it over
//! the array (editors, rsync).
//!
//! There is no place for them in the source. So a guest is a file without a name there, held open: it takes space where the
//! container lies, and is gone when the daemon ends, however it ends. It can be looked up, but is not listed. Renamed over
//! an array it becomes what is staged of that. Used by [`super::names`] and [`super::rename`].

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::super::entry_table::{ContainerNumber, EntryIndex};
use super::super::inode::Dirent;
use super::super::node::{ContainerNode, Node, StoredAt};
use super::super::open_container::OpenContainer;
use super::super::open_file::{OpenFile, Stored};
use super::super::ordinary::OrdinaryFile;
use super::super::replacing::OldPages;
use super::super::staged::ArrayWriter;
use super::super::version::ContainerVersion;
use super::super::{Attr, HandleId, InodeId, Open, Tree};
use super::commit::Effort;
use super::refused;
use crate::container::names::RESERVED;
use crate::container::rewrite::Change;
use crate::disk::{Caller, Place};
use crate::error::{Error, Result};
use crate::source::{FileKind, Source};
use crate::stage::new_name;

/// Bytes that are copied at once.
const STEP: usize = 256 << 10;

/// The guests of a version of a container.
#[derive(Default)]
pub(in crate::tree) struct Guests(Mutex<HashMap<OsString, Guest>>);

#[derive(Clone, Copy)]
struct Guest {
    inode: InodeId,
    /// That keeps the file.
    handle: HandleId,
}

impl Guests {
    fn lock(&self) -> MutexGuard<'_, HashMap<OsString, Guest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::tree) fn has(&self, name: &OsStr) -> bool {
        self.lock().contains_key(name)
    }

    fn find(&self, name: &OsStr) -> Option<Guest> {
        self.lock().get(name).copied()
    }
}

impl Tree {
    /// A guest of a container, with one look-up more.
    pub(in crate::tree) fn guest(&self, version: &ContainerVersion, name: &OsStr) -> Result<Attr> {
        let guest = version.guests.find(name).ok_or(Error::NotFound)?;
        let attr = self.attr(guest.inode)?;
        self.inodes.hold(guest.inode);
        Ok(Attr { nlink: 1, ..attr })
    }

    /// Makes and opens a file in the directory of a container. One that has the name of an array that was removed is that array.
    /// None if it is a file beside those of a container that is a directory.
    pub(super) fn create_inside(
        &self,
        (parent, container): (InodeId, &ContainerNode),
        name: &OsStr,
        mode: u32,
        caller: Caller,
    ) -> Result<Option<(Attr, Open)>> {
        let version = self.current(parent, container)?;
        let opened = self.open_version(&version)?;
        if let Some(entry) = opened.find_hidden(EntryIndex::ROOT, name) {
            version.hidden.remove(entry);
            let attr = self.enter(&version, &opened, entry, Dirent::new(parent, name))?;
            let open = self.open_entry_for_writing(attr.inode, &version, entry)?;
            self.set_len(attr.inode, Some(open.handle), 0, caller)?;
            return Ok(Some((Attr { size: 0, ..attr }, open)));
        }
        if container.stored == FileKind::Directory {
            return Ok(None);
        }
        let made = self.create_guest(parent, &version, &opened, name, mode, caller);
        made.map(Some)
    }

    fn create_guest(
        &self,
        parent: InodeId,
        version: &ContainerVersion,
        opened: &OpenContainer,
        name: &OsStr,
        mode: u32,
        caller: Caller,
    ) -> Result<(Attr, Open)> {
        let path = self.container_path(parent)?;
        let outermost = opened.container(ContainerNumber(0))?;
        // Removed before, perhaps: it follows from the arrays all the same.
        if name.to_str().is_some_and(|name| RESERVED.contains(&name)) {
            let name = name.to_string_lossy();
            return Err(Error::Computed(format!("{name} follows from the arrays")));
        }
        if outermost.rewrite.is_none() || opened.find(EntryIndex::ROOT, name).is_some() {
            return Err(Error::ReadOnly);
        }
        if version.guests.find(name).is_some() {
            return Err(refused("make", &path.join(name), libc::EEXIST));
        }
        let file = self.nameless(&path, mode, caller)?;
        let stat = file.source().stat()?;
        self.ours.add(stat.identity.id)?;
        let node = Node::File(OrdinaryFile::new(StoredAt::of(&stat)).into());
        let link = Dirent::new(parent, name);
        let (inode, node) = self.inodes.enter(link.clone(), node)?;
        self.inodes.unlinked(&link, &stat);
        if let Some(of) = node.ordinary() {
            of.opened(of.moment(), stat.identity);
        }
        let opened = Arc::new(OpenFile::ordinary(Stored::Written(file), node));
        let handle = self.open_files.share(inode, Arc::clone(&opened));
        let held = self.open_files.share(inode, opened);
        self.inodes.hold(inode);
        let guest = Guest {
            inode,
            handle: held,
        };
        version.guests.lock().insert(name.to_owned(), guest);
        let attr = Attr {
            nlink: 1,
            ..self.attr(inode)?
        };
        let open = Open {
            handle,
            keep_cache: false,
            size_is_old: false,
            ordinary: true,
            set_id: false,
        };
        Ok((attr, open))
    }

    /// A file beside a container that has no name any more.
    fn nameless(
        &self,
        container: &std::path::Path,
        mode: u32,
        caller: Caller,
    ) -> Result<Arc<dyn crate::disk::DiskFile>> {
        let disk = self.writable()?;
        let spot = self.spot(container)?;
        // Nobody sees it: it is there for a moment.
        let name = new_name(OsStr::new("~"));
        let place = Place {
            directory: &spot.directory,
            id: spot.id,
            name: &name,
        };
        let file = match disk.create(place, mode, caller) {
            Err(e) if e.is_already_there() => {
                disk.unlink(place)?;
                disk.create(place, mode, caller)
            }
            other => other,
        }?;
        disk.unlink(place)?;
        Ok(file)
    }

    /// Removes a guest; false if there is none of that name.
    pub(super) fn remove_guest(&self, version: &ContainerVersion, name: &OsStr) -> bool {
        let removed = version.guests.lock().remove(name);
        if let Some(guest) = removed {
            self.open_files.remove(guest.handle);
            self.forget(guest.inode, 1);
        }
        removed.is_some()
    }

    /// Renames a guest within its container: over an array, over another guest, or to a new name. Other names of the
    /// container cannot be moved: whoever tries copies.
    pub(super) fn rename_guest(
        &self,
        (parent, container): (InodeId, &ContainerNode),
        from: &OsStr,
        to: &OsStr,
    ) -> Result<()> {
        let version = self.current(parent, container)?;
        let path = self.container_path(parent)?.join(from);
        let Some(guest) = version.guests.find(from) else {
            return Err(refused("rename", &path, libc::EXDEV));
        };
        let opened = self.open_version(&version)?;
        let entry = opened.find(EntryIndex::ROOT, to);
        match entry.or_else(|| opened.find_hidden(EntryIndex::ROOT, to)) {
            Some(entry) => {
                let open = self.open_files.get(guest.handle)?;
                let source = open.source().ok_or(Error::NotFound)?;
                self.replace_array(&version, entry, source)?;
                self.remove_guest(&version, from);
            }
            None => {
                self.remove_guest(&version, to);
                let mut guests = version.guests.lock();
                if let Some(guest) = guests.remove(from) {
                    guests.insert(to.to_owned(), guest);
                }
            }
        }
        Ok(())
    }

    /// Gives an array the content of a file, and commits it: all of it, or none.
    pub(super) fn replace_array(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
        content: &dyn Source,
    ) -> Result<()> {
        let number = self.written_array(version, entry)?;
        let container = self.stage_of(version)?;
        let writer = ArrayWriter::new(version, container, number)?;
        // What others have written until now is not lost if this fails.
        self.commit(version, Effort::All)?;
        let alone = writer.stage().is_clean();
        self.follow(version, &writer.container)?;
        let len = content.stat()?.identity.size;
        let rewrite = writer.container.rewrite();
        rewrite.permits(&writer.name, Change::SetLen(len))?;
        self.remember_staged(version);
        let replacement = version.staged.replacements.begin(writer.array);
        let replaced = copy(&writer, content, len).and_then(|()| self.commit(version, Effort::All));
        match replaced {
            Ok(()) => {
                version.hidden.remove(entry);
                let old_pages = Arc::new(replacement.succeeded());
                self.outdate_pages_of(version, entry, Some(&old_pages));
                Ok(())
            }
            Err(e) => {
                let thrown_away = match alone {
                    true => self.throw_away(version, &writer),
                    false => Ok(()),
                };
                // Some are of what was shown meanwhile.
                self.outdate_pages_of(version, entry, None);
                thrown_away.and(Err(e))
            }
        }
    }

    fn throw_away(&self, version: &Arc<ContainerVersion>, writer: &ArrayWriter) -> Result<()> {
        let staged = &version.staged;
        staged.stored.while_nobody_reads(|| {
            let discarded = writer.stage().discard();
            staged.show(&self.cache).and(discarded)
        })
    }

    /// The kernel's pages of an array are of what was there before.
    fn outdate_pages_of(
        &self,
        version: &ContainerVersion,
        entry: EntryIndex,
        old_pages: Option<&Arc<OldPages>>,
    ) {
        for (inode, _) in self.inodes.of_version(version.id) {
            let node = self.inodes.get(inode);
            if node.is_ok_and(|node| matches!(&*node, Node::Entry(_, found) if *found == entry)) {
                self.outdated.add(inode, old_pages.cloned());
            }
        }
    }
}

fn copy(writer: &ArrayWriter, content: &dyn Source, len: u64) -> Result<()> {
    writer.stage().set_len(writer.array, 0)?;
    let mut buf = vec![0; STEP];
    let mut at = 0;
    while at < len {
        let n = content.read(at, &mut buf)?;
        if n == 0 {
            break;
        }
        let mut done = 0;
        while done < n {
            done += writer
                .stage()
                .write(writer.array, at + done as u64, &buf[done..n])?;
        }
        at += n as u64;
    }
    writer.stage().set_len(writer.array, len)
}
