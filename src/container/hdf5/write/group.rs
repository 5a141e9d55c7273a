//! What can be written of one container in an HDF5 file. Used by [`super`], and made by `assemble`.

use super::bpcells::BpcellsRules;
use super::dataset::WrittenDataset;
use super::rules::GroupRules;
use super::sparse::SparseRules;
use crate::container::binsparse;

/// What can be written of a container: of the file, or of a group that is one by itself.
pub(in crate::container::hdf5) struct WrittenGroup {
    /// From the root.
    pub(in crate::container::hdf5) path: String,
    pub(in crate::container::hdf5) datasets: Vec<WrittenDataset>,
    /// Of a Binsparse container.
    pub(in crate::container::hdf5) sparse: Option<SparseRules>,
    /// Of a BPCells container.
    pub(in crate::container::hdf5) bpcells: Option<BpcellsRules>,
    /// Of groups in it.
    pub(in crate::container::hdf5) rules: Vec<Box<dyn GroupRules>>,
}

impl WrittenGroup {
    pub(super) fn dataset(&self, name: &str) -> Option<&WrittenDataset> {
        let found = self.datasets.binary_search_by(|one| one.name().cmp(name));
        found.ok().map(|at| &self.datasets[at])
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &dyn GroupRules> {
        let sparse = self.sparse.iter().map(|rules| rules as &dyn GroupRules);
        sparse.chain(self.rules.iter().map(|rules| &**rules))
    }

    /// Its descriptor, if that can be written.
    pub(super) fn descriptor(&self, name: &str) -> Option<&SparseRules> {
        let sparse = self.sparse.as_ref()?;
        (name == binsparse::TEXT && sparse.line().is_some()).then_some(sparse)
    }
}
