//! Where the log of a container lies, as the stage asks for it.
//!
//! The place is remembered until something is moved. Used by [`super::staged`].

use std::path::PathBuf;
use std::sync::Arc;

use super::ground::Ground;
use super::places::ContainerId;
use crate::commit::recovery::spot_at;
use crate::container::Recognised;
use crate::error::{Error, Result};
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
    ground: Arc<Ground>,
    /// Where it was, after how many moves, by which path.
    known: Mutex<Option<KnownSpot>>,
}

impl ContainerPlace {
    pub(crate) fn new(
        ground: &Arc<Ground>,
        id: ContainerId,
        recognised: &Recognised,
    ) -> Arc<dyn LogPlace> {
        Arc::new(ContainerPlace {
            id,
            recognised: recognised.clone(),
            ground: Arc::clone(ground),
            known: Mutex::default(),
        })
    }
}

impl LogPlace for ContainerPlace {
    fn spot(&self) -> Result<LogSpot> {
        // Before the path is looked at, which may be an old one.
        let moves = self.ground.places.moves();
        let looked_up = self.ground.places.known_path(self.id)?;
        let known = self.known.lock();
        if let Some(known) = &*known
            && (known.moves, &known.path) == (moves, &looked_up)
        {
            return Ok(known.spot.clone());
        }
        drop(known);
        let disk = self.ground.disk.as_ref().ok_or(Error::ReadOnly)?;
        let (disk, store) = (Arc::clone(disk), Arc::clone(&self.ground.store));
        let spot = spot_at(
            &self.recognised,
            disk,
            store,
            &self.ground.places.path(self.id)?,
        )?;
        let mut known = self.known.lock();
        *known = Some(KnownSpot {
            moves,
            path: looked_up,
            spot: spot.clone(),
        });
        Ok(spot)
    }

    fn pinned(&self) -> Result<PinnedSpot<'_>> {
        let pin = Some(self.ground.places.pin());
        self.spot().map(|spot| PinnedSpot::new(spot, pin))
    }

    fn try_pinned(&self) -> Option<Result<PinnedSpot<'_>>> {
        let pin = Some(self.ground.places.try_pin()?);
        Some(self.spot().map(|spot| PinnedSpot::new(spot, pin)))
    }

    fn retry(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.ground.places.retry_briefly(work)
    }

    fn owner_changed(&self) {
        *self.known.lock() = None;
    }
}
