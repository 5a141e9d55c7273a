//! Binsparse containers in memory, for the tests: any levels, any set of entries, any integer type.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Member;
use super::levels::Level;
use crate::array::dtype::Dtype;
use crate::array::{Array, BlockId, Info, Order, Piece, even_pieces};
use crate::error::Result;
use crate::memory::Arena;

/// Bytes of a block of the arrays; no multiple of any element.
const BLOCK: u64 = 61;

/// Integer types by their names, with NumPy's spelling and size.
pub(super) const INTEGERS: [(&str, &str, u64); 8] = [
    ("uint8", "|u1", 1),
    ("int8", "|i1", 1),
    ("uint16", "<u2", 2),
    ("int16", "<i2", 2),
    ("uint32", "<u4", 4),
    ("int32", "<i4", 4),
    ("uint64", "<u8", 8),
    ("int64", "<i8", 8),
];

/// An array in memory, of one dimension or of none.
struct Numbers {
    name: String,
    dtype: Dtype,
    bytes: Vec<u8>,
    scalar: bool,
}

impl Array for Numbers {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> Result<Info> {
        let bytes = self.bytes.len() as u64;
        Ok(Info {
            dtype: self.dtype.clone(),
            shape: match self.scalar {
                true => vec![],
                false => vec![bytes / self.dtype.itemsize().unwrap()],
            },
            order: Order::C,
            bytes,
            stored_bytes: bytes,
            blocks: bytes.div_ceil(BLOCK),
            codec: "none".into(),
        })
    }

    fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
        even_pieces(self.bytes.len() as u64, BLOCK, range, out);
        Ok(())
    }

    fn decode(&self, block: BlockId, out: &mut [u8], _scratch: Arena<'_>) -> Result<()> {
        let at = (block.0 * BLOCK) as usize;
        out.copy_from_slice(&self.bytes[at..at + out.len()]);
        Ok(())
    }
}

/// A member of these numbers, cut to the type.
pub(super) fn member(name: &str, numbers: &[i64], (_, descr, size): (&str, &str, u64)) -> Member {
    let bytes = numbers
        .iter()
        .flat_map(|n| n.to_le_bytes().into_iter().take(size as usize));
    raw_member(name, bytes.collect(), Dtype::numpy(descr, size))
}

pub(super) fn raw_member(name: &str, bytes: Vec<u8>, dtype: Dtype) -> Member {
    Member {
        name: name.to_owned(),
        array: Ok(Arc::new(Numbers {
            name: name.to_owned(),
            dtype,
            bytes,
            scalar: false,
        })),
    }
}

/// A member without dimensions.
pub(super) fn scalar_member(name: &str, bytes: Vec<u8>, dtype: Dtype) -> Member {
    Member {
        name: name.to_owned(),
        array: Ok(Arc::new(Numbers {
            name: name.to_owned(),
            dtype,
            bytes,
            scalar: true,
        })),
    }
}

/// A container as its writer would have it.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) format: String,
    pub(super) levels: Vec<Level>,
    pub(super) transpose: Vec<usize>,
    pub(super) no_empty_slices: bool,
    /// In stored order.
    pub(super) shape: Vec<u64>,
    pub(super) structure: Option<&'static str>,
    /// Indices and pointers, by name.
    pub(super) arrays: Vec<(String, Vec<i64>)>,
    /// Number of values.
    pub(super) count: usize,
}

impl Sample {
    /// Stores entries, in stored order of the dimensions, sorted and without repetition.
    pub(super) fn fill(&mut self, entries: Vec<Vec<u64>>) {
        let mut positions = vec![entries];
        let mut depth = 0;
        self.arrays.clear();
        for level in self.levels.clone() {
            positions = match level {
                Level::Dense { rank } => {
                    let extents = &self.shape[depth..depth + rank];
                    positions
                        .iter()
                        .flat_map(|entries| dense(entries, extents))
                        .collect()
                }
                Level::Sparse { rank } => self.sparse(&positions, depth, rank),
            };
            depth += level.rank();
        }
        self.count = positions.len();
    }

    fn sparse(
        &mut self,
        positions: &[Vec<Vec<u64>>],
        depth: usize,
        rank: usize,
    ) -> Vec<Vec<Vec<u64>>> {
        let mut pointers = vec![0];
        let mut indices = vec![Vec::new(); rank];
        let mut below = Vec::new();
        for entries in positions {
            for slice in entries.chunk_by(|a, b| a[..rank] == b[..rank]) {
                for (indices, &index) in indices.iter_mut().zip(&slice[0]) {
                    indices.push(index as i64);
                }
                below.push(slice.iter().map(|entry| entry[rank..].to_vec()).collect());
            }
            pointers.push(below.len() as i64);
        }
        if depth > 0 {
            self.arrays.push((format!("pointers_to_{depth}"), pointers));
        }
        for (dimension, indices) in (depth..).zip(indices) {
            self.arrays.push((format!("indices_{dimension}"), indices));
        }
        below
    }

    /// The descriptor, all index arrays declared of one type.
    pub(super) fn descriptor(&self, integers: &str) -> Value {
        let mut shape = self.shape.clone();
        for (&logical, &extent) in self.transpose.iter().zip(&self.shape) {
            shape[logical] = extent;
        }
        let mut types = json!({ "values": "float32" });
        for (name, _) in &self.arrays {
            types[name] = integers.into();
        }
        let mut namespace = json!({
            "version": "0.1",
            "format": self.format,
            "shape": shape,
            "number_of_stored_values": self.count,
            "data_types": types,
        });
        if self.format == "custom" {
            let mut level = json!({ "level_desc": "element" });
            for outer in self.levels.iter().rev() {
                let kind = match outer {
                    Level::Dense { .. } => "dense",
                    Level::Sparse { .. } => "sparse",
                };
                level = json!({ "level_desc": kind, "rank": outer.rank(), "level": level });
            }
            namespace["custom"] = json!({ "transpose": self.transpose, "level": level });
        }
        if let Some(structure) = self.structure {
            namespace["structure"] = structure.into();
        }
        json!({ "binsparse": namespace })
    }

    pub(super) fn members(&self, integers: (&str, &str, u64)) -> Vec<Member> {
        let indices = self
            .arrays
            .iter()
            .map(|(name, numbers)| member(name, numbers, integers));
        let values = raw_member("values", vec![0; 4 * self.count], Dtype::F32);
        indices.chain([values]).collect()
    }

    /// Whether all elements keep the rules, found out the plain way.
    pub(super) fn is_sound(&self) -> bool {
        let mut depth = 0;
        self.levels.iter().all(|level| {
            let first = depth;
            depth += level.rank();
            match level {
                Level::Dense { .. } => true,
                Level::Sparse { rank } => self.level_is_sound(first, *rank),
            }
        }) && self.triangle_is_sound()
    }

    fn array(&self, name: String) -> Option<&Vec<i64>> {
        self.arrays
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, numbers)| numbers)
    }

    fn level_is_sound(&self, depth: usize, rank: usize) -> bool {
        let indices: Vec<&Vec<i64>> = (depth..depth + rank)
            .map(|d| self.array(format!("indices_{d}")).unwrap())
            .collect();
        let len = indices[0].len() as i64;
        let whole = vec![0, len];
        let pointers = self.array(format!("pointers_to_{depth}")).unwrap_or(&whole);
        let strictly = self.no_empty_slices && depth > 0;
        let pointers_are_sound = pointers[0] == 0
            && pointers.last() == Some(&len)
            && pointers
                .windows(2)
                .all(|w| w[0] < w[1] || w[0] == w[1] && !strictly);
        let inside = |(indices, extent): (&&Vec<i64>, &u64)| {
            indices
                .iter()
                .all(|&index| index >= 0 && (index as u64) < *extent)
        };
        let tuple = |at: i64| indices.iter().map(|i| i[at as usize]).collect::<Vec<i64>>();
        pointers_are_sound
            && indices.iter().zip(&self.shape[depth..]).all(inside)
            && pointers
                .windows(2)
                .all(|w| (w[0] + 1..w[1]).all(|at| tuple(at - 1) < tuple(at)))
    }

    fn triangle_is_sound(&self) -> bool {
        let (Some(structure), Some(Level::Sparse { .. })) = (self.structure, self.levels.last())
        else {
            return true;
        };
        let inner = self.array("indices_1".into()).unwrap();
        let pointers = self.array("pointers_to_1".into());
        let outer = |at: usize| match (pointers, self.array("indices_0".into())) {
            (None, Some(outer)) => outer[at],
            (Some(pointers), outers) => {
                let slice = pointers.partition_point(|&p| p <= at as i64) - 1;
                outers.map_or(slice as i64, |outers| outers[slice])
            }
            _ => unreachable!("a matrix has an outer index"),
        };
        let pointers_are_usable = pointers.is_none_or(|pointers| pointers.is_sorted());
        pointers_are_usable
            && (0..inner.len()).all(|at| {
                let (mut row, mut column) = (outer(at), inner[at]);
                if self.transpose == [1, 0] {
                    std::mem::swap(&mut row, &mut column);
                }
                if structure.ends_with("lower") {
                    row >= column
                } else {
                    row <= column
                }
            })
    }
}

/// What a dense level makes of one position.
fn dense(entries: &[Vec<u64>], extents: &[u64]) -> Vec<Vec<Vec<u64>>> {
    let Some((&extent, rest)) = extents.split_first() else {
        return vec![entries.to_vec()];
    };
    let below = |index: u64| {
        let of_index = entries.iter().filter(move |entry| entry[0] == index);
        of_index
            .map(|entry| entry[1..].to_vec())
            .collect::<Vec<_>>()
    };
    (0..extent)
        .flat_map(|index| dense(&below(index), rest))
        .collect()
}
