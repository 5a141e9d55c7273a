//! A store that opens the files of one version of a container and no others by their names.
//!
//! Names are not files: between two looks at a name it may have led to another file. So the opened
//! file is compared, not what the name leads to afterwards. The files are open while they are read;
//! they are opened again wherever the container lies by then. Used by `opening`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::moved::MovedStore;
use crate::container::Recognised;
use crate::disk::reopened::{AtPath, opened_at};
use crate::error::Error;
use crate::live::ground::Ground;
use crate::live::places::{ContainerId, Places};
use crate::live::version::ContainerVersion;
use crate::source::wrapping::WrappingStore;
use crate::source::{ReopenedSource, Source, Store, open_same};

/// The files of `version`, which lies at `path`, and whatever else is in `store`.
pub(crate) fn pinned(ground: &Ground, version: &ContainerVersion, path: &Path) -> Arc<dyn Store> {
    let at_path = at_path(&ground.places, version.container);
    let identity = version.identity();
    let recognised = version.recognised.clone();
    let files: Vec<_> = files_at(&recognised, path)
        .zip(std::iter::once(identity.file()).chain(identity.companions()))
        .collect();
    let below = Arc::clone(&ground.store);
    // Those with more files than make the identity open them when they are read.
    let lazily: Arc<dyn Store> = match recognised.layout().has_directories() {
        true => Arc::new(MovedStore::new(&below, path, Arc::clone(&at_path))),
        false => Arc::clone(&below),
    };
    Arc::new(WrappingStore::new(&lazily, move |path, source| {
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

/// Where files of a container lie that are opened again.
fn at_path(places: &Arc<dyn Places>, container: ContainerId) -> AtPath {
    let places = Arc::downgrade(places);
    Arc::new(move |open| {
        let places = places.upgrade().ok_or(Error::NotFound)?;
        // The thread may hold the lock of the container's identity: comparing it opens and reads
        // versions, too.
        places.retry_briefly(&mut || open(&places.known_path(container)?))
    })
}

/// The file that a container is, and its companions.
pub(super) fn files_at<'a>(
    recognised: &Recognised,
    path: &'a Path,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    std::iter::once(path.to_owned()).chain(recognised.companions(path))
}
