//! DAPHNE binary files: a DenseMatrix, a CSRMatrix or a Frame, cut into blocks of any kind.
//!
//! There is no magic: a file is one by its name, and a damaged one if it breaks a rule. The
//! specification and the program agree on little but the layout of dense matrices, so there are two
//! forms (docs/formats.md). Opening reads no values.
//!
//! What recognises: [`recognise`] tells the forms apart, with [`sidecar`]. What describes:
//! [`header`], then [`spec`] or [`program`] make the arrays, [`describe`] the container. What
//! reads: [`dense`] shows cells (`values` of a DenseMatrix, columns of a Frame), [`csr`] entries
//! (the three arrays of a CSRMatrix), [`labels`] the labels of a Frame; they find blocks and look
//! into them by [`block`]. What checks: `check.rs` beside what reads. What writes: [`write`]; new
//! files: [`create`].
//!
//! The way of a read of cells: [`dense`] cuts the range into row bands, finds their blocks by a
//! tree of boxes, and cuts these into tiles; a tile is filled by [`block`], which knows what each
//! type of block looks like, and converted ([`convert`]). The way of a read of entries: [`csr`]
//! finds the group of rows, and copies the rows as they are stored, or has the entries of its
//! blocks sorted ([`block::sorted`]).

mod block;
mod convert;
mod create;
mod csr;
mod dense;
mod describe;
mod header;
mod labels;
mod program;
mod recognise;
mod sidecar;
mod spec;
mod strided;
#[cfg(test)]
mod tests;
mod value;
mod write;

use super::creation::Creation;
use super::{Candidate, Container, Dialect, Format, Layout, OpenRequest, Verdict, lookalike};
use crate::error::{Error, Fault, Result};

pub const NAME: &str = "daphne";
const VERSION: &str = "1";
const SUFFIX: &[u8] = b".dbdf";

pub struct Daphne;

impl Format for Daphne {
    fn name(&self) -> &'static str {
        NAME
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["dbdf"]
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        let name = candidate.path.file_name().unwrap_or_default();
        let named = name.as_encoded_bytes().ends_with(SUFFIX);
        match candidate.is_file() && named {
            true => Ok(Verdict::Yes),
            false => Ok(Verdict::No),
        }
    }

    fn is_changed(&self) -> bool {
        true
    }

    fn goes_by_name(&self) -> bool {
        true
    }

    fn creation(&self) -> Option<&'static dyn Creation> {
        Some(&Daphne)
    }

    fn layout(&self) -> Layout {
        Layout::File {
            sidecars: &[sidecar::SUFFIX],
        }
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        match recognise::open(request) {
            Ok(file) => {
                let is_told = request.preferences.dialect == Dialect::Daphne;
                let has_sidecar = sidecar::is_there(&**request.store, request.path);
                Ok(file.container(has_sidecar, is_told))
            }
            Err(Error::Fault(fault)) => {
                let seen = lookalike::first_bytes(&**request.store, request.path)?;
                let fault = lookalike::appearance(&seen).map_or(*fault, |seen| {
                    Fault::new(format!("not a DAPHNE file: {seen}"))
                });
                Ok(Container::refused(NAME, fault))
            }
            Err(other) => Err(other),
        }
    }
}
