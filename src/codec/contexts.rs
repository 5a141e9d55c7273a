//! Contexts of the compression libraries, kept from one stream to the next.
//!
//! The libraries allocate them by themselves. A decoder has one size that no file decides:
//! libdeflate's 12 KiB, zstd's 160 KiB. An encoder's depends on the level, and zstd's on the bytes
//! it was given ([`encoders`]): large ones are not kept. So many are kept as chunks were decoded or
//! encoded at once. Used by the filters of HDF5, and for Blosc chunks.

mod encoders;

pub(super) use encoders::{EncoderContexts, KEPT_ZSTD};

use crate::sync::{Mutex, MutexGuard};

use libdeflater::Decompressor as Deflate;
use zstd::bulk::Decompressor as Zstd;

use super::blosc;
use crate::error::Result;
use crate::memory::no_memory;

/// More are not kept: threads that decode are few.
const KEPT: usize = 64;

static IDLE: Mutex<Vec<Contexts>> = Mutex::new(Vec::new());

/// One of each kind, made when it is first used.
#[derive(Default)]
pub(super) struct Contexts {
    deflate: Option<Deflate>,
    zstd: Option<Zstd<'static>>,
    pub(super) blosc: blosc::Decoder,
    pub(super) blosc_encoder: blosc::encode::Encoder,
    pub(super) encoders: EncoderContexts,
}

impl Contexts {
    /// Lends the contexts that were used last, or new ones.
    pub(crate) fn lend<T>(work: impl FnOnce(&mut Contexts) -> T) -> T {
        let mut contexts = idle().pop().unwrap_or_default();
        let done = work(&mut contexts);
        contexts.encoders.shrink();
        contexts.blosc_encoder.shrink();
        let mut idle = idle();
        if idle.len() < KEPT && idle.try_reserve(1).is_ok() {
            idle.push(contexts);
        }
        done
    }

    pub(super) fn deflate(&mut self) -> &mut Deflate {
        self.deflate.get_or_insert_with(Deflate::new)
    }

    pub(super) fn zstd(&mut self) -> Result<&mut Zstd<'static>> {
        match &mut self.zstd {
            Some(context) => Ok(context),
            none => {
                let made = Zstd::new();
                Ok(none.insert(made.map_err(|_| no_memory("cannot make a zstd decoder"))?))
            }
        }
    }
}

fn idle() -> MutexGuard<'static, Vec<Contexts>> {
    IDLE.lock()
}
