//! The smallest thing to mount: a source with one container, `x.blp`, and a mountpoint beside it.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::scratch_directory;
use super::writers::Bloscpack;

pub struct Places {
    source: PathBuf,
    mountpoint: PathBuf,
    _directory: TempDir,
}

/// What the container `x.blp` holds.
pub const CONTENT: &[u8] = b"as it was written";

pub fn places() -> Places {
    let directory = scratch_directory();
    let below = |name| directory.path().join(name);
    let (source, mountpoint) = (below("source"), below("mnt"));
    std::fs::create_dir(&source).unwrap();
    std::fs::create_dir(&mountpoint).unwrap();
    Bloscpack::default().write(&source.join("x.blp"), CONTENT);
    Places {
        source,
        mountpoint,
        _directory: directory,
    }
}

impl Places {
    /// Source and mountpoint.
    pub fn both(&self) -> (&Path, &Path) {
        (&self.source, &self.mountpoint)
    }
}
