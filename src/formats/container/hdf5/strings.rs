//! Strings of variable length, shown as text: each value and a line feed.
//!
//! The elements are an array of their own, which the machinery of `dataset` reads; each points into
//! the global heap. Values are shown as long as they are stored: what follows a NUL within is not
//! cut. What was never written shows the fill value, which lies nowhere on the heap: the machinery
//! fills in an element that libhdf5 never stores ([`filling`]). The shown size takes one pass over
//! the elements, made when it is first asked for; blocks are cut by number of strings and by bytes.
//! Used by `dataset`.

pub(super) mod compact;
pub(super) mod heap;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::element::Element;
use crate::array::dtype::Dtype;
use crate::array::nested::NestedArray;
use crate::array::own_feeds::{FoundFeeds, OwnFeeds};
use crate::array::{Array, BlockId, Info, Piece, uneven_pieces};
use crate::container::stored::StoredType;
use crate::error::{Fault, NotShown, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::{Arena, no_memory, room};
use crate::source::StoredRanges;
use heap::{Heap, HeapPlace, Reference};

/// Strings of a block at most.
const STRINGS: u64 = 4096;

/// Bytes of elements that are counted at a time, on the stack.
const STEP: usize = 16 << 10;

/// Blocks that there is room for at first.
const BLOCKS_LEAST: usize = 16;

/// Bytes of a block at most, unless one string has more.
const BLOCK: u64 = 256 << 10;

/// Longest string, in bytes: a block is decoded in one piece.
const LONGEST: u64 = 256 << 20;

/// Most strings and most bytes of text.
const MOST: u64 = 1 << 34;

/// So many strings may be there whatever the size of the file: nothing need be stored of empty
/// ones.
const ALWAYS: u64 = 1 << 27;

/// What stands for the address of a collection in references to the fill value.
const FILL: u64 = u64::MAX;

pub(super) struct Strings {
    name: String,
    heap: Heap,
    /// Shown where nothing was ever written.
    fill: Vec<u8>,
    /// The element that stands for it.
    filling: Option<Vec<u8>>,
    elements: NestedArray,
    count: u64,
    layout: OnceLock<TextBlocks>,
    feeds: OnceLock<FoundFeeds>,
}

/// What the pass over the elements found, at the start of each block and at the end.
#[derive(Default)]
struct TextBlocks {
    /// Number of the first string.
    firsts: Vec<u64>,
    /// First shown byte.
    starts: Vec<u64>,
    /// Strings so far, and their shown bytes.
    strings: u64,
    bytes: u64,
    /// Bytes of the heap that the strings take.
    in_heap: u64,
    /// For as many as there is room.
    charge: Option<Hold>,
}

impl TextBlocks {
    /// Adds a string of `len` shown bytes.
    fn add(&mut self, len: u64, budget: &Arc<Budget>) -> Result<()> {
        let first = self.firsts.last().copied();
        let start = self.starts.last().copied().unwrap_or(0);
        let goes_on = first.is_some_and(|first| {
            self.strings - first < STRINGS && self.bytes + len - start <= BLOCK
        });
        if !goes_on {
            self.push(budget)?;
        }
        self.strings += 1;
        self.bytes += len;
        Ok(())
    }

    /// The next string is the first of a block.
    fn push(&mut self, budget: &Arc<Budget>) -> Result<()> {
        if self.firsts.len() == self.firsts.capacity() {
            let more = self.firsts.len().max(BLOCKS_LEAST);
            let entries = (self.firsts.len() + more) as u64;
            self.charge = Some(budget.keep(entries.saturating_mul(16))?);
            let reserved = self.firsts.try_reserve_exact(more);
            let reserved = reserved.and_then(|()| self.starts.try_reserve_exact(more));
            reserved.map_err(|_| no_memory("cannot count the strings"))?;
        }
        self.firsts.push(self.strings);
        self.starts.push(self.bytes);
        Ok(())
    }

    /// Numbers of the first string of a block and of the one behind its last.
    fn strings(&self, block: BlockId) -> Option<Range<u64>> {
        let from = self.firsts.get(usize::try_from(block.0).ok()?..)?;
        let [first, last] = *from.first_chunk()?;
        Some(first..last)
    }
}

/// The elements as they are stored: bytes with no meaning to the rest of the machinery.
pub(super) fn element(heap: &Heap) -> Result<Element> {
    let size = heap.element_size() as u64;
    Element::of(&StoredType::opaque(size)).map_err(|reason| Fault::new(reason).into())
}

/// The element that stands for a value that was never written: as long as the fill value, at no
/// address, as object 0, which is no value's. None where the empty string does.
pub(super) fn filling(element_size: usize, fill: Option<&[u8]>) -> Option<Vec<u8>> {
    let length = u32::try_from(fill?.len()).ok().filter(|n| *n > 0)?;
    let mut element = vec![0xff; element_size];
    let object = element_size.checked_sub(4)?;
    element.get_mut(..4)?.copy_from_slice(&length.to_le_bytes());
    element.get_mut(object..)?.fill(0);
    Some(element)
}

impl Strings {
    /// `elements`: an array of [`element`]s, which are [`filling`] where nothing was written.
    pub(super) fn new(
        name: &str,
        heap: Heap,
        fill: Vec<u8>,
        elements: NestedArray,
    ) -> Result<Strings> {
        let count = elements.array().info()?.bytes / heap.element_size() as u64;
        // Two bytes each is less than the densest compression leaves of different strings.
        let most = ALWAYS.max(heap.source_len().saturating_mul(2)).min(MOST);
        if count > most {
            let why = format!("{count} strings are more than can be shown of this file ({most})");
            return Err(NotShown::new(why).into());
        }
        Ok(Strings {
            name: name.to_owned(),
            filling: filling(heap.element_size(), Some(&fill)),
            heap,
            fill,
            elements,
            count,
            layout: OnceLock::new(),
            feeds: OnceLock::new(),
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
        let stored = self.heap.source_len();
        let (mut blocks, budget) = (TextBlocks::default(), self.elements.budget());
        self.each_reference(&mut |reference| {
            let len = u64::from(reference.length);
            if len > stored {
                let fault = Fault::new(format!("string {} is too long", blocks.strings));
                let fault = fault.expected(format_args!("at most {stored}"));
                return Err(fault.found(len).into());
            }
            blocks.add(len + 1, budget)?;
            if len > 0 && reference.collection != FILL {
                blocks.in_heap = blocks.in_heap.saturating_add(reference.room());
            }
            if len > LONGEST || blocks.bytes > MOST {
                let why = format!("more text than can be shown: {MOST} bytes, {LONGEST} in one");
                return Err(NotShown::new(why).into());
            }
            Ok(())
        })?;
        blocks.push(budget)?;
        Ok(blocks)
    }

    /// Visits all elements, in order.
    fn each_reference(&self, visit: &mut dyn FnMut(Reference) -> Result<()>) -> Result<()> {
        self.references(0..self.count, visit)
    }

    /// Visits some of them.
    fn references(
        &self,
        strings: Range<u64>,
        visit: &mut dyn FnMut(Reference) -> Result<()>,
    ) -> Result<()> {
        let size = self.heap.element_size();
        let mut raw = [0; STEP];
        let (mut at, step) = (strings.start, STEP / size);
        while at < strings.end {
            let count = (strings.end - at).min(step as u64);
            let raw = &mut raw[..count as usize * size];
            self.elements.read(at * size as u64, raw)?;
            for element in raw.chunks_exact(size) {
                visit(self.reference(element))?;
            }
            at += count;
        }
        Ok(())
    }

    fn reference(&self, element: &[u8]) -> Reference {
        match self.filling.as_deref() == Some(element) {
            true => Reference {
                length: self.fill.len() as u32,
                collection: FILL,
                object: 0,
            },
            false => self.heap.reference(element),
        }
    }

    /// Whether a value lies in a collection of the heap that begins at such a place.
    pub(super) fn lies_in(&self, is_one: &dyn Fn(u64) -> bool) -> Result<bool> {
        let mut found = false;
        self.each_reference(&mut |reference| {
            let is_stored = reference.length > 0 && reference.collection != FILL;
            found = found || is_stored && is_one(reference.collection);
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads elements: what is wanted of the heap, in order of collections and objects. Gives the
    /// number of shown bytes.
    fn wanted(&self, first: u64, raw: &mut [u8], wanted: &mut [HeapPlace]) -> Result<u64> {
        let size = self.heap.element_size();
        self.elements.read(first * size as u64, raw)?;
        let mut to = 0;
        for (element, wanted) in raw.chunks_exact(size).zip(&mut *wanted) {
            let reference = self.reference(element);
            let length = u64::from(reference.length);
            // An empty string may be nowhere.
            *wanted = match length {
                0 => [0, 0, to, 0],
                _ => [
                    reference.collection,
                    u64::from(reference.object),
                    to,
                    length,
                ],
            };
            to += length + 1;
        }
        Ok(to)
    }

    /// Fills in the strings, whose lengths add up with line feeds to `out`. Each collection is read
    /// once.
    fn fill(&self, wanted: &mut [HeapPlace], out: &mut [u8], window: &mut [u8]) -> Result<()> {
        for [_, _, to, length] in &*wanted {
            if let Some(feed) = out.get_mut((to + length) as usize) {
                *feed = b'\n';
            }
        }
        wanted.sort_unstable();
        for group in wanted.chunk_by_mut(|a, b| a[0] == b[0]) {
            if group.first().is_some_and(|wanted| wanted[0] == FILL) && !self.fill.is_empty() {
                self.fill_in(group, out)?;
            } else if group.iter().any(|[.., length]| *length > 0) {
                self.heap.copy(group, out, window)?;
            }
        }
        Ok(())
    }

    fn fill_in(&self, wanted: &[HeapPlace], out: &mut [u8]) -> Result<()> {
        for [_, _, to, length] in wanted {
            let end = to.saturating_add(*length) as usize;
            match out.get_mut(*to as usize..end) {
                Some(out) if out.len() == self.fill.len() => out.copy_from_slice(&self.fill),
                _ => return Err(Fault::new("an element leads nowhere").into()),
            }
        }
        Ok(())
    }
}

impl Array for Strings {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let layout = self.layout()?;
        let elements = self.elements.array().info()?;
        // Several elements may have one string, and a file may say what it likes.
        let in_heap = layout.in_heap.min(self.heap.source_len());
        Ok(Info {
            dtype: Dtype::Text,
            bytes: layout.starts.last().copied().unwrap_or(0),
            stored_bytes: elements.stored_bytes.saturating_add(in_heap),
            blocks: (layout.starts.len() as u64).saturating_sub(1),
            ..elements
        })
    }

    /// Does not count the strings: only a question for their size does.
    fn check_structure(&self) -> Result<()> {
        self.elements.array().check_structure()
    }

    fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
        self.each_reference(&mut |reference| visit(u64::from(reference.length)))?;
        Ok(true)
    }

    fn own_feeds(&self, most: u64) -> Result<Option<Arc<[OwnFeeds]>>> {
        FoundFeeds::known(&self.feeds, self, most, self.elements.budget())
    }

    fn weight(&self) -> u64 {
        self.elements.array().weight() + 512 + self.fill.len() as u64
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        uneven_pieces(&self.layout()?.starts, range, out);
        Ok(())
    }

    /// The elements, then the collections that they lead to.
    fn stored(&self, piece: &Piece, round: u32, needed: &mut StoredRanges) -> Result<bool> {
        let Some(strings) = piece
            .block()
            .and_then(|block| self.layout().ok()?.strings(block))
        else {
            return Ok(false);
        };
        let size = self.heap.element_size() as u64;
        let bytes = strings.start * size..strings.end * size;
        if self.elements.stored(bytes, round, needed)? || round == 0 {
            return Ok(true);
        }
        self.references(strings, &mut |reference| {
            if reference.length > 0 && reference.collection != FILL {
                self.heap.name(reference, needed);
            }
            Ok(())
        })?;
        Ok(false)
    }

    /// Elements, what is wanted of the heap, and a collection that is read whole.
    fn scratch(&self, block: BlockId) -> u64 {
        let blocks = self.layout().ok();
        let strings = blocks.and_then(|blocks| blocks.strings(block));
        let count = strings.map_or(0, |strings| strings.end - strings.start);
        let wanted = room(count.saturating_mul(size_of::<HeapPlace>() as u64));
        room(count.saturating_mul(self.heap.element_size() as u64))
            .saturating_add(wanted)
            .saturating_add(room(self.heap.window()))
    }

    fn decode(&self, block: BlockId, out: &mut [u8], mut scratch: Arena<'_>) -> Result<()> {
        let Some(strings) = self.layout()?.strings(block) else {
            return Err(Fault::new("there is no such block").block(block.0).into());
        };
        let count = strings.end - strings.start;
        let raw = scratch.take(count.saturating_mul(self.heap.element_size() as u64))?;
        let wanted = scratch.take_u64s(count.saturating_mul(4))?;
        let (wanted, _) = wanted.as_chunks_mut();
        let window = scratch.take(self.heap.window())?;
        let bytes = self.wanted(strings.start, raw, wanted)?;
        if bytes != out.len() as u64 {
            let fault = Fault::new("the strings are not as long as when they were counted");
            return Err(fault.block(block.0).expected(out.len()).found(bytes).into());
        }
        let filled = self.fill(wanted, out, window);
        filled.map_err(|e| e.map_fault(|fault| fault.block(block.0)))
    }
}

#[cfg(test)]
mod tests;
