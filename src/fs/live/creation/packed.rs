//! The files of a container that is packed: written under a hidden name, and put in their place.
//! Used by [`super::pack`] and [`super::later`].

use std::sync::Arc;

use super::state::NewContainers;
use crate::commit::new_container::{NewContainer, NewContainerPlace, NewModes};
use crate::container::creation::{Creation, GivenContent};
use crate::disk::NewAttributes;
use crate::error::Result;
use crate::live::container::LiveContainer;
use crate::live::ground::Ground;
use crate::live::lasting::{LastingFacts, LastingTable};
use crate::live::places::ContainerId;
use crate::source::{FileIdentity, Stat};

/// What is said of arrays without a type, before their names.
pub(super) const UNTYPED: &str = "nothing said their type, so they are bytes (uint8)";

/// Writes containers of drafts.
pub(crate) struct PackWriter {
    pub(crate) ground: Arc<Ground>,
    pub(crate) lasting: Arc<LastingTable>,
    pub(crate) new: Arc<NewContainers>,
}

impl PackWriter {
    /// A container that has been written takes its place. What is known of it is noted before
    /// anybody sees it.
    pub(super) fn put(
        &self,
        new: NewContainer<'_>,
        (container, seen): (&LiveContainer, FileIdentity),
        facts: LastingFacts,
    ) -> Result<()> {
        let recognised = container.known().recognised.clone();
        let identity = match recognised.identity(&*self.ground.store, &new.path()) {
            Ok(identity) => identity,
            Err(e) => {
                new.discard();
                return Err(e);
            }
        };
        self.lasting.set(&identity, facts);
        let put = new.replace(seen);
        put.inspect_err(|_| self.lasting.forget(&identity))
    }

    /// Tells what of its description a container could not keep.
    pub(super) fn tell_not_kept(&self, id: ContainerId, not_kept: &[String]) {
        let path = self.ground.shown_path(id);
        for line in not_kept {
            let line = format!("{}: not kept: {line}", path.display());
            log::warn!("{line}");
            self.new.not_kept.note(line);
        }
    }

    /// Tells which arrays are bytes because nothing said their type.
    pub(super) fn tell_untyped(&self, id: ContainerId, names: &[String]) {
        if !names.is_empty() {
            let (path, names) = (self.ground.shown_path(id), names.join(", "));
            let line = format!("{}: {UNTYPED}: {names}", path.display());
            log::warn!("{line}");
            self.new.not_kept.note(line);
        }
    }

    /// Writes it there; with what could not be kept.
    pub(super) fn write<'a>(
        &self,
        at: &'a NewContainerPlace<'a>,
        creation: &dyn Creation,
        given: &GivenContent,
        (now, attributes): (&Stat, &NewAttributes),
    ) -> Result<(NewContainer<'a>, Vec<String>)> {
        let modes = NewModes {
            files: 0o600,
            directory: now.mode.into(),
        };
        let (budget, preferences) = (self.ground.budget(), self.ground.settings.preferences);
        let mut not_kept = Vec::new();
        let new = at.write(modes, attributes, |write| {
            not_kept = creation.recipe(given, preferences, budget, write)?;
            Ok(())
        })?;
        Ok((new, not_kept))
    }
}
