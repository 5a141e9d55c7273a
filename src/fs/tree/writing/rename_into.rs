//! Files of the source that are renamed over what a container shows, as editors and rsync do it.
//!
//! Over an array: the file becomes its content. Its attributes may say the type, which a copy of an
//! array brings; that is the array's, or, where the format has a place for it, becomes that. Over
//! what follows from arrays: the file goes if it says again what is shown, as a copy of the whole
//! container does. Used by [`super::rename`].

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::super::absorbed::AbsorbedFiles;
use super::super::container_directory::ContainerDirectory;
use super::super::inode::{Dirent, InodeId};
use super::super::mounted_fs::MountedFs;
use super::super::named::ErrorLines;
use super::super::node::Node;
use super::super::open_file::OpenFile;
use super::super::reading::FileReading;
use super::directories::SourceDirectories;
use crate::container::creation::LONGEST_DESCRIPTION;
use crate::container::describe::say_the_same;
use crate::error::{Error, Result};
use crate::live::creation::given::said_of_draft;
use crate::live::refused;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::DerivedEntry;
use crate::live::shown::open_entry::{OpenEntry, PageCache};
use crate::live::version::ContainerVersion;
use crate::memory::fallible;
use crate::source::{FileKind, Source, Stat};

/// Bytes that are compared at once.
const STEP: u64 = 256 << 10;

const COMPARING: &str = "cannot compare a file with what is shown";

/// Has files take the place of arrays.
pub(crate) struct RenamesInto {
    pub(super) fs: Arc<MountedFs>,
    pub(super) directories: Arc<SourceDirectories>,
    pub(super) reading: Arc<FileReading>,
    pub(super) absorbed: Arc<AbsorbedFiles>,
    pub(super) error_lines: Arc<ErrorLines>,
}

impl RenamesInto {
    /// A file of the source takes the place of an array, or says again what follows from arrays.
    pub(super) fn rename(
        &self,
        from: (InodeId, &OsStr),
        (parent, below): (InodeId, &ContainerDirectory),
        (name, entry): (&OsStr, EntryIndex),
    ) -> Result<()> {
        let moved = self.directories.side(from)?;
        let path = moved.path();
        if moved.stat.kind != FileKind::File {
            return Err(refused("rename", &path, libc::EXDEV));
        }
        let source = self.fs.store.open(&path)?;
        if source.id() != moved.stat.id {
            return Err(self.fs.live.ground.changed(&path));
        }
        let found = self.directories.as_looked_up(&moved.link, &moved.stat)?;
        if !self.says_again((&below.version, entry), &*source)? {
            self.become_array(
                (&found, &moved.stat),
                (&below.version, entry),
                &path,
                source,
            )
            .map_err(|e| self.told_of_array(e, below, name))?;
        }
        // The kernel takes the entry's name for the file's from now on.
        let shown = Dirent::new(parent, name);
        self.fs.places.invalidate(found.0, Some(shown));
        self.fs.live.ground.writable()?.unlink(moved.place())?;
        self.directories.forget_name(&moved.link, &moved.stat);
        self.directories.tidy_added(from.0);
        Ok(())
    }

    /// The log names the file, and the sentence says of what it cannot become the content.
    fn told_of_array(&self, e: Error, below: &ContainerDirectory, name: &OsStr) -> Error {
        match (e, self.fs.container_path(below.inode)) {
            (Error::Invalid(why), Ok(container)) => Error::Invalid(format!(
                "it cannot take the place of {} in {}: {why}",
                below.below.join(name).display(),
                self.fs.store.display(&container).display()
            )),
            (e, _) => e,
        }
    }

    fn become_array(
        &self,
        ((inode, node), moved): (&(InodeId, Arc<Node>), &Stat),
        (version, entry): (&Arc<ContainerVersion>, EntryIndex),
        path: &Path,
        source: Arc<dyn Source>,
    ) -> Result<()> {
        let said = said_of_draft(&*self.fs.live.ground.store, path, moved.id)?;
        let live = &self.fs.live;
        live.replacing.replace(version, entry, (source, &said))?;
        let is_last_name = moved.nlink < 2;
        let entry = self.fs.live.opener.open(version)?.file_of(entry);
        self.absorbed_by(*inode, node, (version, entry), is_last_name);
        Ok(())
    }

    /// A file has become the content of an array. If that was its last name, what programs write
    /// through the handles that they have of it goes to the array; the pages that the kernel has of
    /// the file stay its own.
    pub(super) fn absorbed_by(
        &self,
        inode: InodeId,
        node: &Node,
        (version, entry): (&Arc<ContainerVersion>, EntryIndex),
        is_last_name: bool,
    ) {
        if let Some(file) = node.ordinary() {
            file.note_absorbed();
            self.absorbed.note(inode, (version.id, entry));
        }
        if !is_last_name {
            return;
        }
        let redirected = self.fs.open_files.replace(inode, |open| {
            open.written()?;
            match self.fs.live.arrays.open(version, entry) {
                Ok(opened) => Some(OpenFile::Entry(opened)),
                Err(e) => {
                    let path = self.fs.inodes.path(version.container.into());
                    let shown = self.fs.store.display(&path.unwrap_or_default());
                    log::warn!(
                        "{}: what is still written to a file that has become an array of it is lost: {e}",
                        shown.display()
                    );
                    None
                }
            }
        });
        for file in &redirected {
            if let Some((file, _)) = file.written()
                && let Err(e) = file.release()
            {
                log::error!("{}", self.error_lines.named(inode, None, &e));
            }
        }
    }

    /// Whether an entry is not written, and a file says of it what it shows.
    fn says_again(
        &self,
        (version, entry): (&Arc<ContainerVersion>, EntryIndex),
        file: &dyn Source,
    ) -> Result<bool> {
        let opened = self.fs.live.opener.open(version)?;
        if opened.is_writable(entry) {
            return Ok(false);
        }
        let open = || self.fs.live.entries.open(version, entry);
        match opened.derived(entry) {
            Some(DerivedEntry::ArraysJson(_) | DerivedEntry::GroupJson) => {
                self.describes(&open()?, file)
            }
            Some(DerivedEntry::Text(_) | DerivedEntry::Array(_)) => self.is_copy(&open()?, file),
            Some(DerivedEntry::View(_) | DerivedEntry::Stored) | None => Ok(false),
        }
    }

    fn describes(&self, shown: &OpenEntry, file: &dyn Source) -> Result<bool> {
        let (len, shown_len) = (file.len(), shown.len());
        if len > LONGEST_DESCRIPTION || shown_len > LONGEST_DESCRIPTION {
            return Ok(false);
        }
        let _charged = self.fs.budget.keep(len)?;
        let mut text = fallible::zeros(len, COMPARING)?;
        file.fetch_one(0, &mut text)?;
        let shown_len = usize::try_from(shown_len).unwrap_or(usize::MAX);
        let compare = |shown: Result<&[u8]>| say_the_same(shown?, &text);
        shown.read(
            &self.reading.workers,
            0,
            shown_len,
            PageCache::Bypassed,
            compare,
        )
    }

    fn is_copy(&self, shown: &OpenEntry, file: &dyn Source) -> Result<bool> {
        let len = file.len();
        if len != shown.len() {
            return Ok(false);
        }
        let mut part = fallible::zeros(STEP.min(len), COMPARING)?;
        for at in (0..len).step_by(STEP as usize) {
            let n = STEP.min(len - at) as usize;
            let part = &mut part[..n];
            file.fetch_one(at, part)?;
            let compare = |shown: Result<&[u8]>| shown.map(|shown| shown == part);
            if !shown.read(&self.reading.workers, at, n, PageCache::Bypassed, compare)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
