//! An opened container after a commit that has left all its entries as they were: these are shared
//! with the container before, and so is every array but those that have changed.

use std::path::PathBuf;
use std::sync::Arc;

use super::{KeptDescription, OpenContainer, OpenPart};
use crate::array::Array;
use crate::cache::VersionId;
use crate::container::Container;
use crate::container::inside::Located;
use crate::container::writable::OtherArray;
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::memory::set_aside;

/// What an array takes here, and in its format's lists, that is not shared.
const LISTED: usize = size_of::<Located>() + 4 * size_of::<Arc<dyn Array>>();

impl OpenContainer {
    /// This container with an outermost one of which these arrays are others; `stored`: the
    /// bytes of its file.
    pub(crate) fn succeeded(
        &self,
        (path, blocks): (PathBuf, VersionId),
        (container, changed): (Container, &[OtherArray]),
        stored: Option<u64>,
        budget: &Arc<Budget>,
    ) -> Result<OpenContainer> {
        let charge = budget.keep_built(self.weight as u64);
        let room = (LISTED * self.arrays.len()) as u64;
        set_aside(room, "cannot open a container", || {
            let mut arrays = self.arrays.clone();
            for (number, array) in changed {
                // Those of the outermost container come first.
                if let Some(located) = arrays.get_mut(*number) {
                    located.array = Arc::clone(array);
                }
            }
            let outermost = OpenPart::new(("".into(), Arc::new(container)));
            let others = self.parts.iter().skip(1);
            let others = others.map(|part| OpenPart::new(("".into(), Arc::clone(&part.container))));
            OpenContainer {
                blocks,
                path,
                layout: self.layout,
                tombstones: Arc::clone(&self.tombstones),
                parts: std::iter::once(outermost).chain(others).collect(),
                arrays,
                entries: Arc::clone(&self.entries),
                group_texts: KeptDescription::default(),
                stored: stored.unwrap_or(0),
                weight: self.weight,
                _charge: charge,
            }
        })
    }
}
