//! What scenarios are done to: a container that is one file, or the directory that is the source
//! itself.

use std::path::Path;

use super::plain::classic;
use crate::error::Result;
use crate::source::FileKind;
use crate::tree::{PageCache, Tree};

/// A kind of container, by the paths that it has in the tree.
pub(super) struct Subject {
    pub(super) container: &'static str,
    pub(super) kind: FileKind,
    /// Arrays that are written.
    pub(super) arrays: &'static [&'static str],
    /// Its file, or the first one; the log goes by its name.
    pub(super) first_file: &'static str,
    /// Files that may be there afterwards and were not before.
    pub(super) makes: &'static [&'static str],
    /// Where the samples lie.
    pub(super) golden: &'static str,
}

pub(super) const FILE: Subject = Subject {
    container: "x.blp",
    kind: FileKind::File,
    arrays: &["x.blp/data"],
    first_file: "x.blp",
    makes: &[],
    golden: "bloscpack/sources",
};

pub(super) const MATRIX: Subject = Subject {
    container: "",
    kind: FileKind::Directory,
    arrays: &["val", "index", "idxptr", "shape", "row_names"],
    first_file: "version",
    makes: &[],
    golden: "bpcells/sources",
};

/// A dense matrix of DAPHNE's.
pub(super) const DENSE: Subject = Subject {
    container: "x.dbdf",
    kind: FileKind::File,
    arrays: &["x.dbdf/values"],
    first_file: "x.dbdf",
    makes: &[],
    golden: "daphne/sources",
};

/// A sparse one.
pub(super) const ROWS: Subject = Subject {
    arrays: &["x.dbdf/values", "x.dbdf/col_idxs", "x.dbdf/row_offsets"],
    ..DENSE
};

/// A frame of DAPHNE's.
pub(super) const FRAME: Subject = Subject {
    arrays: &["x.dbdf/columns/a", "x.dbdf/columns/b"],
    ..DENSE
};

/// A NetCDF file, which [`classic`] makes.
pub(super) const CLASSIC: Subject = Subject {
    container: "x.nc",
    arrays: &["x.nc/f", "x.nc/o"],
    first_file: "x.nc",
    golden: "",
    ..DENSE
};

/// A matrix for which a program sets another way of storing it.
pub(super) const TYPED_MATRIX: Subject = Subject {
    arrays: &["version", "val"],
    makes: &["val", "index"],
    ..MATRIX
};

impl Subject {
    /// What the arrays hold, one behind the other; of several, each behind its length.
    pub(super) fn content(&self, tree: &Tree) -> Result<Vec<u8>> {
        let arrays = self.arrays.iter().map(|array| read(tree, array));
        Ok(joined(&arrays.collect::<Result<Vec<_>>>()?))
    }

    pub(super) fn arrays(&self, tree: &Tree) -> Result<Vec<Vec<u8>>> {
        self.arrays.iter().map(|array| read(tree, array)).collect()
    }

    /// Puts a golden container where the source is.
    pub(super) fn make(&self, sample: &str, source: &Path) {
        if self.golden.is_empty() {
            std::fs::write(source.join(self.container), classic(sample)).unwrap();
            return;
        }
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../mount-tests/golden");
        let sample = golden.join(self.golden).join(sample);
        if self.kind == FileKind::File {
            std::fs::copy(&sample, source.join(self.container)).unwrap();
            return;
        }
        for entry in std::fs::read_dir(&sample).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), source.join(entry.file_name())).unwrap();
        }
    }
}

/// Several arrays as one content.
pub(super) fn joined(arrays: &[Vec<u8>]) -> Vec<u8> {
    if let [array] = arrays {
        return array.clone();
    }
    let each = arrays.iter().map(|array| {
        let len = (array.len() as u64).to_le_bytes();
        [&len[..], array].concat()
    });
    each.collect::<Vec<_>>().concat()
}

fn read(tree: &Tree, path: &str) -> Result<Vec<u8>> {
    let open = tree.reading.open(tree.inode(path)?)?;
    let read = |bytes: Result<&[u8]>| bytes.map(<[u8]>::to_vec);
    let content = tree
        .reading
        .read(open.handle, 0, 1 << 20, PageCache::Used, read);
    tree.closing.release(open.handle);
    content
}
