//! How much is tried: a sample in every run, the whole where there is time for it.
//!
//! A sample is the same in every run of the same seed. `scripts/nightly.sh` asks for the whole.

use super::seeded::run_seed;

/// Set to anything but nothing, the whole is tried.
const WHOLE: &str = "ARRAYFS_TEST_WHOLE";

/// Kills, seeds or names: so many in a sample, and so many in the whole.
pub fn rounds((sample, whole): (u64, u64)) -> u64 {
    match std::env::var_os(WHOLE) {
        Some(set) if !set.is_empty() => whole,
        _ => sample,
    }
}

/// One of so many cases, or in the whole all of them. Tests that try the same cases each in a way
/// of its own, by their numbers, take different ones.
pub fn some_of<T: Ord>(mut cases: Vec<T>, one_of: u64, way: u64) -> Vec<T> {
    cases.sort();
    let every = rounds((one_of, 1));
    let numbers = run_seed().wrapping_add(way)..;
    let numbered = cases.into_iter().zip(numbers);
    let taken = numbered.filter(|(_, number)| number.is_multiple_of(every));
    taken.map(|(case, _)| case).collect()
}
