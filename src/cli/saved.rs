//! What a scratch mount saves: found by looking at its files, as `du` does. Those that are still to
//! be stored do not count.
//!
//! Used by [`super::status`].

use std::collections::HashSet;
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::counted::{counted, verb};
use super::size;

/// After this long what has been found is said to be a part.
const PATIENCE: Duration = Duration::from_secs(2);

/// Files that were looked at, as programs see them and as they are stored.
#[derive(Default)]
pub(super) struct SavedRoom {
    files: u64,
    plain: u64,
    stored: u64,
    is_part: bool,
    linked: HashSet<u64>,
}

impl SavedRoom {
    pub(super) fn of(mountpoint: &Path) -> SavedRoom {
        let until = Instant::now() + PATIENCE;
        let mut saved = SavedRoom::default();
        let mut directories = vec![mountpoint.to_owned()];
        while let Some(directory) = directories.pop() {
            // What this user may not look into is not counted.
            let Ok(entries) = std::fs::read_dir(directory) else {
                saved.is_part = true;
                continue;
            };
            for entry in entries.flatten() {
                if Instant::now() > until {
                    saved.is_part = true;
                    return saved;
                }
                directories.extend(saved.add(&entry));
            }
        }
        saved
    }

    /// Counts a file; gives a directory back.
    fn add(&mut self, entry: &DirEntry) -> Option<PathBuf> {
        let found = entry.metadata().ok()?;
        if found.is_dir() {
            return Some(entry.path());
        }
        let is_counted = found.nlink() > 1 && !self.linked.insert(found.ino());
        let is_stored = found.len() == 0 || found.blocks() > 0;
        if found.is_file() && is_stored && !is_counted {
            self.files += 1;
            self.plain = self.plain.saturating_add(found.len());
            self.stored = self.stored.saturating_add(found.blocks() * 512);
        }
        None
    }

    fn ratio(&self) -> f64 {
        self.stored as f64 / self.plain.max(1) as f64
    }

    /// One line for people.
    pub(super) fn line(&self) -> String {
        let part = match self.is_part {
            true => "at least ",
            false => "",
        };
        let (plain, stored) = (size::show(self.plain), size::show(self.stored));
        let saved = size::show(self.plain.saturating_sub(self.stored));
        format!(
            "{part}{saved}: {} of {plain} {} {stored}, ratio {:.2}",
            counted(self.files, "file"),
            verb(self.files, "takes", "take"),
            self.ratio()
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "files": self.files,
            "bytes": self.plain,
            "stored_bytes": self.stored,
            "ratio": self.ratio(),
            "is_part": self.is_part,
        })
    }
}
