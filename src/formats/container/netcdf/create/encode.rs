//! The header of a new classic file, as it is stored: what [`super::super::header`] reads.
//!
//! Pure. Assumes sizes that the version can hold. Used by [`super::plan`].

use super::super::header::{Attribute, ClassicHeader, MAGIC};
use super::super::kind::ClassicVersion;

const DIMENSIONS: u32 = 10;
const VARIABLES: u32 = 11;
const ATTRIBUTES: u32 = 12;

/// `sizes`: bytes of each variable, or of its part of a record, padded.
pub(super) fn header(of: &ClassicHeader, sizes: &[u64]) -> Vec<u8> {
    let mut out = HeaderBytes {
        bytes: MAGIC.to_vec(),
        version: of.version,
    };
    out.bytes.push(match of.version {
        ClassicVersion::One => 1,
        ClassicVersion::Two => 2,
        ClassicVersion::Five => 5,
    });
    out.size(of.records.unwrap_or(0));
    out.list(DIMENSIONS, of.dimensions.len());
    for dimension in &of.dimensions {
        out.padded(&dimension.name);
        out.size(dimension.len);
    }
    out.attributes(&of.attributes);
    out.list(VARIABLES, of.variables.len());
    for (variable, size) in of.variables.iter().zip(sizes) {
        out.padded(&variable.name);
        out.size(variable.dimensions.len() as u64);
        for dimension in &variable.dimensions {
            out.size(*dimension);
        }
        out.attributes(&variable.attributes);
        out.word(variable.kind);
        out.size(*size);
        match of.version.has_long_offsets() {
            true => out.bytes.extend(variable.begin.to_be_bytes()),
            false => out.word(u32::try_from(variable.begin).unwrap_or(u32::MAX)),
        }
    }
    out.bytes
}

struct HeaderBytes {
    bytes: Vec<u8>,
    version: ClassicVersion,
}

impl HeaderBytes {
    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_be_bytes());
    }

    /// A count or a length. One that is redundant may be larger than its place.
    fn size(&mut self, size: u64) {
        match self.version.has_long_sizes() {
            true => self.bytes.extend(size.to_be_bytes()),
            false => self.word(u32::try_from(size).unwrap_or(u32::MAX)),
        }
    }

    /// The beginning of a list; without members it has no tag.
    fn list(&mut self, tag: u32, count: usize) {
        self.word(if count == 0 { 0 } else { tag });
        self.size(count as u64);
    }

    /// Bytes behind their number.
    fn padded(&mut self, bytes: &[u8]) {
        self.size(bytes.len() as u64);
        self.pad(bytes);
    }

    fn pad(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let len = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(len, 0);
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        self.list(ATTRIBUTES, attributes.len());
        for attribute in attributes {
            self.padded(&attribute.name);
            self.word(attribute.kind.code());
            self.size((attribute.raw.len() / attribute.kind.size()) as u64);
            self.pad(&attribute.raw);
        }
    }
}
