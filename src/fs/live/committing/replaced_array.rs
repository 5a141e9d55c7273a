//! Arrays that get the content of a file: one that is renamed over an array, as editors and rsync
//! do it, or made under the name of an array that was removed; and arrays to which a file is
//! appended.
//!
//! Used by `tree::writing::rename`, and by [`crate::live::unmounted`].

use std::sync::Arc;

use super::committer::Committer;
use super::due::DueCommits;
use super::effort::Effort;
use super::ending::MountEnd;
use super::waiting::HeldFiles;
use crate::array::Array;
use crate::array::direct::DirectArray;
use crate::array::lengthened::Lengthened;
use crate::commit::NotNow;
use crate::container::creation::GivenType;
use crate::container::inside::ArrayAddress;
use crate::container::writable::{Change, ChangedArray, WritableContainer};
use crate::error::{Error, Result};
use crate::live::ground::Ground;
use crate::live::opening::Opener;
use crate::live::places::{Forget, Stale};
use crate::live::shown::entry_table::{ArrayNumber, EntryIndex};
use crate::live::version::ContainerVersion;
use crate::live::writing::replacing::OldPages;
use crate::live::writing::{ArrayWriter, LayeredContainer, WritableArrays, WrittenVersions};
use crate::source::{Source, Timestamp};
use crate::stage::ShowLayers;

/// Bytes that are copied at once.
const STEP: usize = 256 << 10;

/// Gives arrays other contents.
pub(crate) struct ArrayReplacing {
    pub(crate) ground: Arc<Ground>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) writable: Arc<WritableArrays>,
    pub(crate) written: Arc<WrittenVersions>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) ending: Arc<MountEnd>,
    pub(crate) held: Arc<HeldFiles>,
    pub(crate) due: Arc<DueCommits>,
}

impl ArrayReplacing {
    /// Gives the array to which a name leads the content of a file: all of it or none, and a reader
    /// sees the old content or the new one, by whichever name. `said`: the type that the file's
    /// attributes give, which is the array's, or which it gets with the content.
    pub(crate) fn replace(
        &self,
        version: &Arc<ContainerVersion>,
        name: EntryIndex,
        (file, said): (Arc<dyn Source>, &GivenType),
    ) -> Result<()> {
        let (opened, number) = (
            self.opener.open(version)?,
            self.writable.array(version, name)?,
        );
        let writer = self.writable.writer(version, &opened, number)?;
        let content = self.content_of(&writer, file, said)?;
        // Changes that were written until now are not lost if this fails, nor do they keep this
        // from succeeding.
        if let Err(e) = self.committer.commit(version, Effort::All) {
            log::debug!("{e}");
        }
        self.written.remember(version);
        let replacement = version.writes.replacements.begin(writer.array);
        match self.commit_content(&writer, &content) {
            Ok(()) => {
                version.tombstones.remove(name);
                let old_pages = Arc::new(replacement.succeeded());
                self.outdate_pages_of(version, opened.file_of(name), Some(&old_pages));
                Ok(())
            }
            Err(e) => {
                self.written.forget(version);
                Err(e)
            }
        }
    }

    fn content_of(
        &self,
        writer: &ArrayWriter,
        file: Arc<dyn Source>,
        said: &GivenType,
    ) -> Result<ArrayContent> {
        let now = file.stat()?;
        let said = retyped(writer, said, now.size)?.map(|_| said.clone());
        if said.is_none() {
            writer.permits(Change::SetLen(now.size))?;
        }
        let is_one_file = writer.version.recognised.layout().is_file();
        Ok(ArrayContent {
            number: writer.number,
            before: None,
            said,
            file,
            len: now.size,
            // The arrays of several files have one time.
            written: match is_one_file {
                true => now.mtime,
                false => Timestamp::now(),
            },
        })
    }

    /// Appends the bytes of a file to an array of a container of which nothing is staged: all of
    /// them or none.
    pub(crate) fn append(
        &self,
        version: &Arc<ContainerVersion>,
        number: ArrayNumber,
        file: Arc<dyn Source>,
    ) -> Result<()> {
        let opened = self.opener.open(version)?;
        let before = Arc::clone(&opened.array(number)?.array);
        let len = before.info()?.bytes.checked_add(file.len());
        let too_long = || Error::Invalid("the array would be too long".into());
        let len = len.ok_or_else(too_long)?;
        let writer = self.writable.writer(version, &opened, number)?;
        writer.permits(Change::SetLen(len))?;
        let content = ArrayContent {
            number,
            before: Some(before),
            said: None,
            file,
            len,
            written: Timestamp::now(),
        };
        self.commit_content(&writer, &content)
    }

    /// One commit, of this content and of all staged changes. Bytes that are written meanwhile are
    /// staged above it.
    fn commit_content(&self, writer: &ArrayWriter, content: &ArrayContent) -> Result<()> {
        let (version, container) = (&writer.version, &writer.container);
        let writes = &version.writes;
        let _locked = writes.wait_for_turn()?;
        self.unfreeze(version, container)?;
        let freeze = |show: ShowLayers<'_>| container.stage.freeze_all(show);
        let frozen = writes.change_layers(container, &self.ground.cache, freeze)?;
        let frozen = frozen.ok_or_else(|| Error::Bug("a layer cannot be frozen".into()))?;
        container.note_replacing(Some((writer.array, content.len)));
        let layer = (&frozen, Some(content));
        let committer = &self.committer;
        let commit = || committer.commit_layer(version, container, layer, Effort::All);
        let done = match content.is_staged() {
            true => self.ending.while_wanted(Effort::All.in_a_hurry(), commit),
            false => self.ending.now_or_never(commit),
        }
        .map_err(|e| container.note_failure(e));
        container.note_replacing(None);
        match done {
            Ok(Ok(())) => {
                writes.outcome.note_why(None);
                self.written.forget(version);
                Ok(())
            }
            Ok(Err(NotNow::Stays(why))) if !content.is_staged() => {
                self.unfreeze(version, container)?;
                Err(Error::Invalid(why))
            }
            Ok(Err(NotNow::Stays(why))) => {
                writes.outcome.note_why(Some(why));
                self.leave_content(writer, content)
            }
            Ok(Err(NotNow::Waits(in_use))) if !content.is_staged() => {
                self.unfreeze(version, container)?;
                Err(Error::Invalid(in_use.by))
            }
            Ok(Err(NotNow::Waits(in_use))) => {
                self.held.wait_for_program(version, in_use);
                self.leave_content(writer, content)
            }
            // The mount is about to end: the next one commits it.
            Err(Error::Unwanted) if content.is_staged() => self.unwanted_content(writer, content),
            Ok(Err(NotNow::TooMuch)) => {
                let unlimited = Error::Bug("a commit without limits is too much".into());
                self.unfreeze(version, container).and(Err(unlimited))
            }
            Err(e) => self.unfreeze(version, container).and(Err(e)),
        }
    }

    fn unwanted_content(&self, writer: &ArrayWriter, content: &ArrayContent) -> Result<()> {
        self.stage_content(writer, content)?;
        self.due.put_off(&writer.version, &writer.container)
    }

    /// What has been taken does not go with the daemon: the file that has it goes now.
    fn leave_content(&self, writer: &ArrayWriter, content: &ArrayContent) -> Result<()> {
        self.stage_content(writer, content)?;
        writer.stage().log_all()
    }

    /// Stages the content of an array that does not agree with others yet, above the frozen layer.
    fn stage_content(&self, writer: &ArrayWriter, content: &ArrayContent) -> Result<()> {
        let (writes, stage) = (&writer.version.writes, writer.stage());
        // A log is not made while readers wait, for that may wait for a move.
        let alone = stage.alone();
        let begun = stage.begin_content(&alone, writer.array);
        writes.stored.while_nobody_reads(|| {
            let take_back = |e| stage.take_back_content(writer.array).and(Err(e));
            let copied = begun.and_then(|()| copy(writer, content).or_else(take_back));
            let unfrozen = writes.unfreeze(&writer.container, &self.ground.cache);
            unfrozen.and(copied)
        })
    }

    fn unfreeze(&self, version: &ContainerVersion, container: &LayeredContainer) -> Result<()> {
        let writes = &version.writes;
        let unfrozen = writes.unfreeze(container, &self.ground.cache);
        // A log that was made for this commit alone.
        unfrozen.and(writes.tidy(container, &self.ground.cache))
    }

    /// The kernel's pages of an array are of its old content.
    fn outdate_pages_of(
        &self,
        version: &ContainerVersion,
        entry: EntryIndex,
        old_pages: Option<&Arc<OldPages>>,
    ) {
        let stale = |found| match found == entry {
            true => Stale::Pages(old_pages.cloned()),
            false => Stale::Nothing,
        };
        let stale = Forget::Stale(version.id, &stale);
        self.ground.places.forget(version.container, stale);
    }
}

/// How the container gets the type that a file's attributes give, with so many bytes of the file;
/// none if the array has it then.
fn retyped(
    writer: &ArrayWriter,
    said: &GivenType,
    bytes: u64,
) -> Result<Option<Arc<dyn WritableContainer>>> {
    if said.is_empty() {
        return Ok(None);
    }
    writer.container.ask(writer.number, |writable, address| {
        match said.agrees_with(&writable.info(address, bytes)?) {
            true => Ok(None),
            false => writable.retyped(address, said, bytes),
        }
    })?
}

fn copy(writer: &ArrayWriter, content: &ArrayContent) -> Result<()> {
    let (stage, file, len) = (writer.stage(), &content.file, content.len);
    stage.set_len(writer.array, 0)?;
    let mut buf = vec![0; STEP];
    let mut at = 0;
    while at < len {
        let n = STEP.min(usize::try_from(len - at).unwrap_or(STEP));
        file.fetch_one(at, &mut buf[..n])?;
        let mut done = 0;
        while done < n {
            done += stage.write(writer.array, at + done as u64, &buf[done..n])?;
        }
        at += n as u64;
    }
    stage.set_len(writer.array, len)
}

/// The new content of an array.
pub(crate) struct ArrayContent {
    number: ArrayNumber,
    /// The array as it is, if the file is appended to it.
    before: Option<Arc<dyn Array>>,
    /// The type that the array gets with it, if it is another one.
    said: Option<GivenType>,
    file: Arc<dyn Source>,
    /// Bytes of all of it.
    len: u64,
    /// The time of modification that the container has then.
    pub(crate) written: Timestamp,
}

impl ArrayContent {
    /// Whether it can wait in the stage, which has no place for a type.
    fn is_staged(&self) -> bool {
        self.before.is_none() && self.said.is_none()
    }

    /// What tells the recipe, with the type that the array gets.
    pub(crate) fn writable(
        &self,
        container: &LayeredContainer,
    ) -> Result<Arc<dyn WritableContainer>> {
        let Some(said) = &self.said else {
            return Ok(container.writable());
        };
        let retyped = container.ask(self.number, |writable, address| {
            writable.retyped(address, said, self.len)
        })??;
        Ok(retyped.unwrap_or_else(|| container.writable()))
    }

    /// Takes the place of the array's staged changes.
    pub(crate) fn put_among(
        &self,
        container: &LayeredContainer,
        changed: &mut Vec<ChangedArray>,
    ) -> Result<()> {
        container.ask(self.number, |writable, address| {
            changed.retain(|other| other.address() != address);
            changed.push(self.as_change(writable, address)?);
            Ok(())
        })?
    }

    fn as_change(
        &self,
        writable: &dyn WritableContainer,
        address: ArrayAddress<'_>,
    ) -> Result<ChangedArray> {
        let (file, info) = (Arc::clone(&self.file), writable.info(address, self.len)?);
        let read = move |at, out: &mut [u8]| file.fetch_one(at, out);
        let (shown, visible): (Arc<dyn Array>, _) = match &self.before {
            Some(before) => {
                let visible = before.info()?.bytes;
                let shown = Lengthened::new(Arc::clone(before), info, read)?;
                (Arc::new(shown), visible)
            }
            None => {
                let shown = DirectArray::new(address.name.to_owned(), info, read);
                (Arc::new(shown), 0)
            }
        };
        let all = Some(visible..self.len).filter(|all| !all.is_empty());
        Ok(ChangedArray {
            container: address.container,
            shown,
            len: self.len,
            ranges: all.into_iter().collect(),
            visible,
            done_before: None,
        })
    }
}
