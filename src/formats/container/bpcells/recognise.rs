//! What makes a directory a container: a file `version`, or arrays that only BPCells writes
//! together.
//!
//! Used by [`super`].

use super::header;
use super::version::{self, Seen};
use crate::container::{Candidate, Verdict};
use crate::error::{Fault, Result};

pub(super) fn recognise(candidate: &Candidate<'_>) -> Result<Verdict> {
    if !candidate.is_directory() {
        return Ok(Verdict::No);
    }
    let head = candidate.member_head("version", version::MOST)?;
    match head.as_deref().map_or(Seen::Foreign, version::read) {
        Seen::Known(..) => Ok(Verdict::Yes),
        Seen::Unreadable(fault) => Ok(Verdict::Damaged(fault.file("version"))),
        // One that is far away has a `version`, unless all its names are known.
        Seen::Foreign if head.is_none() && !candidate.store.knows_all_names(candidate.path) => {
            Ok(Verdict::No)
        }
        Seen::Foreign => lost_version(candidate, head.is_some()),
    }
}

/// Tells a container that has lost its version file by two files that only BPCells writes together.
fn lost_version(candidate: &Candidate<'_>, has_version: bool) -> Result<Verdict> {
    for (pointers, companion) in [("idxptr", "storage_order"), ("chr_ptr", "cell_names")] {
        let Some(head) = candidate.member_head(pointers, header::LEN)? else {
            continue;
        };
        if header::number(&head).is_some() && candidate.member_head(companion, 1)?.is_some() {
            let fault = if has_version {
                foreign_version()
            } else {
                no_version()
            };
            return Ok(Verdict::Damaged(fault));
        }
    }
    Ok(Verdict::No)
}

pub(super) fn no_version() -> Fault {
    Fault::new("no version file: the variant of BPCells is unknown").file("version")
}

fn foreign_version() -> Fault {
    Fault::new("the version file is not one of BPCells: the variant is unknown").file("version")
}
