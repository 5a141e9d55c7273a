//! Directories by any name into which a container is copied: of arrays as they are shown it becomes
//! one, of files as they are stored it stays what it is.

use std::path::Path;

use super::made::wait_packed;
use super::raw::Raw;
use super::{assert_stored, contents, names, place_with, state};
use crate::harness::place::Place;
use crate::harness::reads::assert_content;
use crate::harness::scratch_directory;
use crate::harness::seeded::Seeded;
use crate::harness::tools::{shell, tools};
use crate::harness::wait_until;

const VERSIONS: [&str; 3] = [
    "packed-uint-matrix-v2",
    "unpacked-float-matrix-v1",
    "packed-fragments-v2",
];

#[test]
fn a_directory_by_any_name_becomes_a_container() {
    let mut random = Seeded::new(1);
    for version in VERSIONS {
        let raw = Raw::random(version, &mut random);
        let place = place_with(&[("m", &raw)]);
        let mut scripts = vec![
            ("cp", "cp -r m cp"),
            ("tar", "mkdir tar; tar -C m -cf - . | tar -C tar -xf -"),
            ("deep/er", "mkdir deep; cp -a m deep/er"),
        ];
        if tools(&["rsync"]) {
            scripts.push(("rsync", "rsync -a m/ rsync"));
        }
        for (name, script) in scripts {
            shell(place.path(), script, &[]);
            wait_packed(&place, name);
            raw.assert_shown(&place.join(name));
            assert_stored(&place.stored(name), &raw);
            assert!(
                contents(&place.stored(name)) == contents(&place.stored("m")),
                "{name}"
            );
        }
    }
}

/// A program that stands in it stays there.
#[test]
fn a_shell_in_the_directory_goes_on() {
    let raw = Raw::random("packed-uint-matrix-v2", &mut Seeded::new(2));
    let from = scratch_directory();
    raw.write_into(from.path());
    let place = Place::mounted(&[]);
    let script =
        "mkdir d; cd d; echo mine > notes; cp $1/* .; cat notes; echo more >> notes; ls val";
    shell(place.path(), script, &[from.path()]);
    wait_packed(&place, "d");
    assert_stored(&place.stored("d"), &raw);
    // What is no array lies beside the container's files.
    assert_content(&place.join("d/notes"), b"mine\nmore\n");
    assert_content(&place.stored("d/notes"), b"mine\nmore\n");
}

#[test]
fn stored_files_stay_what_they_are_and_where_they_are() {
    let mut random = Seeded::new(3);
    for version in VERSIONS {
        let raw = Raw::random(version, &mut random);
        let place = place_with(&[("m", &raw)]);
        let stored = place.stored("m");
        for name in ["plain", "x.bpcells"] {
            shell(place.path(), "cp -r $1 $2", &[&stored, Path::new(name)]);
            // At once, in the source as well.
            assert!(contents(&place.stored(name)) == contents(&stored), "{name}");
            assert!(!place.join(name).join("arrays.json").exists());
            assert_content(
                &place.join(name).join("version"),
                format!("{version}\n").as_bytes(),
            );
        }
        assert_eq!(names(place.source()).len(), 3);
        let (mounted, source) = place.into_parts();
        drop(mounted);
        let place = Place::over(source, &[]);
        for name in ["plain", "x.bpcells"] {
            raw.assert_shown(&place.join(name));
        }
    }
}

/// What lies beside the arrays in a new container lies beside the container's files afterwards.
#[test]
fn other_files_are_carried_over() {
    let raw = Raw::random("packed-fragments-v2", &mut Seeded::new(4));
    let from = scratch_directory();
    raw.write_into(from.path());
    let place = Place::mounted(&[]);
    let script = "mkdir x.bpcells; mkdir x.bpcells/plots; echo one > x.bpcells/plots/one; ln -s plots x.bpcells/link
        echo notes > x.bpcells/.notes; echo mine > x.bpcells/metadata.json; cp $1/* x.bpcells";
    shell(place.path(), script, &[from.path()]);
    wait_packed(&place, "x.bpcells");
    let shown = place.join("x.bpcells");
    wait_until("they are shown", || shown.join("plots/one").exists());
    assert_content(&shown.join("link/one"), b"one\n");
    assert_content(&shown.join(".notes"), b"notes\n");
    // Other formats show something by this name; this one does not.
    assert_content(&shown.join("metadata.json"), b"mine\n");
    raw.assert_shown(&shown);
    assert_eq!(state(&shown), "clean");
    wait_until("nothing else is left", || names(place.source()).len() == 1);
}

/// Files are closed side by side: one of them makes the container, and no other one gets into its
/// way.
#[test]
fn files_that_are_copied_side_by_side_make_one_container() {
    let raw = Raw::random("packed-uint-matrix-v2", &mut Seeded::new(5));
    let from = scratch_directory();
    raw.write_into(from.path());
    let place = Place::mounted(&[]);
    let script =
        "for n in 0 1 2 3 4 5 6 7 8 9; do mkdir d$n; ls $1 | xargs -P8 -I{} cp $1/{} d$n/; done";
    shell(place.path(), script, &[from.path()]);
    for number in 0..10 {
        let name = format!("d{number}");
        wait_packed(&place, &name);
        assert_stored(&place.stored(&name), &raw);
    }
    wait_until("nothing else is left", || names(place.source()).len() == 10);
}
