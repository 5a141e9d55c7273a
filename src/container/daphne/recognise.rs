//! Which of the two forms a file has: nothing in it says so.
//!
//! It is read strictly as the specification says and, only if that fails, strictly as the program writes. What
//! is left undecided is settled by the metadata beside the file, if there are any. Used by the format's `open`.

use std::path::Path;
use std::sync::Arc;

use super::describe::DescribedFile;
use super::header::ObjectKind;
use super::{program, sidecar, spec};
use crate::container::{Dialect, OpenRequest};
use crate::error::{Error, Result};
use crate::source::{Source, Store};

/// Opens a file in the form that is asked for, or in the one that it has.
pub(super) fn open(request: &OpenRequest<'_>) -> Result<DescribedFile> {
    let source = request.store.open(request.path)?;
    match request.preferences.dialect {
        Dialect::Spec => spec::open(&source),
        Dialect::Daphne => program::open(&source),
        Dialect::Auto => told_apart(&source, &**request.store, request.path),
    }
}

/// As the specification says; if that fails, as the program writes. What is left undecided is settled by
/// the metadata beside the file, if there are any.
fn told_apart(source: &Arc<dyn Source>, store: &dyn Store, path: &Path) -> Result<DescribedFile> {
    let fault = match spec::open(source) {
        Ok(opened) if opened.header.has_cells() || opened.header.data == ObjectKind::Frame => {
            return Ok(opened);
        }
        // Without cells both forms may be of one length.
        Ok(opened) => match program::open(source) {
            Ok(other) => {
                let meant = sidecar::value_type(store, path)?;
                let program = meant.as_deref() == Some(other.header.types[0].name());
                return Ok(if program { other } else { opened });
            }
            Err(Error::Fault(_)) => return Ok(opened),
            Err(failed) => return Err(failed),
        },
        Err(fault @ Error::Fault(_)) => fault,
        Err(failed) => return Err(failed),
    };
    match program::open(source) {
        // A file of the other form that was cut short may look like this one.
        Ok(opened) => match opened.meant_as_spec(&sidecar::value_type(store, path)?) {
            true => Err(fault),
            false => Ok(opened),
        },
        Err(Error::Fault(_)) => Err(fault),
        Err(failed) => Err(failed),
    }
}
