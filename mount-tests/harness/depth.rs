//! How much is tried: a sample in every run, the whole where there is time for it.
//!
//! A sample is the same in every run of the same seed. `scripts/nightly.sh` asks for the whole.

/// Set to anything but nothing, the whole is tried.
const WHOLE: &str = "ARRAYFS_TEST_WHOLE";

/// Kills, seeds or names: so many in a sample, and so many in the whole.
pub fn rounds((sample, whole): (u64, u64)) -> u64 {
    match std::env::var_os(WHOLE) {
        Some(set) if !set.is_empty() => whole,
        _ => sample,
    }
}
