//! Full checks of a CSRMatrix: it shows all its entries but for blocks that claim none.

use super::super::block::table::{BlockBody, CellBlock};
use super::read::CsrMatrix;
use crate::error::{Error, Fault, Result};

/// Checks the counts of blocks that claim to have no entries, which no array of a CSRMatrix shows.
pub(super) fn counts(csr: &CsrMatrix, report: &mut dyn FnMut(Fault)) -> Result<()> {
    let groups = csr.groups()?;
    for group in 0..groups.len() {
        let (start, end) = groups.get(group);
        if start.nothing || start.first < end.first {
            continue;
        }
        let own = |&number: &u32| row_counts(csr, &csr.stored.table.get(number));
        let checked: Vec<Result<()>> = match &csr.wide {
            Some(_) => vec![csr.offsets(group, &(start.row..start.row + 1), &mut [0; 8])],
            None => groups.blocks(group).iter().map(own).collect(),
        };
        for checked in checked {
            match checked {
                Err(Error::Fault(fault)) => report(*fault),
                other => other?,
            }
        }
    }
    Ok(())
}

fn row_counts(csr: &CsrMatrix, block: &CellBlock) -> Result<()> {
    match block.body {
        BlockBody::Sparse(_) => csr.stored.marks(block).map(|_| ()),
        _ => Ok(()),
    }
}
