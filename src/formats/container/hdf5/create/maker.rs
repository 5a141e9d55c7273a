//! A new file while libhdf5 makes it: steps are gathered and sent in batches, and what the library
//! refuses is an error where the file cannot do without it, else named as lost. Used by
//! [`super::objects`].

use std::sync::Arc;

use crate::container::hdf5::edit::{EditReply, EditStep, FinishedEdit};
use crate::container::hdf5::made::MakeStep;
use crate::container::hdf5::worker::{EditSession, wrong_reply};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::source::BytesSource;

/// Steps that are sent at once, and bytes of what is long in them.
const STEPS: usize = 256;
const BYTES: usize = 256 << 10;

/// What becomes of a step that the library refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfRefused {
    /// The file is not made.
    Ends,
    /// It is done without, and named.
    Lost,
}

pub(super) struct Maker<'a> {
    session: EditSession<'a>,
    budget: &'a Arc<Budget>,
    steps: Vec<MakeStep>,
    /// What each of them is about.
    about: Vec<(String, IfRefused)>,
    bytes: usize,
    pub(super) lost: Vec<String>,
}

/// A file without values, in memory.
pub(super) struct Skeleton {
    pub(super) source: Arc<BytesSource>,
    _hold: Hold,
}

impl Skeleton {
    pub(super) fn bytes(&self) -> &[u8] {
        self.source.bytes()
    }
}

impl<'a> Maker<'a> {
    pub(super) fn new(session: EditSession<'a>, budget: &'a Arc<Budget>) -> Maker<'a> {
        Maker {
            session,
            budget,
            steps: Vec::new(),
            about: Vec::new(),
            bytes: 0,
            lost: Vec::new(),
        }
    }

    pub(super) fn budget(&self) -> &Arc<Budget> {
        self.budget
    }

    /// Has a step done, sooner or later. `bytes`: about what is long in it.
    pub(super) fn add(
        &mut self,
        step: MakeStep,
        (about, refusal): (String, IfRefused),
        bytes: usize,
    ) -> Result<()> {
        if self.bytes.saturating_add(bytes) > BYTES || self.steps.len() >= STEPS {
            self.flush()?;
        }
        self.steps.push(step);
        self.about.push((about, refusal));
        self.bytes += bytes;
        Ok(())
    }

    /// Has a step done at once: what it made, or why it was refused.
    pub(super) fn now(&mut self, step: MakeStep) -> Result<std::result::Result<u64, String>> {
        self.flush()?;
        let mut made = self.ask(vec![step])?;
        match (made.pop(), made.is_empty()) {
            (Some(made), true) => Ok(made),
            _ => Err(wrong_reply()),
        }
    }

    pub(super) fn lose(&mut self, what: String) {
        self.lost.push(what);
    }

    fn ask(&mut self, steps: Vec<MakeStep>) -> Result<Vec<std::result::Result<u64, String>>> {
        let count = steps.len();
        match self.session.step(&EditStep::Make(steps))? {
            EditReply::Made(made) if made.len() == count => Ok(made),
            _ => Err(wrong_reply()),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.bytes = 0;
        let steps = std::mem::take(&mut self.steps);
        if steps.is_empty() {
            return Ok(());
        }
        let made = self.ask(steps)?;
        for (made, (about, refusal)) in made.into_iter().zip(std::mem::take(&mut self.about)) {
            match (made, refusal) {
                (Ok(_), _) => {}
                (Err(why), IfRefused::Lost) => self.lose(format!("{about}: {why}")),
                (Err(why), IfRefused::Ends) => {
                    return Err(Error::Invalid(format!("{about}: {why}")));
                }
            }
        }
        Ok(())
    }

    /// The file, and what was lost.
    pub(super) fn finish(mut self) -> Result<(Skeleton, Vec<String>)> {
        self.flush()?;
        let FinishedEdit { patches, end, .. } = self.session.finish()?;
        let hold = self.budget.keep(end)?;
        let whole = patches
            .iter()
            .map(|(at, bytes)| at.saturating_add(bytes.len() as u64));
        if whole.max().unwrap_or(0) > end {
            return Err(Fault::new("data lie behind the end of a new file").into());
        }
        let mut bytes = crate::memory::fallible::zeros(end, "cannot make a file")?;
        for (at, patch) in patches {
            bytes[at as usize..][..patch.len()].copy_from_slice(&patch);
        }
        let source = Arc::new(BytesSource::new(bytes));
        Ok((
            Skeleton {
                source,
                _hold: hold,
            },
            self.lost,
        ))
    }
}
