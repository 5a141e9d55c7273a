//! Chunks found by going from header to header, as every real reader does: the truth about where they lie.
//!
//! The offsets table could lead to a chunk at once, but one that leaves out a chunk looks right everywhere
//! but at that place, and shows other bytes from there on. Nothing short of the headers before a chunk
//! proves its number. So the walk goes as far as anybody asks and no further: one small read for a chunk,
//! once (a millisecond for 512 MiB in chunks of 1 MiB, half a second for a million chunks). Segments that
//! it found as the table tells them are found again by the table.
//!
//! What is kept is a mark at every 512th chunk, and the segments used last. How a step goes, and what becomes
//! of damage, is in [`super::steps`]. Used by [`super::chunks`] and [`super::check`].

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::chunks::Sizes;
use super::layout::Layout;
use super::segment::{Place, RawHeader, SEGMENT, Segment, Slot};
use super::steps::{Mark, Run, Step, Steps};
use super::table;
use crate::error::{Fault, Result};
use crate::source::Source;

/// Segments kept: 32,768 chunks, in less than 2 MiB.
const KEPT: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Chunks found before others may ask again.
const TURN: u64 = 256;

pub(super) struct Walk {
    steps: Steps,
    progress: Mutex<Progress>,
    segments: Mutex<LruCache<u64, Arc<Segment>>>,
}

struct Progress {
    /// Segments that have been walked to their end.
    whole: Vec<Whole>,
    /// The chunks found of the segment behind them.
    places: Vec<Place>,
    /// Where it begins.
    begin: Mark,
    /// Where it goes on; none before the first step.
    run: Option<Run>,
    end: Option<End>,
}

/// A segment that has been walked.
#[derive(Clone, Copy)]
struct Whole {
    mark: Mark,
    /// The table tells of all its chunks what the walk found.
    by_table: bool,
}

/// A chunk as the walk found it.
pub(super) struct Found {
    pub(super) at: u64,
    pub(super) header: RawHeader,
    /// Where the next chunk begins, if that is not where this one's header says.
    pub(super) next: Option<u64>,
}

/// Where the walk ended: behind the last chunk, or where it broke off.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) chunks: u64,
    pub(super) plain: u64,
    pub(super) fault: Option<Fault>,
}

impl Walk {
    /// Without `sizes` it is a walk that learns them.
    pub(super) fn new(layout: Layout, sizes: Option<Sizes>) -> Self {
        let steps = Steps::new(layout, sizes);
        let progress = Mutex::new(Progress {
            whole: Vec::new(),
            places: Vec::new(),
            begin: steps.first(),
            run: None,
            end: None,
        });
        Walk {
            steps,
            progress,
            segments: Mutex::new(LruCache::new(KEPT)),
        }
    }

    /// A chunk; a fault if it is lost, or behind the end.
    pub(super) fn find(&self, source: &dyn Source, number: u64) -> Result<Found> {
        loop {
            let mut progress = lock(&self.progress);
            let Some(open) = number.checked_sub(progress.whole.len() as u64 * SEGMENT) else {
                break;
            };
            let place = usize::try_from(open)
                .ok()
                .and_then(|i| progress.places.get(i));
            if let Some(place) = place {
                return found(place, number, |slot| {
                    slot.header()
                        .copied()
                        .ok_or_else(|| Fault::new("no header was read").into())
                });
            }
            if progress.end.is_some() {
                drop(progress);
                return Err(self.why_missing(number).into());
            }
            let more = (open - progress.places.len() as u64).saturating_add(1);
            self.advance(&mut progress, source, more.min(TURN))?;
        }
        let Some(segment) = self.segment(source, number / SEGMENT)? else {
            return Err(self.why_missing(number).into());
        };
        let index = (number % SEGMENT) as usize;
        match segment.places.get(index) {
            Some(place) => found(place, number, |slot| {
                segment.header(slot, index, &self.steps.layout, source)
            }),
            None => Err(self.why_missing(number).into()),
        }
    }

    /// A segment, walked to its end; `None` behind the end of the walk.
    pub(super) fn segment(&self, source: &dyn Source, index: u64) -> Result<Option<Arc<Segment>>> {
        if let Some(segment) = lock(&self.segments).get(&index) {
            return Ok(Some(Arc::clone(segment)));
        }
        let Some(whole) = self.reach(source, index)? else {
            return Ok(self.open_end(index));
        };
        let segment = Arc::new(match whole.by_table {
            true => table::segment(source, &self.steps.layout, index, SEGMENT)?,
            false => self.again(source, index, whole.mark)?,
        });
        lock(&self.segments).put(index, Arc::clone(&segment));
        Ok(Some(segment))
    }

    /// Walks until a segment is whole; `None` if the walk ends before.
    fn reach(&self, source: &dyn Source, index: u64) -> Result<Option<Whole>> {
        loop {
            let mut progress = lock(&self.progress);
            let whole = usize::try_from(index)
                .ok()
                .and_then(|i| progress.whole.get(i));
            if whole.is_some() || progress.end.is_some() {
                return Ok(whole.copied());
            }
            self.advance(&mut progress, source, TURN)?;
        }
    }

    /// The last segment of a walk that has ended, if there is something in it.
    fn open_end(&self, index: u64) -> Option<Arc<Segment>> {
        let progress = lock(&self.progress);
        let last = index == progress.whole.len() as u64 && !progress.places.is_empty();
        last.then(|| {
            Arc::new(Segment {
                places: progress.places.clone(),
            })
        })
    }

    /// Where a segment begins, if the walk has come there.
    pub(super) fn mark(&self, index: u64) -> Option<Mark> {
        let progress = lock(&self.progress);
        let index = usize::try_from(index).ok()?;
        match progress.whole.get(index) {
            Some(whole) => Some(whole.mark),
            None => (index == progress.whole.len()).then_some(progress.begin),
        }
    }

    /// The segment that holds plain byte `plain`. Only for a walk for sizes that has ended.
    pub(super) fn segment_of(&self, plain: u64) -> u64 {
        let progress = lock(&self.progress);
        let whole = &progress.whole;
        let behind = whole.partition_point(|whole| whole.mark.plain <= plain) as u64;
        let open = progress.begin.plain <= plain && behind == whole.len() as u64;
        (behind + u64::from(open)).saturating_sub(1)
    }

    /// Goes to the end.
    pub(super) fn end(&self, source: &dyn Source) -> Result<End> {
        loop {
            let mut progress = lock(&self.progress);
            if let Some(end) = &progress.end {
                return Ok(end.clone());
            }
            self.advance(&mut progress, source, TURN)?;
        }
    }

    /// Why the walk has not come to a chunk.
    pub(super) fn why_missing(&self, number: u64) -> Fault {
        match lock(&self.progress).end.clone() {
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

    /// Finds at most `count` further chunks.
    fn advance(&self, progress: &mut Progress, source: &dyn Source, count: u64) -> Result<()> {
        for _ in 0..count {
            let index = progress.whole.len() as u64;
            let run = match &mut progress.run {
                Some(run) => run,
                none => none.insert(self.steps.run(source, index, progress.begin)?),
            };
            let number = run.number;
            let fault = match self.steps.step(source, run) {
                Ok(Step::Chunk(place)) => {
                    progress.places.push(place);
                    self.close(progress);
                    continue;
                }
                Ok(Step::End) => None,
                Ok(Step::Broken(fault)) => Some(fault.block(number)),
                Err(e) => {
                    // The step was taken by half: the segment is begun anew.
                    progress.run = None;
                    progress.places.clear();
                    return Err(e);
                }
            };
            progress.end = Some(End {
                chunks: number,
                plain: run.mark.plain,
                fault,
            });
            break;
        }
        Ok(())
    }

    /// Puts the open segment to the others when it is whole.
    fn close(&self, progress: &mut Progress) {
        if (progress.places.len() as u64) < SEGMENT {
            return;
        }
        let Some(run) = progress.run.take() else {
            return;
        };
        let places = std::mem::take(&mut progress.places);
        let by_table = run.hints.agree(&places);
        let mark = std::mem::replace(&mut progress.begin, run.mark);
        let index = progress.whole.len() as u64;
        progress.whole.push(Whole { mark, by_table });
        lock(&self.segments).put(index, Arc::new(Segment { places }));
    }

    /// Walks a segment another time.
    fn again(&self, source: &dyn Source, index: u64, mark: Mark) -> Result<Segment> {
        let mut run = self.steps.run(source, index, mark)?;
        let mut places = Vec::new();
        while (places.len() as u64) < SEGMENT {
            match self.steps.step(source, &mut run)? {
                Step::Chunk(place) => places.push(place),
                Step::End | Step::Broken(_) => break,
            }
        }
        Ok(Segment { places })
    }
}

fn found(
    place: &Place,
    number: u64,
    header: impl FnOnce(&Slot) -> Result<RawHeader>,
) -> Result<Found> {
    match place {
        Place::Lost(lost) => Err(lost.fault(number).into()),
        Place::At(slot) => Ok(Found {
            at: slot.at,
            header: header(slot)?,
            next: slot.next,
        }),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
