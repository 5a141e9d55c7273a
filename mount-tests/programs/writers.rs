//! Writers of containers: they create, close and reopen what they write, which stays an ordinary
//! file for the life of the mount; the next mount shows a container.

use std::path::Path;

use crate::harness::place::{Place, scenarios};
use crate::harness::python::script;
use crate::harness::reads::assert_content;
use crate::harness::wait_until;
use crate::harness::writers::{Bloscpack, Matrix};

scenarios![
    everywhere
    h5py_creates_appends_and_reads,
    bloscpack_packs_appends_and_unpacks,
    bpcells_writes_a_matrix_and_reads_it,
];

/// The program writes and reads in the place; what it made is as it stands.
fn write(place: &Place, library: &str) {
    script("write_here.py", [Path::new(library), place.path()]).success();
    script(
        "write_here.py",
        [Path::new("check"), Path::new(library), place.source()],
    )
    .success();
}

fn h5py_creates_appends_and_reads(place: &Place) {
    write(place, "h5py");
    assert!(place.join("x.h5").symlink_metadata().unwrap().is_file());
}

fn bloscpack_packs_appends_and_unpacks(place: &Place) {
    write(place, "bloscpack");
    assert!(place.join("x.blp").symlink_metadata().unwrap().is_file());
}

fn bpcells_writes_a_matrix_and_reads_it(place: &Place) {
    write(place, "bpcells");
    assert!(!place.join("matrix/arrays.json").exists());
    assert!(place.join("matrix/version").is_file());
}

#[test]
fn the_next_mount_shows_what_was_written_as_containers() {
    let mut place = Place::mounted(&[]);
    for library in ["h5py", "bloscpack", "bpcells"] {
        write(&place, library);
    }
    place.mount_again();
    for container in ["x.h5", "x.blp", "matrix"] {
        let described = place.join(container).join("arrays.json");
        assert!(described.is_file(), "{container}");
        assert!(
            !place.join(container).join("error.txt").exists(),
            "{container}"
        );
    }
    let shown = std::fs::read(place.join("x.blp/data")).unwrap();
    assert_eq!(shown.len(), 3_200_000);
}

/// Copied into the source, not through the mount.
#[test]
fn what_others_copy_into_the_source_is_a_container_at_once() {
    let place = Place::mounted(&[]);
    write(&place, "bloscpack");
    Bloscpack::default().write(&place.stored("theirs.blp"), b"theirs");
    assert_content(&place.join("theirs.blp/data"), b"theirs");
    let matrix = Matrix::random(4, 3000);
    matrix.write_packed(&place.stored("counts"));
    wait_until("the matrix is shown", || {
        place.join("counts/arrays.json").exists()
    });
    assert_content(&place.join("counts/val"), &matrix.arrays()[0].3);
    // Into a directory made through the mount, too.
    std::fs::create_dir(place.join("made")).unwrap();
    Bloscpack::default().write(&place.stored("made/x.blp"), b"theirs");
    assert_content(&place.join("made/x.blp/data"), b"theirs");
    assert!(place.join("x.blp").symlink_metadata().unwrap().is_file());
}

/// By another program, under the name of one that was made here.
#[test]
fn a_file_of_this_mount_that_others_replace_is_theirs() {
    let place = Place::mounted(&[]);
    let packed = Bloscpack::default().pack(b"ours");
    std::fs::write(place.join("x.blp"), &packed).unwrap();
    assert_content(&place.join("x.blp"), &packed);
    Bloscpack::default().write(&place.stored("new"), b"theirs");
    std::fs::rename(place.stored("new"), place.stored("x.blp")).unwrap();
    wait_until("the container is shown", || {
        place.join("x.blp/data").exists()
    });
    assert_content(&place.join("x.blp/data"), b"theirs");
}

/// Renamed and linked in the mount, an ordinary file stays one.
#[test]
fn a_file_of_this_mount_is_ordinary_under_every_name() {
    let place = Place::mounted(&[]);
    let packed = Bloscpack::default().pack(b"ours");
    std::fs::write(place.join("download.part"), &packed).unwrap();
    std::fs::rename(place.join("download.part"), place.join("x.blp")).unwrap();
    std::fs::hard_link(place.join("x.blp"), place.join("y.blp")).unwrap();
    std::fs::create_dir(place.join("d")).unwrap();
    std::fs::rename(place.join("y.blp"), place.join("d/y.blp")).unwrap();
    std::fs::rename(place.join("d"), place.join("e")).unwrap();
    for name in ["x.blp", "e/y.blp"] {
        assert_content(&place.join(name), &packed);
    }
}
