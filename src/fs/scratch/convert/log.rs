//! What a conversion must know again when it goes on after an interruption: a file in the root of
//! the tree, written before anything is changed and removed at the end.
//!
//! It says what cannot be seen any more once a part is converted: which entries have another name
//! in a store than outside of one, where a name alone does not tell (`d.blp~` may be the directory
//! `d.blp` of a store, or one that was always called so), and the times of directories. These are
//! known by their inodes, so it does not matter which of them have been renamed already. A log
//! without its last record was never finished: then nothing has been changed. Used by
//! [`super::Conversion`].

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::super::tail::{DAEMON, put_all};
use crate::disk::{Disk, DiskFile, NewAttributes, NewTime, Place, Target};
use crate::error::{Error, Result};
use crate::records::{RecordHead, RecordSequence, Records, check_begin, encoded};
use crate::source::{FileId, Source, Stat, Store, Timestamp};

/// In the root of a tree that is being converted.
pub(super) const LOG_NAME: &str = ".arrayfs-convert";

/// Bytes that are written at once.
const TOGETHER: usize = 1 << 20;

/// Of all records: they are only ever read together.
pub(super) const HEAD: RecordHead = RecordHead {
    kind: 1,
    sequence: 0,
    synced: 0,
};

#[derive(Serialize, Deserialize)]
enum ConvertRecord {
    Directory {
        inode: u64,
        atime: (i64, u32),
        mtime: (i64, u32),
    },
    /// An entry of a directory that is called differently in a store and outside of one.
    Name {
        directory: u64,
        inode: u64,
        plain: Vec<u8>,
        stored: Vec<u8>,
    },
    /// Everything is written down: from here on the tree is changed.
    Ready,
}

/// The two names of an entry.
pub(super) struct TwoNames {
    inode: u64,
    plain: OsString,
    stored: OsString,
}

#[derive(Default)]
pub(super) struct ConvertLog {
    times: HashMap<u64, (Timestamp, Timestamp)>,
    names: HashMap<u64, Vec<TwoNames>>,
}

impl ConvertLog {
    /// The log that an interrupted conversion has left.
    pub(super) fn read(store: &dyn Store) -> Result<Option<LeftLog>> {
        let path = Path::new(LOG_NAME);
        let file = match store.open(path) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        };
        let stat = file.stat_opened()?;
        if stat.uid != geteuid().as_raw() || stat.mode & 0o077 != 0 {
            let what = format!("{LOG_NAME} in it is not of this user; who began has to go on");
            return Err(Error::Invalid(what));
        }
        let left = LeftLog::read(&*file).map_err(|e| e.of_container(&store.display(path)));
        left.map(Some)
    }

    fn take(&mut self, record: ConvertRecord) {
        let time = |(secs, nanos)| Timestamp { secs, nanos };
        match record {
            ConvertRecord::Directory {
                inode,
                atime,
                mtime,
            } => {
                self.times
                    .entry(inode)
                    .or_insert((time(atime), time(mtime)));
            }
            ConvertRecord::Name {
                directory,
                inode,
                plain,
                stored,
            } if is_name(&plain) && is_name(&stored) => {
                self.names.entry(directory).or_default().push(TwoNames {
                    inode,
                    plain: OsString::from_vec(plain),
                    stored: OsString::from_vec(stored),
                });
            }
            ConvertRecord::Name { .. } | ConvertRecord::Ready => {}
        }
    }

    /// What an entry of a directory is called in a store, if it has its plain name now and another
    /// one there.
    pub(super) fn stored_name(&self, directory: u64, entry: u64, name: &OsStr) -> Option<&OsStr> {
        let mut known = self.names.get(&directory).into_iter().flatten();
        let found = known.find(|known| known.inode == entry && known.plain == name);
        found.map(|found| &*found.stored)
    }

    /// What it is called outside of one, if it has a store's name now.
    pub(super) fn plain_name(&self, directory: u64, entry: u64, name: &OsStr) -> Option<&OsStr> {
        let mut known = self.names.get(&directory).into_iter().flatten();
        let found = known.find(|known| known.inode == entry && known.stored == name);
        found.map(|found| &*found.plain)
    }

    /// Whether a file of this name has come out of a stored one, although the name is that of a
    /// stored file. `is_there`: whether the directory has a name.
    pub(super) fn is_unpacked(
        &self,
        directory: u64,
        name: &OsStr,
        is_there: &dyn Fn(&OsStr) -> bool,
    ) -> bool {
        let known = self.names.get(&directory).into_iter().flatten();
        let mut of_name = known.filter(|known| known.plain == name);
        of_name.any(|known| !is_there(&known.stored))
    }

    /// A directory has the times again that it had before all this.
    pub(super) fn restore_times(&self, disk: &dyn Disk, path: &Path, id: FileId) {
        let Some(times) = self.times(id.inode) else {
            return;
        };
        if let Err(e) = disk.set_attributes(Target::Named { path, id }, &times) {
            log::debug!("{e}");
        }
    }

    /// Times of last access and change that a directory is to have again.
    fn times(&self, directory: u64) -> Option<NewAttributes> {
        let (atime, mtime) = self.times.get(&directory)?;
        Some(NewAttributes {
            atime: Some(NewTime::At(*atime)),
            mtime: Some(NewTime::At(*mtime)),
            ..NewAttributes::default()
        })
    }
}

/// A log that is there.
pub(super) struct LeftLog {
    pub(super) log: ConvertLog,
    /// Bytes of records that check.
    pub(super) len: u64,
    /// The tree may have been changed.
    pub(super) is_finished: bool,
}

impl LeftLog {
    /// As far as its records check.
    pub(super) fn read(source: &dyn Source) -> Result<LeftLog> {
        let (mut log, mut is_finished) = (ConvertLog::default(), false);
        let mut records = Records::new(source, 0, RecordSequence::Same(HEAD.sequence));
        while let Some(found) = records.next()? {
            let record = found.decoded()?;
            is_finished |= matches!(record, ConvertRecord::Ready);
            log.take(record);
        }
        if records.at() == 0 {
            check_begin(source)?;
        }
        Ok(LeftLog {
            log,
            len: records.at(),
            is_finished,
        })
    }
}

/// Whether it leads to nothing but an entry of a directory.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b".."
}

/// A log that is being written, before anything is changed.
pub(super) struct NewConvertLog {
    log: ConvertLog,
    file: Arc<dyn DiskFile>,
    waiting: Vec<u8>,
    at: u64,
}

impl NewConvertLog {
    /// Goes on with the one that is there, or makes one. `root`: the directory, as it was before.
    pub(super) fn begin(store: &dyn Store, disk: &dyn Disk, root: &Stat) -> Result<NewConvertLog> {
        if let Some(left) = ConvertLog::read(store)? {
            let path = Path::new(LOG_NAME);
            let file = disk.open(path, store.stat(path)?.id)?;
            file.set_len(left.len, DAEMON)?;
            let mut new = NewConvertLog::over(left.log, file, left.len);
            new.directory(root)?;
            return Ok(new);
        }
        let place = Place {
            directory: Path::new(""),
            id: root.id,
            name: OsStr::new(LOG_NAME),
        };
        let file = disk.create(place, 0o600, DAEMON)?;
        let mut new = NewConvertLog::over(ConvertLog::default(), file, 0);
        // That it was made has changed the root's time.
        new.directory(root)?;
        new.write()?;
        Ok(new)
    }

    fn over(log: ConvertLog, file: Arc<dyn DiskFile>, at: u64) -> NewConvertLog {
        NewConvertLog {
            log,
            file,
            waiting: Vec::new(),
            at,
        }
    }

    pub(super) fn log(&self) -> &ConvertLog {
        &self.log
    }

    /// A directory, with the times that it has before it is changed.
    pub(super) fn directory(&mut self, stat: &Stat) -> Result<()> {
        let inode = stat.id.inode;
        if self.log.times.contains_key(&inode) {
            return Ok(());
        }
        let time = |time: Timestamp| (time.secs, time.nanos);
        self.note(ConvertRecord::Directory {
            inode,
            atime: time(stat.atime),
            mtime: time(stat.mtime),
        })
    }

    pub(super) fn name(
        &mut self,
        directory: FileId,
        entry: FileId,
        plain: &OsStr,
        stored: &OsStr,
    ) -> Result<()> {
        self.note(ConvertRecord::Name {
            directory: directory.inode,
            inode: entry.inode,
            plain: plain.as_bytes().to_vec(),
            stored: stored.as_bytes().to_vec(),
        })
    }

    fn note(&mut self, record: ConvertRecord) -> Result<()> {
        HEAD.append(&[&encoded(&record)?], &mut self.waiting);
        self.log.take(record);
        match self.waiting.len() >= TOGETHER {
            true => self.write(),
            false => Ok(()),
        }
    }

    /// Nothing has been changed, and nothing will be: the tree is as it was.
    pub(super) fn give_up(self, disk: &dyn Disk, root: &Stat) -> Result<()> {
        let (directory, id) = (Path::new(""), root.id);
        let name = OsStr::new(LOG_NAME);
        disk.unlink(Place {
            directory,
            id,
            name,
        })?;
        self.log.restore_times(disk, directory, id);
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        put_all(&*self.file, self.at, &self.waiting)?;
        self.at += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// From here on the tree may be changed: the log is on the disk.
    pub(super) fn ready(mut self, disk: &dyn Disk, root: FileId) -> Result<ConvertLog> {
        self.note(ConvertRecord::Ready)?;
        self.write()?;
        let path = Path::new("");
        disk.sync_named(self.file.source(), Target::Named { path, id: root })?;
        Ok(self.log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::local::LocalDisk;
    use crate::records::put_next_version;
    use crate::source::local::LocalStore;

    #[test]
    fn a_log_counts_once_it_is_finished() {
        let ground = tempfile::tempdir().unwrap();
        let store = Arc::new(LocalStore::open(ground.path(), ground.path()).unwrap());
        let disk = LocalDisk::new(Arc::clone(&store));
        let root = store.stat(Path::new("")).unwrap();
        let id = root.id;
        let begin = || NewConvertLog::begin(&*store, &disk, &root).unwrap();
        let (plain, stored) = (OsStr::new("d.blp"), OsStr::new("d.blp~"));
        let mut log = begin();
        log.name(id, id, plain, stored).unwrap();
        log.write().unwrap();
        assert!(!ConvertLog::read(&*store).unwrap().unwrap().is_finished);
        let mut log = begin();
        log.name(id, id, plain, stored).unwrap();
        log.ready(&disk, id).unwrap();
        let log = begin().ready(&disk, id).unwrap();
        assert_eq!(log.stored_name(id.inode, id.inode, plain), Some(stored));
        assert_eq!(log.plain_name(id.inode, id.inode, stored), Some(plain));
        assert_eq!(log.plain_name(id.inode, id.inode, plain), None);
        let times = log.times(id.inode).unwrap();
        assert_eq!(times.mtime, Some(NewTime::At(root.mtime)));
        assert_eq!(log.names.len(), 1);
        // What is torn off at the end is as if it had not been written.
        let path = ground.path().join(LOG_NAME);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(ConvertLog::read(&*store).unwrap().unwrap().is_finished);
        // One of another version is neither read nor cut.
        let mut other = bytes;
        put_next_version(&mut other);
        std::fs::write(&path, &other).unwrap();
        let refused = NewConvertLog::begin(&*store, &disk, &root).err().unwrap();
        assert!(refused.to_string().contains("version 2"), "{refused}");
        assert!(std::fs::read(&path).unwrap() == other);
        // Nor is one that begins as none of this version does.
        std::fs::write(&path, b"\x10\0\0\0 something else").unwrap();
        let refused = NewConvertLog::begin(&*store, &disk, &root).err().unwrap();
        assert!(refused.to_string().contains("another version"), "{refused}");
        std::fs::write(&path, [0; 20]).unwrap();
        NewConvertLog::begin(&*store, &disk, &root).unwrap();
    }
}
