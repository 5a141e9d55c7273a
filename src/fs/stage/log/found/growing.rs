//! Files that a commit was making longer, or waited for, as a log says. Used by [`super`].

use super::LogState;
use super::check::check_name;
use crate::error::{Fault, Result};
use crate::memory::fallible;
use crate::stage::log::record::{GrowingFile, HeldFile};

#[derive(Default)]
pub(super) struct GrowingFiles {
    files: Vec<GrowingFile>,
    held: Option<HeldFile>,
}

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
        fallible::push(&mut self.growing.files, file, super::DOING)
    }

    /// A file has got all of them.
    pub(super) fn has_grown(&mut self, name: &str, grown: (u64, u32)) -> Result<()> {
        let mut files = self.growing.files.iter_mut();
        match files.find(|file| file.name == name) {
            Some(file) => {
                file.grown = Some(grown);
                Ok(())
            }
            None => Err(Fault::new("a file has grown of which the log does not say it").into()),
        }
    }

    /// Another program has the file open.
    pub(super) fn hold(&mut self, held: HeldFile) -> Result<()> {
        self.growing.held = Some(held);
        Ok(())
    }

    /// What the file was for which the last commit began to wait, if it did.
    pub fn held(&self) -> Option<HeldFile> {
        self.growing.held
    }

    /// Whether a commit that is not sealed was making files longer.
    pub fn grows(&self) -> bool {
        !self.growing.files.is_empty()
    }

    /// Of this name, as in [`super::Base::files`].
    pub fn growing(&self, name: &str) -> Option<&GrowingFile> {
        self.growing.files.iter().find(|file| file.name == name)
    }
}
