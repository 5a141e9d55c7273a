//! Chunks found by going from header to header, as every real reader does: the truth about where they
//! lie, at the price of one small read each.
//!
//! What is kept is a mark at every 512th chunk, as far as anybody had to go. A chunk whose header is
//! damaged is stepped over if its length is possible; the walk breaks off where it is not.
//! Used by [`super::chunks`] without a usable table, and to judge the table.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::layout::{CHUNK_HEADER, Layout};
use super::segment::{RawHeader, SEGMENT, Segment, Slot, Window};
use crate::codec::blosc::ChunkHeader;
use crate::error::{Fault, Result};
use crate::source::Source;

pub(super) struct Walk {
    layout: Layout,
    /// The header of the file does not know the sizes: a chunk that does not tell its own ends the walk.
    sizes: bool,
    progress: Mutex<Progress>,
}

struct Progress {
    /// Where the chunks 0, 512, 1024 ... begin, as far as walked.
    marks: Vec<Mark>,
    /// The first chunk whose header is damaged.
    damaged: Option<u64>,
    end: Option<End>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) at: u64,
    /// Plain bytes of all chunks before; sound if the walk is one for sizes.
    pub(super) plain: u64,
}

/// Where the walk ended: behind the last chunk, or where it broke off.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) chunks: u64,
    pub(super) plain: u64,
    pub(super) fault: Option<Fault>,
}

/// One segment walked.
struct Stretch {
    slots: Vec<Slot>,
    after: Mark,
    damaged: Option<u64>,
    /// The walk ended within, well or not.
    end: Option<Option<Fault>>,
}

enum Step {
    Chunk {
        header: RawHeader,
        next: u64,
        plain: u64,
        damaged: bool,
    },
    End,
    Broken(Fault),
}

impl Walk {
    pub(super) fn new(layout: Layout, sizes: bool) -> Self {
        let marks = vec![Mark {
            at: layout.first,
            plain: 0,
        }];
        let progress = Mutex::new(Progress {
            marks,
            damaged: None,
            end: None,
        });
        Walk {
            layout,
            sizes,
            progress,
        }
    }

    /// A segment; `None` behind the end.
    pub(super) fn segment(&self, source: &dyn Source, index: u64) -> Result<Option<Segment>> {
        let mut progress = self.lock();
        while progress.end.is_none() && progress.marks.len() as u64 <= index {
            self.advance(&mut progress, source)?;
        }
        let mark = usize::try_from(index)
            .ok()
            .and_then(|i| progress.marks.get(i).copied());
        let Some(mark) = mark else { return Ok(None) };
        let stretch = if progress.end.is_none() && index + 1 == progress.marks.len() as u64 {
            self.advance(&mut progress, source)?
        } else {
            drop(progress);
            self.stretch(source, index, mark)?
        };
        Ok(Some(Segment {
            slots: stretch.slots,
        }))
    }

    /// Where a segment begins, if the walk has come there.
    pub(super) fn mark(&self, index: u64) -> Option<Mark> {
        usize::try_from(index)
            .ok()
            .and_then(|i| self.lock().marks.get(i).copied())
    }

    /// The segment that holds plain byte `plain`. Only for a walk for sizes that has ended.
    pub(super) fn segment_of(&self, plain: u64) -> u64 {
        let behind = self
            .lock()
            .marks
            .partition_point(|mark| mark.plain <= plain);
        behind.saturating_sub(1) as u64
    }

    /// Goes to the end.
    pub(super) fn end(&self, source: &dyn Source) -> Result<End> {
        let mut progress = self.lock();
        loop {
            if let Some(end) = &progress.end {
                return Ok(end.clone());
            }
            self.advance(&mut progress, source)?;
        }
    }

    /// Whether every chunk is there with a good header. Goes to the end, or to the first that is not.
    pub(super) fn is_sound(&self, source: &dyn Source) -> Result<bool> {
        let mut progress = self.lock();
        while progress.damaged.is_none() && progress.end.is_none() {
            self.advance(&mut progress, source)?;
        }
        let whole = progress.end.as_ref().is_some_and(|end| end.fault.is_none());
        Ok(whole && progress.damaged.is_none())
    }

    /// The first damaged header met so far.
    pub(super) fn first_damaged(&self) -> Option<u64> {
        self.lock().damaged
    }

    /// Why the walk has not come to a chunk.
    pub(super) fn why_missing(&self, number: u64) -> Fault {
        match self.lock().end.clone() {
            Some(End {
                chunks,
                fault: Some(fault),
                ..
            }) if chunks == number => fault,
            Some(End {
                chunks,
                fault: Some(fault),
                ..
            }) => Fault {
                what: format!("lost behind chunk {chunks}: {}", fault.what),
                block: Some(number),
                ..fault
            },
            _ => Fault::new("there is no such chunk").block(number),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Walks the segment behind the last mark.
    fn advance(&self, progress: &mut Progress, source: &dyn Source) -> Result<Stretch> {
        let index = progress.marks.len() as u64 - 1;
        let stretch = self.stretch(source, index, progress.marks[index as usize])?;
        progress.damaged = progress.damaged.or(stretch.damaged);
        match &stretch.end {
            None => progress.marks.push(stretch.after),
            Some(fault) => {
                let chunks = index * SEGMENT + stretch.slots.len() as u64;
                let plain = stretch.after.plain;
                progress.end = Some(End {
                    chunks,
                    plain,
                    fault: fault.clone(),
                });
            }
        }
        Ok(stretch)
    }

    fn stretch(&self, source: &dyn Source, index: u64, from: Mark) -> Result<Stretch> {
        let mut stretch = Stretch {
            slots: Vec::new(),
            after: from,
            damaged: None,
            end: None,
        };
        let mut window = Window::new();
        let first = index * SEGMENT;
        for number in first..first + SEGMENT {
            let at = stretch.after.at;
            match self.step(source, &mut window, number, at)? {
                Step::Chunk {
                    header,
                    next,
                    plain,
                    damaged,
                } => {
                    stretch.slots.push(Slot::with_header(at, header));
                    let plain = stretch.after.plain.saturating_add(plain);
                    stretch.after = Mark { at: next, plain };
                    if damaged {
                        stretch.damaged.get_or_insert(number);
                    }
                }
                Step::End => {
                    stretch.end = Some(None);
                    break;
                }
                Step::Broken(fault) => {
                    stretch.end = Some(Some(fault.block(number)));
                    break;
                }
            }
        }
        Ok(stretch)
    }

    fn step(&self, source: &dyn Source, window: &mut Window, number: u64, at: u64) -> Result<Step> {
        let layout = &self.layout;
        match layout.chunks {
            Some(chunks) if chunks == number => return Ok(Step::End),
            None if at == layout.len => return Ok(Step::End),
            _ => {}
        }
        if !layout.has_header(at) {
            return Ok(Step::Broken(cut_short(at, CHUNK_HEADER, layout)));
        }
        let raw = window.header(source, layout, at)?;
        let header = ChunkHeader::parse(&raw);
        if self.sizes {
            let fault = match &header {
                Ok(header) => implausible(at, header),
                Err(e) => Some(unsound(at, e)),
            };
            if let Some(fault) = fault {
                return Ok(Step::Broken(fault));
            }
        }
        let stored = stored_len(&raw);
        if stored < CHUNK_HEADER {
            let fault = Fault::new("the chunk is shorter than its own header");
            return Ok(Step::Broken(
                fault.bytes(at..at + CHUNK_HEADER).found(stored),
            ));
        }
        // Both are below 2^33, and `at` lies within the file.
        let next = at.saturating_add(stored + layout.digest);
        if next > layout.len {
            return Ok(Step::Broken(cut_short(at, stored + layout.digest, layout)));
        }
        let plain = header
            .as_ref()
            .map_or(0, |header| u64::from(header.nbytes()));
        Ok(Step::Chunk {
            header: raw,
            next,
            plain,
            damaged: header.is_err(),
        })
    }
}

/// `ctbytes`, which counts even where the rest of the header is damaged.
fn stored_len(raw: &RawHeader) -> u64 {
    u64::from(u32::from_le_bytes([raw[12], raw[13], raw[14], raw[15]]))
}

pub(super) fn cut_short(at: u64, needed: u64, layout: &Layout) -> Fault {
    let there = layout.len.saturating_sub(at);
    Fault::new("the file ends within the chunk")
        .bytes(at.min(layout.len)..layout.len)
        .expected(format_args!("at least {needed} bytes"))
        .found(format_args!("{there} bytes"))
}

pub(super) fn unsound(at: u64, error: &impl std::fmt::Display) -> Fault {
    Fault::new(error.to_string()).bytes(at..at.saturating_add(CHUNK_HEADER))
}

/// The guard before any memory is taken for a chunk's claimed size.
pub(super) fn implausible(at: u64, header: &ChunkHeader) -> Option<Fault> {
    let stored = u64::from(header.ctbytes());
    let codec = header.codec().name();
    (!header.plausible(stored)).then(|| {
        Fault::new("the chunk claims more than it can hold")
            .bytes(at..at.saturating_add(stored))
            .expected(format_args!("what {stored} bytes of {codec} can give"))
            .found(format_args!("{} bytes", header.nbytes()))
    })
}
