//! DAPHNE binary files: a DenseMatrix, a CSRMatrix or a Frame, cut into blocks of any kind.
//!
//! There is no magic: a file is one by its name, and a damaged one if it breaks a rule. The specification
//! and the program agree on little but the layout of dense matrices, so a file is read strictly as
//! [`spec`] and, only if that fails, strictly as [`program`] (docs/formats.md). Opening reads no values.
//!
//! The way of a read: [`table`] (where blocks lie), [`index`] and [`strip`] (which of them hold a range),
//! [`cells`] and [`tile`] for matrices and columns, [`groups`], [`single`] and [`region`] for the arrays of
//! a CSRMatrix.

mod audit;
mod cells;
mod compressed;
mod convert;
mod csr;
mod entries;
mod groups;
mod header;
mod index;
mod labels;
mod plain;
mod program;
mod records;
mod region;
mod rows;
mod sidecar;
mod single;
mod sorted;
mod spec;
mod stored;
mod strided;
mod strip;
mod table;
#[cfg(test)]
mod tests;
mod tile;
mod tiling;
mod value;
mod window;

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::{Candidate, Container, Dialect, Format, OpenRequest, Text, Verdict};
use crate::array::Array;
use crate::error::{Error, Result};
use crate::source::{Source, Store};
use header::{DataType, Header};
use value::ValueType;

const NAME: &str = "daphne";
const VERSION: &str = "1";
const SUFFIX: &[u8] = b".dbdf";

pub struct Daphne;

impl Format for Daphne {
    fn name(&self) -> &'static str {
        NAME
    }

    fn recognise(&self, candidate: &Candidate<'_>) -> Result<Verdict> {
        let name = candidate.path.file_name().unwrap_or_default();
        let named = name.as_encoded_bytes().ends_with(SUFFIX);
        match candidate.is_file() && named {
            true => Ok(Verdict::Yes),
            false => Ok(Verdict::No),
        }
    }

    fn open(&self, request: &OpenRequest<'_>) -> Result<Container> {
        let source = request.store.open(request.path)?;
        let opened = match request.preferences.dialect {
            Dialect::Spec => spec::open(&source),
            Dialect::Daphne => program::open(&source),
            Dialect::Auto => told_apart(&source, &**request.store, request.path),
        };
        match opened {
            Ok(opened) => Ok(opened.container()),
            Err(Error::Fault(fault)) => Ok(Container::refused(NAME, *fault)),
            Err(other) => Err(other),
        }
    }
}

/// As the specification says; if that fails, as the program writes. What is left undecided is settled by
/// the metadata beside the file, if there are any.
fn told_apart(source: &Arc<dyn Source>, store: &dyn Store, path: &Path) -> Result<Opened> {
    let meant = || sidecar::value_type(store, path);
    let fault = match spec::open(source) {
        Ok(opened) if opened.header.has_cells() || opened.header.data == DataType::Frame => {
            return Ok(opened);
        }
        // Without cells both forms may be of one length.
        Ok(opened) => match program::open(source) {
            Ok(other) if meant().as_deref() == Some(other.header.types[0].name()) => {
                return Ok(other);
            }
            Ok(_) | Err(Error::Fault(_)) => return Ok(opened),
            Err(failed) => return Err(failed),
        },
        Err(fault @ Error::Fault(_)) => fault,
        Err(failed) => return Err(failed),
    };
    match program::open(source) {
        // A file of the other form that was cut short may look like this one.
        Ok(opened) if !opened.meant_as_spec(meant) => Ok(opened),
        Ok(_) | Err(Error::Fault(_)) => Err(fault),
        Err(failed) => Err(failed),
    }
}

/// A file that obeys one of the two forms.
struct Opened {
    header: Header,
    dialect: &'static str,
    arrays: Vec<Arc<dyn Array>>,
    /// The text `labels` of a frame.
    labels: Option<Arc<[u8]>>,
}

impl Opened {
    fn new(header: Header, dialect: &'static str, arrays: Vec<Arc<dyn Array>>) -> Self {
        Opened {
            header,
            dialect,
            arrays,
            labels: None,
        }
    }

    fn meant_as_spec(&self, meant: impl FnOnce() -> Option<String>) -> bool {
        if self.header.data == DataType::Frame {
            return false;
        }
        let spec = ValueType::spec(self.header.code);
        spec.is_some_and(|value| meant().as_deref() == Some(value.name()))
    }

    fn container(self) -> Container {
        let mut container = Container::new(NAME, VERSION);
        let mut add = |name: &str, value| container.attributes.insert(name.to_owned(), value);
        add("dialect", json!(self.dialect));
        add("data_type", json!(self.header.data.name()));
        add("rows", json!(self.header.rows));
        add("columns", json!(self.header.cols));
        if self.header.data != DataType::Frame {
            add("value_type", json!(self.header.types[0].name()));
        }
        container.arrays = self.arrays;
        container.texts.extend(self.labels.map(|content| Text {
            name: "labels".into(),
            content,
        }));
        container
    }
}

/// Bytes of one value, or one record, in every row.
fn rows_times(header: &Header, bytes: u64) -> u128 {
    u128::from(header.rows) * u128::from(bytes)
}
