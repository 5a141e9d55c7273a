//! The full check: every element of the index and pointer arrays, level by level.
//!
//! A level's rules concern its own arrays only, so each is one pass over them ([`order`]), with
//! memory for one block of each. Used by `super`, run by `verify`.

pub(super) mod order;

mod few;
mod slices;

use std::sync::Arc;

use super::lengths::SparseLevel;
use crate::container::Check;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use order::Pass;

/// A check of these levels.
pub(super) fn check(levels: Vec<SparseLevel>) -> Arc<dyn Check> {
    Arc::new(LevelsCheck { levels })
}

struct LevelsCheck {
    levels: Vec<SparseLevel>,
}

impl Check for LevelsCheck {
    /// An array that cannot be decoded, or not be shown, ends the check of its level only; the
    /// first such fault is given back.
    fn check(&self, budget: &Arc<Budget>, report: &mut dyn FnMut(Fault)) -> Result<()> {
        let mut first = None;
        for level in &self.levels {
            let checked = Pass::new(level, budget, report).and_then(|pass| pass.run(report));
            match checked.map_err(Error::needed) {
                Err(Error::Fault(fault)) => {
                    first.get_or_insert(fault);
                }
                other => other?,
            }
        }
        first.map_or(Ok(()), |fault| Err(Error::Fault(fault)))
    }
}
