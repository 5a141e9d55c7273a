//! A store that opens the files of one version of a container and no others by their names.
//!
//! Names are not files: between two looks at a name it may have led to another file, which nobody was
//! asked about. So what is opened is compared, not what the name leads to afterwards. Used by `opening`.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::live::version::ContainerVersion;
use crate::source::Store;
use crate::source::passing::Passing;

/// The files of `version`, which lies at `path`, and whatever else is in `store`.
pub(crate) fn pinned(
    store: &Arc<dyn Store>,
    version: &ContainerVersion,
    path: &Path,
) -> Arc<dyn Store> {
    let identity = version.identity();
    let own = (path.to_owned(), identity.file());
    let companions = version.recognised.companions(path);
    let files: Vec<_> = std::iter::once(own)
        .chain(companions.zip(identity.companions()))
        .filter_map(|(path, file)| Some((path, file?)))
        .collect();
    let displays = Arc::clone(store);
    Arc::new(Passing::new(store, move |path, source| {
        let pinned = files.iter().find(|(of, _)| of == path);
        match pinned.is_none_or(|(_, identity)| *identity == source.identity()) {
            true => Ok(source),
            false => Err(Error::Changed {
                path: displays.display(path),
            }),
        }
    }))
}
