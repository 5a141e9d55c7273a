//! Formats as levels: every predefined format is a short list of them, and all rules follow from
//! levels.
//!
//! Specification, sections 3.5.2 and 3.5.3. A level covers `rank` dimensions of the stored
//! (transposed) shape, root to leaf; the element level, where the values are, is not in the list.
//! Used by `descriptor` (to read), `lengths` and `check` (to check).

use serde_json::{Map, Value};

use super::json::{self, Read};
use crate::error::Fault;

/// More dimensions than any array has; each sparse one is read at the same time by the full check.
pub(super) const MOST_DIMENSIONS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Dense { rank: usize },
    Sparse { rank: usize },
}

impl Level {
    pub(super) fn rank(self) -> usize {
        match self {
            Level::Dense { rank } | Level::Sparse { rank } => rank,
        }
    }
}

/// How the stored values are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LevelLayout {
    pub(super) levels: Vec<Level>,
    /// DimensionIndices `i` as stored is logical dimension `transpose[i]`. A permutation.
    pub(super) transpose: Vec<usize>,
    /// No slice that is stored may be empty (DCSR, DCSC).
    pub(super) no_empty_slices: bool,
    /// Not one of the predefined formats.
    pub(super) custom: bool,
}

const DENSE: Level = Level::Dense { rank: 1 };
const SPARSE: Level = Level::Sparse { rank: 1 };
const PAIRS: Level = Level::Sparse { rank: 2 };

/// The formats of section 3.5.1, aliases included.
fn predefined(format: &str) -> Option<(&'static [Level], &'static [usize])> {
    Some(match format {
        "DVEC" => (&[DENSE], &[0]),
        "DMATR" | "DMAT" => (&[DENSE, DENSE], &[0, 1]),
        "DMATC" => (&[DENSE, DENSE], &[1, 0]),
        "CVEC" => (&[SPARSE], &[0]),
        "CSR" => (&[DENSE, SPARSE], &[0, 1]),
        "CSC" => (&[DENSE, SPARSE], &[1, 0]),
        "DCSR" => (&[SPARSE, SPARSE], &[0, 1]),
        "DCSC" => (&[SPARSE, SPARSE], &[1, 0]),
        "COOR" | "COO" => (&[PAIRS], &[0, 1]),
        "COOC" => (&[PAIRS], &[1, 0]),
        _ => return None,
    })
}

impl LevelLayout {
    /// The layout of a predefined format.
    pub(super) fn predefined(format: &str) -> Option<LevelLayout> {
        let (levels, transpose) = predefined(format)?;
        Some(LevelLayout {
            levels: levels.to_vec(),
            transpose: transpose.to_vec(),
            no_empty_slices: format.starts_with("DCS"),
            custom: false,
        })
    }

    /// Reads the object `custom`. `rank`: number of dimensions of the shape, if that is known.
    pub(super) fn custom(custom: &Value, rank: Option<usize>) -> Read<LevelLayout> {
        let not_an_object = || Fault::new("\"custom\" is not an object").found(json::show(custom));
        let custom = custom.as_object().ok_or_else(not_an_object)?;
        let levels = read_levels(custom)?;
        let covered: usize = levels.iter().map(|level| level.rank()).sum();
        if let Some(rank) = rank.filter(|&rank| rank != covered) {
            let fault = Fault::new("the custom levels do not cover the dimensions of the shape");
            return Err(fault.expected(rank).found(covered).into());
        }
        let transpose = match custom.get("transpose") {
            None | Some(Value::Null) => (0..covered).collect(),
            Some(list) => permutation(list, covered)?,
        };
        Ok(LevelLayout {
            levels,
            transpose,
            no_empty_slices: false,
            custom: true,
        })
    }

    /// The shape in the order of the levels; none unless it has as many dimensions as they cover.
    pub(super) fn stored_shape(&self, shape: &[u64]) -> Option<Vec<u64>> {
        let same = shape.len() == self.transpose.len();
        let stored = self.transpose.iter().map(|&i| shape.get(i).copied());
        same.then(|| stored.collect())?
    }

    /// Whether both find the same values in the same arrays.
    pub(super) fn agrees(&self, other: &LevelLayout) -> bool {
        self.merged() == other.merged()
    }

    /// The levels, neighbouring dense ones made one: they need no arrays, so the arrays do not show
    /// a difference.
    fn merged(&self) -> Vec<Level> {
        let mut merged: Vec<Level> = Vec::new();
        for &level in &self.levels {
            match (merged.last_mut(), level) {
                (Some(Level::Dense { rank: before }), Level::Dense { rank }) => *before += rank,
                _ => merged.push(level),
            }
        }
        merged
    }

    /// For `arrays.json`; none where it goes without saying.
    pub(super) fn transpose_to_show(&self) -> Option<Vec<usize>> {
        let identity = self.transpose.iter().enumerate().all(|(i, &t)| i == t);
        (!identity).then(|| self.transpose.clone())
    }

    /// `[{"dense": 1}, {"sparse": 2}]` for a custom format.
    pub(super) fn levels_to_show(&self) -> Option<Vec<Value>> {
        let show = |level: &Level| match level {
            Level::Dense { rank } => serde_json::json!({ "dense": rank }),
            Level::Sparse { rank } => serde_json::json!({ "sparse": rank }),
        };
        self.custom.then(|| self.levels.iter().map(show).collect())
    }
}

/// The chain of `level` objects. It is as long as the JSON is deep, which is bounded.
fn read_levels(custom: &Map<String, Value>) -> Read<Vec<Level>> {
    let mut levels = Vec::new();
    let mut covered = 0;
    let mut outer = custom;
    loop {
        let level = outer.get("level").and_then(Value::as_object);
        let missing = || Fault::new("a custom level has no object \"level\" within");
        let level = level.ok_or_else(missing)?;
        let kind = level.get("level_desc").unwrap_or(&Value::Null);
        let of_rank = match kind.as_str() {
            Some("element") => return Ok(levels),
            Some("dense") => |rank| Level::Dense { rank },
            Some("sparse") => |rank| Level::Sparse { rank },
            _ => {
                let fault = Fault::new("the kind of a custom level is unknown");
                let fault = fault.expected("dense, sparse or element");
                return Err(fault.found(json::show(kind)).into());
            }
        };
        let rank = rank(level)?;
        covered += rank;
        if covered > MOST_DIMENSIONS {
            let fault = Fault::new("the custom levels cover too many dimensions");
            return Err(fault.expected(format!("at most {MOST_DIMENSIONS}")).into());
        }
        levels.push(of_rank(rank));
        outer = level;
    }
}

fn rank(level: &Map<String, Value>) -> Read<usize> {
    let value = level.get("rank").unwrap_or(&Value::Null);
    let rank = json::whole(value).filter(|rank| (1..=MOST_DIMENSIONS as u64).contains(rank));
    rank.map(|rank| rank as usize).ok_or_else(|| {
        let fault = Fault::new("the rank of a custom level is not usable");
        let fault = fault.expected(format!("a whole number from 1 to {MOST_DIMENSIONS}"));
        fault.found(json::show(value)).into()
    })
}

fn permutation(list: &Value, rank: usize) -> Read<Vec<usize>> {
    let number = |value| json::whole(value).and_then(|n| usize::try_from(n).ok());
    let numbers: Option<Vec<usize>> = list
        .as_array()
        .filter(|list| list.len() == rank)
        .and_then(|list| list.iter().map(number).collect());
    let each_once = |numbers: &Vec<usize>| {
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        sorted.iter().copied().eq(0..rank)
    };
    numbers.filter(each_once).ok_or_else(|| {
        let fault = Fault::new("\"transpose\" is not a permutation of the dimensions");
        fault
            .expected(format!("each number below {rank} once"))
            .into()
    })
}
