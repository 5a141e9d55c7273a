//! Bytes of arrays: opening for writing, writing, lengths, syncing, closing.
//!
//! Written bytes go to the container's stage, and are committed when the handle is closed. Used by
//! [`super`].

use std::ops::Range;
use std::sync::Arc;

use super::ArrayWriter;
use super::before_close::BeforeClose;
use super::remembered::WrittenVersions;
use super::runs::StoredRuns;
use super::writable::WritableArrays;
use crate::container::inside::ArrayAddress;
use crate::container::writable::{Change, WritableContainer};
use crate::disk::{Allocation, Durability, Putting};
use crate::error::{Error, Result};
use crate::live::committing::{Committer, Effort, LaterCommits};
use crate::live::current::CurrentVersions;
use crate::live::ground::Ground;
use crate::live::opening::Opener;
use crate::live::recovery::Recovery;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::OpenContainer;
use crate::live::shown::open_entry::{DerivedFile, OpenArray, OpenContent, OpenEntry};
use crate::live::version::ContainerVersion;

/// Most bytes of fill values that are staged because an array has become longer, and at once.
const FILLED_MOST: u64 = 16 << 30;
const FILLED_AT_ONCE: usize = 256 << 10;

/// Writes to arrays.
pub(crate) struct ArrayWriting {
    pub(crate) ground: Arc<Ground>,
    pub(crate) opener: Arc<Opener>,
    pub(crate) current: Arc<CurrentVersions>,
    pub(crate) recovery: Arc<Recovery>,
    pub(crate) writable: Arc<WritableArrays>,
    pub(crate) written: Arc<WrittenVersions>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) later: Arc<LaterCommits>,
    pub(crate) before_close: Arc<BeforeClose>,
    pub(crate) runs: Arc<StoredRuns>,
}

impl ArrayWriting {
    /// Opens an entry of a container, to be written.
    pub(crate) fn open(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
    ) -> Result<OpenEntry> {
        self.current.check(version)?;
        self.recovery.recover_again(version)?;
        let opened = self.opener.open(version)?;
        let number = self.writable.array(version, entry)?;
        let writer = self.writable.writer(version, &opened, number)?;
        let derived = self.stage_followed(&opened, &writer, entry)?;
        let shared = version.writes.share(number, &opened, &self.ground.cache)?;
        let content = OpenContent::Array(OpenArray::new(shared, Some(writer)));
        Ok(OpenEntry::new(content, opened).derived_from(derived))
    }

    /// What an array shows that follows from others is staged before it is written to: from then on
    /// it is what is written.
    fn stage_followed(
        &self,
        opened: &OpenContainer,
        writer: &ArrayWriter,
        entry: EntryIndex,
    ) -> Result<Option<DerivedFile>> {
        let (version, number) = (&writer.version, writer.number);
        if !opened.follows(number) {
            return Ok(None);
        }
        let computed = || writer.container.computed(number, &self.ground.cache);
        if let Some(computed) = version.writes.stored.while_it_stays(computed)? {
            // In this order nothing is staged if there is no room for it.
            writer.stage().write(writer.array, 0, &computed.bytes)?;
            let len = computed.bytes.len() as u64;
            writer.stage().set_len(writer.array, len)?;
        }
        Ok(Some(DerivedFile {
            version: Arc::clone(version),
            entry,
            edition: version.writes.edition(),
        }))
    }

    /// Writes to an array, and says how many bytes.
    pub(crate) fn write(
        &self,
        writer: &ArrayWriter,
        offset: u64,
        bytes: &[u8],
        how: Putting,
    ) -> Result<usize> {
        let replacements = &writer.version.writes.replacements;
        if how.of_mapping && replacements.is_of_the_old(writer.array) {
            return Ok(bytes.len());
        }
        let offset = match how.append {
            true => writer.stage().len(writer.array),
            false => offset,
        };
        let len = bytes.len() as u64;
        writer.permits(Change::Write { offset, len })?;
        self.fill_up_to(writer, offset)?;
        self.runs
            .begin(writer, &(offset..offset.saturating_add(len)));
        let n = match self.stage_bytes(writer, offset, bytes) {
            // So much has been written here and there that knowing where takes too much memory.
            Err(e) if e.is_no_memory() => {
                self.commit_for_room();
                self.stage_bytes(writer, offset, bytes)?
            }
            n => n?,
        };
        self.before_close
            .encode(writer, offset..offset.saturating_add(n as u64));
        self.before_close.log(writer, n as u64);
        if how.durable != Durability::Later {
            writer.stage().sync()?;
        }
        Ok(n)
    }

    /// Commits all that is staged: whichever container has the most small pieces.
    fn commit_for_room(&self) {
        for (_, version) in self.written.all() {
            let commit = || self.committer.commit(&version, Effort::All);
            if let Err(e) = self.ground.retry(commit) {
                log::debug!("nothing staged is given up: {e}");
            }
        }
    }

    fn stage_bytes(&self, writer: &ArrayWriter, offset: u64, bytes: &[u8]) -> Result<usize> {
        let n = writer.stage().write(writer.array, offset, bytes)?;
        self.was_staged(writer);
        Ok(n)
    }

    /// What lies between the end of an array and a place behind it is not written by the caller: it
    /// becomes zeros, or what the format has there.
    fn fill_up_to(&self, writer: &ArrayWriter, end: u64) -> Result<()> {
        let len = writer.stage().len(writer.array);
        if end <= len {
            return Ok(());
        }
        let ask =
            |writable: &dyn WritableContainer, address: ArrayAddress<'_>| writable.fill(address);
        let fill = writer.container.ask(writer.number, ask)?;
        let Some(fill) = fill.filter(|fill| !fill.is_empty()) else {
            return Ok(());
        };
        if end - len > FILLED_MOST {
            let gibibytes = FILLED_MOST >> 30;
            let why = format!("more than {gibibytes} GiB of fill values would be written");
            return Err(Error::Invalid(why));
        }
        let skip = (len % fill.len() as u64) as usize;
        let elements = FILLED_AT_ONCE.div_ceil(fill.len());
        let pattern = fill.repeat(elements);
        let (mut at, mut skip) = (len, skip);
        while at < end {
            let part = &pattern[skip..];
            let n = part
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            at += self.stage_bytes(writer, at, &part[..n])? as u64;
            skip = (at % fill.len() as u64) as usize;
        }
        Ok(())
    }

    fn was_staged(&self, writer: &ArrayWriter) {
        writer.note_write();
        self.written.remember(&writer.version);
    }

    /// Changes the length of an array by its name alone, and commits that at once.
    pub(crate) fn set_len(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
        len: u64,
    ) -> Result<()> {
        self.current.check(version)?;
        self.recovery.recover_again(version)?;
        let (opened, number) = (
            self.opener.open(version)?,
            self.writable.array(version, entry)?,
        );
        let writer = self.writable.writer(version, &opened, number)?;
        writer.permits(Change::SetLen(len))?;
        self.stage_followed(&opened, &writer, entry)?;
        self.fill_up_to(&writer, len)?;
        writer.stage().set_len(writer.array, len)?;
        self.written.remember(version);
        self.later.commit_length(version)
    }

    /// Changes the length of an array by a handle that is open for writing: a write is about to
    /// follow, so nothing is committed.
    pub(crate) fn truncate(&self, writer: &ArrayWriter, len: u64) -> Result<()> {
        writer.permits(Change::Truncate(len))?;
        self.fill_up_to(writer, len)?;
        writer.stage().set_len(writer.array, len)?;
        self.was_staged(writer);
        Ok(())
    }

    /// Empties it for a handle that was just opened to write it anew: the old content stays stored
    /// until new bytes are written, or the array is closed for the last time.
    pub(crate) fn empty(&self, writer: &ArrayWriter) -> Result<()> {
        writer.permits(Change::Truncate(0))?;
        writer.stage().set_len(writer.array, 0)?;
        writer.note_emptied();
        self.written.remember(&writer.version);
        Ok(())
    }

    /// No room is set aside for an array: how much it takes shows when it is encoded. A range
    /// becomes zeros.
    pub(crate) fn allocate(&self, writer: &ArrayWriter, what: Allocation) -> Result<()> {
        use libc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE};
        let bit = |flag: i32| what.mode & flag.cast_unsigned() != 0;
        let known = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE;
        if what.mode & !known.cast_unsigned() != 0 {
            return Err(Error::Unsupported);
        }
        let end = what.offset.saturating_add(what.len);
        let len = writer.stage().len(writer.array);
        if !bit(FALLOC_FL_KEEP_SIZE) && end > len {
            self.truncate(writer, end)?;
        }
        if bit(FALLOC_FL_PUNCH_HOLE) || bit(FALLOC_FL_ZERO_RANGE) {
            self.zero_array(writer, what.offset.min(len)..end.min(len))?;
        }
        Ok(())
    }

    fn zero_array(&self, writer: &ArrayWriter, range: Range<u64>) -> Result<()> {
        let change = Change::Write {
            offset: range.start,
            len: range.end - range.start,
        };
        writer.permits(change)?;
        writer.stage().write_zeros(writer.array, range)?;
        self.was_staged(writer);
        Ok(())
    }

    /// Returns when the bytes written to an array survive a crash. It is an error if another
    /// process has changed the container meanwhile: the written bytes are safe, and remain staged.
    pub(crate) fn sync(&self, writer: &ArrayWriter) -> Result<()> {
        match writer.stage().sync() {
            // It has been removed: the written bytes cannot be found again.
            Err(e) if e.is_not_found() && self.ground.is_removed(&writer.version) => return Ok(()),
            synced => synced?,
        }
        self.current
            .check(&writer.version)
            .map_err(|e| writer.container.note_failure(e))?;
        writer.version.writes.outcome.tell()
    }

    /// Returns when everything that is staged of a container survives a crash, if anything is.
    pub(crate) fn sync_staged(&self, version: &Arc<ContainerVersion>) -> Result<()> {
        let Some(container) = version.writes.now().filter(|now| !now.stage.is_gone()) else {
            return Ok(());
        };
        container.stage.sync()?;
        self.current
            .check(version)
            .map_err(|e| container.note_failure(e))?;
        version.writes.outcome.tell()
    }

    /// A handle is closed, perhaps not for the last time: a child has one more. The written bytes
    /// are committed.
    pub(crate) fn close(&self, writer: &ArrayWriter) -> Result<()> {
        match writer.commits_at_close() {
            true => self
                .ground
                .retry(|| self.later.commit_at_close(&writer.version)),
            false if writer.was_emptied() => self.log_if_put_off(writer),
            false => Ok(()),
        }
    }

    /// The end of a handle comes some time after close(2) has returned. Where that would put the
    /// commit off, the log has the change before: a daemon may be killed between the two.
    fn log_if_put_off(&self, writer: &ArrayWriter) -> Result<()> {
        match self.later.puts_off(&writer.version, &writer.container) {
            Some(_) => writer.stage().log_all(),
            None => Ok(()),
        }
    }

    /// The end of a handle through which an array was written: bytes that came after its first
    /// close are committed.
    pub(crate) fn end(&self, writer: &ArrayWriter) {
        if writer.commits_at_end()
            && let Err(e) = self
                .ground
                .retry(|| self.later.commit_at_close(&writer.version))
        {
            let path = self.ground.shown_path(writer.version.container);
            log::error!("{}: not committed: {e}", path.display());
        }
    }
}
