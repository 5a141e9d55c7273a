//! Giving an array another type: a commit that changes what the container says, and no byte of the
//! array.
//!
//! Used by `tree::writing::retyped`.

use std::sync::Arc;

use super::changes::Changes;
use super::committer::Committer;
use super::effort::Effort;
use super::ending::MountEnd;
use crate::commit::NotNow;
use crate::container::creation::GivenType;
use crate::container::writable::{ChangedArray, WritableContainer};
use crate::error::{Error, Result};
use crate::live::current::CurrentVersions;
use crate::live::ground::Ground;
use crate::live::refusal::refused_saying;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::version::ContainerVersion;
use crate::live::writing::{LayeredContainer, WritableArrays};
use crate::source::Timestamp;
use crate::stage::ShowLayers;

/// Gives arrays other types.
pub(crate) struct Retyping {
    pub(crate) ground: Arc<Ground>,
    pub(crate) current: Arc<CurrentVersions>,
    pub(crate) writable: Arc<WritableArrays>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) ending: Arc<MountEnd>,
}

impl Retyping {
    /// Gives an array another type. Bytes that have been written to it are committed before, with
    /// the type that it has.
    pub(crate) fn retype(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
        to: &GivenType,
    ) -> Result<()> {
        self.current.check(version)?;
        let number = self.writable.array(version, entry)?;
        self.committer.commit(version, Effort::All)?;
        let container = self.writable.stage_of(version)?;
        let writes = &version.writes;
        let _locked = writes.wait_for_turn()?;
        if !container.stage.is_clean() {
            let what = "set the type of an array that is being written".to_owned();
            return Err(refused_saying(what, libc::EBUSY));
        }
        let base = container.base();
        let located = base.array(number)?;
        let len = base.info(number)?.bytes;
        let writable = container.writable();
        let Some(writable) = writable.retyped(located.address(), to, len)? else {
            return Ok(());
        };
        let unchanged = ChangedArray {
            container: located.container,
            shown: container.merged(number, Vec::new(), &self.ground.cache)?,
            len,
            ranges: Vec::new(),
            visible: len,
            done_before: None,
        };
        self.commit_retyped(version, &container, &*writable, unchanged)
    }

    /// A commit of no bytes, which a crash leaves done or not done as any other.
    fn commit_retyped(
        &self,
        version: &Arc<ContainerVersion>,
        container: &LayeredContainer,
        writable: &dyn WritableContainer,
        unchanged: ChangedArray,
    ) -> Result<()> {
        let writes = &version.writes;
        let freeze = |show: ShowLayers<'_>| container.stage.freeze_all(show);
        let frozen = writes.change_layers(container, &self.ground.cache, freeze)?;
        let frozen = frozen.ok_or_else(|| Error::Bug("two commits at once".into()))?;
        let changes = Changes {
            writable,
            changed: &[unchanged],
            layer: frozen.number(),
            written: Some(Timestamp::now()),
        };
        let done = self.ending.now_or_never(|| {
            self.committer
                .commit_changes(version, container, &changes, Effort::All)
        });
        if !matches!(done, Ok(Ok(()))) {
            writes.unfreeze(container, &self.ground.cache)?;
        }
        match done? {
            Ok(()) => Ok(()),
            Err(NotNow::Stays(why)) => Err(Error::Invalid(why)),
            Err(NotNow::Waits(in_use)) => Err(Error::Invalid(in_use.by)),
            Err(NotNow::TooMuch) => Err(Error::Bug("there was no limit".into())),
        }
    }
}
