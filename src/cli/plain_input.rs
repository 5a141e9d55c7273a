//! A file whose bytes a command packs: one that is there, opened as one version.
//!
//! A file that changes while it is read is an error, not a mixture of both. Used by `arrayfs pack`
//! and `arrayfs append`.

use std::path::Path;
use std::sync::Arc;

use super::container;
use super::failure::Failure;
use super::given_path::real;
use crate::error::plain;
use crate::source::Source;

pub(super) fn open(path: &Path) -> Result<Arc<dyn Source>, Failure> {
    let failed = |e| Failure::new(format!("{}: {}", path.display(), plain(&e)));
    let found = std::fs::metadata(path).map_err(failed)?;
    if found.is_dir() {
        return Err(is_directory(path, "packed"));
    }
    if !found.is_file() {
        return Err(Failure::new(format!(
            "{} is no regular file",
            path.display()
        )));
    }
    let root = container::root_at(&real(path).map_err(failed)?, path)?;
    Ok(root.store.open(&root.path)?)
}

/// What is said of a directory, which is not `done` to.
pub(super) fn is_directory(path: &Path, done: &str) -> Failure {
    let path = path.display();
    Failure::usage(format!(
        "{path} is a directory: it is files that are {done}, name one"
    ))
}
