//! Reads an array from its first element to its last, for checks: whole numbers as 64-bit integers.
//!
//! Goes around the block cache, which is for bytes that somebody will ask for again: every block is decoded
//! once, into a buffer of the reader's own. That holds for arrays whose blocks follow each other (every
//! array of one dimension); others are read correctly, but their blocks more than once.
//! Used by the full checks of `container`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::dtype::Dtype;
use super::{Array, BlockId, Piece};
use crate::error::{Error, Fault, Result};
use crate::memory::scratch::Region;

/// Pieces are asked for this many bytes at a time: small blocks make many of them.
const PLAN: u64 = 256 << 10;

/// Bytes that are converted at a time; a multiple of every element size.
const STEP: usize = 32 << 10;

/// How whole numbers are stored, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Number {
    /// 1, 2, 4 or 8 bytes.
    pub(crate) size: usize,
    pub(crate) signed: bool,
}

impl Number {
    /// None for types that are not whole numbers (or booleans, which count as such).
    pub(crate) fn of(dtype: &Dtype) -> Option<Number> {
        let (size, signed) = match &*dtype.name() {
            "uint8" | "bool" => (1, false),
            "uint16" => (2, false),
            "uint32" => (4, false),
            "uint64" => (8, false),
            "int8" => (1, true),
            "int16" => (2, true),
            "int32" => (4, true),
            "int64" => (8, true),
            _ => return None,
        };
        Some(Number { size, signed })
    }

    /// Converts `raw`, whole elements; negative numbers get their sign extended.
    fn widen(self, raw: &[u8], out: &mut [u64]) {
        macro_rules! each {
            ($of:ty) => {
                for (out, raw) in out.iter_mut().zip(raw.chunks_exact(size_of::<$of>())) {
                    let mut element = [0; size_of::<$of>()];
                    element.copy_from_slice(raw);
                    *out = <$of>::from_le_bytes(element) as u64;
                }
            };
        }
        match (self.size, self.signed) {
            (1, false) => each!(u8),
            (2, false) => each!(u16),
            (4, false) => each!(u32),
            (1, true) => each!(i8),
            (2, true) => each!(i16),
            (4, true) => each!(i32),
            _ => each!(u64),
        }
    }
}

/// The reader. Memory: one decoded block and the pieces of [`PLAN`] bytes.
pub(crate) struct Sequential {
    array: Arc<dyn Array>,
    number: Number,
    /// Bytes of whole elements.
    bytes: u64,
    /// Bytes for which pieces were asked.
    planned: u64,
    pieces: VecDeque<Piece>,
    /// The block in `decoded`.
    held: Option<BlockId>,
    decoded: Vec<u8>,
    region: Region,
    raw: Vec<u8>,
    /// Elements not handed out yet.
    left: u64,
}

impl Sequential {
    /// Starts before the first element; a fault if the array is not one of whole numbers.
    pub(crate) fn new(array: Arc<dyn Array>) -> Result<Self> {
        let info = array.info()?;
        let number = Number::of(&info.dtype).ok_or_else(|| {
            let fault = Fault::new("not an array of whole numbers").array(array.name());
            fault.found(info.dtype.name())
        })?;
        let left = info.bytes / number.size as u64;
        Ok(Sequential {
            array,
            number,
            bytes: left * number.size as u64,
            planned: 0,
            pieces: VecDeque::new(),
            held: None,
            decoded: Vec::new(),
            region: Region::default(),
            raw: Vec::new(),
            left,
        })
    }

    pub(crate) fn number(&self) -> Number {
        self.number
    }

    /// The next elements, as many as `out` takes, less only at the end. Signed numbers are sign-extended:
    /// a negative one reads as 2^63 or more (`as i64` gives it back). After an error the reader is of no
    /// further use. Errors carry the array's name.
    pub(crate) fn read(&mut self, out: &mut [u64]) -> Result<usize> {
        let n = usize::try_from(self.left).map_or(out.len(), |left| left.min(out.len()));
        let mut raw = std::mem::take(&mut self.raw);
        raw.resize(STEP, 0);
        for out in out[..n].chunks_mut(STEP / self.number.size) {
            let raw = &mut raw[..out.len() * self.number.size];
            self.fill(raw)
                .map_err(|e| e.map_fault(|fault| fault.array(self.array.name())))?;
            self.number.widen(raw, out);
        }
        self.raw = raw;
        self.left -= n as u64;
        Ok(n)
    }

    /// The next bytes, all of `out`.
    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let piece = self.next_piece()?;
            let most = (out.len() - done) as u64;
            let n = piece.take().min(most);
            let (now, rest) = split(piece, n);
            self.copy(now, &mut out[done..done + n as usize])?;
            if let Some(rest) = rest {
                self.pieces.push_front(rest);
            }
            done += n as usize;
        }
        Ok(())
    }

    fn next_piece(&mut self) -> Result<Piece> {
        loop {
            match self.pieces.pop_front() {
                Some(piece) if piece.take() == 0 => {}
                Some(piece) => return Ok(piece),
                None => self.plan()?,
            }
        }
    }

    fn plan(&mut self) -> Result<()> {
        let end = self.bytes.min(self.planned.saturating_add(PLAN));
        let mut pieces = Vec::new();
        self.array.pieces(self.planned..end, &mut pieces)?;
        let covered: u64 = pieces.iter().map(Piece::take).sum();
        if covered == 0 || covered != end - self.planned {
            let fault = Fault::new("the blocks of the array do not cover it");
            return Err(fault.expected(end - self.planned).found(covered).into());
        }
        self.planned = end;
        self.pieces = pieces.into();
        Ok(())
    }

    fn copy(&mut self, piece: Piece, out: &mut [u8]) -> Result<()> {
        let (id, block_len, skip) = match piece {
            Piece::Direct { at, .. } => return self.array.read_direct(at, out),
            Piece::Block {
                id,
                block_len,
                skip,
                ..
            } => (id, block_len, skip),
        };
        if self.held != Some(id) {
            self.held = None;
            resize(&mut self.decoded, block_len)?;
            let scratch = self.region.scratch(self.array.scratch(id))?;
            self.array.decode(id, &mut self.decoded, scratch)?;
            self.held = Some(id);
        }
        let part = usize::try_from(skip)
            .ok()
            .and_then(|skip| self.decoded.get(skip..)?.get(..out.len()));
        let short = || Fault::new("the block is shorter than the array needs").block(id.0);
        out.copy_from_slice(part.ok_or_else(short)?);
        Ok(())
    }
}

/// The first `n` bytes of a piece and the rest.
fn split(piece: Piece, n: u64) -> (Piece, Option<Piece>) {
    let (mut now, mut rest) = (piece, piece);
    match (&mut now, &mut rest) {
        (Piece::Direct { take: now, .. }, Piece::Direct { at, take }) => {
            (*now, *at, *take) = (n, *at + n, *take - n);
        }
        (Piece::Block { take: now, .. }, Piece::Block { skip, take, .. }) => {
            (*now, *skip, *take) = (n, *skip + n, *take - n);
        }
        _ => {}
    }
    (now, (rest.take() > 0).then_some(rest))
}

/// Makes room for a block, or says that there is none.
fn resize(buffer: &mut Vec<u8>, len: u64) -> Result<()> {
    let no_room = || Error::io("cannot decode a block", std::io::ErrorKind::OutOfMemory);
    let len = usize::try_from(len).map_err(|_| no_room())?;
    buffer
        .try_reserve(len.saturating_sub(buffer.len()))
        .map_err(|_| no_room())?;
    buffer.resize(len, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::array::{Info, Order};
    use crate::memory::Scratch;
    use proptest::prelude::*;

    /// Bytes in blocks up to `plain`, direct behind; counts its decodes.
    struct Bytes {
        dtype: Dtype,
        bytes: Vec<u8>,
        block_len: u64,
        plain: u64,
        decodes: AtomicU64,
    }

    impl Array for Bytes {
        fn name(&self) -> &str {
            "bytes"
        }

        fn info(&self) -> Result<Info> {
            Ok(Info {
                dtype: self.dtype.clone(),
                shape: vec![self.bytes.len() as u64],
                order: Order::C,
                bytes: self.bytes.len() as u64,
                stored_bytes: 0,
                blocks: 0,
                codec: "none".into(),
            })
        }

        fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
            let blocks = range.start..range.end.min(self.plain);
            crate::array::even_pieces(self.plain, self.block_len, blocks, out);
            let at = range.start.max(self.plain);
            if at < range.end {
                let take = range.end - at;
                out.push(Piece::Direct { at, take });
            }
            Ok(())
        }

        fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Scratch<'_>) -> Result<()> {
            self.decodes.fetch_add(1, Ordering::Relaxed);
            self.read_direct(block.0 * self.block_len, out)
        }

        fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
            let stored = &self.bytes[at as usize..][..out.len()];
            out.copy_from_slice(stored);
            Ok(())
        }
    }

    fn all(array: Arc<dyn Array>, step: usize) -> Vec<u64> {
        let mut reader = Sequential::new(array).unwrap();
        let mut all = Vec::new();
        let mut buffer = vec![0; step];
        loop {
            let n = reader.read(&mut buffer).unwrap();
            all.extend(&buffer[..n]);
            if n < step {
                return all;
            }
        }
    }

    #[test]
    fn negative_numbers_keep_their_sign() {
        for (descr, size) in [("|i1", 1), ("<i2", 2), ("<i4", 4), ("<i8", 8)] {
            let array = Bytes {
                dtype: Dtype::numpy(descr, size),
                bytes: [vec![0xfe], vec![0xff; size as usize - 1]].concat(),
                block_len: 1,
                plain: 0,
                decodes: AtomicU64::new(0),
            };
            assert_eq!(all(Arc::new(array), 5), [-2i64 as u64]);
        }
    }

    #[test]
    fn text_and_floats_are_refused() {
        for dtype in [Dtype::Text, Dtype::F32, Dtype::numpy("|S1", 1)] {
            assert_eq!(Number::of(&dtype), None);
        }
    }

    proptest! {
        #[test]
        fn every_element_is_read_once_and_every_block_decoded_once(
            numbers in proptest::collection::vec(any::<u64>(), 0..40_000),
            wide in any::<bool>(),
            block_len in 100u64..60_000,
            plain in 0u64..400_000,
            step in 1usize..20_000,
        ) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            let plain = plain.min(bytes.len() as u64);
            let dtype = if wide { Dtype::U64 } else { Dtype::numpy("<u2", 2) };
            let expected: Vec<u64> = match wide {
                true => numbers,
                false => bytes
                    .chunks(2)
                    .map(|e| u64::from(u16::from_le_bytes([e[0], e[1]])))
                    .collect(),
            };
            let decodes = AtomicU64::new(0);
            let array = Arc::new(Bytes { dtype, bytes, block_len, plain, decodes });
            prop_assert_eq!(all(array.clone(), step), expected);
            let decodes = array.decodes.load(Ordering::Relaxed);
            prop_assert_eq!(decodes, plain.div_ceil(block_len));
        }
    }
}
