//! Changes of a scratch mount: names and attributes pass to the stored entries, bytes are held
//! until they are stored.
//!
//! A name of the mount may be stored under either of two names, so whoever makes something looks
//! whether the other one is taken. The tree changes names of one directory one after another, and
//! nobody else writes to the store. Uses [`super::store`]; used by `tree`, as the disk of the
//! mount.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::file::ScratchFile;
use super::find::{self, FoundEntry, StoredPlace};
use super::handles::ScratchWriter;
use super::names;
use super::raw::{RawWriter, SourceOf};
use super::settle::{Unsettled, settle};
use super::shared::refused;
use super::store::ScratchStore;
use crate::disk::{
    Caller, Disk, DiskFile, HeldBack, NewAttributes, NewEntry, Place, Renaming, Settling, Target,
    Trial, XattrSetting,
};
use crate::error::{Error, Result};
use crate::source::{FileId, FileKind, Source};
use crate::sync::Mutex;

pub struct ScratchDisk {
    store: Arc<ScratchStore>,
    inner: Arc<dyn Disk>,
    unsettled: Mutex<Unsettled>,
}

impl ScratchDisk {
    /// `inner`: what the store is changed through.
    pub(super) fn new(store: Arc<ScratchStore>, inner: Arc<dyn Disk>) -> ScratchDisk {
        let unsettled = Mutex::default();
        ScratchDisk {
            store,
            inner,
            unsettled,
        }
    }

    fn place(&self, of: Place<'_>) -> Result<StoredPlace> {
        let directory = self.store.directory(of.directory)?;
        if names::is_own(&directory, of.name) {
            return Err(refused("use the name", of.name, libc::EPERM));
        }
        Ok(StoredPlace {
            directory,
            id: of.id,
            shown: of.name.to_owned(),
        })
    }

    fn find(&self, place: &StoredPlace) -> Result<Option<FoundEntry>> {
        let ask = |name: &OsStr| self.store.inner().stat(&place.directory.join(name));
        match find::find(&place.shown, &ask) {
            Ok(found) => Ok(Some(found)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn found(&self, place: &StoredPlace) -> Result<FoundEntry> {
        self.find(place)?.ok_or(Error::NotFound)
    }

    /// Refuses to make something where something is.
    fn refuse_taken(&self, place: &StoredPlace) -> Result<()> {
        match self.find(place)? {
            Some(_) => Err(refused("make", &place.shown, libc::EEXIST)),
            None => Ok(()),
        }
    }

    /// What is stored of an entry that exists.
    fn on<T>(
        &self,
        target: Target<'_>,
        with: impl FnOnce(Target<'_>, Option<Arc<ScratchFile>>) -> Result<T>,
    ) -> Result<T> {
        match target {
            Target::Named { path, id } => {
                let (directory, found) = self.store.find(path)?;
                let stored = directory.join(&found.name);
                let file = self.known(&found, &stored, id);
                with(Target::Named { path: &stored, id }, file)
            }
            Target::Open(source) => match self.store.files.find(source.id()) {
                Some(file) => {
                    let reader = Arc::clone(&file.reader);
                    with(Target::Open(&*reader), Some(file))
                }
                None => with(target, None),
            },
        }
    }

    /// What a rename replaces must not be lost before what replaces it is on the disk.
    fn sync_before_replacing(
        &self,
        old: &StoredPlace,
        from: &FoundEntry,
        to: Option<&FoundEntry>,
    ) -> Result<()> {
        let has_content = |to: &FoundEntry| {
            let stat = &to.stat;
            // It may be held yet.
            let held = || self.store.files.find(stat.id);
            let is_held = || held().is_some_and(|file| file.read().len > 0);
            stat.kind == FileKind::File && (stat.size > 0 || is_held())
        };
        let Some(to) = to.filter(|to| has_content(to)) else {
            return Ok(());
        };
        // What the source replaces by itself it knows how to order; a link has no content.
        let is_file = from.stat.kind == FileKind::File;
        if !is_file || !from.is_packed && !to.is_packed {
            return Ok(());
        }
        let id = from.stat.id;
        match self.store.files.find(id).filter(|file| file.has_writer()) {
            Some(file) if file.is_on_disk() => Ok(()),
            Some(file) => file.sync(true),
            None => {
                let path = &old.directory.join(&from.name);
                self.inner.sync(Target::Named { path, id }, true)
            }
        }
    }

    /// A program has changed something of a stored file that is no byte; none if it is not known by
    /// now.
    fn touched(&self, file: Option<&Arc<ScratchFile>>) -> Result<()> {
        if let Some(file) = file {
            let ctime = file.reader.stat()?.ctime;
            if file.times().note_touched(ctime) {
                self.store.files.note_changed(file);
            }
        }
        Ok(())
    }

    /// A file that is open, or has something to be stored, or may have had a moment ago: then its
    /// times are not yet those of its stored file.
    fn known(&self, found: &FoundEntry, stored: &Path, id: FileId) -> Option<Arc<ScratchFile>> {
        let files = &self.store.files;
        let stored_lately = || {
            let may_be = found.is_packed && files.shared.stored_lately();
            may_be.then(|| self.stored_file(stored, id).ok()).flatten()
        };
        files.find(id).or_else(stored_lately)
    }

    /// A packed file, open for writing.
    fn stored_file(&self, stored: &Path, id: FileId) -> Result<Arc<ScratchFile>> {
        let files = &self.store.files;
        let known = match files.find(id) {
            Some(file) if file.has_writer() => return Ok(file),
            known => known,
        };
        let writer = self.inner.open(stored, id)?;
        let file = match known {
            Some(file) => file,
            None => {
                let reader: Arc<dyn Source> = Arc::new(SourceOf(Arc::clone(&writer)));
                let shown = self.store.inner().display(stored);
                let opened = ScratchFile::open(&files.shared, &shown, reader);
                files.share(opened.map_err(|e| e.of_container(&shown))?)
            }
        };
        file.set_writer(writer);
        Ok(file)
    }

    fn writer(&self, file: Arc<ScratchFile>) -> Result<Arc<dyn DiskFile>> {
        let files = Arc::clone(&self.store.files);
        Ok(Arc::new(ScratchWriter::new(file, files)?))
    }

    fn rename_found(
        &self,
        (old, from): (&StoredPlace, &FoundEntry),
        (new, to): (&StoredPlace, Option<&FoundEntry>),
        stored: &OsStr,
        how: Renaming,
    ) -> Result<()> {
        match (to, how) {
            (Some(to), Renaming::Exchange) if to.is_packed != from.is_packed => {
                Err(refused("exchange", &old.shown, libc::EINVAL))
            }
            (Some(to), Renaming::Exchange) => {
                // An escape belongs to a name, not to what has it.
                self.inner
                    .rename(old.named(&from.name), new.named(&to.name), how)
            }
            (Some(to), _) if to.name != stored => {
                self.sync_before_replacing(old, from, Some(to))?;
                self.store
                    .rename_over_another((old, from), (new, to), stored)
            }
            (to, how) => {
                self.sync_before_replacing(old, from, to)?;
                self.inner
                    .rename(old.named(&from.name), new.named(stored), how)
            }
        }
    }
}

impl Disk for ScratchDisk {
    fn may_share(&self, _: &dyn Source) -> bool {
        false
    }

    fn share(&self, _: &dyn DiskFile, _: &dyn Source, _: Caller) -> bool {
        false
    }

    fn create(&self, place: Place<'_>, mode: u32, caller: Caller) -> Result<Arc<dyn DiskFile>> {
        let place = self.place(place)?;
        find::check_length(&place.shown)?;
        self.refuse_taken(&place)?;
        self.store.files.limit_open();
        let stored = names::packed(&place.shown);
        let made = self.inner.create(place.named(&stored), mode, caller)?;
        let path = place.directory.join(&stored);
        let reader: Arc<dyn Source> = Arc::new(SourceOf(Arc::clone(&made)));
        let shown = self.store.inner().display(&path);
        let files = &self.store.files;
        let file = files.share(ScratchFile::open(&files.shared, &shown, reader)?);
        file.set_writer(made);
        file.times()
            .since
            .get_or_insert_with(std::time::Instant::now);
        files.note_changed(&file);
        self.writer(file)
    }

    fn try_create(&self, place: Place<'_>, trial: Trial, caller: Caller) -> Result<()> {
        let place = self.place(place)?;
        self.refuse_taken(&place)?;
        let stored = names::packed(&place.shown);
        self.inner.try_create(place.named(&stored), trial, caller)
    }

    fn open(&self, path: &Path, id: FileId) -> Result<Arc<dyn DiskFile>> {
        let (directory, found) = self.store.find(path)?;
        let stored = directory.join(&found.name);
        if !found.is_packed {
            // Known before it is opened, so that it cannot change over unnoticed.
            let file = self.store.raw_files.of(id);
            return match self.inner.open(&stored, id) {
                Ok(raw) => {
                    let raw = RawWriter::new((raw, file), &self.store.files, stored);
                    Ok(Arc::new(raw))
                }
                Err(_) if self.store.find(path).is_ok_and(|(_, now)| now.is_packed) => {
                    self.open(path, id)
                }
                Err(e) => Err(e),
            };
        }
        self.writer(self.stored_file(&stored, id)?)
    }

    fn make(&self, place: Place<'_>, what: NewEntry<'_>, caller: Caller) -> Result<()> {
        let stored = self.place(place)?;
        find::check_length(&stored.shown)?;
        if let NewEntry::File { mode } = what {
            return self.create(place, mode, caller).map(drop);
        }
        self.refuse_taken(&stored)?;
        let name = names::escaped(&stored.shown);
        self.inner.make(stored.named(&name), what, caller)
    }

    fn link(&self, file: Target<'_>, place: Place<'_>) -> Result<()> {
        let place = self.place(place)?;
        find::check_length(&place.shown)?;
        self.refuse_taken(&place)?;
        let is_packed = match file {
            Target::Named { path, .. } => self.store.find(path)?.1.is_packed,
            Target::Open(source) => self.store.files.find(source.id()).is_some(),
        };
        let name = match is_packed {
            true => names::packed(&place.shown),
            false => names::escaped(&place.shown),
        };
        self.on(file, |target, file| {
            self.inner.link(target, place.named(&name))?;
            self.touched(file.as_ref())
        })
    }

    fn unlink(&self, place: Place<'_>) -> Result<()> {
        let place = self.place(place)?;
        let found = self.found(&place)?;
        self.inner.unlink(place.named(&found.name))?;
        let left = self.store.files.find(found.stat.id);
        self.touched(left.as_ref())
    }

    fn remove_directory(&self, place: Place<'_>) -> Result<()> {
        let place = self.place(place)?;
        let found = self.found(&place)?;
        self.inner.remove_directory(place.named(&found.name))
    }

    fn rename(&self, from: Place<'_>, to: Place<'_>, how: Renaming) -> Result<()> {
        let (old, new) = (self.place(from)?, self.place(to)?);
        find::check_length(&new.shown)?;
        let (from, to) = (self.found(&old)?, self.find(&new)?);
        if let (Some(_), Renaming::NoReplace) = (&to, how) {
            return Err(refused("rename", &old.shown, libc::EEXIST));
        }
        let stored = match from.is_packed {
            true => names::packed(&new.shown),
            false => names::escaped(&new.shown),
        };
        self.rename_found((&old, &from), (&new, to.as_ref()), &stored, how)?;
        // What is replaced has a name less.
        let replaced = to.and_then(|to| self.store.files.find(to.stat.id));
        self.touched(replaced.as_ref())?;
        let stored = new.directory.join(&stored);
        let renamed = self.known(&from, &stored, from.stat.id);
        self.touched(renamed.as_ref())
    }

    fn set_attributes(&self, of: Target<'_>, to: &NewAttributes) -> Result<()> {
        self.on(of, |of, file| {
            let Some(file) = file else {
                return self.inner.set_attributes(of, to);
            };
            // No flush comes between.
            let mut io = file.io();
            self.inner.set_attributes(of, to)?;
            file.may_have_set_id.store(true, Ordering::Relaxed);
            if to.mtime.is_some() {
                io.left = None;
                file.times().mtime = Some(file.reader.stat()?.mtime);
            }
            self.touched(Some(&file))
        })
    }

    fn set_xattr(
        &self,
        of: Target<'_>,
        name: &OsStr,
        value: &[u8],
        how: XattrSetting,
    ) -> Result<()> {
        self.on(of, |of, file| {
            self.inner.set_xattr(of, name, value, how)?;
            self.touched(file.as_ref())
        })
    }

    fn remove_xattr(&self, of: Target<'_>, name: &OsStr) -> Result<()> {
        self.on(of, |of, file| {
            self.inner.remove_xattr(of, name)?;
            self.touched(file.as_ref())
        })
    }

    fn sync(&self, of: Target<'_>, data: bool) -> Result<()> {
        if let Target::Open(source) = of
            && let Some(file) = self.store.files.find(source.id())
            && file.has_writer()
        {
            return file.sync(data);
        }
        self.on(of, |of, _| self.inner.sync(of, data))
    }

    fn sync_named(&self, file: &dyn Source, directory: Target<'_>) -> Result<()> {
        self.sync(Target::Open(file), false)?;
        self.sync(directory, false)
    }

    fn settle(&self, one: Option<FileId>, how: Settling) {
        let unsettled = settle(&self.store, one, how);
        let mut known = self.unsettled.lock();
        match one {
            None => *known = unsettled,
            // Of the others nothing new is known.
            Some(_) => known.add(unsettled),
        }
    }

    fn held_back(&self) -> Option<HeldBack> {
        let unsettled = self.unsettled.lock().clone();
        Some(unsettled.held_back(&self.store.files))
    }
}
