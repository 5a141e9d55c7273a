//! The face that fuzzers see: each target takes any bytes and ends, or has found something.
//!
//! A target panics where something that must hold does not: an error of our own (`Error::Bug`),
//! memory that stays charged, two decoders that differ. Of what crashes, hangs or eats memory the
//! fuzzer takes notice. `fuzz/` makes a program of each target, and `scripts/fuzz.sh` runs them;
//! the tests here run what lies in `fuzz/corpus` and `fuzz/finds`. Not for users, and in no program
//! of theirs: it is compiled for tests, and with the feature `fuzzing`, which also has libhdf5 run
//! within the process.

mod codecs;
#[cfg(test)]
mod replay;

use crate::array::dtype::Dtype;
use crate::look::element::ElementType;

/// A target: its name, and what is done with the bytes.
type FuzzTarget = (&'static str, fn(&[u8]));

/// All of them. The name is that of its program and of its corpus.
pub const TARGETS: &[FuzzTarget] = &[
    ("blosc", codecs::blosc),
    ("blosc_encode", codecs::blosc_encode),
    ("bp128", codecs::bp128),
    ("bp128_encode", codecs::bp128_encode),
    ("filters", codecs::filters),
    ("filters_encode", codecs::filters_encode),
    ("bloscpack", |data| container("x.blp", data)),
    ("netcdf", |data| container("x.nc", data)),
    ("hdf5", |data| container("x.h5", data)),
    ("daphne", |data| {
        crate::container::fuzzed::several("x.dbdf", data)
    }),
    ("bpcells", |data| {
        crate::container::fuzzed::several("x", data)
    }),
    ("zarr", |data| {
        crate::container::fuzzed::several("x.zarr", data)
    }),
    ("zarr_zip", |data| container("x.zarr.zip", data)),
    ("literal", literal),
    ("description", crate::container::fuzzed::description),
    ("names", crate::container::fuzzed::names),
    ("stage_log", crate::stage::fuzzed::log),
    ("scratch_log", crate::scratch::fuzzed::log),
    ("convert_log", crate::scratch::convert_log),
    ("command_line", crate::cli::fuzzed::words),
];

/// Runs a target by its name.
///
/// # Panics
///
/// Where there is none of this name, and where something was found.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("there is no target {name}"));
    target(data);
}

fn container(name: &str, data: &[u8]) {
    crate::container::fuzzed::one_file(name, data);
}

/// How NumPy spells types, and how we do; those whose elements are shown as numbers have one size.
fn literal(data: &[u8]) {
    crate::container::fuzzed::literal(data);
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let dtype = Dtype::numpy(text, data.len() as u64);
    if let Some(element) = ElementType::of(&dtype) {
        assert_eq!(Some(element.size() as u64), dtype.itemsize());
    }
}
