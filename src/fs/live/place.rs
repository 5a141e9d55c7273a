//! Where the log of a container lies, as the stage asks for it.
//!
//! The place is remembered until something is moved. Used by [`super::writing`].

use std::path::PathBuf;
use std::sync::Arc;

use super::ground::Ground;
use super::places::{ContainerId, Places};
use crate::commit::recovery::spot_at;
use crate::container::Recognised;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::source::Store;
use crate::stage::{LogPlace, LogSpot, PinnedSpot};
use crate::sync::Mutex;

/// A place that was found out.
struct KnownSpot {
    moves: u64,
    /// As it was looked up: others may move it, too.
    path: PathBuf,
    spot: LogSpot,
}

/// Where the log of a container lies, whatever is moved.
pub(crate) struct ContainerPlace {
    id: ContainerId,
    recognised: Recognised,
    places: Arc<dyn Places>,
    store: Arc<dyn Store>,
    disk: Arc<dyn Disk>,
    /// Where it was, after how many moves, by which path.
    known: Mutex<Option<KnownSpot>>,
}

impl ContainerPlace {
    pub(crate) fn of(
        ground: &Ground,
        id: ContainerId,
        recognised: &Recognised,
    ) -> Result<Arc<dyn LogPlace>> {
        Ok(Arc::new(ContainerPlace {
            id,
            recognised: recognised.clone(),
            places: Arc::clone(&ground.places),
            store: Arc::clone(&ground.store),
            disk: Arc::clone(ground.disk.as_ref().ok_or(Error::ReadOnly)?),
            known: Mutex::default(),
        }))
    }
}

impl LogPlace for ContainerPlace {
    fn spot(&self) -> Result<LogSpot> {
        // Before the path is looked at, which may be an old one.
        let moves = self.places.moves();
        let looked_up = self.places.known_path(self.id)?;
        let known = self.known.lock();
        if let Some(known) = &*known
            && (known.moves, &known.path) == (moves, &looked_up)
        {
            return Ok(known.spot.clone());
        }
        drop(known);
        let (disk, store) = (Arc::clone(&self.disk), Arc::clone(&self.store));
        let spot = spot_at(&self.recognised, disk, store, &self.places.path(self.id)?)?;
        let mut known = self.known.lock();
        *known = Some(KnownSpot {
            moves,
            path: looked_up,
            spot: spot.clone(),
        });
        Ok(spot)
    }

    fn pinned(&self) -> Result<PinnedSpot<'_>> {
        let pin = Some(self.places.pin());
        self.spot().map(|spot| PinnedSpot::new(spot, pin))
    }

    fn try_pinned(&self) -> Option<Result<PinnedSpot<'_>>> {
        let pin = Some(self.places.try_pin()?);
        Some(self.spot().map(|spot| PinnedSpot::new(spot, pin)))
    }

    fn retry(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.places.retry_briefly(work)
    }

    fn owner_changed(&self) {
        *self.known.lock() = None;
    }
}
