//! The content of a log, put together from its records.
//!
//! Layers that no commit is about are made one, the later ones above. So there are at most two, the
//! one that was being committed and the one after it, however many a log names. Extents of a layer
//! may be logged after those of the next one, so records are sorted by layer before they are
//! applied. Everything that a record says is checked here: arrays and files there are, ranges that
//! an array can have, names that stay in the container.

mod check;
mod growing;
mod layer;
mod next;
mod provisional;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use check::{check_index, check_len, check_name, check_range};
pub(crate) use layer::FoundLayer;
use layer::LoggedChange;
pub(crate) use next::FoundNext;
use next::LoggedReference;
use provisional::Provisional;

use super::patch::{Patch, last_said};
use super::record::{self, Begin, CommitRecord, LoggedArray, NewFileRecord, Record, SealedFile};
use super::{Base, LogBytes};
use crate::array::stored_run::StoredRun;
use crate::error::{Fault, Result};
use crate::memory::fallible;
use crate::records::FoundRecord;
use crate::source::{FileIdentity, Source};
use crate::stage::layer::Layer;
use crate::stage::next_file::NextFile;
use crate::stage::written_array::WrittenArray;

const DOING: &str = "cannot read the log of a stage";

/// The content of a container's log.
pub struct LogState {
    /// Under which it lies.
    name: OsString,
    source: Arc<dyn Source>,
    base: Base,
    /// Paths, and lengths in the container.
    arrays: Vec<LoggedArray>,
    /// The changes logged of each layer, until it is committed or discarded.
    steps: BTreeMap<u64, Vec<LoggedChange>>,
    provisional: Provisional,
    /// Layers up to this one are the container's.
    committed: u64,
    highest: u64,
    /// The redo records of each file, by the number that the seal gives it.
    redo: BTreeMap<u32, Vec<Patch>>,
    lengths: Vec<(u32, u64)>,
    growing: growing::GrowingFiles,
    pending: Option<PendingCommit>,
    /// The bottom first.
    layers: Vec<FoundLayer>,
    /// To bytes in the next file, of each layer, until layers are made.
    references: BTreeMap<u64, Vec<LoggedReference>>,
    /// Where arrays lie there.
    runs: BTreeMap<u32, StoredRun>,
    next: Option<FoundNext>,
    end: u64,
    sequence: u64,
}

/// A commit of which the log does not say how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingCommit {
    /// All of [`LogState::redo`] and [`LogState::file_lengths`] is to be done, to these files.
    Sealed { layer: u64, files: Vec<SealedFile> },
    /// These files were about to take their places.
    Replacing {
        layer: u64,
        files: Vec<NewFileRecord>,
    },
}

impl PendingCommit {
    pub fn layer(&self) -> u64 {
        match *self {
            PendingCommit::Sealed { layer, .. } | PendingCommit::Replacing { layer, .. } => layer,
        }
    }
}

impl LogState {
    pub(super) fn new(begin: Begin, name: &OsStr, source: Arc<dyn Source>) -> Result<LogState> {
        let state = LogState {
            name: name.to_owned(),
            source,
            base: begin.base,
            arrays: Vec::new(),
            steps: BTreeMap::new(),
            provisional: Provisional::default(),
            committed: 0,
            highest: 0,
            redo: BTreeMap::new(),
            lengths: Vec::new(),
            growing: Default::default(),
            pending: None,
            layers: Vec::new(),
            references: BTreeMap::new(),
            runs: BTreeMap::new(),
            next: None,
            end: 0,
            sequence: 0,
        };
        state.check_base(&state.base)?;
        Ok(state)
    }

    /// `at`: where it begins.
    pub(super) fn add(&mut self, at: u64, found: &FoundRecord<'_>) -> Result<()> {
        match found.kind {
            record::EXTENT | record::REDO => self.add_bytes(found),
            record::COMMIT => self.add_commit(found.decoded()?),
            record::OTHER => self.add_other(at, found.decoded()?),
            record::BEGIN => Err(Fault::new("the log begins twice").into()),
            kind => Err(found.nonsense(format_args!("a record of kind {kind}"))),
        }
    }

    fn add_bytes(&mut self, found: &FoundRecord<'_>) -> Result<()> {
        let ([layer, index, offset], at, len) = found.bytes();
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        check_range(offset, len)?;
        if found.kind == record::REDO {
            let patch = Patch {
                at: offset,
                logged: at..at + len,
            };
            return fallible::push(self.redo.entry(index).or_default(), patch, DOING);
        }
        self.check_array(index)?;
        self.step(
            layer,
            LoggedChange::Put {
                array: index,
                offset,
                len,
                at,
            },
        )
    }

    fn add_other(&mut self, at: u64, record: Record) -> Result<()> {
        match record {
            Record::Length { layer, array, len } => {
                self.check_array(array)?;
                check_len(len)?;
                self.step(layer, LoggedChange::Length { array, len })
            }
            Record::Synced => Ok(()),
            Record::Zeros {
                layer,
                array,
                offset,
                len,
            } => {
                self.check_array(array)?;
                check_range(offset, len)?;
                self.step(layer, LoggedChange::Zeros { array, offset, len })
            }
            Record::Array(array) => {
                check_len(array.len)?;
                fallible::push(&mut self.arrays, array, DOING)
            }
            Record::Held(held) => self.hold(held),
            Record::InNext {
                layer,
                array,
                offset,
                len,
                run,
                crc,
            } => {
                self.check_array(array)?;
                check_range(offset, len)?;
                self.add_reference(LoggedReference {
                    layer,
                    array: WrittenArray(array),
                    range: offset..offset + len,
                    run,
                    crc,
                    at,
                })?;
                self.step(layer, LoggedChange::InNext { array, offset, len })
            }
            Record::Provisional { layer, array } => {
                self.check_array(array)?;
                self.check_layer(layer)?;
                self.provisional.begin(layer, array);
                Ok(())
            }
            Record::Kept { array } => {
                self.check_array(array)?;
                let mut steps = self.provisional.end(array).into_iter();
                steps.try_for_each(|(layer, step)| self.keep(layer, step))
            }
            Record::TakenBack { array } => {
                let known = self.check_array(array);
                known.map(|()| drop(self.provisional.end(array)))
            }
            Record::Thawed { .. } => {
                self.end_commit();
                Ok(())
            }
            Record::Committed { layer, base, lens } => self.commit(layer, base, &lens),
        }
    }

    fn add_commit(&mut self, record: CommitRecord) -> Result<()> {
        match record {
            CommitRecord::RedoLength { file, len } => {
                check_len(len)?;
                fallible::push(&mut self.lengths, (file, len), DOING)
            }
            CommitRecord::Sealed { layer, files } => {
                files.iter().try_for_each(|file| check_name(&file.name))?;
                self.pend(PendingCommit::Sealed { layer, files })
            }
            CommitRecord::Replacing { layer, files } => {
                files.iter().try_for_each(|file| check_name(&file.name))?;
                self.pend(PendingCommit::Replacing { layer, files })
            }
            CommitRecord::Growing { layer, file } => self.grow(layer, file),
            CommitRecord::Grown { name, end, grown } => self.has_grown(&name, (end, grown)),
        }
    }

    fn step(&mut self, layer: u64, change: LoggedChange) -> Result<()> {
        self.check_layer(layer)?;
        self.highest = self.highest.max(layer);
        match self.provisional.of(change.array(), layer) {
            Some(steps) => fallible::push(steps, (layer, change), DOING),
            None => self.keep(layer, change),
        }
    }

    fn keep(&mut self, layer: u64, change: LoggedChange) -> Result<()> {
        fallible::push(self.steps.entry(layer).or_default(), change, DOING)
    }

    fn pend(&mut self, commit: PendingCommit) -> Result<()> {
        self.check_layer(commit.layer())?;
        self.highest = self.highest.max(commit.layer());
        self.pending = Some(commit);
        Ok(())
    }

    fn end_commit(&mut self) {
        self.redo.clear();
        self.lengths.clear();
        self.growing = Default::default();
        self.pending = None;
    }

    fn commit(&mut self, layer: u64, base: Base, lens: &[u64]) -> Result<()> {
        self.check_layer(layer)?;
        self.check_base(&base)?;
        // Others may have come between the commit and its record.
        if lens.len() > self.arrays.len() {
            let fault = Fault::new("a commit has more arrays than there are");
            return Err(fault.expected(self.arrays.len()).found(lens.len()).into());
        }
        for (LoggedArray { len: own, .. }, &len) in self.arrays.iter_mut().zip(lens) {
            check_len(len)?;
            *own = len;
        }
        while self
            .steps
            .first_key_value()
            .is_some_and(|(&first, _)| first <= layer)
        {
            self.steps.pop_first();
        }
        for (layer, step) in self.provisional.commit(layer) {
            self.keep(layer, step)?;
        }
        self.forget_references(layer);
        (self.base, self.committed) = (base, layer);
        self.highest = self.highest.max(layer);
        self.end_commit();
        Ok(())
    }

    fn check_layer(&self, layer: u64) -> Result<()> {
        match layer > self.committed && layer < u64::MAX / 2 {
            true => Ok(()),
            false => {
                let fault = Fault::new("a layer that is committed already, or cannot be");
                Err(fault
                    .expected(format_args!("more than {}", self.committed))
                    .found(layer)
                    .into())
            }
        }
    }

    fn check_array(&self, array: u32) -> Result<()> {
        check_index("an array", array, self.arrays.len())
    }

    /// Whether everything that a sealed commit does is done to files that it names.
    fn check_sealed(&self) -> Result<()> {
        let Some(PendingCommit::Sealed { files, .. }) = &self.pending else {
            return Ok(());
        };
        let redo = self.redo.keys().copied();
        let lengths = self.lengths.iter().map(|&(file, _)| file);
        let mut changed = redo.chain(lengths);
        let not_named = changed.find(|number| !files.iter().any(|file| file.file == *number));
        let endless = files
            .iter()
            .find(|file| self.said_length(file.file).is_none());
        match (not_named, endless) {
            (None, None) => Ok(()),
            (Some(number), _) => {
                let fault = Fault::new("a commit changes a file that it does not name");
                Err(fault.found(number).into())
            }
            (None, Some(file)) => {
                let fault = Fault::new("a commit does not say how long it makes a file");
                Err(fault.found(&file.name).into())
            }
        }
    }

    fn check_base(&self, base: &Base) -> Result<()> {
        let mut files = base.files.iter();
        files.try_for_each(|file| check_name(&file.name))
    }

    pub(super) fn end_at(&mut self, end: u64, sequence: u64) {
        (self.end, self.sequence) = (end, sequence);
    }

    /// Makes layers of the changes logged.
    pub(super) fn build_layers(&mut self) -> Result<()> {
        self.check_sealed()?;
        for said in self.redo.values_mut() {
            *said = last_said(std::mem::take(said));
        }
        let pending = self.pending.as_ref().map(PendingCommit::layer);
        let mut steps = std::mem::take(&mut self.steps);
        let below: Vec<u64> = self.arrays.iter().map(|array| array.len).collect();
        let above = pending.map(|layer| steps.split_off(&(layer + 1)));
        let Some(above) = above else {
            let number = self.highest.max(self.committed + 1);
            self.layers = vec![FoundLayer::of(number, &below, steps)];
            return Ok(());
        };
        let frozen = FoundLayer::of(pending.unwrap_or(0), &below, steps);
        let lens: Vec<u64> = frozen
            .arrays
            .iter()
            .map(|(extents, _)| extents.len())
            .collect();
        let number = self.highest.max(frozen.number + 1);
        let active = FoundLayer::of(number, &lens, above);
        self.layers = vec![frozen, active];
        Ok(())
    }

    /// Its name, beside the container.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The container as it was opened, or as the last commit left it.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Paths of the arrays that were written, and how long they are in the container.
    pub fn arrays(&self) -> &[LoggedArray] {
        &self.arrays
    }

    pub fn pending(&self) -> Option<&PendingCommit> {
        self.pending.as_ref()
    }

    /// Whether a commit has begun to say what files are to hold, or how long they are to be.
    pub fn is_begun(&self) -> bool {
        !self.redo.is_empty() || !self.lengths.is_empty() || self.grows()
    }

    /// Arrays of whose new content the log has a part alone, which is void.
    pub(crate) fn partial(&self) -> impl Iterator<Item = u32> + '_ {
        self.provisional.arrays()
    }

    /// How long a sealed commit makes one of its files, which it says of each.
    pub fn file_length(&self, file: &SealedFile) -> u64 {
        self.said_length(file.file).unwrap_or_default()
    }

    fn said_length(&self, file: u32) -> Option<u64> {
        let mut lengths = self.lengths.iter().rev();
        let (_, len) = lengths.find(|(number, _)| *number == file)?;
        Some(*len)
    }

    /// The bytes that a sealed commit puts into one of its files: in order, each byte once.
    pub fn patches_of(&self, file: &SealedFile) -> &[Patch] {
        self.redo.get(&file.file).map_or(&[], |patches| patches)
    }

    /// The files of a sealed commit.
    pub fn sealed(&self) -> &[SealedFile] {
        match &self.pending {
            Some(PendingCommit::Sealed { files, .. }) => files,
            _ => &[],
        }
    }

    /// Bytes of the log.
    pub fn read_logged(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.bytes().read(at, out)
    }

    pub fn bytes(&self) -> LogBytes {
        LogBytes::Found(Arc::clone(&self.source))
    }

    /// Whether nothing is staged.
    pub fn is_clean(&self) -> bool {
        let mut arrays = self.layers.iter().flat_map(|layer| &layer.arrays);
        arrays.all(|(extents, below)| extents.is_unchanged(*below))
    }

    /// The staged layers, to be read through [`super::super::Overlay`]: the top first. Writes
    /// nothing, and locks nothing.
    pub fn layers(&self) -> Vec<Arc<Layer>> {
        let log = self.bytes();
        let next = self
            .next()
            .map(|next| NextFile::found(Arc::clone(&next.source)));
        let layers = self.layers.iter().rev();
        layers
            .map(|layer| Arc::new(layer.open(log.clone(), next.clone())))
            .collect()
    }

    /// Bytes that are staged, whatever the container is by now.
    pub fn staged_bytes(&self) -> u64 {
        self.bytes_of(&self.layers())
    }

    /// Bytes of changes in some of the layers.
    pub fn bytes_of(&self, layers: &[Arc<Layer>]) -> u64 {
        let arrays = (0..self.arrays.len()).map(|n| WrittenArray(n as u32));
        let changed = arrays.flat_map(|n| layers.iter().flat_map(move |layer| layer.changed(n)));
        changed.map(|range| range.end - range.start).sum()
    }

    pub(crate) fn found_layers(&self) -> &[FoundLayer] {
        &self.layers
    }

    /// The file that was read; none for what is no local file.
    pub(crate) fn file(&self) -> Option<FileIdentity> {
        self.source.identity().file()
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }
}
