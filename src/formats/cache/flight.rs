//! One decode per block: the first reader decodes, the others wait for its outcome.
//!
//! A [`Landing`] is the duty to deliver: dropped without an outcome (the decoder panicked), it
//! delivers an error, so that no thread waits forever.

use std::sync::Arc;

use super::BlockKey;
use super::shard::Shard;
use crate::error::{Fault, Result};
use crate::memory::block::Block;
use crate::sync::{Condvar, Mutex};

/// A decode under way.
#[derive(Default)]
pub(super) struct Flight {
    outcome: Mutex<Option<Result<Arc<Block>>>>,
    landed: Condvar,
}

impl Flight {
    pub(super) fn wait(&self) -> Result<Arc<Block>> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => self.landed.wait(&mut outcome),
            }
        }
    }

    fn deliver(&self, outcome: Result<Arc<Block>>) {
        *self.outcome.lock() = Some(outcome);
        self.landed.notify_all();
    }
}

/// The decoding thread's end of a flight.
pub(super) struct Landing<'a> {
    shard: &'a Shard,
    key: BlockKey,
    flight: Arc<Flight>,
    landed: bool,
}

impl<'a> Landing<'a> {
    pub(super) fn new(shard: &'a Shard, key: BlockKey, flight: Arc<Flight>) -> Self {
        Landing {
            shard,
            key,
            flight,
            landed: false,
        }
    }

    /// Puts a good block into the cache and wakes all threads that wait for it.
    pub(super) fn land(mut self, key: BlockKey, outcome: Result<Arc<Block>>) -> Result<Arc<Block>> {
        self.landed = true;
        self.shard.land(key, outcome.as_ref().ok());
        self.flight.deliver(outcome.clone());
        outcome
    }
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if !self.landed {
            self.shard.land(self.key, None);
            self.flight
                .deliver(Err(Fault::new("the decoder gave up").into()));
        }
    }
}
