//! What a close would have to wait for, done while the program writes on, by threads of their own:
//! whole blocks are encoded, and where the close is going to log what is staged, it is logged.
//!
//! No request waits for it and nothing depends on it: a block that is not taken up, for want of a
//! thread or of memory, is encoded by the commit. A later write to a block drops its encoded form
//! ([`Layer::encoded`]). Used by [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::{ArrayWriter, LayeredContainer};
use crate::array::chunking::{ChunkId, Chunking};
use crate::array::stored_run::StoredRun;
use crate::container::inside::{ArrayAddress, ContainerNumber};
use crate::container::writable::{ChangedArray, DoneBefore, WritableContainer};
use crate::error::Result;
use crate::live::ground::Ground;
use crate::live::shown::entry_table::ArrayNumber;
use crate::memory::budget::Budget;
use crate::stage::{Layer, LayerMemory, WrittenArray};

/// So much is logged at once, before the close.
const LOGGED_AT_ONCE: u64 = if cfg!(test) { 16 << 10 } else { 8 << 20 };

/// A block of an array, as a layer has it.
struct EncodeTask {
    container: Arc<LayeredContainer>,
    memory: Arc<LayerMemory>,
    budget: Arc<Budget>,
    layer: Arc<Layer>,
    number_in_file: ArrayNumber,
    part: ContainerNumber,
    array: WrittenArray,
    blocks: Arc<dyn Chunking>,
    number: u64,
}

/// What a layer has of an array that was done before the commit.
pub(crate) struct LayerBlocks {
    layer: Arc<Layer>,
    array: WrittenArray,
}

impl LayerBlocks {
    pub(crate) fn new(layer: Arc<Layer>, array: WrittenArray) -> LayerBlocks {
        LayerBlocks { layer, array }
    }
}

impl DoneBefore for LayerBlocks {
    fn take(&self, block: ChunkId, take: &mut dyn FnMut(&[u8])) -> bool {
        let encoded = self.layer.encoded(self.array, block);
        encoded.inspect(|block| take(block.bytes())).is_some()
    }

    fn run(&self) -> Option<StoredRun> {
        self.layer.run(self.array)
    }

    fn lying(&self, run: &StoredRun, range: &Range<u64>) -> Option<Range<u64>> {
        self.layer.lying(self.array, run, range)
    }
}

impl EncodeTask {
    fn run(&self) -> Result<()> {
        let block = ChunkId {
            shape: self.blocks.shape(),
            number: self.number,
        };
        let Some(ticket) = self.layer.begin_encoding(self.array, block) else {
            return Ok(());
        };
        let encoded = self.encode(block);
        let (bytes, failed) = match encoded {
            Ok(bytes) => (bytes, Ok(())),
            Err(e) => (None, Err(e)),
        };
        let encoded = bytes.and_then(|bytes| self.memory.encoded(bytes));
        self.layer.end_encoding(self.array, block, ticket, encoded);
        failed
    }

    /// The block is wholly in this layer: the array below does not matter.
    fn encode(&self, block: ChunkId) -> Result<Option<Vec<u8>>> {
        let mut ranges = Vec::new();
        self.blocks
            .ranges(self.number..self.number + 1, 0, &mut ranges);
        let layers = vec![Arc::clone(&self.layer)];
        let changed = ChangedArray {
            container: self.part,
            shown: self.container.overlay(self.number_in_file, layers)?,
            len: self.layer.len(self.array),
            ranges: ranges.into_iter().map(|range| range.from).collect(),
            visible: self.layer.visible(self.array),
            done_before: None,
        };
        let writable = self.container.writable();
        writable.encode_block(&changed, block, &self.budget)
    }
}

/// Work that is done before a close would have to wait for it.
pub(crate) struct BeforeClose {
    pub(crate) ground: Arc<Ground>,
    pub(crate) memory: Option<Arc<LayerMemory>>,
}

impl BeforeClose {
    /// Has what is staged logged, if the container's commits are put off: then the close does it.
    pub(crate) fn log(&self, writer: &ArrayWriter, written: u64) {
        let is_put_off = || {
            writer
                .version
                .writes
                .outcome
                .rests(&self.ground.settings.pacing)
        };
        if !writer.counts_to(LOGGED_AT_ONCE, written) || !is_put_off() {
            return;
        }
        let container = Arc::clone(&writer.container);
        let log = move || {
            if let Err(e) = container.stage.log_all() {
                log::debug!("what is staged cannot be logged before the close: {e}");
            }
        };
        self.ground.order(log);
    }

    /// Has the blocks encoded that a write has completed, or come to the end of once more.
    pub(crate) fn encode(&self, writer: &ArrayWriter, written: Range<u64>) {
        let Some(memory) = &self.memory else {
            return;
        };
        if memory.wants_slabs() {
            let memory = Arc::clone(memory);
            self.ground.order(move || memory.prepare());
        }
        let Some(layer) = writer.stage().layers().into_iter().next() else {
            return;
        };
        let len = layer.len(writer.array);
        let ask = |writable: &dyn WritableContainer, address: ArrayAddress<'_>| {
            let blocks = writable.blocks_ahead(address, len)?;
            Some((address.container, blocks))
        };
        let Ok(Some((part, blocks))) = writer.container.ask(writer.number, ask) else {
            return;
        };
        for number in layer.complete(writer.array, &blocks, &written) {
            let task = EncodeTask {
                container: Arc::clone(&writer.container),
                memory: Arc::clone(memory),
                budget: Arc::clone(self.ground.budget()),
                layer: Arc::clone(&layer),
                number_in_file: writer.number,
                part,
                array: writer.array,
                blocks: Arc::clone(&blocks),
                number,
            };
            let encode = move || {
                if let Err(e) = task.run() {
                    log::debug!("a block cannot be encoded ahead: {e}");
                }
            };
            if !self.ground.order(encode) {
                return;
            }
        }
    }
}
