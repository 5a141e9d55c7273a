//! fsx on arrays: it reads and writes one file in every way, and compares.

use std::path::Path;

use super::{assert_stored, both_ways};
use crate::harness::depth::rounds;
use crate::harness::golden;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::reads::walk;
use crate::harness::seeded::run_seed;
use crate::harness::tools::tool;
use crate::posix::fsx;

const SEEDS: u64 = 3;
const OPERATIONS: (u64, u64) = (100, 400);

both_ways![fsx_passes_on_arrays];

fn fsx_passes_on_arrays(place: &Place) {
    let Some(program) = tool("fsx") else {
        return;
    };
    let kinds = ["codec-zstd-sh1", "codec-blosclz-sh2", "offsets-none"];
    let name = |seed: u64| format!("x-{seed}.blp");
    for (seed, kind) in (run_seed() + 1..=run_seed() + SEEDS).zip(kinds) {
        let from = golden("bloscpack/sources").join(format!("{kind}.blp"));
        std::fs::copy(from, place.stored(name(seed))).unwrap();
    }
    let failed = fsx(&program, SEEDS, rounds(OPERATIONS), |seed| {
        place.join(name(seed)).join("data")
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    arrayfs([Path::new("verify"), place.source()]).success();
    for stored in walk(place.source()).0 {
        let shown = place.join(stored.file_name().unwrap()).join("data");
        assert_stored(&stored, &std::fs::read(shown).unwrap());
    }
}
