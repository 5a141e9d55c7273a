//! A recipe that is given up when more has been told than a caller waits for, or when nobody waits
//! for it any more. Used by [`super`].

use std::ops::Range;
use std::path::PathBuf;

use crate::container::writable::{MemberNumber, Recipe};
use crate::error::{Error, Result};
use crate::patience;

pub(super) struct Metered<'a> {
    write: &'a mut dyn Recipe,
    /// Where the container lies, for messages.
    shown: PathBuf,
    /// None: it has been too much.
    left: Option<u64>,
    told: u64,
}

impl<'a> Metered<'a> {
    pub(super) fn new(write: &'a mut dyn Recipe, shown: PathBuf, most: u64) -> Metered<'a> {
        Metered {
            write,
            shown,
            left: Some(most),
            told: 0,
        }
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.left.is_none()
    }

    /// Bytes that were put or moved.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    fn count(&mut self, bytes: u64) -> Result<()> {
        patience::check()?;
        self.told = self.told.saturating_add(bytes);
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
        match self.left {
            Some(_) => Ok(()),
            None => Err(Error::Invalid(
                "it is more than a commit may write while somebody waits for it".into(),
            )),
        }
    }
}

impl Recipe for Metered<'_> {
    /// Bytes that stay where they are may cost nothing, and cost little if they do.
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        if from.start != to {
            self.count(from.end.saturating_sub(from.start))?;
        }
        self.write.copy(file, from, to)
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        self.count(bytes.len() as u64)?;
        self.write.put(file, at, bytes)
    }

    fn lies(&mut self, file: MemberNumber, range: Range<u64>) -> Result<()> {
        self.write.lies(file, range)
    }

    /// They cost nothing.
    fn zeros(&mut self, file: MemberNumber, range: Range<u64>) -> Result<()> {
        self.write.zeros(file, range)
    }

    /// The bytes kept were counted beforehand.
    fn keep_rest(&mut self, file: MemberNumber) -> Result<()> {
        self.write.keep_rest(file)
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        self.write.set_len(file, len)
    }

    fn note(&mut self, what: &str) {
        log::info!("{}: {what}", self.shown.display());
    }
}
