//! The store of a scratch mount: stored files shown as what they hold.
//!
//! Sizes and times of a file that is open, or of which something is not stored yet, are those that
//! programs see; of any other the size is what its header says. Nothing lends a descriptor: the
//! kernel would read stored bytes. Uses [`super::files`] and [`super::handles`]; used by `tree`, as
//! the store of the mount, and by [`super::disk`], [`super::recovery`] and [`super::settle`].

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::encode::EncodeOptions;
use super::file::ScratchFile;
use super::files::ScratchFiles;
use super::find::{self, FoundEntry};
use super::handles::ScratchReader;
use super::mark::{MARK_LEN, TailMark};
use super::names;
use super::raw::{RawFiles, RawReader};
use super::shared::ScratchShared;
use crate::cache::BlockCache;
use crate::container::bloscpack::layout::{self, FileHeader};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::source::{Fetch, FileId, FileKind, Listed, PosixStore, Source, Space, Stat, Store};

/// How much smaller a file has become, by what it takes on the disk.
const RATIO: &str = "user.arrayfs.ratio";
const STORED_BYTES: &str = "user.arrayfs.stored_bytes";

/// How often a file is opened that changes meanwhile.
const TRIES: usize = 5;

pub struct ScratchStore {
    pub(super) files: Arc<ScratchFiles>,
    pub(super) raw_files: RawFiles,
    /// Files have logs from before this mount, which are not to be merged yet.
    pub(super) has_old_logs: AtomicBool,
}

impl ScratchStore {
    pub(super) fn new(
        cache: Arc<BlockCache>,
        options: EncodeOptions,
        inner: Arc<dyn Store>,
        disk: Option<Arc<dyn Disk>>,
    ) -> ScratchStore {
        let shared = ScratchShared::new(cache, options, inner, disk);
        ScratchStore {
            files: Arc::new(ScratchFiles::new(shared)),
            raw_files: RawFiles::default(),
            has_old_logs: AtomicBool::new(false),
        }
    }

    /// Where the stored files lie.
    pub(super) fn inner(&self) -> &dyn Store {
        &*self.files.shared.inner
    }

    /// What they are changed through.
    pub(super) fn disk(&self) -> Result<&dyn Disk> {
        self.files.shared.disk()
    }

    /// What a path of the mount leads to, and the directory in which that is stored.
    pub(super) fn find(&self, path: &Path) -> Result<(PathBuf, FoundEntry)> {
        let Some(name) = path.file_name() else {
            let stat = self.inner().stat(path)?;
            let found = FoundEntry {
                name: OsString::new(),
                stat,
                is_packed: false,
            };
            return Ok((PathBuf::new(), found));
        };
        let directory = self.directory(path.parent().unwrap_or(Path::new("")))?;
        if names::is_own(&directory, name) {
            return Err(Error::NotFound);
        }
        let found = find::find(name, &|name| self.inner().stat(&directory.join(name)))?;
        Ok((directory, found))
    }

    /// Where a directory of the mount is stored.
    pub(super) fn directory(&self, shown: &Path) -> Result<PathBuf> {
        find::directory(self.inner(), shown)
    }

    /// Where something of the mount is stored.
    pub(super) fn stored(&self, path: &Path) -> Result<PathBuf> {
        let (directory, found) = self.find(path)?;
        Ok(directory.join(found.name))
    }

    /// What programs see of a stored file.
    fn shown(&self, path: &Path, mut stat: Stat) -> Result<Stat> {
        let known = self.files.find(stat.id);
        if let Some(file) = known.filter(|file| file.is_current(stat.identity())) {
            file.show(&mut stat);
            return Ok(stat);
        }
        if stat.size > 0 {
            self.show_stored(path, &mut stat)?;
        }
        self.files.shared.clock.note(&stat);
        Ok(stat)
    }

    /// What programs see of a stored file that nobody has open: as its two ends say.
    fn show_stored(&self, path: &Path, stat: &mut Stat) -> Result<()> {
        let stored = stat.size;
        let (mut head, mut mark) = ([0; layout::HEADER as usize], [0; layout::MARK_LEN]);
        let at = stored.saturating_sub(MARK_LEN);
        let tail = Fetch {
            offset: at,
            buf: &mut mark,
        };
        let found = self.inner().ends(path, &mut head, tail)?;
        let header = FileHeader::parse(&head)
            .ok()
            .filter(|_| found[0] == head.len());
        let len = header.and_then(|header| header.plain_len().ok().flatten());
        if let Ok(Some(TailMark::Rest(rest))) = TailMark::parse(&mark, at) {
            stat.ctime = rest.changed.seen(stat.ctime).unwrap_or(stat.ctime);
        }
        match len {
            Some(len) if !self.may_have_logs() => stat.size = len,
            // A log may say more than the header.
            Some(_) => self.file(path)?.show(stat),
            // One that does not know how long it is has to be looked at.
            None => {
                if let Ok(file) = self.file(path) {
                    file.show(stat);
                }
            }
        }
        Ok(())
    }

    /// Whether files may have logs that this mount has not merged.
    fn may_have_logs(&self) -> bool {
        !self.files.shared.is_writable() || self.has_old_logs.load(Ordering::Acquire)
    }

    /// A stored file that is packed, opened for reading.
    pub(super) fn file(&self, stored: &Path) -> Result<Arc<ScratchFile>> {
        let shown = self.inner().display(stored);
        let mut tries = 0;
        loop {
            let reader = self.inner().open(stored)?;
            let known = self.files.find(reader.id());
            if let Some(file) = known.filter(|file| file.is_current(reader.identity())) {
                return Ok(file);
            }
            tries += 1;
            match ScratchFile::open(&self.files.shared, &shown, reader) {
                // Others are writing it.
                Err(_) if !self.files.shared.is_writable() && tries < TRIES => {}
                opened => {
                    return Ok(self
                        .files
                        .share(opened.map_err(|e| e.of_container(&shown))?));
                }
            }
        }
    }

    /// What a stored entry is shown as; none if it is not shown.
    fn listed(&self, directory: &Path, name: &OsStr, kind: FileKind) -> Option<OsString> {
        if names::is_own(directory, name) {
            return None;
        }
        if kind == FileKind::File
            && let Some(shown) = names::unpacked(name)
        {
            return Some(shown.to_owned());
        }
        let ask = |name: &OsStr| self.inner().stat(&directory.join(name));
        let own = names::unescaped(name);
        // Of two that would have one name that one has it which this mount would make.
        if own == name && names::may_be_old(name) && ask(&names::escaped(name)).is_ok() {
            return None;
        }
        find::shown_as(own, &ask).ok()
    }
}

impl Store for ScratchStore {
    fn stat(&self, path: &Path) -> Result<Stat> {
        let (directory, found) = self.find(path)?;
        match found.is_packed {
            true => self.shown(&directory.join(&found.name), found.stat),
            false => Ok(found.stat),
        }
    }

    fn stat_in(
        &self,
        directory: &Path,
        is_it: &dyn Fn(&Stat) -> bool,
        name: &OsStr,
    ) -> Result<Option<Stat>> {
        match is_it(&self.inner().stat(&self.directory(directory)?)?) {
            true => self.stat(&directory.join(name)).map(Some),
            false => Ok(None),
        }
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        let stored = self.directory(path)?;
        self.inner()
            .list(&stored, &mut |Listed { name, kind, .. }| {
                if let Some(shown) = self.listed(&stored, name, kind) {
                    each(Listed::new(&shown, kind));
                }
            })
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.open(path)?.read(0, buf)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let (directory, found) = self.find(path)?;
        let stored = directory.join(&found.name);
        match found.is_packed {
            true => Ok(Arc::new(ScratchReader::new(self.file(&stored)?)?)),
            false => {
                // Known before it is opened, so that it cannot change over unnoticed.
                let raw = self.raw_files.of(found.stat.id);
                match self.inner().open(&stored) {
                    Ok(source) => Ok(Arc::new(RawReader::new(source, raw))),
                    Err(e) if e.is_not_found() && self.find(path)?.1.is_packed => self.open(path),
                    Err(e) => Err(e),
                }
            }
        }
    }

    fn display(&self, path: &Path) -> PathBuf {
        self.inner().display(path)
    }

    fn as_posix(&self) -> Option<&dyn PosixStore> {
        Some(self)
    }
}

impl PosixStore for ScratchStore {
    fn stat_with_list(&self, path: &Path) -> Result<Stat> {
        self.stat(path)
    }

    fn read_link(&self, path: &Path) -> Result<OsString> {
        self.inner().posix()?.read_link(&self.stored(path)?)
    }

    fn serve_others(&self) {
        if let Ok(inner) = self.inner().posix() {
            inner.serve_others();
        }
    }

    fn space(&self) -> Result<Space> {
        let space = self.inner().posix()?.space()?;
        Ok(Space {
            name_max: space.name_max.min(names::LONGEST),
            ..space
        })
    }

    fn xattr(&self, path: &Path, file: Option<FileId>, name: &OsStr) -> Result<Vec<u8>> {
        if name == RATIO || name == STORED_BYTES {
            let stat = self.stat(path)?;
            if stat.kind != FileKind::File {
                return Err(Error::NoAttribute);
            }
            let stored = stat.blocks.saturating_mul(512);
            let ratio = stored as f64 / (stat.size.max(1)) as f64;
            return Ok(match name == RATIO {
                true => format!("{ratio:.4}").into_bytes(),
                false => stored.to_string().into_bytes(),
            });
        }
        self.inner().posix()?.xattr(&self.stored(path)?, file, name)
    }

    fn xattr_names(&self, path: &Path, file: Option<FileId>) -> Result<Vec<OsString>> {
        self.inner().posix()?.xattr_names(&self.stored(path)?, file)
    }

    fn has_lists(&self) -> bool {
        self.inner().posix().is_ok_and(PosixStore::has_lists)
    }
}
