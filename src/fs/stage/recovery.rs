//! A stage made of what a log holds.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::layer::Layer;
use super::log::{LogState, LogWriter, Record};
use super::next_file::NextFile;
use super::place::LogPlace;
use super::slab::LayerMemory;
use super::staging::{LayerPair, OpenLog, Stage};
use crate::error::Result;

impl Stage {
    /// Goes on with a log that was read ([`super::read_log`]). If a commit was under way, its layer
    /// is frozen: the recovery finds out how it ended and calls [`Stage::committed`] or
    /// [`Stage::unfreeze`].
    pub fn recover(
        place: Arc<dyn LogPlace>,
        found: &LogState,
        memory: Arc<LayerMemory>,
    ) -> Result<Arc<Stage>> {
        let writer = LogWriter::resume(&place, found)?;
        let resumed = |next| NextFile::resume(&place.spot()?, next);
        let next = found.next().map(resumed).transpose()?;
        let open = |layer: &super::log::FoundLayer| {
            let layer = layer.open(writer.bytes(), next.clone());
            if let Some(charge) = memory.charge_found(layer.uncharged()) {
                layer.add_charge(charge);
            }
            Arc::new(layer)
        };
        let mut layers: Vec<Arc<Layer>> = found.found_layers().iter().map(open).collect();
        let lens: Vec<u64> = found.arrays().iter().map(|array| array.len).collect();
        let nothing = || Arc::new(Layer::new(1, &lens, Some(writer.bytes())));
        let active = layers.pop().unwrap_or_else(nothing);
        // What was begun and never sealed, or never said in full, is void, whatever comes next.
        let pending = found.pending().is_some();
        let unsealed = !pending && found.is_begun();
        let layer = active.number();
        let unsealed = unsealed.then_some(Record::Thawed { layer }).into_iter();
        let partial = found.partial().map(|array| Record::TakenBack { array });
        let void = unsealed.chain(partial).collect();
        let layers = LayerPair {
            active,
            frozen: layers.pop(),
        };
        let log = OpenLog {
            place,
            base: found.base().clone(),
            arrays: found.arrays().to_vec(),
            arrays_logged: found.arrays().len(),
            provisional: Vec::new(),
            deferred: void,
            commit_logged: pending,
            short_until: 0,
            may_return: false,
            could_be_made: None,
            has_next: found.next().is_some(),
            has_log: Arc::new(AtomicBool::new(true)),
            writer: Some(writer),
        };
        // A copy keeps it, too.
        let seen = found.file().filter(|_| !found.is_clean());
        let last_write = seen.map(|file| file.mtime);
        Ok(Stage::assembled(log, layers, memory, last_write))
    }
}
