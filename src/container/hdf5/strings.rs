//! Strings of variable length, shown as text: each value and a line feed.
//!
//! The elements are an array of their own, which the machinery of `dataset` reads; each points into the
//! global heap. Values are shown as long as they are stored: what follows a NUL within is not cut. The
//! shown size takes one pass over the elements, made when it is first asked for; blocks are cut by
//! number of strings and by bytes. Used by `dataset`.

pub(super) mod compact;
pub(super) mod heap;

use std::ops::Range;
use std::sync::OnceLock;

use super::element::Element;
use super::index::Datatype;
use crate::array::dtype::Dtype;
use crate::array::nested::NestedArray;
use crate::array::{Array, BlockId, Info, Piece, uneven_pieces};
use crate::error::{Fault, Result};
use crate::memory::Scratch;
use heap::{Heap, Reference};

/// Strings of a block at most, and read at once.
const STRINGS: u64 = 4096;

/// Bytes of a block at most, unless one string has more.
const BLOCK: u64 = 256 << 10;

/// Longest string, in bytes: a block is decoded in one piece.
const LONGEST: u64 = 256 << 20;

/// Most strings and most bytes of text.
const MOST: u64 = 1 << 34;

/// So many strings may be there whatever the size of the file: nothing need be stored of empty ones.
const ALWAYS: u64 = 1 << 27;

pub(super) struct Strings {
    name: String,
    heap: Heap,
    elements: NestedArray,
    count: u64,
    layout: OnceLock<TextBlocks>,
}

/// What the pass over the elements found, at the start of each block and at the end.
#[derive(Default)]
struct TextBlocks {
    /// Number of the first string.
    firsts: Vec<u64>,
    /// First shown byte.
    starts: Vec<u64>,
}

/// The elements as they are stored: bytes with no meaning to the rest of the machinery.
pub(super) fn element(heap: &Heap) -> Result<Element> {
    let size = heap.element_size() as u64;
    Element::of(&Datatype::Opaque { size }).map_err(|reason| Fault::new(reason).into())
}

impl Strings {
    /// `elements`: an array of [`element`]s.
    pub(super) fn new(name: &str, heap: Heap, elements: NestedArray) -> Result<Strings> {
        let count = elements.array().info()?.bytes / heap.element_size() as u64;
        // Two bytes each is less than the densest compression leaves of different strings.
        let most = ALWAYS.max(heap.source_len().saturating_mul(2)).min(MOST);
        if count > most {
            let fault = Fault::new("more strings than the file can hold");
            return Err(fault
                .expected(format_args!("at most {most}"))
                .found(count)
                .into());
        }
        Ok(Strings {
            name: name.to_owned(),
            heap,
            elements,
            count,
            layout: OnceLock::new(),
        })
    }

    /// Two readers may scan at once; both find the same.
    fn layout(&self) -> Result<&TextBlocks> {
        if self.layout.get().is_none() {
            let _ = self.layout.set(self.scan()?);
        }
        let missing = || Fault::new("the strings were not counted").into();
        self.layout.get().ok_or_else(missing)
    }

    fn scan(&self) -> Result<TextBlocks> {
        let mut cutting = Cutting::default();
        let mut references = Vec::new();
        let mut at = 0;
        while at < self.count {
            let next = at.saturating_add(STRINGS).min(self.count);
            self.references(at..next, &mut references)?;
            for reference in &references {
                let len = u64::from(reference.length);
                if len > LONGEST.min(self.heap.source_len()) {
                    let fault = Fault::new(format!("string {} is too long", cutting.strings));
                    let most = LONGEST.min(self.heap.source_len());
                    return Err(fault
                        .expected(format_args!("at most {most}"))
                        .found(len)
                        .into());
                }
                cutting.add(len + 1);
            }
            if cutting.bytes > MOST {
                let fault = Fault::new("more text than can be shown").found(cutting.bytes);
                return Err(fault.expected(format_args!("at most {MOST} bytes")).into());
            }
            at = next;
        }
        Ok(cutting.finish())
    }

    /// Reads elements.
    fn references(&self, range: Range<u64>, references: &mut Vec<Reference>) -> Result<()> {
        let size = self.heap.element_size();
        // At most a block of them.
        let count = (range.end - range.start) as usize;
        let mut raw = vec![0; count * size];
        self.elements.read(range.start * size as u64, &mut raw)?;
        references.clear();
        references.extend(
            raw.chunks_exact(size)
                .map(|element| self.heap.reference(element)),
        );
        Ok(())
    }

    /// Fills in the strings, whose lengths add up with line feeds to `out`.
    fn fill(&self, references: &[Reference], out: &mut [u8]) -> Result<()> {
        let mut wanted = Vec::with_capacity(references.len());
        let mut rest = out;
        for reference in references {
            let (string, others) = rest.split_at_mut(reference.length as usize);
            if let Some((feed, others)) = others.split_first_mut() {
                *feed = b'\n';
                rest = others;
            } else {
                rest = &mut [];
            }
            if reference.length > 0 {
                wanted.push((reference, string));
            }
        }
        // Each collection is read once.
        wanted.sort_by_key(|(reference, _)| (reference.collection, reference.object));
        for group in wanted.chunk_by_mut(|(a, _), (b, _)| a.collection == b.collection) {
            let Some((first, _)) = group.first() else {
                continue;
            };
            let collection = self.heap.collection(first.collection)?;
            for (reference, string) in group {
                collection.copy(reference.object, string)?;
            }
        }
        Ok(())
    }
}

/// Strings put into blocks.
#[derive(Default)]
struct Cutting {
    layout: TextBlocks,
    strings: u64,
    bytes: u64,
}

impl Cutting {
    /// Adds a string of `len` shown bytes.
    fn add(&mut self, len: u64) {
        let first = self.layout.firsts.last().copied();
        let start = self.layout.starts.last().copied().unwrap_or(0);
        let goes_on = first.is_some_and(|first| {
            self.strings - first < STRINGS && self.bytes + len - start <= BLOCK
        });
        if !goes_on {
            self.layout.firsts.push(self.strings);
            self.layout.starts.push(self.bytes);
        }
        self.strings += 1;
        self.bytes += len;
    }

    fn finish(mut self) -> TextBlocks {
        self.layout.firsts.push(self.strings);
        self.layout.starts.push(self.bytes);
        self.layout
    }
}

impl Array for Strings {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let layout = self.layout()?;
        Ok(Info {
            dtype: Dtype::Text,
            bytes: layout.starts.last().copied().unwrap_or(0),
            blocks: layout.starts.len() as u64 - 1,
            ..self.elements.array().info()?
        })
    }

    /// Does not count the strings: that is for those who ask for their size.
    fn check_structure(&self) -> Result<()> {
        self.elements.array().check_structure()
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        uneven_pieces(&self.layout()?.starts, range, out);
        Ok(())
    }

    /// Elements, references, and a collection that is read whole.
    fn scratch(&self, _block: BlockId) -> u64 {
        const REFERENCE: u64 = 16 + 24 + 24;
        STRINGS * REFERENCE + BLOCK
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Scratch<'_>) -> Result<()> {
        let layout = self.layout()?;
        let from = usize::try_from(block.0)
            .ok()
            .and_then(|at| layout.firsts.get(at..));
        let Some(&[first, last]) = from.and_then(|from| from.first_chunk()) else {
            return Err(Fault::new("there is no such block").block(block.0).into());
        };
        let mut references = Vec::new();
        self.references(first..last, &mut references)?;
        let len = |reference: &Reference| u64::from(reference.length) + 1;
        let bytes: u64 = references.iter().map(len).sum();
        if bytes != out.len() as u64 {
            let fault = Fault::new("the strings are not as long as when they were counted");
            return Err(fault.block(block.0).expected(out.len()).found(bytes).into());
        }
        let filled = self.fill(&references, out);
        filled.map_err(|e| e.map_fault(|fault| fault.block(block.0)))
    }
}

#[cfg(test)]
mod tests;
