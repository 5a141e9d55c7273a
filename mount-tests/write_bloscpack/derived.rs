//! What follows from an array, while something is staged of it: its view, `arrays.json`, texts,
//! attributes and their sizes are of the staged array from their next open or call on, and what
//! they say of its storage is of the stored one.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use serde_json::Value;

use super::{assert_stored, both_ways, either_way};
use crate::harness::place::Place;
use crate::harness::process::nobody_starts;
use crate::harness::reads::{assert_content, assert_same, xattr};
use crate::harness::{golden, wait_until};

both_ways![a_view_that_is_open_goes_on_across_a_commit];
either_way![
    everything_that_follows_shows_what_is_staged,
    no_open_finds_older_pages,
];

/// `float64` in rows.
fn numpy(place: &Place) -> Vec<u8> {
    let from = golden("bloscpack/sources/np-3d.blp");
    std::fs::copy(from, place.stored("x.blp")).unwrap();
    std::fs::read(place.join("x.blp/data")).unwrap()
}

fn writer(place: &Place) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    options.open(place.join("x.blp/data")).unwrap()
}

fn told(place: &Place) -> Value {
    let text = std::fs::read(place.join("x.blp/arrays.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn attribute(place: &Place, of: &str, name: &str) -> String {
    xattr(&place.join(of), &format!("user.arrayfs.{name}")).unwrap()
}

/// The header of a `.npy` file, and what is behind it.
fn split(view: &[u8]) -> (String, &[u8]) {
    let len = 10 + usize::from(u16::from_le_bytes([view[8], view[9]]));
    let header = String::from_utf8_lossy(&view[10..len]).into_owned();
    (header, &view[len..])
}

#[track_caller]
fn assert_size(path: &Path, len: usize) {
    assert_eq!(path.metadata().unwrap().len(), len as u64, "{path:?}");
}

fn everything_that_follows_shows_what_is_staged(place: &Place) {
    let mut expected = numpy(place);
    let (view, json) = (
        place.join("x.blp/views/data.npy"),
        place.join("x.blp/arrays.json"),
    );
    // Everything has been looked at before: neither pages nor attributes of then may be shown.
    let before = told(place);
    let shape: Vec<u64> = serde_json::from_value(before["arrays"][0]["shape"].clone()).unwrap();
    let row = expected.len() / shape[0] as usize;
    let text = std::fs::read_to_string(place.join("x.blp/metadata.json")).unwrap();
    assert!(split(&std::fs::read(&view).unwrap()).1 == expected);
    let stored =
        ["stored_bytes", "ratio", "codec"].map(|name| attribute(place, "x.blp/data", name));
    let blocks = place.join("x.blp/data").metadata().unwrap().blocks();
    let nobody_starts = nobody_starts();
    let file = writer(place);
    file.write_all_at(&7f64.to_le_bytes(), 0).unwrap();
    expected[..8].copy_from_slice(&7f64.to_le_bytes());
    let found = std::fs::read(&view).unwrap();
    assert_same(&view, split(&found).1, &expected);
    // A row more.
    let more = vec![1; row];
    file.write_all_at(&more, expected.len() as u64).unwrap();
    expected.extend_from_slice(&more);
    let mut longer = shape.clone();
    longer[0] += 1;
    let as_text = |shape: &[u64]| {
        shape
            .iter()
            .map(u64::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(
        attribute(place, "x.blp/data", "shape"),
        format!("[{}]", as_text(&longer))
    );
    assert_eq!(
        attribute(place, "x.blp/views/data.npy", "shape"),
        format!("[{}]", as_text(&longer))
    );
    let size = view.metadata().unwrap().len() as usize;
    let found = std::fs::read(&view).unwrap();
    assert_eq!(found.len(), size);
    let (header, bytes) = split(&found);
    assert!(
        header.contains(&format!("({})", as_text(&longer))),
        "{header}"
    );
    assert_same(&view, bytes, &expected);
    let size = json.metadata().unwrap().len() as usize;
    let now = told(place);
    assert_size(&json, std::fs::read(&json).unwrap().len());
    assert_eq!(size, std::fs::read(&json).unwrap().len());
    let (array, old) = (&now["arrays"][0], &before["arrays"][0]);
    assert_eq!(array["shape"], serde_json::to_value(&longer).unwrap());
    assert_eq!(array["bytes"], expected.len());
    for name in ["stored_bytes", "codec", "dtype", "order", "name"] {
        assert_eq!(array[name], old[name], "{name}");
    }
    assert_eq!(
        now["attributes"]["metadata"]["shape"],
        serde_json::to_value(&longer).unwrap()
    );
    let metadata = std::fs::read_to_string(place.join("x.blp/metadata.json")).unwrap();
    assert_ne!(metadata, text);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["shape"], serde_json::to_value(&longer).unwrap());
    assert_eq!(
        stored,
        ["stored_bytes", "ratio", "codec"].map(|name| attribute(place, "x.blp/data", name))
    );
    assert_eq!(
        place.join("x.blp/data").metadata().unwrap().blocks(),
        blocks
    );
    // What has been taken back is not shown.
    file.set_len((expected.len() - row) as u64).unwrap();
    expected.truncate(expected.len() - row);
    assert_eq!(
        attribute(place, "x.blp/data", "shape"),
        format!("[{}]", as_text(&shape))
    );
    assert_same(&view, split(&std::fs::read(&view).unwrap()).1, &expected);
    drop((file, nobody_starts));
    assert_stored(&place.stored("x.blp"), &expected);
    assert_same(&view, split(&std::fs::read(&view).unwrap()).1, &expected);
    assert_eq!(told(place)["arrays"][0]["shape"], old["shape"]);
}

/// Its pages, and those that nobody has read yet.
fn a_view_that_is_open_goes_on_across_a_commit(place: &Place) {
    let mut expected = numpy(place);
    let open = File::open(place.join("x.blp/views/data.npy")).unwrap();
    let header = open.metadata().unwrap().len() as usize - expected.len();
    for round in 1..4u8 {
        let file = writer(place);
        file.write_all_at(&[round; 8], 16).unwrap();
        expected[16..24].copy_from_slice(&[round; 8]);
        drop(file);
        assert_stored(&place.stored("x.blp"), &expected);
        let mut found = vec![0; expected.len()];
        let read = open.read_exact_at(&mut found, header as u64);
        assert!(read.is_ok(), "round {round}: {read:?}");
    }
    let view = place.join("x.blp/views/data.npy");
    wait_until("the view is what is stored", || {
        std::fs::read(&view).unwrap().ends_with(&expected)
    });
}

/// An open of a view after a write has been answered finds what was written, however many handles
/// it has.
fn no_open_finds_older_pages(place: &Place) {
    numpy(place);
    let view = place.join("x.blp/views/data.npy");
    let _always = File::open(&view).unwrap();
    let nobody_starts = nobody_starts();
    let file = writer(place);
    for round in 0..200u64 {
        file.write_all_at(&round.to_le_bytes(), 8).unwrap();
        let readers = (0..3).map(|_| {
            let view = view.clone();
            std::thread::spawn(move || std::fs::read(view).unwrap())
        });
        for reader in readers.collect::<Vec<_>>() {
            let found = reader.join().unwrap();
            assert_eq!(split(&found).1[8..16], round.to_le_bytes(), "round {round}");
        }
    }
    drop((file, nobody_starts));
    let data = std::fs::read(place.join("x.blp/data")).unwrap();
    assert_content(&place.join("x.blp/data"), &data);
}
