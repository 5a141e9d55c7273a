//! Full checks of a CSRMatrix: it shows all its entries but for blocks that claim none.

use std::sync::Arc;

use super::super::block::sparse::MARKING_MEMORY;
use super::super::block::table::BlockBody;
use super::read::{CsrMatrix, OFFSETS_MEMORY};
use crate::container::Check;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Budget;
use crate::memory::scratch::Region;

/// Checks the counts of blocks that claim to have no entries, which no array of a CSRMatrix shows.
pub(super) struct CountCheck(pub(super) Arc<CsrMatrix>);

impl Check for CountCheck {
    fn check(&self, budget: &Arc<Budget>, report: &mut dyn FnMut(Fault)) -> Result<()> {
        let _charge = budget.reserve(OFFSETS_MEMORY);
        let csr = &*self.0;
        let groups = csr.groups()?;
        let mut region = Region::default();
        for group in 0..groups.len() {
            let (start, end) = groups.get(group);
            if start.nothing || start.first < end.first {
                continue;
            }
            if csr.wide.is_some() {
                let (rows, scratch) = (start.row..start.row + 1, region.scratch(OFFSETS_MEMORY)?);
                tell(csr.offsets(group, &rows, &mut [0; 8], scratch), report)?;
            }
            for &number in groups.blocks(group) {
                tell(check_counts(csr, number, &mut region), report)?;
            }
        }
        Ok(())
    }
}

fn check_counts(csr: &CsrMatrix, number: u32, region: &mut Region) -> Result<()> {
    let block = csr.stored.table.get(number);
    match block.body {
        BlockBody::Sparse(_) => {
            let scratch = region.scratch(MARKING_MEMORY)?;
            csr.stored.row_marks(&block, scratch).map(drop)
        }
        _ => Ok(()),
    }
}

/// Reports a fault; other errors end the check.
fn tell(checked: Result<()>, report: &mut dyn FnMut(Fault)) -> Result<()> {
    match checked {
        Err(Error::Fault(fault)) => report(fault.array("values")),
        other => other?,
    }
    Ok(())
}
