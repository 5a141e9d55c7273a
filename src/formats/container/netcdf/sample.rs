//! Classic NetCDF files built by hand for the tests.

use std::path::Path;
use std::sync::Arc;

use super::kind::{ClassicVersion, ElementKind};
use crate::container::{Container, Preferences, open_as};
use crate::source::Store;
use crate::source::local::LocalStore;

/// A file under construction. Element bytes are counted up, so every one has its own value for a
/// while.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) version: u8,
    pub(super) records: u64,
    /// The first may be 0, the unlimited one.
    pub(super) dimensions: Vec<u64>,
    /// A text, under the name `binsparse`.
    pub(super) descriptor: Option<String>,
    pub(super) variables: Vec<Variable>,
    /// What follows the names of dimensions and attributes.
    pub(super) behind_names: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) dimensions: Vec<u64>,
    pub(super) code: u32,
}

/// A built file.
pub(super) struct Built {
    pub(super) bytes: Vec<u8>,
    /// Little-endian bytes of every variable, as they should be shown.
    pub(super) shown: Vec<Vec<u8>>,
    pub(super) header: usize,
}

impl File {
    pub(super) fn new(version: u8, records: u64, dimensions: &[u64]) -> File {
        File {
            version,
            records,
            dimensions: dimensions.to_vec(),
            descriptor: None,
            variables: Vec::new(),
            behind_names: "",
        }
    }

    pub(super) fn with(mut self, name: &str, code: u32, dimensions: &[u64]) -> File {
        self.variables.push(Variable {
            name: name.into(),
            dimensions: dimensions.to_vec(),
            code,
        });
        self
    }

    fn is_record(&self, variable: &Variable) -> bool {
        let first = variable.dimensions.first();
        first.is_some_and(|&id| self.dimensions[id as usize] == 0)
    }

    /// Size of an element, and bytes of a variable or of its part of a record.
    fn sizes(&self, variable: &Variable) -> (usize, usize) {
        let size = ElementKind::from_code(variable.code, ClassicVersion::Five)
            .map_or(1, ElementKind::size);
        let extents = variable
            .dimensions
            .iter()
            .map(|&id| self.dimensions[id as usize]);
        (
            size,
            extents.filter(|&e| e > 0).product::<u64>() as usize * size,
        )
    }

    pub(super) fn build(&self) -> Built {
        let header = self.header(&vec![0; self.variables.len()]).len();
        let mut bytes = vec![0; header];
        let mut shown = vec![Vec::new(); self.variables.len()];
        let mut begins = vec![0; self.variables.len()];
        let (records, fixed): (Vec<usize>, Vec<usize>) =
            (0..self.variables.len()).partition(|&v| self.is_record(&self.variables[v]));
        let mut next = 0u8;
        let mut store = |bytes: &mut Vec<u8>,
                         shown: &mut Vec<u8>,
                         (size, len): (usize, usize),
                         padded: bool| {
            for _ in 0..len / size {
                let element: Vec<u8> = (0..size as u8).map(|b| next.wrapping_add(b)).collect();
                next = next.wrapping_mul(5).wrapping_add(7);
                bytes.extend(&element);
                shown.extend(element.iter().rev());
            }
            if padded {
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
        };
        for v in fixed {
            begins[v] = bytes.len() as u64;
            store(
                &mut bytes,
                &mut shown[v],
                self.sizes(&self.variables[v]),
                true,
            );
        }
        for record in 0..self.records {
            for &v in &records {
                if record == 0 {
                    begins[v] = bytes.len() as u64;
                }
                let sizes = self.sizes(&self.variables[v]);
                store(&mut bytes, &mut shown[v], sizes, records.len() > 1);
            }
        }
        bytes[..header].copy_from_slice(&self.header(&begins));
        Built {
            bytes,
            shown,
            header,
        }
    }

    fn header(&self, begins: &[u64]) -> Vec<u8> {
        let mut out = vec![b'C', b'D', b'F', self.version];
        let long = self.version == 5;
        let number = |out: &mut Vec<u8>, number: u64, long: bool| {
            let bytes = number.to_be_bytes();
            out.extend(if long { &bytes[..] } else { &bytes[4..] });
        };
        let size = |out: &mut Vec<u8>, n: u64| number(out, n, long);
        let list = |out: &mut Vec<u8>, tag: u32, n: usize| {
            out.extend(if n == 0 { 0 } else { tag }.to_be_bytes());
            size(out, n as u64);
        };
        let padded = |out: &mut Vec<u8>, bytes: &[u8]| {
            size(out, bytes.len() as u64);
            out.extend(bytes);
            out.resize(out.len().next_multiple_of(4), 0);
        };
        size(&mut out, self.records);
        list(&mut out, 10, self.dimensions.len());
        for (number, &len) in self.dimensions.iter().enumerate() {
            padded(
                &mut out,
                format!("d{number}{}", self.behind_names).as_bytes(),
            );
            size(&mut out, len);
        }
        list(&mut out, 12, usize::from(self.descriptor.is_some()));
        if let Some(descriptor) = &self.descriptor {
            padded(
                &mut out,
                format!("binsparse{}", self.behind_names).as_bytes(),
            );
            out.extend(2u32.to_be_bytes());
            padded(&mut out, descriptor.as_bytes());
        }
        list(&mut out, 11, self.variables.len());
        for (variable, &begin) in self.variables.iter().zip(begins) {
            padded(&mut out, variable.name.as_bytes());
            size(&mut out, variable.dimensions.len() as u64);
            variable
                .dimensions
                .iter()
                .for_each(|&id| size(&mut out, id));
            list(&mut out, 12, 0);
            out.extend(variable.code.to_be_bytes());
            size(&mut out, 0);
            number(&mut out, begin, self.version != 1);
        }
        out
    }
}

/// Opens these bytes as a file; the directory must be kept while the container is read.
pub(super) fn open(bytes: &[u8]) -> (tempfile::TempDir, Container) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("file.nc"), bytes).unwrap();
    let store = LocalStore::open(directory.path(), directory.path()).unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let path = Path::new("file.nc");
    let container = open_as(&super::NetCdf, &store, path, Preferences::default()).unwrap();
    (directory, container)
}
