//! Writers of containers with known content: BPCells matrices as BPCells stores them, Bloscpack
//! files by the letter of the format.

use std::path::Path;

use arrayfs_codec::bp128::Transform;
use arrayfs_codec::bp128::encoded::encoded;

use super::seeded::Seeded;

/// A sparse matrix by columns, of counts.
#[derive(Clone)]
pub struct Matrix {
    pub rows: u32,
    pub val: Vec<u32>,
    pub index: Vec<u32>,
    pub idxptr: Vec<u64>,
    pub row_names: Vec<String>,
}

const PER_COLUMN: usize = 100;

impl Matrix {
    pub fn random(seed: u64, entries: usize) -> Self {
        let mut random = Seeded::new(seed);
        let rows = 30_000;
        let mut matrix = Matrix {
            rows,
            val: (0..entries).map(|_| random.count()).collect(),
            index: Vec::with_capacity(entries),
            idxptr: vec![0],
            row_names: (0..rows).map(|row| format!("gene-{row}-\u{b5}")).collect(),
        };
        while matrix.index.len() < entries {
            let len = PER_COLUMN.min(entries - matrix.index.len());
            let step = rows as usize / PER_COLUMN;
            matrix
                .index
                .extend((0..len).map(|i| (i * step + random.below(step)) as u32));
            matrix.idxptr.push(matrix.index.len() as u64);
        }
        matrix
    }

    fn shape(&self) -> [u32; 2] {
        [self.rows, self.idxptr.len() as u32 - 1]
    }

    /// Writes `packed-uint-matrix-v2` into a new directory.
    pub fn write_packed(&self, directory: &Path) {
        self.write_common(directory, "packed-uint-matrix-v2");
        let streams = [
            ("val", encoded(Transform::MinusOne, &self.val)),
            ("index", encoded(Transform::DeltaZigzag, &self.index)),
        ];
        for (name, stream) in streams {
            let write = |part, bytes: &[u8]| {
                std::fs::write(directory.join(format!("{name}_{part}")), bytes).unwrap();
            };
            let offsets = [0, stream.idx.len() as u64];
            write("data", &[b"UINT32v1", &stream.words[..]].concat());
            write("idx", &[b"UINT32v1", &le32(&stream.idx)[..]].concat());
            write("idx_offsets", &[b"UINT64v1", &le64(&offsets)[..]].concat());
            if name == "index" {
                write("starts", &[b"UINT32v1", &le32(&stream.starts)[..]].concat());
            }
        }
    }

    /// Writes `unpacked-uint-matrix-v2` into a new directory.
    pub fn write_unpacked(&self, directory: &Path) {
        self.write_common(directory, "unpacked-uint-matrix-v2");
        for (name, values) in [("val", &self.val), ("index", &self.index)] {
            let bytes = [b"UINT32v1", &le32(values)[..]].concat();
            std::fs::write(directory.join(name), bytes).unwrap();
        }
    }

    fn write_common(&self, directory: &Path, version: &str) {
        std::fs::create_dir_all(directory).unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(directory.join(name), bytes).unwrap();
        write("version", format!("{version}\n").as_bytes());
        write("idxptr", &[b"UINT64v1", &le64(&self.idxptr)[..]].concat());
        write("shape", &[b"UINT32v1", &le32(&self.shape())[..]].concat());
        write("row_names", lines(&self.row_names).as_bytes());
        write("col_names", b"");
        write("storage_order", b"col\n");
    }

    /// Every numeric array as it must be shown: name, NumPy type, length, bytes.
    pub fn arrays(&self) -> [(&'static str, &'static str, usize, Vec<u8>); 4] {
        [
            ("val", "<u4", self.val.len(), le32(&self.val)),
            ("index", "<u4", self.index.len(), le32(&self.index)),
            ("idxptr", "<u8", self.idxptr.len(), le64(&self.idxptr)),
            ("shape", "<u4", 2, le32(&self.shape())),
        ]
    }

    pub fn row_names_text(&self) -> String {
        lines(&self.row_names)
    }
}

fn lines(names: &[String]) -> String {
    names.iter().map(|name| format!("{name}\n")).collect()
}

fn le32(values: &[u32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

fn le64(values: &[u64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// How the chunks of a Bloscpack file hold their bytes.
#[derive(Clone, Copy)]
pub enum Packing {
    /// As they are (memcpyed).
    Stored,
    /// In LZ4 blocks of this many bytes.
    Lz4 { block: usize, shuffle: bool },
}

/// How to write a Bloscpack file.
#[derive(Clone, Copy)]
pub struct Bloscpack {
    pub typesize: usize,
    pub chunk_size: usize,
    pub packing: Packing,
    /// Adler-32 behind every chunk.
    pub checksum: bool,
    pub offsets: bool,
}

impl Default for Bloscpack {
    fn default() -> Self {
        Bloscpack {
            typesize: 8,
            chunk_size: 1 << 18,
            packing: Packing::Lz4 {
                block: 1 << 15,
                shuffle: true,
            },
            checksum: true,
            offsets: true,
        }
    }
}

const HEADER: usize = 32;

impl Bloscpack {
    pub fn write(&self, path: &Path, plain: &[u8]) {
        std::fs::write(path, self.pack(plain)).unwrap();
    }

    /// The bytes of the file.
    pub fn pack(&self, plain: &[u8]) -> Vec<u8> {
        let chunk_size = self.chunk_size.min(plain.len()).max(1);
        let mut chunks: Vec<&[u8]> = plain.chunks(chunk_size).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let mut file = self.header(plain.len().min(chunk_size), &chunks);
        if self.offsets {
            file.resize(HEADER + 8 * chunks.len(), 0);
        }
        for (number, plain) in chunks.iter().enumerate() {
            if self.offsets {
                let offset = (file.len() as u64).to_le_bytes();
                file[HEADER + 8 * number..][..8].copy_from_slice(&offset);
            }
            let chunk = self.chunk(plain);
            file.extend(&chunk);
            if self.checksum {
                file.extend(adler32(&chunk).to_le_bytes());
            }
        }
        file
    }

    fn header(&self, chunk_size: usize, chunks: &[&[u8]]) -> Vec<u8> {
        let last = chunks.last().map_or(0, |chunk| chunk.len());
        let mut header = b"blpk".to_vec();
        header.extend([
            3,
            u8::from(self.offsets),
            u8::from(self.checksum),
            self.typesize as u8,
        ]);
        header.extend((chunk_size as i32).to_le_bytes());
        header.extend((last as i32).to_le_bytes());
        header.extend((chunks.len() as i64).to_le_bytes());
        header.extend(0i64.to_le_bytes());
        header
    }

    fn chunk(&self, plain: &[u8]) -> Vec<u8> {
        match self.packing {
            Packing::Lz4 { block, shuffle } if !plain.is_empty() => {
                self.lz4_chunk(plain, block.min(plain.len()), shuffle)
            }
            _ => {
                let mut chunk = self.chunk_header(0x02, plain.len(), plain.len().max(1));
                chunk.extend(plain);
                with_length(chunk)
            }
        }
    }

    fn lz4_chunk(&self, plain: &[u8], block: usize, shuffle: bool) -> Vec<u8> {
        const LZ4: u8 = 1 << 5;
        const NOT_SPLIT: u8 = 0x10;
        let mut chunk = self.chunk_header(LZ4 | NOT_SPLIT | u8::from(shuffle), plain.len(), block);
        let starts = chunk.len();
        chunk.resize(starts + 4 * plain.len().div_ceil(block), 0);
        for (number, plain) in plain.chunks(block).enumerate() {
            let start = (chunk.len() as u32).to_le_bytes();
            chunk[starts + 4 * number..][..4].copy_from_slice(&start);
            let plain = if shuffle {
                shuffled(plain, self.typesize)
            } else {
                plain.to_vec()
            };
            let packed = lz4_flex::block::compress(&plain);
            // A stream of the plain length is one that was not worth packing.
            let stored = if packed.len() < plain.len() {
                packed
            } else {
                plain
            };
            chunk.extend((stored.len() as u32).to_le_bytes());
            chunk.extend(stored);
        }
        with_length(chunk)
    }

    /// All but the last field, the length of the chunk.
    fn chunk_header(&self, flags: u8, plain: usize, block: usize) -> Vec<u8> {
        let mut header = vec![2, 1, flags, self.typesize as u8];
        header.extend((plain as u32).to_le_bytes());
        header.extend((block as u32).to_le_bytes());
        header.extend([0; 4]);
        header
    }
}

fn with_length(mut chunk: Vec<u8>) -> Vec<u8> {
    let len = (chunk.len() as u32).to_le_bytes();
    chunk[12..16].copy_from_slice(&len);
    chunk
}

/// Byte `j` of element `i` goes to `j * elements + i`; the tail stays.
fn shuffled(plain: &[u8], typesize: usize) -> Vec<u8> {
    let elements = plain.len() / typesize;
    let mut out = plain.to_vec();
    for (i, element) in plain.chunks_exact(typesize).enumerate() {
        for (j, &byte) in element.iter().enumerate() {
            out[j * elements + i] = byte;
        }
    }
    out
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let (mut a, mut b) = (1u32, 0u32);
    // As many additions as 32 bits can hold without overflow.
    for run in bytes.chunks(5552) {
        for &byte in run {
            a += u32::from(byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

/// The `.npy` file of an array, as NumPy writes it.
pub fn npy(descr: &str, elements: usize, bytes: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({elements},), }}");
    let len = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((len as u16).to_le_bytes());
    file.extend(format!("{text:<width$}\n", width = len - 1).bytes());
    file.extend(bytes);
    file
}
