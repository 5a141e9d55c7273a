//! What a disk holds: the files of one directory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};

/// Seconds and nanoseconds.
pub(super) type Moment = (i64, u32);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredFile {
    /// Without the zeros at its end.
    pub(super) bytes: Vec<u8>,
    pub(super) len: u64,
    pub(super) mode: u32,
    pub(super) mtime: Moment,
}

impl StoredFile {
    pub(super) fn empty(mode: u32, mtime: Moment) -> StoredFile {
        StoredFile {
            bytes: Vec::new(),
            len: 0,
            mode,
            mtime,
        }
    }

    pub(super) fn trim(&mut self) {
        self.bytes.truncate(usize::try_from(self.len).unwrap());
        trim(&mut self.bytes);
    }
}

/// Takes the zeros at the end away: many at a time, for logs have many.
pub(super) fn trim(bytes: &mut Vec<u8>) {
    const ZEROS: [u8; 1024] = [0; 1024];
    while bytes.ends_with(&ZEROS) {
        bytes.truncate(bytes.len() - ZEROS.len());
    }
    let end = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(end.map_or(0, |end| end + 1));
}

impl Hash for StoredFile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        crc32fast::hash(&self.bytes).hash(state);
        (self.len, self.mode, self.mtime).hash(state);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Image {
    pub(super) files: BTreeMap<OsString, Arc<StoredFile>>,
}

impl Image {
    pub(super) fn load(directory: &Path) -> Image {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let stat = entry.metadata().unwrap();
            assert!(stat.is_file(), "{:?}", entry.path());
            let mut file = StoredFile {
                bytes: fs::read(entry.path()).unwrap(),
                len: stat.len(),
                mode: stat.mode() & 0o7777,
                mtime: (stat.mtime(), u32::try_from(stat.mtime_nsec()).unwrap()),
            };
            file.trim();
            files.insert(entry.file_name(), Arc::new(file));
        }
        Image { files }
    }

    /// Makes the files, in a directory that has none.
    pub(super) fn store(&self, directory: &Path) {
        for (name, file) in &self.files {
            let path = directory.join(name);
            fs::write(&path, &file.bytes).unwrap();
            let opened = fs::OpenOptions::new().write(true).open(&path).unwrap();
            opened.set_len(file.len).unwrap();
            opened
                .set_permissions(fs::Permissions::from_mode(file.mode))
                .unwrap();
            let (secs, nanos) = file.mtime;
            let times = Timestamps {
                last_access: Timespec {
                    tv_sec: 0,
                    tv_nsec: UTIME_OMIT,
                },
                last_modification: Timespec {
                    tv_sec: secs,
                    tv_nsec: nanos.into(),
                },
            };
            utimensat(CWD, &path, &times, AtFlags::empty()).unwrap();
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        let names = self.files.keys();
        names
            .map(|name| name.to_str().unwrap().to_owned())
            .collect()
    }
}

/// In memory, where that is possible.
pub(super) fn scratch() -> tempfile::TempDir {
    match tempfile::tempdir_in("/dev/shm") {
        Ok(directory) => directory,
        Err(_) => tempfile::tempdir().unwrap(),
    }
}
