//! Files that a commit was making longer, as a log says. Used by [`super`].

use super::LogState;
use super::check::check_name;
use crate::error::{Fault, Result};
use crate::memory::fallible;
use crate::stage::log::record::GrowingFile;

#[derive(Default)]
pub(super) struct GrowingFiles(Vec<GrowingFile>);

impl LogState {
    /// A file gets bytes behind its end; if a commit was sealed it has been called off, and the
    /// file is cut back.
    pub(super) fn grow(&mut self, layer: u64, file: GrowingFile) -> Result<()> {
        self.check_layer(layer)?;
        check_name(&file.name)?;
        if self.pending.is_some() {
            let growing = std::mem::take(&mut self.growing);
            self.end_commit();
            self.growing = growing;
        }
        fallible::push(&mut self.growing.0, file, super::DOING)
    }

    /// A file has got all of them.
    pub(super) fn has_grown(&mut self, name: &str, grown: (u64, u32)) -> Result<()> {
        let mut files = self.growing.0.iter_mut();
        match files.find(|file| file.name == name) {
            Some(file) => {
                file.grown = Some(grown);
                Ok(())
            }
            None => Err(Fault::new("a file has grown of which the log does not say it").into()),
        }
    }

    /// Whether a commit that is not sealed was making files longer.
    pub fn grows(&self) -> bool {
        !self.growing.0.is_empty()
    }

    /// Of this name, as in [`super::Base::files`].
    pub fn growing(&self, name: &str) -> Option<&GrowingFile> {
        self.growing.0.iter().find(|file| file.name == name)
    }
}
