//! The numbers by which a stage, its layers and its log call arrays. Used by all of `stage`.

/// An array of a staged container, by the order in which its stage came to know them
/// ([`Stage::add_array`](super::Stage::add_array)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WrittenArray(pub u32);

impl WrittenArray {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}
