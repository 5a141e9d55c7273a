//! The walk over a file's headers from the first chunk on, and what is remembered of it.
//!
//! It goes as far as a reader asks and no further: by one thread at a time, while others that need
//! to get further wait for its marks. Nothing is locked while headers are read. What is kept is
//! where every [`STRIDE`]th chunk begins; when that becomes too much, or there is no memory for
//! more, every second is forgotten, so a file of billions of chunks takes no more memory than one
//! of millions, but more steps from the next mark on. Used by [`super::ChunkFinder`] where the
//! offsets table does not lead.

use std::sync::Arc;

use super::step::{ChunkRules, Standing, Stepper, WalkEnd, WalkStep};
use crate::error::Result;
use crate::memory::budget::{Budget, Hold};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Chunks between two marks, at first.
const STRIDE: u64 = 512;

/// Marks kept, of 48 bytes each.
const MOST_MARKS: usize = 1 << 14;

/// Marks charged to the budget at once, but for the first few, which every file may have.
const CHARGED: usize = 1 << 10;
const FIRST: usize = 64;

pub(super) struct HeaderWalk {
    progress: Mutex<WalkProgress>,
    news: Condvar,
    most_marks: usize,
    budget: Arc<Budget>,
}

struct WalkProgress {
    /// At multiples of `stride` from 0 on.
    marks: Vec<Standing>,
    stride: u64,
    /// A thread is on the way to the next mark.
    walking: bool,
    end: Option<WalkEnd>,
    /// What the marks are charged.
    holds: Vec<Hold>,
}

impl HeaderWalk {
    pub(super) fn new(rules: &ChunkRules, budget: &Arc<Budget>) -> Self {
        HeaderWalk::with_marks(rules, budget, MOST_MARKS)
    }

    fn with_marks(rules: &ChunkRules, budget: &Arc<Budget>, most_marks: usize) -> Self {
        HeaderWalk {
            progress: Mutex::new(WalkProgress {
                marks: vec![rules.start()],
                stride: STRIDE,
                walking: false,
                end: None,
                holds: Vec::new(),
            }),
            news: Condvar::new(),
            most_marks,
            budget: Arc::clone(budget),
        }
    }

    /// The last mark that is not behind chunk `number`, once the walk has come there; `None` if it
    /// ends before.
    pub(super) fn mark_before(
        &self,
        stepper: &mut Stepper<'_>,
        number: u64,
    ) -> Result<Option<Standing>> {
        loop {
            let progress = self.lock();
            if progress
                .end
                .as_ref()
                .is_some_and(|end| number >= end.chunks)
            {
                return Ok(None);
            }
            match progress.mark(number / progress.stride) {
                Some(mark) => return Ok(Some(mark)),
                None => self.walk_on(progress, stepper)?,
            }
        }
    }

    /// The last mark that is not behind plain byte `plain`, of a walk for sizes that has ended.
    pub(super) fn mark_of_plain(&self, plain: u64) -> Option<Standing> {
        let progress = self.lock();
        let behind = progress.marks.partition_point(|mark| mark.plain <= plain);
        progress.marks.get(behind.checked_sub(1)?).copied()
    }

    /// Goes to the end.
    pub(super) fn end(&self, stepper: &mut Stepper<'_>) -> Result<WalkEnd> {
        loop {
            let progress = self.lock();
            if let Some(end) = &progress.end {
                return Ok(end.clone());
            }
            self.walk_on(progress, stepper)?;
        }
    }

    /// Goes to the next mark, or waits for the thread that is on the way there.
    fn walk_on(
        &self,
        mut progress: MutexGuard<'_, WalkProgress>,
        stepper: &mut Stepper<'_>,
    ) -> Result<()> {
        if progress.walking {
            self.news.wait(&mut progress);
            return Ok(());
        }
        let Some(mut standing) = progress.marks.last().copied() else {
            return Ok(());
        };
        let next_mark = standing.number + progress.stride;
        progress.walking = true;
        drop(progress);
        let _walking = Walking(self);
        while standing.number < next_mark {
            if let WalkStep::End(end) = stepper.step(&mut standing)? {
                self.lock().end = Some(end);
                return Ok(());
            }
        }
        let has_room = self.make_room();
        self.lock().add(standing, has_room);
        Ok(())
    }

    /// Makes room for one more mark, in the only thread that walks; says whether there is any.
    fn make_room(&self) -> bool {
        let (marks, charged) = {
            let progress = self.lock();
            (progress.marks.len(), FIRST + progress.holds.len() * CHARGED)
        };
        if marks + 1 >= self.most_marks {
            return false;
        }
        if marks >= charged {
            let bytes = (CHARGED * size_of::<Standing>()) as u64;
            match self.budget.keep(bytes) {
                Ok(hold) => self.lock().holds.push(hold),
                Err(_) => return false,
            }
        }
        self.lock().marks.try_reserve(1).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, WalkProgress> {
        self.progress.lock()
    }
}

/// Held by the thread that walks; others go on when it is dropped.
struct Walking<'a>(&'a HeaderWalk);

impl Drop for Walking<'_> {
    fn drop(&mut self) {
        self.0.lock().walking = false;
        self.0.news.notify_all();
    }
}

impl WalkProgress {
    /// A mark by its place among them. The last one serves for the chunks behind it too, when the
    /// walk has ended.
    fn mark(&self, index: u64) -> Option<Standing> {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let last = self.marks.len() - 1;
        match &self.end {
            Some(_) => self.marks.get(index.min(last)).copied(),
            None => self.marks.get(index).copied(),
        }
    }

    /// Thins the marks out first, if there is no room for one more.
    fn add(&mut self, mark: Standing, has_room: bool) {
        if !has_room {
            self.stride *= 2;
            let stride = self.stride;
            self.marks.retain(|mark| mark.number.is_multiple_of(stride));
        }
        if mark.number.is_multiple_of(self.stride) {
            self.marks.push(mark);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::bloscpack::chunks::headers::{HeadersAtHand, LastHeaders};
    use crate::container::bloscpack::chunks::sizes::ChunkSizes;
    use crate::container::bloscpack::header::FileHeader;
    use crate::container::bloscpack::sections::Sections;
    use crate::container::bloscpack::tests::files::{self, Stored};

    const CHUNKS: u64 = 20_000;

    /// Empty chunks of 16 bytes, without a table.
    fn file(chunks: u64) -> Vec<u8> {
        let mut bytes = files::header(0, 0, 0, 0, chunks as i64, 0).to_vec();
        (0..chunks).for_each(|_| bytes.extend_from_slice(&files::chunk(b"", 1)));
        bytes
    }

    fn walked(budget: &Arc<Budget>, most_marks: usize, number: u64) -> Result<(u64, usize)> {
        walked_of(CHUNKS, budget, most_marks, number)
    }

    fn walked_of(
        chunks: u64,
        budget: &Arc<Budget>,
        most_marks: usize,
        number: u64,
    ) -> Result<(u64, usize)> {
        let source = Stored::new(&file(chunks)).source();
        let header = FileHeader::parse(&files::header(0, 0, 0, 0, chunks as i64, 0)).unwrap();
        let sizes = ChunkSizes::Even {
            chunk_size: 0,
            last: 0,
            chunks,
        };
        let rules = ChunkRules {
            sections: Sections::new(&header, 32, source.len()).unwrap(),
            sizes: Some(sizes),
        };
        let walk = HeaderWalk::with_marks(&rules, budget, most_marks);
        let lender = crate::sync::Mutex::<LastHeaders>::default();
        let headers = HeadersAtHand::new(&*source, &rules.sections, &lender);
        let mut stepper = Stepper::new(&*source, &rules, None, headers);
        let mark = walk.mark_before(&mut stepper, number)?.unwrap();
        let marks = walk.lock().marks.len();
        Ok((mark.number, marks))
    }

    #[test]
    fn the_marks_thin_out_instead_of_becoming_many() {
        let budget = Budget::new(1 << 30);
        assert_eq!(walked(&budget, 1000, 19_999).unwrap(), (19_968, 40));
        let (mark, marks) = walked(&budget, 8, 19_999).unwrap();
        assert!(
            marks < 8 && mark >= 16_384,
            "{marks} marks, the last at {mark}"
        );
        assert_eq!(budget.used(), 0, "given back");
    }

    #[test]
    fn marks_that_the_budget_does_not_hold_are_thinned_out_as_well() {
        let budget = Budget::new(1000);
        let chunks = 100 * STRIDE;
        let (mark, marks) = walked_of(chunks, &budget, 1000, chunks - 1).unwrap();
        assert!(marks <= FIRST, "{marks}");
        assert!((chunks - 2 * STRIDE..chunks).contains(&mark), "{mark}");
    }
}
