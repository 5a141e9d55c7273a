//! A container for tests: a file, and arrays of which it is said to hold them.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece, direct_piece, even_pieces};
use crate::disk::local::LocalDisk;
use crate::disk::{Caller, Disk};
use crate::error::Result;
use crate::memory::Arena;
use crate::memory::budget::Budget;
use crate::source::Store;
use crate::source::local::LocalStore;
use crate::stage::{
    Base, BaseFile, FoundLog, Layer, LayerMemory, LogOf, LogSpot, LogState, LoggedArray, Overlay,
    Stage, WrittenArray, log_names,
};

fn first_log(container: &OsStr) -> OsString {
    log_names(container).next().unwrap()
}

/// The log under its first name.
pub(crate) fn read_log(of: &LogOf<'_>) -> Result<Option<LogState>> {
    match crate::stage::read_log(of, &first_log(of.container))? {
        FoundLog::Nothing => Ok(None),
        FoundLog::Foreign(e) => Err(e),
        FoundLog::Held(state) => Ok(Some(*state)),
    }
}

pub(super) const ARRAYS: usize = 2;
const BLOCK: u64 = 64;

pub(crate) struct Container {
    directory: TempDir,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) base: Base,
    pub(crate) arrays: Vec<Vec<u8>>,
}

/// One of its arrays: the first half in blocks, the second stored as it is.
struct Sample(Vec<u8>);

impl Container {
    pub(crate) fn new() -> Container {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("c.blp"), "blpk").unwrap();
        let store = LocalStore::open(directory.path(), directory.path()).unwrap();
        let store = Arc::new(store);
        let file = BaseFile {
            name: String::new(),
            size: 4,
            mtime_secs: 5,
            mtime_nanos: 6,
        };
        Container {
            disk: Arc::new(LocalDisk::new(Arc::clone(&store))),
            store,
            base: Base {
                format: "sample".into(),
                files: vec![file],
            },
            arrays: vec![(0..500).map(|n| n as u8 | 1).collect(), vec![255; 300]],
            directory,
        }
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.directory.path().join(first_log("c.blp".as_ref()))
    }

    pub(crate) fn spot(&self) -> LogSpot {
        let root = self.store.stat("".as_ref()).unwrap();
        LogSpot {
            files: vec!["c.blp".into()],
            disk: Arc::clone(&self.disk),
            store: Arc::clone(&self.store),
            directory: PathBuf::new(),
            directory_id: root.id,
            container: "c.blp".into(),
            owner: Caller::of(root.uid, root.gid),
        }
    }

    pub(crate) fn lens(&self) -> Vec<u64> {
        self.arrays.iter().map(|array| array.len() as u64).collect()
    }

    pub(crate) fn memory(&self, budget: u64) -> Arc<LayerMemory> {
        LayerMemory::new(Budget::new(budget))
    }

    pub(crate) fn stage(&self, budget: u64) -> Arc<Stage> {
        self.stage_with(&self.memory(budget))
    }

    pub(crate) fn stage_with(&self, memory: &Arc<LayerMemory>) -> Arc<Stage> {
        let stage = Stage::new(Arc::new(self.spot()), self.base.clone(), Arc::clone(memory));
        for (n, len) in self.lens().into_iter().enumerate() {
            let array = LoggedArray {
                path: format!("a{n}"),
                len,
                dtype: "uint8".to_owned(),
            };
            stage.add_array(array).unwrap();
        }
        stage
    }

    pub(crate) fn overlay(&self, array: usize, layers: &[Arc<Layer>]) -> Overlay {
        let base = Arc::new(Sample(self.arrays[array].clone()));
        Overlay::new(base, layers.to_vec(), WrittenArray(array as u32))
    }

    /// Everything of an array, read piece by piece as the executor does.
    pub(crate) fn read(&self, array: usize, layers: &[Arc<Layer>]) -> Vec<u8> {
        let overlay = self.overlay(array, layers);
        let info = overlay.info().unwrap();
        assert_eq!(info.shape, [info.bytes]);
        let mut pieces = Vec::new();
        overlay.pieces(0..info.bytes, &mut pieces).unwrap();
        let (mut out, mut direct) = (vec![0xEE; info.bytes as usize], 0);
        let mut to = 0;
        for (n, piece) in pieces.iter().enumerate() {
            let end = to + piece.take() as usize;
            match *piece {
                Piece::Block {
                    id,
                    block_len,
                    skip,
                    take,
                } => {
                    let mut block = vec![0; block_len as usize];
                    overlay.decode(id, &mut block, Arena::none()).unwrap();
                    out[to..end].copy_from_slice(&block[skip as usize..][..take as usize]);
                    direct = end;
                }
                Piece::Direct { at, .. } => {
                    assert_eq!(at, to as u64);
                    // Those that follow each other at once.
                    if !matches!(pieces.get(n + 1), Some(Piece::Direct { .. })) {
                        overlay
                            .read_direct(direct as u64, &mut out[direct..end])
                            .unwrap();
                        direct = end;
                    }
                }
            }
            to = end;
        }
        assert_eq!(to, out.len());
        out
    }
}

/// As write(2) would change a file.
pub(crate) fn write(array: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let (at, end) = (at as usize, at as usize + bytes.len());
    array.resize(array.len().max(end), 0);
    array[at..end].copy_from_slice(bytes);
}

impl Array for Sample {
    fn name(&self) -> &str {
        "sample"
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.0.len() as u64;
        Ok(Info {
            dtype: Dtype::numpy("|u1", 1),
            shape: vec![bytes],
            order: Order::C,
            bytes,
            stored_bytes: bytes,
            blocks: bytes.div_ceil(BLOCK),
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        let half = self.0.len() as u64 / 2;
        assert!(range.end <= self.0.len() as u64);
        even_pieces(half, BLOCK, range.clone(), out);
        direct_piece(range.start.max(half)..range.end, out);
        Ok(())
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _: Arena<'_>) -> Result<()> {
        out.copy_from_slice(&self.0[(block.0 * BLOCK) as usize..][..out.len()]);
        Ok(())
    }

    fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&self.0[at as usize..][..out.len()]);
        Ok(())
    }
}
