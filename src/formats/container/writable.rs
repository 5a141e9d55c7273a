//! What a format says of changing its containers: what may be done to an array, whether what was
//! done makes a container, and how its files come about.
//!
//! A format never writes. It streams a [`Recipe`]: stored bytes that stay as they are, and bytes
//! that are new. Whether that becomes another file beside the old one or changes the file itself is
//! the business of `commit`, which uses this together with `stage`. Assumes that the container was
//! opened without faults and is still what was opened.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::inside::{ArrayAddress, ContainerNumber};
use super::own_lengths::ArrayLengths;
use super::{Attributes, Check, Container};
use crate::array::chunking::{ChunkId, Chunking};
use crate::array::stored_run::StoredRun;
use crate::array::{Array, Info};
use crate::container::creation::{GivenType, NOT_TYPED};
use crate::error::{Error, Result};
use crate::memory::budget::{Budget, Hold};
use crate::source::Source;
use crate::source::switched::Handover;

/// Something that is to be done to an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Bytes are written, perhaps behind the end.
    Write { offset: u64, len: u64 },
    /// The array gets this length, to be committed as it is.
    SetLen(u64),
    /// The array gets this length on the way to another one: the caller has it open for writing.
    Truncate(u64),
}

/// Whether a container as it would be can be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Consistency {
    Now,
    /// Arrays do not agree with each other: as long as that is so they stay staged. Says which, and
    /// why.
    NotYet(String),
    /// The format cannot hold it as it is; says why.
    Unfit(String),
}

impl Consistency {
    /// Whether a check of the changed arrays finds nothing.
    pub(crate) fn checked(check: &dyn Check, budget: &Arc<Budget>) -> Result<Consistency> {
        let mut first = None;
        check.check(budget, &mut |fault| {
            first.get_or_insert_with(|| fault.to_string());
        })?;
        Ok(first.map_or(Consistency::Now, Consistency::NotYet))
    }
}

/// A file of a container: its number among those that make up its identity; the file that it is, or
/// the first member of its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberNumber(pub u32);

impl MemberNumber {
    pub const ONLY: MemberNumber = MemberNumber(0);
}

/// How a recipe is going to be carried out, as far as it makes a difference to what is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitWay {
    /// All bytes go to a new file: nothing is gained by leaving any where they are.
    Replaced,
    /// Bytes that stay where they are cost nothing: of the file itself, or of a new one that shares
    /// them.
    InPlace,
}

/// An array with its changes.
#[derive(Clone)]
pub struct ChangedArray {
    /// In which it is, of those of the file.
    pub container: ContainerNumber,
    /// As it is shown: what is stored, and the changes over it.
    pub shown: Arc<dyn Array>,
    /// Its length as shown.
    pub len: u64,
    /// Ranges that were written, in order. What lies behind the stored length is zero where nothing
    /// was.
    pub ranges: Vec<Range<u64>>,
    /// So many of the stored bytes still show where nothing was written.
    pub visible: u64,
    /// What was done of it while it was being written.
    pub done_before: Option<Arc<dyn DoneBefore>>,
}

impl ChangedArray {
    pub fn address(&self) -> ArrayAddress<'_> {
        let (container, name) = (self.container, self.shown.name());
        ArrayAddress { container, name }
    }

    /// Whether bytes need not be told: [`DoneBefore::lying`].
    pub(crate) fn lies(&self, run: &StoredRun, range: &Range<u64>) -> bool {
        self.lying(run, range).as_ref() == Some(range)
    }

    fn lying(&self, run: &StoredRun, range: &Range<u64>) -> Option<Range<u64>> {
        self.done_before.as_ref()?.lying(run, range)
    }

    /// The beginning of a range: where it ends to be all bytes that lie there, or all others.
    pub(crate) fn until_lying_changes(&self, run: &StoredRun, range: &Range<u64>) -> u64 {
        match self.lying(run, range) {
            Some(lying) if lying.start == range.start => lying.end,
            Some(lying) => lying.start,
            None => range.end,
        }
    }
}

/// The change of the array of this name.
pub(crate) fn change_of<'a>(changes: &[&'a ChangedArray], name: &str) -> Option<&'a ChangedArray> {
    let found = changes.iter().find(|change| change.shown.name() == name);
    found.copied()
}

/// What was done of an array before its commit.
pub trait DoneBefore: Send + Sync {
    /// Gives exactly this block to `take`, as [`WritableContainer::encode_block`] has encoded it,
    /// if nothing was written to it since; says whether.
    fn take(&self, block: ChunkId, take: &mut dyn FnMut(&[u8])) -> bool;

    /// The place of the array's bytes in a new file that was begun before the commit.
    fn run(&self) -> Option<StoredRun> {
        None
    }

    /// The first bytes of a range of the array that lie there, as they are shown with all changes,
    /// in the new file which the recipe is told for.
    fn lying(&self, _in: &StoredRun, _range: &Range<u64>) -> Option<Range<u64>> {
        None
    }
}

/// How files come about, told in any order: every byte once, but for bytes of sections that are
/// told again; or what changes of a file whose rest is kept. No byte of a file may be left out. A
/// file of which nothing is told stays as it is.
pub trait Recipe {
    /// Stored bytes of the file as it is, to this place.
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()>;

    /// New bytes.
    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()>;

    /// New bytes that lie there already ([`DoneBefore::lying`]).
    fn lies(&mut self, file: MemberNumber, range: Range<u64>) -> Result<()> {
        let fault = format!("nothing lies at {range:?} of file {} yet", file.0);
        Err(Error::Bug(fault))
    }

    /// Bytes behind the end that the file has, which are zeros, and of which nothing else is told:
    /// nothing need be stored there.
    fn zeros(&mut self, file: MemberNumber, range: Range<u64>) -> Result<()> {
        const AT_ONCE: u64 = 64 << 10;
        let mut at = range.start;
        while at < range.end {
            let n = AT_ONCE.min(range.end - at);
            self.put(file, at, &[0; AT_ONCE as usize][..n as usize])?;
            at += n;
        }
        Ok(())
    }

    /// The first that is told of a file: its bytes stay where they are, but for those that are put
    /// over them or copied, and it keeps its length unless another one is told. Refused where there
    /// is nothing to keep.
    fn keep_rest(&mut self, file: MemberNumber) -> Result<()> {
        let fault = format!("nothing can be kept of file {}, which is new", file.0);
        Err(Error::Bug(fault))
    }

    /// The length of the file, told last, of every file of which anything is told and nothing is
    /// kept.
    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()>;

    /// What who runs the mount is to know of the commit: a line of the log, which names the
    /// container.
    fn note(&mut self, _what: &str) {}
}

/// How much a commit would do, about.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Stored bytes of the files.
    pub stored: u64,
    /// Stored bytes of blocks that have changed, as far as it can be counted before they are
    /// encoded.
    pub changed: u64,
    /// Bytes, as they are stored, for which the files have no room yet, however well anything is
    /// packed.
    pub grown: u64,
    /// Everything behind the first change moves, whatever is done.
    pub moves: bool,
    /// Plain bytes that are encoded.
    pub encoded: u64,
    /// No stored block shows how well the new bytes can be packed: `changed` is the most that it
    /// can take.
    pub guessed: bool,
}

impl Amount {
    /// So many times more is encoded than is stored for `changed` to be more than a guess.
    const TELLING: u64 = 16;

    /// Whether there are too few stored blocks to show how well so many new bytes can be packed.
    pub fn is_guess(stored: u64, encoded: u64) -> bool {
        encoded / Amount::TELLING > stored
    }
}

/// Where a container says something else of itself with changes that are not stored.
#[derive(Default)]
pub struct Restated {
    pub version: Option<String>,
    pub attributes: Attributes,
    /// Texts beside the arrays, by their names.
    pub texts: BTreeMap<String, Arc<Vec<u8>>>,
    /// Of groups in it, by their paths; its own attributes are those of the empty one.
    pub groups: BTreeMap<String, Attributes>,
    /// Of arrays: what they are. How they are stored has not changed.
    pub arrays: BTreeMap<String, Info>,
}

/// Bytes of an array that follows from others, and the charge for them.
pub struct ComputedBytes {
    pub bytes: Vec<u8>,
    pub hold: Hold,
}

impl AsRef<[u8]> for ComputedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An array that is another than before, and its number in the container.
pub type OtherArray = (usize, Arc<dyn Array>);

/// A container after a commit, read from the file as it is going to be until that is handed over.
pub struct Successor {
    pub container: Container,
    /// Where everything else is that of the container before: what the commit leaves goes on with
    /// the file. None: all of it is new.
    pub changed: Option<Vec<OtherArray>>,
    pub handover: Handover,
}

/// A container that can be changed, with all that are inside of it.
pub trait WritableContainer: Send + Sync {
    /// Whether something may be done to an array; EPERM for what follows from other arrays, EINVAL
    /// for what the format cannot hold.
    fn permits(&self, array: ArrayAddress<'_>, change: Change) -> Result<()>;

    /// What an array is at this length.
    fn info(&self, array: ArrayAddress<'_>, len: u64) -> Result<Info>;

    /// An element of an array, as it is shown, where nothing was ever written; none: zeros.
    fn fill(&self, _array: ArrayAddress<'_>) -> Option<Vec<u8>> {
        None
    }

    /// Whether an array that can be written shows what follows from others as long as nothing of it
    /// has been written.
    fn follows(&self, _array: ArrayAddress<'_>) -> bool {
        false
    }

    /// How the container gets another type for an array of so many bytes, which its own are or
    /// other ones; none if it has that type. EINVAL if it does not fit, or the format has no place
    /// to say it.
    fn retyped(
        &self,
        _array: ArrayAddress<'_>,
        _to: &GivenType,
        _bytes: u64,
    ) -> Result<Option<Arc<dyn WritableContainer>>> {
        Err(Error::Invalid(NOT_TYPED.into()))
    }

    /// What a container of the file says of itself with these changes, whether or not they can be
    /// stored.
    fn restate(
        &self,
        container: ContainerNumber,
        changed: &[ChangedArray],
        budget: &Arc<Budget>,
    ) -> Result<Restated>;

    /// An array that follows from others, with these changes of them; none if it is as it is
    /// stored, or follows from none.
    fn computed(
        &self,
        _array: ArrayAddress<'_>,
        _changed: &[ChangedArray],
        _budget: &Arc<Budget>,
    ) -> Result<Option<ComputedBytes>> {
        Ok(None)
    }

    /// Whether the container can be stored with these changes. What has not changed is not checked.
    /// Memory is charged to `budget`, of which the caller holds none.
    fn consistency(&self, changed: &[ChangedArray], budget: &Arc<Budget>) -> Result<Consistency>;

    fn amount(&self, changed: &[ChangedArray]) -> Result<Amount>;

    /// The lengths with which arrays are shown after a commit of these changes where the file says
    /// others.
    fn own_lengths(&self, _changed: &[ChangedArray]) -> ArrayLengths {
        ArrayLengths::new()
    }

    /// Where the bytes of an array lie in the file as it is, and as these changes make it, if they
    /// lie in one piece and stay where they are.
    fn stored_run(
        &self,
        _array: ArrayAddress<'_>,
        _changed: &[ChangedArray],
    ) -> Result<Option<StoredRun>> {
        Ok(None)
    }

    /// The blocks of an array of this length that can be encoded, when they are complete, before
    /// the others are known. What is appended to the array leaves them as they are.
    fn blocks_ahead(&self, _array: ArrayAddress<'_>, _len: u64) -> Option<Arc<dyn Chunking>> {
        None
    }

    /// Encodes such a block of a changed array, whose other changes do not matter; none if there is
    /// no memory for it now.
    fn encode_block(
        &self,
        _changed: &ChangedArray,
        _block: ChunkId,
        _budget: &Arc<Budget>,
    ) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Tells how the files of the container with these changes come about. Memory is reserved once,
    /// before anything is told.
    fn recipe(
        &self,
        changed: &[ChangedArray],
        way: CommitWay,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<()>;

    /// The container that the recipe which was told last makes, as far as the format knows more of
    /// it than an opening would; none if it has to be opened. `future`: its only file, as it is
    /// going to be.
    fn succeed(
        &self,
        _before: &Container,
        _future: &Arc<dyn Source>,
        _budget: &Arc<Budget>,
    ) -> Result<Option<Successor>> {
        Ok(None)
    }

    /// Whether programs of the format lock the files that they have open, and lose if those are
    /// changed meanwhile.
    fn heeds_locks(&self) -> bool {
        false
    }

    /// Bytes of the file in which nothing lies, as far as is known: at least so many.
    fn dead_bytes(&self) -> u64 {
        0
    }

    /// Bytes of the file in which programs note that they have it open, and take that back when
    /// they close it.
    fn marks(&self) -> Range<u64> {
        0..0
    }

    /// The recipe that was told last has become the container.
    fn published(&self) {}
}
