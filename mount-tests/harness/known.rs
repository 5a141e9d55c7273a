//! A source with containers of every kind of storage, and every byte that its mount must show.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::scratch_directory;
use super::seeded::Seeded;
use super::writers::{Bloscpack, Matrix, Packing, npy};

pub struct KnownTree {
    directory: TempDir,
    pub files: Vec<KnownFile>,
}

/// A file of the mount, by its path there.
#[derive(Clone)]
pub struct KnownFile {
    pub path: PathBuf,
    pub content: Vec<u8>,
}

impl KnownTree {
    /// Matrices packed and unpacked, Bloscpack files packed and stored; about a megabyte an array.
    pub fn new(seed: u64) -> Self {
        let mut tree = KnownTree {
            directory: scratch_directory(),
            files: Vec::new(),
        };
        let matrix = Matrix::random(seed, 250_007);
        matrix.write_packed(&tree.source().join("packed"));
        matrix.write_unpacked(&tree.source().join("unpacked"));
        tree.expect_matrix("packed", &matrix);
        tree.expect_matrix("unpacked", &matrix);
        let stored = Bloscpack {
            packing: Packing::Stored,
            ..Bloscpack::default()
        };
        let bare = Bloscpack {
            typesize: 4,
            chunk_size: 100_001,
            packing: Packing::Lz4 {
                block: 7001,
                shuffle: false,
            },
            checksum: false,
            offsets: false,
        };
        let kinds = [
            ("shuffled.blp", Bloscpack::default()),
            ("stored.blp", stored),
            ("bare.blp", bare),
        ];
        let mut random = Seeded::new(seed);
        for (name, kind) in kinds {
            let plain = random.rising(1_000_003);
            kind.write(&tree.source().join(name), &plain);
            tree.expect(name, "data", "|u1", plain.len(), plain);
        }
        tree
    }

    pub fn source(&self) -> &Path {
        self.directory.path()
    }

    fn expect_matrix(&mut self, name: &str, matrix: &Matrix) {
        for (array, descr, elements, bytes) in matrix.arrays() {
            self.expect(name, array, descr, elements, bytes);
        }
        let content = matrix.row_names_text().into_bytes();
        self.files.push(KnownFile {
            path: Path::new(name).join("row_names"),
            content,
        });
    }

    /// An array and its view.
    fn expect(
        &mut self,
        container: &str,
        array: &str,
        descr: &str,
        elements: usize,
        bytes: Vec<u8>,
    ) {
        let container = Path::new(container);
        let view = npy(descr, elements, &bytes);
        self.files.push(KnownFile {
            path: container.join(array),
            content: bytes,
        });
        let path = container.join("views").join(format!("{array}.npy"));
        self.files.push(KnownFile {
            path,
            content: view,
        });
    }
}
