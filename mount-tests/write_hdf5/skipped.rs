//! Filters that libhdf5 skips, whatever a chunk holds: what is written skips them as well.

use std::path::Path;

use super::{commit, numbers, write_at};
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, assert_same};
use crate::harness::tools::shell;

/// As libhdf5 reads them.
fn stored_rows(path: &Path) -> Vec<u8> {
    let arguments = [Path::new("shown"), path, Path::new("rows")];
    let told = script("write_hdf5/scenario.py", arguments).success().stdout;
    let line = told.iter().position(|&byte| byte == b'\n').unwrap();
    told[line + 1..].to_vec()
}

/// The second shuffle has no size of elements.
#[test]
fn a_filter_that_stands_twice_is_applied_once() {
    for options in [&["commit=replace"], &["commit=inplace"]] {
        let place = Place::mounted(options);
        let stored = place.stored("x.h5");
        script("write_hdf5/scenario.py", [Path::new("twice"), &stored]).success();
        let mut expected = numbers(&(0..1200).collect::<Vec<_>>());
        for (number, element) in [(-7, 5), (70_000, 1199), (3, 600)] {
            write_at(&place.join("x.h5/rows"), &numbers(&[number]), 4 * element).unwrap();
            commit(&place);
            let at = 4 * element as usize;
            expected[at..at + 4].copy_from_slice(&numbers(&[number]));
            assert_same("rows", &stored_rows(&stored), &expected);
        }
        shell(place.path(), "cp -r x.h5 y.h5", &[]);
        place.wait_packed("y.h5");
        assert_content(&place.join("y.h5/rows"), &expected);
        assert_same("rows", &stored_rows(&place.stored("y.h5")), &expected);
        for name in ["x.h5", "y.h5"] {
            arrayfs([Path::new("verify"), &place.stored(name)]).success();
        }
    }
}
