//! A commit in its phases: each is a value, which only the one before becomes.
//!
//! It is [`Prepared`] when the recipe has been carried out where nothing can be seen of it,
//! [`Sealed`] when the log says for good what is about to happen, and ends when it has been
//! published. There are two targets: new files that take the places of old ones
//! ([`super::replaced`]), and redo records in the log ([`super::in_place`]). What is dropped before
//! its end removes what it left lying. Made by [`super`]; `live` has each become the next.

use super::future_file::FutureFile;
use super::input::Commit;
use super::metered::Metered;
use super::program_lock::ProgramLock;
use crate::container::writable::{CommitWay, Recipe};
use crate::error::{Error, Result};
use crate::patience;

pub(super) trait CommitTarget: Recipe {
    /// The way that the recipe is told for, and the way in which the result is published.
    fn recipe_way(&self) -> CommitWay;
    fn published_as(&self) -> CommitWay;

    /// The recipe is told. Returns the files that are going to be changed or replaced, as they will
    /// be; none if they cannot be read before.
    fn prepare(&mut self) -> Result<Vec<FutureFile>>;

    /// When this returns the recipe is on the disk, and the log says for good what is about to
    /// happen.
    fn seal(&mut self) -> Result<()>;

    /// The container becomes what the recipe told. Its files have just been compared with those
    /// that were opened. After an error they are that again, or the recovery goes on from the log.
    fn publish(&mut self) -> Result<()>;

    /// Returns when the published files are on the disk. No reader waits for that.
    fn sync(&mut self) -> Result<()>;

    /// Publishes once more what could not be synced.
    fn redo(&mut self) -> Result<()>;

    /// Removes the leftovers of a commit that has been made, or has come to nothing.
    fn end(&mut self, is_made: bool);

    /// Whether an error says that it cannot be done in this way at all.
    fn is_in_vain(&self, _e: &Error) -> bool {
        false
    }
}

/// A file that another program has open, so that it cannot be changed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInUse {
    /// Which one, for a message.
    pub by: String,
    /// Those that only read are in the way, too.
    pub alone: bool,
}

/// Why a commit cannot be made now. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotNow {
    /// The changes do not agree yet, for this reason.
    Stays(String),
    /// Another program has the file open.
    Waits(FileInUse),
    /// It would be more than the limits allow.
    TooMuch,
}

/// A commit that is prepared, unless it cannot be made now.
pub type Preparation<'a> = std::result::Result<Prepared<'a>, NotNow>;

/// A commit to a target, until its end.
pub(super) struct CommitUnderWay<'a> {
    commit: &'a Commit<'a>,
    target: Box<dyn CommitTarget + 'a>,
    /// Bytes that were put or moved.
    told: u64,
    /// The files are what the recipe told.
    is_carried_out: bool,
    /// And are shown so.
    is_made: bool,
    _locked: Option<ProgramLock>,
}

/// What a commit is about to make lies where nothing can be seen of it.
pub struct Prepared<'a> {
    begun: CommitUnderWay<'a>,
    files: Vec<FutureFile>,
}

/// The log says what a commit is about to make: whoever finds it completes or undoes it.
pub struct Sealed<'a>(CommitUnderWay<'a>);

impl<'a> CommitUnderWay<'a> {
    pub(super) fn new(
        commit: &'a Commit<'a>,
        target: Box<dyn CommitTarget + 'a>,
        locked: Option<ProgramLock>,
    ) -> CommitUnderWay<'a> {
        CommitUnderWay {
            commit,
            target,
            told: 0,
            is_carried_out: false,
            is_made: false,
            _locked: locked,
        }
    }

    /// None if it cannot be done in this way, which is found out when it is tried: then nothing has
    /// happened.
    pub(super) fn prepare(mut self) -> Result<Option<Preparation<'a>>> {
        let (commit, way) = (self.commit, self.target.recipe_way());
        let mut metered = Metered::new(&mut *self.target, commit.shown(), commit.limits.written);
        let recipe = commit
            .writable
            .recipe(commit.changed, way, commit.budget, &mut metered);
        self.told = metered.told();
        let is_too_much = metered.is_exceeded();
        match recipe.and_then(|()| self.target.prepare()) {
            Ok(files) => {
                let begun = self;
                Ok(Some(Ok(Prepared { begun, files })))
            }
            Err(e) if self.target.is_in_vain(&e) => {
                log::debug!("{e}");
                Ok(None)
            }
            Err(_) if is_too_much => Ok(Some(Err(NotNow::TooMuch))),
            Err(e) => Err(e),
        }
    }
}

impl<'a> Prepared<'a> {
    /// The files that are about to be changed or replaced, as they will be; none if they cannot be
    /// read before.
    pub fn files(&self) -> &[FutureFile] {
        &self.files
    }

    /// It is asked who wants it before there is no way back.
    pub fn seal(mut self) -> Result<Sealed<'a>> {
        patience::check()?;
        patience::no_way_back();
        self.begun.target.seal()?;
        Ok(Sealed(self.begun))
    }
}

impl Sealed<'_> {
    /// How it is to be shown.
    pub fn way(&self) -> CommitWay {
        self.0.target.published_as()
    }

    /// The container becomes what was prepared; after an error it is what it was.
    pub fn publish(&mut self) -> Result<()> {
        // Another process may still change the files at the very same time; a change before this
        // moment is not overwritten.
        self.0.commit.unchanged()?;
        self.0.target.publish()?;
        self.0.is_carried_out = true;
        Ok(())
    }

    /// Returns when that is on the disk.
    pub fn sync(&mut self) -> Result<()> {
        self.0.target.sync()
    }

    /// Publishes once more what could not be synced.
    pub fn redo(&mut self) -> Result<()> {
        self.0.target.redo()
    }

    /// It is shown, and on the disk. Returns the bytes that were put or moved.
    pub fn end(mut self) -> u64 {
        self.0.is_made = true;
        self.0.told
    }
}

impl Drop for CommitUnderWay<'_> {
    fn drop(&mut self) {
        if self.is_carried_out && !self.is_made {
            // It is there, and could not be shown: the log goes on saying how it came about.
            self.commit.stage.stay_sealed();
        }
        self.target.end(self.is_made);
    }
}
