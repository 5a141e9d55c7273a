//! What a commit is given: the files that were opened, the arrays that have changed, and how the files come about.
//!
//! Used by [`super::commit`], and by [`super::retyped`], whose commit changes no bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::entry_table::{ArrayNumber, ContainerNumber};
use super::super::staged::{StagedContainer, staged_array};
use super::super::version::ContainerVersion;
use super::ahead::LayerBlocks;
use crate::cache::BlockCache;
use crate::commit::SeenFile;
use crate::container::rewrite::{ChangedArray, Rewrite};
use crate::error::Result;
use crate::source::{FileIdentity, Timestamp};
use crate::stage::Layer;

/// What a commit changes, and how the container's files come about.
pub(super) struct Changes<'a> {
    pub(super) rewrite: &'a dyn Rewrite,
    pub(super) changed: &'a [ChangedArray],
    /// The layer that is committed.
    pub(super) layer: u64,
    /// The time that the files get, if not that which they have.
    pub(super) written: Option<Timestamp>,
}

/// The files of a container as they were opened, by their member numbers.
pub(super) fn seen_files(version: &ContainerVersion, path: &Path) -> Vec<SeenFile> {
    let (identity, files) = (version.identity(), version.recognised.files(path));
    let identities: Vec<_> = match identity.file() {
        Some(own) => vec![Some(own)],
        None => identity.companions().collect(),
    };
    let seen = |(path, identity): (&PathBuf, &Option<FileIdentity>)| SeenFile {
        name: path.file_name().unwrap_or_default().to_owned(),
        identity: *identity,
    };
    files.iter().zip(&identities).map(seen).collect()
}

/// The arrays of which something is staged, as they are with it.
pub(super) fn changed_arrays(
    container: &StagedContainer,
    frozen: &Arc<Layer>,
    cache: &Arc<BlockCache>,
) -> Result<Vec<ChangedArray>> {
    let base = container.base();
    let arrays = base.container(ContainerNumber(0))?.written();
    let mut changed = Vec::new();
    for (number, array) in arrays.enumerate() {
        let number = ArrayNumber(number);
        let staged = staged_array(number)?;
        let (len, ranges, visible) = (
            frozen.len(staged),
            frozen.changed(staged),
            frozen.visible(staged),
        );
        let stored = array.info()?.bytes;
        if !ranges.is_empty() || len != stored || visible < len.min(stored) {
            changed.push(ChangedArray {
                shown: container.merged(number, vec![Arc::clone(frozen)], cache)?,
                len,
                ranges,
                visible,
                ahead: Some(Arc::new(LayerBlocks::new(Arc::clone(frozen), staged))),
            });
        }
    }
    Ok(changed)
}
