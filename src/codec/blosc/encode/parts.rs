//! A chunk that is encoded without ever being held as a whole, plain or encoded: for chunks larger
//! than the memory there is.
//!
//! A chunk begins with where its blocks lie, so every block is encoded twice: once to learn that,
//! and once to be put. The bytes are those of [`Encoder::chunk`] and [`Encoder::chunk_within`].

use std::ops::Range;

use super::super::header::ChunkHeader;
use super::{ChunkPlan, ChunkSettings, EncodeError, Encoder};

/// Memory that encoding a chunk in parts takes.
#[derive(Debug, Clone, Copy)]
pub struct PartNeeds {
    /// Blocks of the chunk.
    pub blocks: usize,
    /// Bytes of a block, plain ...
    pub plain: usize,
    /// ... and encoded, ...
    pub out: usize,
    /// ... and what its encoding takes.
    pub scratch: usize,
}

/// As much of each as [`PartNeeds`] says, of any value.
pub struct PartSpace<'a> {
    pub starts: &'a mut [u32],
    pub plain: &'a mut [u8],
    pub out: &'a mut [u8],
    pub scratch: &'a mut [u8],
}

/// Gives plain bytes of a chunk.
pub type ReadPart<'a, E> = &'a mut dyn FnMut(Range<usize>, &mut [u8]) -> Result<(), E>;

impl PartNeeds {
    /// For `nbytes` plain bytes by these settings, or the highest level.
    pub fn new(settings: &ChunkSettings, nbytes: usize) -> Result<PartNeeds, EncodeError> {
        let usual = PartNeeds::of(&ChunkPlan::new(settings, nbytes)?);
        let highest = PartNeeds::of(&ChunkPlan::new(&settings.highest(), nbytes)?);
        Ok(PartNeeds {
            blocks: usual.blocks.max(highest.blocks),
            plain: usual.plain.max(highest.plain),
            out: usual.out.max(highest.out),
            scratch: usual.scratch.max(highest.scratch),
        })
    }

    fn of(plan: &ChunkPlan) -> PartNeeds {
        PartNeeds {
            blocks: plan.blocks() as usize,
            plain: plan.block_range(0).len(),
            out: plan.most_of_block(),
            scratch: plan.scratch(),
        }
    }
}

/// A chunk whose form is decided.
enum ChunkForm {
    /// Its blocks encoded, up to `end`, and zeros up to `len`.
    Encoded {
        plan: ChunkPlan,
        end: usize,
        len: usize,
    },
    Plain(ChunkPlan),
}

/// One chunk on its way.
pub struct PartEncoder<'a, E> {
    pub encoder: &'a mut Encoder,
    pub space: PartSpace<'a>,
    pub read: ReadPart<'a, E>,
}

impl<E: From<EncodeError>> PartEncoder<'_, E> {
    /// Hands a chunk of `nbytes` plain bytes to `put`, from its start to its end. `place`: what it
    /// is best to take to the last byte.
    pub fn chunk(
        &mut self,
        settings: &ChunkSettings,
        nbytes: usize,
        place: Option<usize>,
        put: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.form(settings, nbytes, place)? {
            ChunkForm::Encoded { plan, end, len } => self.put_encoded(&plan, end, len, put),
            ChunkForm::Plain(plan) => self.put_plain(&plan, put),
        }
    }

    fn form(
        &mut self,
        settings: &ChunkSettings,
        nbytes: usize,
        place: Option<usize>,
    ) -> Result<ChunkForm, E> {
        let plan = ChunkPlan::new(settings, nbytes)?;
        let Some(len) = place else {
            return self.usual_form(plan);
        };
        let whole = plan.most() == len;
        if whole && plan.stays_plain() {
            return Ok(ChunkForm::Plain(plan));
        }
        let highest = ChunkPlan::new(&settings.highest(), nbytes)?;
        for plan in [plan, highest] {
            if let Some(end) = self.lay_out(&plan, len)? {
                return Ok(ChunkForm::Encoded { plan, end, len });
            }
            if whole {
                return Ok(ChunkForm::Plain(plan));
            }
        }
        self.usual_form(highest)
    }

    fn usual_form(&mut self, plan: ChunkPlan) -> Result<ChunkForm, E> {
        if !plan.stays_plain()
            && let Some(end) = self.lay_out(&plan, plan.most())?
        {
            return Ok(ChunkForm::Encoded {
                plan,
                end,
                len: end,
            });
        }
        Ok(ChunkForm::Plain(plan))
    }

    /// Finds where each block begins and where the last one ends; none if that is behind `room`.
    fn lay_out(&mut self, plan: &ChunkPlan, room: usize) -> Result<Option<usize>, E> {
        let mut at = plan.table_end();
        if !(at..=i32::MAX as usize).contains(&room) {
            return Ok(None);
        }
        for i in 0..plan.blocks() {
            self.space.starts[i as usize] = at as u32;
            at += self.block(plan, i)?;
            if at > room {
                return Ok(None);
            }
        }
        Ok(Some(at))
    }

    /// Encodes a block and says its length.
    fn block(&mut self, plan: &ChunkPlan, i: u32) -> Result<usize, E> {
        let range = plan.block_range(i);
        let PartSpace {
            plain,
            out,
            scratch,
            ..
        } = &mut self.space;
        let plain = &mut plain[..range.len()];
        (self.read)(range, plain)?;
        let (found, expected) = (out.len(), plan.most_of_block());
        let len = self.encoder.block(plan, plain, out, scratch)?;
        Ok(len.ok_or(EncodeError::OutputSize { found, expected })?)
    }

    fn put_encoded(
        &mut self,
        plan: &ChunkPlan,
        end: usize,
        len: usize,
        put: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        put(&plan.header(len as u32, false))?;
        let blocks = plan.blocks() as usize;
        let mut starts = [[0; 4]; 1024];
        for some in self.space.starts[..blocks].chunks(starts.len()) {
            let starts = &mut starts[..some.len()];
            for (bytes, start) in starts.iter_mut().zip(some) {
                *bytes = start.to_le_bytes();
            }
            put(starts.as_flattened())?;
        }
        for i in 0..blocks {
            let found = self.block(plan, i as u32)?;
            let next = self.space.starts[..blocks].get(i + 1);
            let next = next.map_or(end, |start| *start as usize);
            // Its start has been written to the table.
            let expected = next - self.space.starts[i] as usize;
            if found != expected {
                return Err(EncodeError::BlockLength { found, expected }.into());
            }
            put(&self.space.out[..found])?;
        }
        put_zeros(len - end, put)
    }

    fn put_plain(
        &mut self,
        plan: &ChunkPlan,
        put: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        put(&plan.header((plan.nbytes() + ChunkHeader::LEN) as u32, true))?;
        for i in 0..plan.blocks() {
            let range = plan.block_range(i);
            let plain = &mut self.space.plain[..range.len()];
            (self.read)(range, plain)?;
            put(plain)?;
        }
        Ok(())
    }
}

fn put_zeros<E>(mut len: usize, put: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    static ZEROS: [u8; 4 << 10] = [0; 4 << 10];
    while len > 0 {
        let some = len.min(ZEROS.len());
        put(&ZEROS[..some])?;
        len -= some;
    }
    Ok(())
}
