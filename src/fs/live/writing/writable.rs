//! Arrays that may be written, and the stage that writing to them begins.
//!
//! Says why something may not be written. Used by [`super::arrays`], and by `committing` for arrays
//! that get another content or type.

use std::sync::Arc;

use super::{ArrayWriter, LayeredContainer};
use crate::commit::base_of;
use crate::container::writable::Change;
use crate::error::{Error, Result};
use crate::live::ground::Ground;
use crate::live::opening::Opener;
use crate::live::place::ContainerPlace;
use crate::live::shown::entry_table::{ArrayNumber, EntryIndex};
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::stage::{LayerMemory, Stage};

pub(crate) struct WritableArrays {
    pub(crate) ground: Arc<Ground>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) memory: Option<Arc<LayerMemory>>,
}

impl WritableArrays {
    /// The array that an entry is. Everything else follows from arrays.
    pub(crate) fn array(
        &self,
        version: &ContainerVersion,
        entry: EntryIndex,
    ) -> Result<ArrayNumber> {
        self.ground.writable()?;
        let opened = self.opener.open(version)?;
        if opened.writable().is_none() {
            if let Some(why) = opened.outermost()?.why_only_read() {
                self.tell_only_read(version, &format!("it cannot be written: {why}"));
            }
            return Err(Error::ReadOnly);
        }
        let name = || {
            let name = opened.name(entry).map(|name| name.to_string_lossy());
            name.unwrap_or_default()
        };
        if let Some(why) = opened.why_unreadable(entry) {
            let name = name();
            self.tell_only_read(
                version,
                &format!("{name} cannot be written: it is not shown: {why}"),
            );
            return Err(Error::ReadOnly);
        }
        opened.array_at(entry).ok_or_else(|| {
            let name = name();
            Error::Computed(format!("{name} follows from the arrays"))
        })
    }

    /// An array, to be written. One that follows from others cannot be.
    pub(crate) fn writer(
        &self,
        version: &Arc<ContainerVersion>,
        opened: &OpenContainer,
        number: ArrayNumber,
    ) -> Result<ArrayWriter> {
        let nothing = Change::Write { offset: 0, len: 0 };
        let (located, writable) = (opened.array(number)?, opened.writable());
        let writable = writable.ok_or(Error::ReadOnly)?;
        let container = self.stage_of(version)?;
        let permitted = writable.permits(located.address(), nothing);
        if matches!(permitted, Err(Error::ReadOnly)) {
            let path = located.path();
            let why = opened.outermost()?.why_array_only_read(&path);
            self.tell_only_read(version, &format!("{path} cannot be written: {why}"));
        }
        permitted?;
        let writes = &version.writes;
        let array = writes.stage_array(&container, number, &self.ground.cache)?;
        Ok(ArrayWriter::new(version, container, (number, array)))
    }

    /// Says in the log why a program was refused, once.
    fn tell_only_read(&self, version: &ContainerVersion, why: &str) {
        if version.writes.outcome.note_told_only_read(why) {
            let path = self.ground.shown_path(version.container);
            log::warn!("{}: {why}", path.display());
        }
    }

    /// The stage of a container.
    pub(crate) fn stage_of(
        &self,
        version: &Arc<ContainerVersion>,
    ) -> Result<Arc<LayeredContainer>> {
        // Its log is in nobody's way, and in ours.
        if let Some(unrecovered) = version.writes.log.unrecovered()
            && version.writes.log.keeps_out()
        {
            let cause = std::io::Error::from_raw_os_error(libc::EACCES);
            return Err(Error::io(unrecovered.why.to_string(), cause));
        }
        let container = version.writes.begun(&self.ground.cache, || {
            let path = self.ground.places.path(version.container)?;
            let found = version.recognised.stat(&*self.ground.store, &path)?;
            let base = self.opener.open(version)?;
            let base_named = base_of(&version.recognised, &found);
            let place = ContainerPlace::of(&self.ground, version.container, &version.recognised)?;
            let memory = self.memory.as_ref().ok_or(Error::ReadOnly)?;
            let stage = Stage::new(place, base_named, Arc::clone(memory));
            LayeredContainer::new(stage, Arc::clone(&base))
        })?;
        match container.stage.check_log() {
            Err(e) if e.is_refusal() => {
                let path = self.ground.known_path(version.container);
                let path = self.ground.store.display(&path);
                let why = format!(
                    "{}: its arrays cannot be written, for no log can be made beside it: {e}",
                    path.display()
                );
                let cause = std::io::Error::from_raw_os_error(libc::EACCES);
                Err(Error::io(why, cause))
            }
            // The write reports it.
            Err(e) if e.is_no_room() => Ok(container),
            checked => checked.map(|()| container),
        }
    }
}
