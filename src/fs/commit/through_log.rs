//! Opening a container as its log shows it, for reading alone.
//!
//! A commit that was under way is read as if it were done, and staged bytes lie over the arrays.
//! Nothing is changed, and no lock is taken. Used by `live`, where a log cannot be recovered, and
//! by the commands that only read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::found_logs::{LogBeside, logs_at};
use super::recovery::Leftover;
use crate::array::{Array, Info};
use crate::container::inside::{ArrayAddress, ContainerNumber, join};
use crate::container::restated::restate;
use crate::container::writable::{ChangedArray, WritableContainer};
use crate::container::{Container, Recognised};
use crate::error::Result;
use crate::memory::budget::Budget;
use crate::source::Store;
use crate::source::wrapping::WrappingStore;
use crate::stage::{Layer, LogState, LoggedArray, Overlay, WrittenArray};

/// Opens a container as its log shows it, and says whether the log has something staged.
pub fn open_through(
    recognised: &Recognised,
    store: &Arc<dyn Store>,
    path: &Path,
    budget: &Arc<Budget>,
) -> Result<(Container, bool)> {
    let Some(left) = own_log(recognised, store, path).map(Arc::new) else {
        return Ok((recognised.open(store, path, budget)?, false));
    };
    // The bytes by which the container is recognised may be half changed.
    let recognised = &Recognised {
        damage: None,
        ..recognised.clone()
    };
    let through = through_log(store, &left, files_of(recognised, path));
    let mut container = recognised.open(&through, path, budget)?;
    let layers = left.layers();
    if layers.is_empty() {
        return Ok((container, left.is_half_done()));
    }
    let changed = Overlaid::new(&left.state, layers).lay_over(&mut container)?;
    // The arrays are shown all the same.
    if let Err(e) = restate(&mut container, &changed, budget) {
        log::warn!("{}: {e}", store.display(path).display());
    }
    Ok((container, true))
}

/// The log that is the container's; others are reported.
fn own_log(recognised: &Recognised, store: &Arc<dyn Store>, path: &Path) -> Option<Leftover> {
    match logs_at(recognised, &**store, path) {
        Ok(logs) => {
            let (own, others) = logs.own();
            for other in others {
                if let LogBeside::Foreign(e) | LogBeside::Unreadable(e) = other {
                    log::warn!("{}", e.told_of(&store.display(path), ""));
                }
            }
            own
        }
        Err(e) => {
            log::warn!("{}", e.told_of(&store.display(path), ""));
            None
        }
    }
}

/// A store in which the files of a container are read through its log: these, and their names in
/// the log.
fn through_log(
    store: &Arc<dyn Store>,
    left: &Arc<Leftover>,
    of: Vec<(PathBuf, &'static str)>,
) -> Arc<dyn Store> {
    let (left, below) = (Arc::clone(left), Arc::clone(store));
    Arc::new(WrappingStore::new(store, move |path, source| {
        match of.iter().find(|(of, _)| of == path) {
            Some((_, name)) => left.source(&*below, (path, name), source),
            None => source,
        }
    }))
}

/// The paths of a container's files, and what logs call them.
fn files_of(recognised: &Recognised, path: &Path) -> Vec<(PathBuf, &'static str)> {
    let names = recognised.layout().file_names();
    let files = recognised.files(path).into_iter();
    files.zip(names.iter().copied()).collect()
}

/// The layers of the arrays of a file.
struct Overlaid {
    layers: Vec<Arc<Layer>>,
    /// By their paths.
    arrays: HashMap<String, WrittenArray>,
}

impl Overlaid {
    fn new(state: &LogState, layers: Vec<Arc<Layer>>) -> Overlaid {
        let named = |(array, number): (&LoggedArray, u32)| {
            let number = WrittenArray(number);
            // An array that follows from others may be longer or shorter than the log says.
            let is_left = layers.iter().all(|layer| layer.leaves(number));
            (!is_left).then(|| (array.path.clone(), number))
        };
        let arrays = state.arrays().iter().zip(0..).filter_map(named).collect();
        Overlaid { layers, arrays }
    }

    /// Has arrays show their staged bytes, and says which.
    fn lay_over(&self, container: &mut Container) -> Result<Vec<ChangedArray>> {
        let (writable, mut changed) = (container.writable.clone(), Vec::new());
        let further = container.further_names.clone();
        container.visit_mut(&mut |number, group, container| {
            let written = container.arrays.iter_mut().chain(&mut container.lines);
            for array in written {
                let path = join(group, array.name());
                // Of an array of which this is a further name.
                let first = further.get(&path);
                let Some(&staged) = self.arrays.get(first.unwrap_or(&path)) else {
                    continue;
                };
                *array = self.overlay(Arc::clone(array), (number, staged), writable.clone());
                if first.is_some() {
                    continue;
                }
                let len = self.layers.first().map_or(0, |top| top.len(staged));
                changed.push(ChangedArray {
                    container: number,
                    shown: Arc::clone(array),
                    len,
                    ranges: std::iter::once(0..len).collect(),
                    visible: 0,
                    done_before: None,
                });
            }
            Ok(())
        })?;
        Ok(changed)
    }

    fn overlay(
        &self,
        array: Arc<dyn Array>,
        (container, staged): (ContainerNumber, WrittenArray),
        writable: Option<Arc<dyn WritableContainer>>,
    ) -> Arc<dyn Array> {
        let name = array.name().to_owned();
        let overlay = Overlay::new(array, self.layers.clone(), staged);
        let reshape = move |info: &Info, len: u64| {
            let name = &*name;
            let address = ArrayAddress { container, name };
            let reshaped = writable
                .as_ref()
                .and_then(|writable| writable.info(address, len).ok());
            reshaped.unwrap_or_else(|| info.clone())
        };
        Arc::new(overlay.reshaped(Arc::new(reshape)))
    }
}
