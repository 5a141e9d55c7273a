//! What of a file can be written: its datasets, by the containers that they lie in, and the rules
//! that they have to keep. Used by [`super`] and `assemble`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::Hdf5File;
use super::bpcells::BpcellsRules;
use super::dataset::WrittenDataset;
use super::further_names::FurtherNames;
use super::headers::ObjectHeaders;
use super::rules::GroupRules;
use super::sparse::SparseRules;
use super::texts::WrittenTexts;
use crate::container::Container;
use crate::container::binsparse;
use crate::container::bpcells::write::{ORDER, take_line};
use crate::container::hdf5::index::{FileIndex, StorageLayout};
use crate::container::hdf5::known_file::KnownFile;
use crate::container::hdf5::worker;
use crate::container::inside::ContainerNumber;
use crate::error::Result;
use crate::source::Source;
use crate::sync::Mutex;

/// What can be written of a container: of the file, or of a group that is one by itself.
pub(crate) struct WrittenGroup {
    /// From the root.
    pub(crate) path: String,
    pub(crate) datasets: Vec<Arc<WrittenDataset>>,
    pub(crate) texts: Vec<Arc<WrittenTexts>>,
    /// Of a Binsparse container.
    pub(crate) sparse: Option<SparseRules>,
    /// Of a BPCells container.
    pub(crate) bpcells: Option<BpcellsRules>,
    /// Of groups in it.
    pub(crate) rules: Vec<Box<dyn GroupRules>>,
}

impl WrittenGroup {
    fn is_empty(&self) -> bool {
        self.datasets.is_empty() && self.texts.is_empty() && self.bpcells.is_none()
    }

    pub(super) fn dataset(&self, name: &str) -> Option<&WrittenDataset> {
        self.number(name).map(|at| &*self.datasets[at])
    }

    /// The number of a dataset among them.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        let found = self.datasets.binary_search_by(|one| one.name().cmp(name));
        found.ok()
    }

    pub(super) fn text(&self, name: &str) -> Option<&WrittenTexts> {
        let found = self.texts.binary_search_by(|one| one.name().cmp(name));
        found.ok().map(|at| &*self.texts[at])
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &dyn GroupRules> {
        let sparse = self.sparse.iter().map(|rules| rules as &dyn GroupRules);
        sparse.chain(self.rules.iter().map(|rules| &**rules))
    }

    /// Its descriptor, if that can be written.
    pub(super) fn descriptor(&self, name: &str) -> Option<&SparseRules> {
        let sparse = self.sparse.as_ref()?;
        (name == binsparse::TEXT && sparse.arrays.line().is_some()).then_some(sparse)
    }
}

/// Lets the datasets of a file be written, if the file is sound and ends where it says.
pub(crate) fn offer(
    container: &mut Container,
    (known, index): (&KnownFile, &FileIndex),
    groups: Vec<WrittenGroup>,
) -> Result<()> {
    // A dataset that is put together of others would show what they were.
    let is_followed = index.datasets.iter().any(|dataset| match &dataset.layout {
        StorageLayout::Virtual(parts) => parts.files.iter().any(|file| file == b"."),
        _ => false,
    });
    let nothing = groups.iter().all(WrittenGroup::is_empty);
    if !container.faults.is_empty() {
        return Ok(());
    }
    if is_followed || nothing {
        container.is_only_read(match is_followed {
            true => "a virtual dataset of it is put together of others",
            false => "it has no dataset that can be written",
        });
        return Ok(());
    }
    // Somebody's bytes that would be cut off.
    let file = &known.file;
    let end = worker::end(&**file)?;
    if end != Some(file.len()) {
        let behind = end.and_then(|end| file.len().checked_sub(end));
        container.is_only_read(match behind {
            Some(behind) => format!("{behind} bytes lie behind its end, which would be lost"),
            None => "it does not end where it says".into(),
        });
        return Ok(());
    }
    let mut groups = numbered(container, groups)?;
    let names = FurtherNames::new(container, &mut groups)?;
    container.writable = Some(Arc::new(Hdf5File {
        source: Arc::clone(file) as _,
        file: Arc::clone(file),
        answer: Arc::clone(&known.answer),
        headers: Arc::new(ObjectHeaders::of(index)),
        marks: consistency_flags(index),
        groups: groups
            .into_iter()
            .map(|(number, group)| (number, Arc::new(group)))
            .collect(),
        names: Arc::new(names),
        left: Arc::clone(&known.left),
        next_room: Mutex::default(),
        told: Mutex::default(),
    }));
    Ok(())
}

/// The consistency flags of superblocks that have no checksum: files with others, marked so, are
/// only read.
fn consistency_flags(index: &FileIndex) -> Range<u64> {
    const FLAGS: Range<u64> = 20..24;
    let at = |offset: u64| index.base.saturating_add(offset);
    match index.superblock {
        0 | 1 => at(FLAGS.start)..at(FLAGS.end),
        _ => 0..0,
    }
}

/// The groups of sound containers, by their numbers.
fn numbered(
    container: &mut Container,
    groups: Vec<WrittenGroup>,
) -> Result<HashMap<ContainerNumber, WrittenGroup>> {
    let by_path = groups.into_iter().map(|mut group| {
        group
            .datasets
            .sort_unstable_by(|a, b| a.name().cmp(b.name()));
        group.texts.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        (group.path.clone(), group)
    });
    let mut by_path: HashMap<String, WrittenGroup> = by_path.collect();
    let mut numbered = HashMap::new();
    container.visit_mut(&mut |number, path, container| {
        let group = by_path.remove(path);
        let sound = group.filter(|_| container.faults.is_empty());
        if let Some(line) = sound
            .as_ref()
            .and_then(|group| group.sparse.as_ref()?.arrays.line())
        {
            container.texts.retain(|text| text.name != binsparse::TEXT);
            container.lines.push(Arc::new(line));
        }
        let packed = sound.as_ref().filter(|group| group.bpcells.is_some());
        if packed.is_some_and(|group| group.text(ORDER).is_some()) {
            take_line(container, ORDER);
        }
        numbered.extend(sound.map(|group| (number, group)));
        Ok(())
    })?;
    Ok(numbered)
}
