//! Where a commit goes: the one way in which recipes are carried out and their results are
//! published.
//!
//! There are two targets: new files that take the places of old ones ([`super::replaced`]), and
//! redo records in the log ([`super::in_place`]). Either is told a recipe, says in the log what is
//! about to happen, and then makes it visible. Used by [`super`].

use std::cell::Cell;

use super::{Commit, FutureFile, Publish, Publisher};
use crate::container::rewrite::{CommitWay, Recipe};
use crate::error::{Error, Result};
use crate::patience;

pub(super) trait CommitTarget: Recipe {
    /// The way that the recipe is told for, and the way that the publisher is given.
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
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// Publishes once more what could not be synced.
    fn redo(&mut self) -> Result<()> {
        Ok(())
    }

    /// Removes the leftovers of a commit that has been made, or has come to nothing.
    fn end(&mut self, is_made: bool);

    /// Whether an error says that it cannot be done in this way at all.
    fn is_in_vain(&self, _e: &Error) -> bool {
        false
    }
}

impl Commit<'_> {
    /// False if it cannot be done in this way, which is found out when it is tried: then nothing
    /// has happened.
    pub(super) fn carry_out_by(
        &self,
        target: &mut impl CommitTarget,
        publish: Publish<'_>,
    ) -> Result<bool> {
        let is_carried_out = Cell::new(false);
        let told = self.tell(target.recipe_way(), target);
        let made = match told.and_then(|()| seal(target, publish)) {
            Err(e) if target.is_in_vain(&e) => {
                log::debug!("{e}");
                Ok(false)
            }
            Err(e) => Err(e),
            Ok(()) => self
                .publish_by(target, publish, &is_carried_out)
                .map(|()| true),
        };
        if made.is_err() && is_carried_out.get() {
            // It is there, and could not be shown: the log goes on saying how it came about.
            self.stage.stay_sealed();
        }
        target.end(matches!(made, Ok(true)));
        made
    }

    fn publish_by(
        &self,
        target: &mut impl CommitTarget,
        publish: Publish<'_>,
        is_carried_out: &Cell<bool>,
    ) -> Result<()> {
        let way = target.published_as();
        let mut step = || {
            // Another process may still change them at the very same time; a change before this
            // moment is not overwritten.
            self.unchanged()?;
            target.publish().inspect(|()| is_carried_out.set(true))
        };
        publish.publish(way, &mut step)?;
        target.sync().or_else(|e| {
            log::warn!("{}; trying again", self.named(&e));
            publish.publish(way, &mut || target.redo())
        })
    }
}

/// The result of a commit is looked at, and who wants it, before there is no way back.
fn seal(target: &mut impl CommitTarget, publish: &mut dyn Publisher) -> Result<()> {
    let files = target.prepare()?;
    if !files.is_empty() {
        publish.look_ahead(&files)?;
    }
    patience::check()?;
    patience::no_way_back();
    target.seal()
}
