//! Arrays that do not fit together yet: they are reported, shown, and kept staged, and the
//! container is committed as soon as they do.

mod kept;
mod orders;
mod refused;

use super::raw::{Raw, lines};
use super::{assert_stored, contents, cp, members, place_with, state, wait_staged};
use crate::harness::process::arrayfs;
use crate::harness::seeded::Seeded;

type Change = (&'static str, Vec<u8>);

fn matrix(version: &str) -> Raw {
    Raw::matrix(version, &mut Seeded::new(7), [500, 40], 3000)
}

/// In the order in which they lie the chromosomes are numbered 3, 2, 1, 0.
fn fragments(version: &str) -> Raw {
    Raw::fragments(version, &mut Seeded::new(8), &[300, 84, 0, 500])
}

const MATRICES: [&str; 3] = [
    "packed-uint-matrix-v2",
    "unpacked-double-matrix-v1",
    "packed-float-matrix-v9999",
];
const FRAGMENTS: [&str; 2] = ["packed-fragments-v2", "unpacked-fragments-v1"];

/// Writes arrays so that the container is not consistent, which names one of them, and then others
/// so that it is again.
fn broken_and_completed(raw: &Raw, broken: &[Change], named: &[&str], completed: &[Change]) {
    let place = place_with(&[("m", raw)]);
    let (shown, stored) = (place.join("m"), place.stored("m"));
    let before = members(&stored);
    let mut expected = raw.clone();
    for (name, bytes) in broken {
        cp(bytes, &shown.join(name)).success();
        expected.set(name, bytes.clone());
    }
    assert!(!expected.is_consistent(), "the test breaks no rule");
    let said = wait_staged(&shown);
    for name in named {
        assert!(said.contains(name), "{name} is not in: {said}");
    }
    expected.assert_shown(&shown);
    assert!(members(&stored) == before, "what is stored has changed");
    let told = arrayfs(["status".as_ref(), place.path().as_os_str()]).success();
    let is_it = |line: &str| line.contains("  staged  ") && named.iter().all(|n| line.contains(n));
    assert!(told.text().lines().any(is_it), "{}", told.text());
    for (name, bytes) in completed {
        cp(bytes, &shown.join(name)).success();
        expected.set(name, bytes.clone());
    }
    assert!(expected.is_consistent(), "the test leaves something broken");
    assert_stored(&stored, &expected);
    expected.assert_shown(&shown);
    assert!(!state(&shown).contains("staged"), "{}", state(&shown));
    let names = |of: &std::path::Path| contents(of).into_keys().collect::<Vec<_>>();
    assert!(names(&stored).iter().eq(before.keys()), "other files");
}

#[test]
fn more_values_than_entries() {
    for version in MATRICES {
        let raw = matrix(version);
        let val = raw.changed("val", |val| val.push(1));
        let index = raw.changed("index", |index| index.push(499));
        let idxptr = raw.changed("idxptr", |idxptr| *idxptr.last_mut().unwrap() += 1);
        let rest = [("index", index), ("idxptr", idxptr)];
        broken_and_completed(&raw, &[("val", val)], &["val"], &rest);
    }
}

#[test]
fn fewer_row_numbers_than_entries() {
    for version in MATRICES {
        let raw = matrix(version);
        let index = raw.changed("index", |index| index.truncate(2900));
        let val = raw.changed("val", |val| val.truncate(2900));
        let idxptr = raw.changed("idxptr", |idxptr| {
            idxptr.iter_mut().for_each(|at| *at = 2900.min(*at));
        });
        let rest = [("val", val), ("idxptr", idxptr)];
        broken_and_completed(&raw, &[("index", index)], &["index"], &rest);
    }
}

#[test]
fn pointers_that_end_elsewhere() {
    for version in MATRICES {
        let raw = matrix(version);
        let idxptr = raw.changed("idxptr", |idxptr| *idxptr.last_mut().unwrap() += 128);
        let more = |name| raw.changed(name, |numbers| numbers.resize(3128, 7));
        let rest = [("index", more("index")), ("val", more("val"))];
        broken_and_completed(&raw, &[("idxptr", idxptr)], &["idxptr"], &rest);
    }
}

#[test]
fn pointers_that_fall() {
    for version in MATRICES {
        let raw = matrix(version);
        let fall = |idxptr: &mut Vec<u64>| idxptr[20] = idxptr[21] + 1;
        let rise = |idxptr: &mut Vec<u64>| idxptr[20] = idxptr[21];
        let broken = [("idxptr", raw.changed("idxptr", fall))];
        let completed = [("idxptr", raw.changed("idxptr", rise))];
        broken_and_completed(&raw, &broken, &["idxptr"], &completed);
    }
}

#[test]
fn pointers_for_another_number_of_columns() {
    for version in MATRICES {
        let raw = matrix(version);
        let one_more = |idxptr: &mut Vec<u64>| idxptr.push(idxptr[40]);
        let idxptr = raw.changed("idxptr", one_more);
        let shape = raw.packed_numbers("shape", &[500, 41]);
        let rest = [("shape", shape)];
        broken_and_completed(&raw, &[("idxptr", idxptr)], &["idxptr"], &rest);
    }
}

#[test]
fn row_numbers_beyond_the_rows() {
    for version in MATRICES {
        let raw = matrix(version).with("row_names", Vec::new());
        let shape = raw.packed_numbers("shape", &[490, 40]);
        let lower = |index: &mut Vec<u64>| index.iter_mut().for_each(|row| *row = 489.min(*row));
        let rest = [("index", raw.changed("index", lower))];
        broken_and_completed(&raw, &[("shape", shape)], &["index"], &rest);
        let higher = raw.changed("index", |index| index[2999] = 500);
        let rest = [("shape", raw.packed_numbers("shape", &[501, 40]))];
        broken_and_completed(&raw, &[("index", higher)], &["index"], &rest);
    }
}

#[test]
fn names_for_some_rows_or_columns() {
    for version in MATRICES {
        let raw = matrix(version);
        let shape = raw.packed_numbers("shape", &[501, 40]);
        let broken = [("row_names", lines("longer", 501))];
        broken_and_completed(&raw, &broken, &["row_names"], &[("shape", shape.clone())]);
        let rest = [("row_names", Vec::new())];
        broken_and_completed(&raw, &[("shape", shape)], &["row_names"], &rest);
        let rest = [("col_names", lines("column", 40))];
        let broken = [("col_names", lines("column", 39))];
        broken_and_completed(&raw, &broken, &["col_names"], &rest);
    }
}

#[test]
fn columns_that_become_rows() {
    for version in MATRICES {
        let raw = matrix(version);
        let broken = [("storage_order", b"row\n".to_vec())];
        let after = raw.clone().transposed();
        let of = |name| (name, after.get(name).to_vec());
        let rest = ["shape", "row_names", "col_names"].map(of);
        broken_and_completed(&raw, &broken, &["idxptr"], &rest);
    }
}

#[test]
fn starts_that_go_back() {
    for version in FRAGMENTS {
        let raw = fragments(version);
        let back = raw.changed("start", |start| start.swap(10, 290));
        let rest = [("start", raw.changed("start", |start| start[10] = start[9]))];
        broken_and_completed(&raw, &[("start", back)], &["start"], &rest);
        // From one chromosome to the next it may.
        let other = raw.changed("start", |start| start[300] = 0);
        let place = place_with(&[("f", &raw)]);
        cp(&other, &place.join("f/start")).success();
        assert_stored(&place.stored("f"), &raw.with("start", other));
    }
}

#[test]
fn cells_without_a_name() {
    for version in FRAGMENTS {
        let raw = fragments(version);
        let cell = raw.changed("cell", |cell| cell[883] = 300);
        let rest = [("cell_names", lines("cell", 301))];
        broken_and_completed(&raw, &[("cell", cell)], &["cell"], &rest);
        let broken = [("cell_names", lines("cell", 5))];
        let lower = |cell: &mut Vec<u64>| cell.iter_mut().for_each(|cell| *cell %= 5);
        let rest = [("cell", raw.changed("cell", lower))];
        broken_and_completed(&raw, &broken, &["cell"], &rest);
    }
}

#[test]
fn more_names_than_chromosomes() {
    for version in FRAGMENTS {
        let raw = fragments(version);
        let broken = [("chr_names", lines("chr", 5))];
        let rest = [(
            "chr_ptr",
            raw.changed("chr_ptr", |ptr| ptr.extend([884, 884])),
        )];
        broken_and_completed(&raw, &broken, &["chr_names"], &rest);
    }
}

#[test]
fn fragments_in_no_chromosome() {
    for version in FRAGMENTS {
        let raw = fragments(version);
        let more = |name| raw.changed(name, |numbers| numbers.resize(1000, 299));
        let rising = raw.changed("start", |start| start.resize(1000, 1 << 30));
        // The last one that lies there is the first that is numbered.
        let chr_ptr = raw.changed("chr_ptr", |ptr| ptr[1] = 1000);
        let rest = [
            ("chr_ptr", chr_ptr.clone()),
            ("cell", more("cell")),
            ("start", rising.clone()),
        ];
        broken_and_completed(&raw, &[("end", more("end"))], &["end"], &rest);
        let rest = [
            ("end", more("end")),
            ("cell", more("cell")),
            ("start", rising),
        ];
        broken_and_completed(&raw, &[("chr_ptr", chr_ptr)], &["chr_ptr"], &rest);
    }
}
