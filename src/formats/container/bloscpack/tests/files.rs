//! Bloscpack files built by hand for the tests: memcpyed chunks, adler32 or no digests.

use std::path::Path;
use std::sync::Arc;

use crate::codec::checksum::Checksum;
use crate::container::bloscpack::{Bloscpack, header::LEN};
use crate::container::{Container, Preferences, open_as};
use crate::source::local::LocalStore;
use crate::source::{Source, Store};

pub(crate) fn header(
    options: u8,
    checksum: u8,
    chunk_size: i32,
    last_chunk: i32,
    nchunks: i64,
    max_app_chunks: i64,
) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..8].copy_from_slice(&[b'b', b'l', b'p', b'k', 3, options, checksum, 4]);
    bytes[8..12].copy_from_slice(&chunk_size.to_le_bytes());
    bytes[12..16].copy_from_slice(&last_chunk.to_le_bytes());
    bytes[16..24].copy_from_slice(&nchunks.to_le_bytes());
    bytes[24..].copy_from_slice(&max_app_chunks.to_le_bytes());
    bytes
}

/// A memcpyed chunk.
pub(crate) fn chunk(plain: &[u8], blocksize: u32) -> Vec<u8> {
    let mut bytes = vec![2, 1, 0x33, 4];
    bytes.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&blocksize.min(plain.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(plain.len() as u32 + 16).to_le_bytes());
    bytes.extend_from_slice(plain);
    bytes
}

/// A chunk of raw streams: a table of block starts and blocks that are stored as they are.
pub(crate) fn blocked_chunk(plain: &[u8], blocksize: usize, reversed: bool) -> Vec<u8> {
    let blocks: Vec<&[u8]> = plain.chunks(blocksize).collect();
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    if reversed {
        order.reverse();
    }
    let mut starts = vec![0u32; blocks.len()];
    let mut streams = Vec::new();
    for i in order {
        starts[i] = (16 + 4 * blocks.len() + streams.len()) as u32;
        streams.extend_from_slice(&(blocks[i].len() as u32).to_le_bytes());
        streams.extend_from_slice(blocks[i]);
    }
    let mut bytes = vec![2, 1, 0x30, 4];
    bytes.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(blocksize as u32).to_le_bytes());
    let ctbytes = 16 + 4 * blocks.len() + streams.len();
    bytes.extend_from_slice(&(ctbytes as u32).to_le_bytes());
    starts
        .iter()
        .for_each(|start| bytes.extend_from_slice(&start.to_le_bytes()));
    bytes.extend_from_slice(&streams);
    bytes
}

/// A file under construction.
pub(crate) struct File {
    pub(crate) header: [u8; LEN],
    pub(crate) metadata: Vec<u8>,
    pub(crate) offsets: Vec<i64>,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) junk: Vec<u8>,
}

impl File {
    /// `plain` in memcpyed chunks of `size` bytes, with true offsets and two spare ones.
    pub(crate) fn new(plain: &[u8], size: usize) -> Self {
        File::of_chunks(
            plain.chunks(size).map(|part| chunk(part, 16)).collect(),
            size,
        )
    }

    pub(crate) fn of_chunks(chunks: Vec<Vec<u8>>, size: usize) -> Self {
        let plain = |chunk: &Vec<u8>| i32::from_le_bytes(chunk[4..8].try_into().unwrap());
        let last = chunks.last().map_or(0, plain);
        let n = chunks.len() as i64;
        let mut file = File {
            header: header(1, 1, size as i32, last, n, 2),
            metadata: Vec::new(),
            offsets: Vec::new(),
            chunks,
            junk: Vec::new(),
        };
        file.offsets = file.true_offsets(2);
        file
    }

    pub(crate) fn without_offsets(mut self) -> Self {
        self.header[5] &= !1;
        self.offsets.clear();
        self
    }

    pub(crate) fn without_checksum(mut self) -> Self {
        self.header[6] = 0;
        self.offsets = self.true_offsets(2);
        self
    }

    pub(crate) fn with_metadata(mut self, section: Vec<u8>) -> Self {
        self.header[5] |= 2;
        self.metadata = section;
        if !self.offsets.is_empty() {
            self.offsets = self.true_offsets(2);
        }
        self
    }

    pub(crate) fn checksum(&self) -> Checksum {
        Checksum::from_code(self.header[6]).unwrap()
    }

    /// Where the first chunk begins, if there are offsets.
    pub(crate) fn first(&self) -> i64 {
        (LEN + self.metadata.len() + 8 * self.offsets.len()) as i64
    }

    fn true_offsets(&self, spare: usize) -> Vec<i64> {
        let first = LEN + self.metadata.len() + 8 * (self.chunks.len() + spare);
        let mut at = first as i64;
        let mut offsets = Vec::new();
        for chunk in &self.chunks {
            offsets.push(at);
            at += (chunk.len() + self.checksum().digest_len()) as i64;
        }
        offsets.resize(self.chunks.len() + spare, -1);
        offsets
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.to_vec();
        bytes.extend_from_slice(&self.metadata);
        self.offsets
            .iter()
            .for_each(|offset| bytes.extend_from_slice(&offset.to_le_bytes()));
        for chunk in &self.chunks {
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(self.checksum().digest(chunk).as_bytes());
        }
        bytes.extend_from_slice(&self.junk);
        bytes
    }
}

/// A metadata section with an adler32 digest.
pub(crate) fn metadata(stored: &[u8], codec: u8, plain_len: usize, room: usize) -> Vec<u8> {
    let mut section = b"JSON\0\0\0\0".to_vec();
    section.extend_from_slice(&[0, 1, codec, 6]);
    section.extend_from_slice(&(plain_len as u32).to_le_bytes());
    section.extend_from_slice(&(room as u32).to_le_bytes());
    section.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    section.extend_from_slice(&[0; 8]);
    section.extend_from_slice(stored);
    section.resize(32 + room, 0);
    section.extend_from_slice(Checksum::Adler32.digest(stored).as_bytes());
    section
}

/// A directory with one stored file.
pub(crate) struct Stored {
    dir: tempfile::TempDir,
}

impl Stored {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.blp"), bytes).unwrap();
        Stored { dir }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::new(LocalStore::open(self.dir.path(), self.dir.path()).unwrap())
    }

    pub(crate) fn source(&self) -> Arc<dyn Source> {
        self.store().open(Path::new("a.blp")).unwrap()
    }

    pub(crate) fn open(&self) -> Container {
        let path = Path::new("a.blp");
        open_as(&Bloscpack, &self.store(), path, Preferences::default()).unwrap()
    }
}
