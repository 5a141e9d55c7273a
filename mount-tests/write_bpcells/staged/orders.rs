//! All arrays of a container are written, by one process each and in any order: it is committed
//! once, by the last of them.

use std::path::Path;

use super::super::raw::{Raw, VERSIONS};
use super::super::{contents, cp, is_staged, judge, members, place_with, wait_staged, wait_stored};
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::seeded::Seeded;
use crate::harness::tools::{shell, tools};

/// The order of this number among all orders of these names.
fn order<const N: usize>(names: [&'static str; N], mut number: usize) -> [&'static str; N] {
    let mut ordered = names;
    for at in 0..N {
        ordered.swap(at, at + number % (N - at));
        number /= N - at;
    }
    ordered
}

#[test]
fn every_order_comes_once() {
    let mut orders: Vec<_> = (0..24).map(|n| order(["a", "b", "c", "d"], n)).collect();
    orders.sort();
    orders.dedup();
    assert_eq!(orders.len(), 24);
}

/// Copies arrays one after another. In between what is stored stays as it is, unless the container
/// is consistent.
fn copy_in_order(place: &Place, now: &mut Raw, to: &Raw, names: &[&'static str]) {
    let (shown, stored) = (place.join("m"), place.stored("m"));
    let mut before = contents(&stored);
    for name in names {
        cp(to.get(name), &shown.join(name)).success();
        now.set(name, to.get(name).to_vec());
        now.assert_shown(&shown);
        if now.is_consistent() {
            wait_stored(&stored, now);
            before = contents(&stored);
        } else {
            wait_staged(&shown);
            assert!(contents(&stored) == before, "{name} of {names:?}");
        }
    }
    assert!(!is_staged(&shown), "{names:?}");
}

#[test]
fn a_matrix_is_written_in_every_order_of_its_arrays() {
    let mut random = Seeded::new(1);
    let version = "packed-uint-matrix-v2";
    // Nothing of the one fits to anything of the other, but for the names of the rows.
    let one = Raw::matrix(version, &mut random, [300, 20], 1500);
    let other = Raw::matrix(version, &mut random, [300, 33], 700);
    let place = place_with(&[("m", &one)]);
    let mut now = one.clone();
    for number in 0..24 {
        let to = if number % 2 == 0 { &other } else { &one };
        let names = order(["val", "index", "idxptr", "shape"], number);
        let before = members(&place.stored("m"));
        copy_in_order(&place, &mut now, to, &names);
        let after = members(&place.stored("m"));
        for name in ["row_names", "col_names", "storage_order", "version"].map(Path::new) {
            let name = name.as_os_str();
            assert!(after[name] == before[name], "{} is new", name.display());
        }
        arrayfs(["verify".as_ref(), place.source().as_os_str()]).success();
    }
    judge(&[(place.stored("m"), &now)]);
}

#[test]
fn containers_of_every_kind_are_written_in_some_order_of_their_arrays() {
    let (mut random, mut written) = (Seeded::new(2), Vec::new());
    for version in VERSIONS {
        let mut now = Raw::random(version, &mut random);
        let place = place_with(&[("m", &now)]);
        for _ in 0..2 {
            let to = Raw::random(version, &mut random);
            let number = random.below(5040);
            let names = match to.is_matrix() {
                true => {
                    let all = ["val", "index", "idxptr", "shape", "row_names", "col_names"];
                    let (ordered, at) = (order(all, number), random.below(7));
                    [&ordered[..at], &["storage_order"], &ordered[at..]].concat()
                }
                false => {
                    let all = ["cell", "start", "end", "chr_ptr", "cell_names", "chr_names"];
                    order(all, number).to_vec()
                }
            };
            copy_in_order(&place, &mut now, &to, &names);
            assert!(now == to);
        }
        written.push((place, now));
    }
    let stored = written.iter().map(|(place, now)| (place.stored("m"), now));
    judge(&stored.collect::<Vec<_>>());
}

/// One process for all of them, as an archive is unpacked over a container or a directory copied
/// over another.
#[test]
fn a_container_is_written_over_another_by_one_program() {
    let mut random = Seeded::new(3);
    for version in ["packed-uint-matrix-v2", "unpacked-fragments-v2"] {
        let first = Raw::random(version, &mut random);
        let place = place_with(&[("m", &first)]);
        let raw = crate::harness::scratch_directory();
        let mut scripts = vec![
            "cp $1/* m/",
            "tar -C $1 -cf - . | tar -C m --overwrite -xf -",
        ];
        if tools(&["rsync"]) {
            scripts.push("rsync -r --ignore-times $1/ m/");
            scripts.push("rsync -r --ignore-times --inplace $1/ m/");
        }
        for script in scripts {
            let to = Raw::random(version, &mut random);
            to.write_into(raw.path());
            shell(place.path(), script, &[raw.path()]);
            to.assert_shown(&place.join("m"));
            super::assert_stored(&place.stored("m"), &to);
        }
    }
}
