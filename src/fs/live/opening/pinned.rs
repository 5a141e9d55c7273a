//! A store that opens the files of one version of a container and no others by their names.
//!
//! Names are not files: between two looks at a name it may have led to another file. So the opened
//! file is compared, not what the name leads to afterwards. The files are open while they are read;
//! they are opened again wherever the container lies by then. Used by `opening`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::container::Recognised;
use crate::disk::reopened::{AtPath, opened_at};
use crate::error::Error;
use crate::live::version::ContainerVersion;
use crate::source::wrapping::WrappingStore;
use crate::source::{ReopenedSource, Source, Store, open_same};

/// The files of `version`, which lies at `path`, and whatever else is in `store`.
pub(crate) fn pinned(
    store: &Arc<dyn Store>,
    version: &ContainerVersion,
    path: &Path,
    at_path: AtPath,
) -> Arc<dyn Store> {
    let identity = version.identity();
    let recognised = version.recognised.clone();
    let files: Vec<_> = files_at(&recognised, path)
        .zip(std::iter::once(identity.file()).chain(identity.companions()))
        .collect();
    let below = Arc::clone(store);
    Arc::new(WrappingStore::new(store, move |path, source| {
        let source = source?;
        let known = files
            .iter()
            .position(|(of, file)| of == path && file.is_some());
        let Some(number) = known else {
            return Ok(source);
        };
        if files[number].1 != Some(source.identity()) {
            let path = below.display(path);
            return Err(Error::Changed { path });
        }
        let (store, recognised) = (Arc::clone(&below), recognised.clone());
        let (at_path, identity) = (Arc::clone(&at_path), source.identity());
        let again = move || {
            opened_at(&at_path, |path| {
                let path = files_at(&recognised, path).nth(number);
                open_same(&*store, &path.ok_or(Error::NotFound)?, &identity)
            })
        };
        let source: Arc<dyn Source> = Arc::new(ReopenedSource::new(source, again));
        Ok(source)
    }))
}

/// The file that a container is, and its companions.
pub(super) fn files_at<'a>(
    recognised: &Recognised,
    path: &'a Path,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    std::iter::once(path.to_owned()).chain(recognised.companions(path))
}
