//! The input of a commit: the files that were opened, the arrays that have changed, and the
//! container that tells the recipe.
//!
//! Used by [`super`], and by [`super::retyped`], whose commit changes no bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::BlockCache;
use crate::commit::SeenFile;
use crate::container::writable::{ChangedArray, WritableContainer};
use crate::error::Result;
use crate::live::version::ContainerVersion;
use crate::live::writing::LayeredContainer;
use crate::live::writing::before_close::LayerBlocks;
use crate::source::{SourceIdentity, Timestamp};
use crate::stage::Layer;

/// The changes of a commit, and the container that tells the recipe.
pub(crate) struct Changes<'a> {
    pub(crate) writable: &'a dyn WritableContainer,
    pub(crate) changed: &'a [ChangedArray],
    /// The layer that is committed.
    pub(crate) layer: u64,
    /// The time that the files get, if not that which they have.
    pub(crate) written: Option<Timestamp>,
}

/// The files of a container as they were opened, by their member numbers.
pub(crate) fn seen_files(version: &ContainerVersion, path: &Path) -> Vec<SeenFile> {
    let (identity, files) = (version.identity(), version.recognised.files(path));
    let identities: Vec<_> = match identity.file() {
        Some(own) => vec![Some(own)],
        None => identity.companions().collect(),
    };
    let seen = |(path, identity): (&PathBuf, &Option<SourceIdentity>)| SeenFile {
        name: path.file_name().unwrap_or_default().to_owned(),
        identity: identity.as_ref().and_then(SourceIdentity::file),
    };
    files.iter().zip(&identities).map(seen).collect()
}

/// The arrays of which something is staged, as they are with it.
pub(crate) fn changed_arrays(
    container: &LayeredContainer,
    frozen: &Arc<Layer>,
    cache: &Arc<BlockCache>,
) -> Result<Vec<ChangedArray>> {
    let base = container.base();
    let mut changed = Vec::new();
    for (number, staged) in container.arrays() {
        let (len, ranges, visible) = (
            frozen.len(staged),
            frozen.changed(staged),
            frozen.visible(staged),
        );
        let stored = base.info(number)?.bytes;
        if !ranges.is_empty() || len != stored || visible < len.min(stored) {
            changed.push(ChangedArray {
                container: base.array(number)?.container,
                shown: container.merged(number, vec![Arc::clone(frozen)], cache)?,
                len,
                ranges,
                visible,
                done_before: Some(Arc::new(LayerBlocks::new(Arc::clone(frozen), staged))),
            });
        }
    }
    Ok(changed)
}
