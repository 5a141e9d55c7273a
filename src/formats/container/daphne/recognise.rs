//! Which of the two forms a file has: nothing in it says so.
//!
//! It is read strictly as the specification says and, only if that fails, strictly as the program
//! writes. What is left undecided is settled by the metadata beside the file, if there are any.
//! Used by the format's `open`.

use std::sync::Arc;

use super::block::index_cache::BlockIndexCache;
use super::describe::DescribedFile;
use super::header::ObjectKind;
use super::{program, sidecar, spec};
use crate::container::{Dialect, OpenRequest};
use crate::error::{Error, Result};
use crate::source::Source;

/// Opens a file in the form that is asked for, or in the one that it has.
pub(super) fn open(request: &OpenRequest<'_>) -> Result<DescribedFile> {
    let source = request.store.open(request.path)?;
    let index_cache = BlockIndexCache::new(request.budget);
    match request.preferences.dialect {
        Dialect::Spec => spec::open(&source, &index_cache),
        Dialect::Daphne => program::open(&source, &index_cache),
        Dialect::Auto => told_apart(&source, &index_cache, request),
    }
}

/// As the specification says; if that fails, as the program writes. What is left undecided is
/// settled by the metadata beside the file, if there are any.
fn told_apart(
    source: &Arc<dyn Source>,
    index_cache: &Arc<BlockIndexCache>,
    request: &OpenRequest<'_>,
) -> Result<DescribedFile> {
    let meant = || sidecar::value_type(&**request.store, request.path);
    let fault = match spec::open(source, index_cache) {
        Ok(opened) if opened.header.has_cells() || opened.header.data == ObjectKind::Frame => {
            return Ok(opened);
        }
        // Without cells both forms may be of one length.
        Ok(opened) => match program::open(source, index_cache) {
            Ok(other) => {
                let meant = meant()?;
                let program = meant.as_deref() == Some(other.header.types.list[0].name());
                return Ok(if program { other } else { opened });
            }
            Err(Error::Fault(_)) => return Ok(opened),
            Err(failed) => return Err(failed),
        },
        Err(fault @ Error::Fault(_)) => fault,
        Err(failed) => return Err(failed),
    };
    match program::open(source, index_cache) {
        // A file of the other form that was cut short may look like this one.
        Ok(opened) => match opened.meant_as_spec(&meant()?) {
            true => Err(fault),
            false => Ok(opened),
        },
        Err(Error::Fault(_)) => Err(fault),
        Err(failed) => Err(failed),
    }
}
