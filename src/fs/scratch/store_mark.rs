//! The mark of a store, a file in its root: whether a mount is changing it, or has ended without
//! saying so, and which mounts those were.
//!
//! It stands until a mount has ended in order: what was left in between is looked for then, by what
//! the files say, and by no clock. A store without a mark may be a part of one. Used by
//! [`super::mount`] and [`super::convert`].

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::mark::Epoch;
use super::names::MARK_NAME;
use super::store::ScratchStore;
use super::tail::{self, put_all};
use crate::disk::{Disk, DiskFile, Place, Target};
use crate::error::Result;
use crate::records::of_another_version;
use crate::source::Store;

const STORE: &str = "arrayfs scratch store";
/// As [`UNCLEAN`] and [`CLEAN`] have it.
const VERSION: &str = "1";
const UNCLEAN: &str = "arrayfs scratch store 1: being changed, or left by a crash\n";
pub(super) const CLEAN: &str = "arrayfs scratch store 1: left in order\n";
const WITH_LOGS: &str = "some files have logs\n";
const EPOCH: &str = "mount ";

/// Of so many mounts that did not end in order the latest are known: what those before have not
/// synced has reached the disk long since.
const MOST_EPOCHS: usize = 32;

const LONGEST: usize = UNCLEAN.len() + WITH_LOGS.len() + MOST_EPOCHS * (EPOCH.len() + 17);

/// What the mounts before have left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftStore {
    /// The last one ended in order.
    pub(super) is_clean: bool,
    /// Files may have logs that no mount has to merge at once.
    pub(super) has_logs: bool,
    /// Those that did not, since the last one that did.
    pub(super) epochs: Vec<Epoch>,
}

impl LeftStore {
    /// What the mark of a store says, if it has one. A store of another version is left as it is.
    pub(super) fn read(store: &dyn Store) -> Result<Option<LeftStore>> {
        let file = match store.open(Path::new(MARK_NAME)) {
            Err(e) if e.is_not_found() => return Ok(None),
            file => file?,
        };
        let mut said = [0; LONGEST];
        let found = file.read(0, &mut said)?;
        LeftStore::parse(&said[..found]).map(Some)
    }

    /// What says nothing of mounts was being written, or is none.
    fn parse(said: &[u8]) -> Result<LeftStore> {
        let said = String::from_utf8_lossy(said);
        let epochs = said.lines().filter_map(|line| line.strip_prefix(EPOCH));
        let epochs = epochs.filter_map(|number| u64::from_str_radix(number, 16).ok());
        let is_clean = said.starts_with(CLEAN);
        let is_known = is_clean || said.starts_with(UNCLEAN);
        let version = said
            .strip_prefix(STORE)
            .and_then(|rest| rest.split_once(':'));
        if let Some((version, _)) = version.filter(|(version, _)| version.trim() != VERSION) {
            let version = Some(version.trim()).filter(|version| !version.is_empty());
            return Err(of_another_version("store", version.unwrap_or("0"), VERSION));
        }
        Ok(LeftStore {
            is_clean,
            has_logs: !is_known || said.contains(WITH_LOGS),
            epochs: epochs.map(Epoch).collect(),
        })
    }
}

/// The mark of a store.
pub(super) struct StoreMark {
    file: Arc<dyn DiskFile>,
}

impl StoreMark {
    /// Opens it, or makes it, and says what it said.
    pub(super) fn open(scratch: &ScratchStore) -> Result<(StoreMark, LeftStore)> {
        let (store, disk) = (scratch.inner(), scratch.disk()?);
        let path = Path::new(MARK_NAME);
        if let Some(left) = LeftStore::read(store)? {
            let file = disk.open(path, store.stat(path)?.id)?;
            return Ok((StoreMark { file }, left));
        }
        let root = Path::new("");
        let id = store.stat(root)?.id;
        let place = Place {
            directory: root,
            id,
            name: OsStr::new(MARK_NAME),
        };
        let file = disk.create(place, 0o600, tail::DAEMON)?;
        disk.sync_named(file.source(), Target::Named { path: root, id })?;
        let left = LeftStore {
            is_clean: false,
            has_logs: false,
            epochs: Vec::new(),
        };
        Ok((StoreMark { file }, left))
    }

    /// From now on the store is changed, by one more mount.
    pub(super) fn begin(&self, disk: &dyn Disk, left: &LeftStore, epoch: Epoch) -> Result<()> {
        let before = left.epochs.len().saturating_sub(MOST_EPOCHS - 1);
        let before = left.epochs[before..].iter().chain([&epoch]);
        let epochs = before.map(|epoch| format!("{EPOCH}{:016x}\n", epoch.0));
        self.say(disk, UNCLEAN, left.has_logs, &epochs.collect::<String>())
    }

    /// Everything is stored, but for what logs have.
    pub(super) fn end(&self, disk: &dyn Disk, has_logs: bool) -> Result<()> {
        self.say(disk, CLEAN, has_logs, "")
    }

    fn say(&self, disk: &dyn Disk, what: &str, has_logs: bool, more: &str) -> Result<()> {
        let with_logs = if has_logs { WITH_LOGS } else { "" };
        let line = [what, with_logs, more].concat();
        put_all(&*self.file, 0, line.as_bytes())?;
        self.file.set_len(line.len() as u64, tail::DAEMON)?;
        disk.sync(Target::Open(self.file.source()), true)
    }
}
