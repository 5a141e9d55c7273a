//! What follows from arrays while something is staged of them: views, `arrays.json`, attributes,
//! and `end_max`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use super::raw::Raw;
use super::{cp, is_staged, open, place_with};
use crate::harness::place::Place;
use crate::harness::process::nobody_starts;
use crate::harness::reads::{assert_same, xattr};
use crate::harness::seeded::Seeded;

fn told(place: &Place, container: &str) -> Value {
    let text = std::fs::read(place.join(container).join("arrays.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn of_array(told: &Value, name: &str) -> Value {
    let arrays = told["arrays"].as_array().unwrap();
    arrays
        .iter()
        .find(|array| array["name"] == name)
        .unwrap()
        .clone()
}

/// What a view has behind its header; `stat` gives the size of the view.
#[track_caller]
fn behind_header(view: &Path) -> Vec<u8> {
    let size = view.metadata().unwrap().len() as usize;
    let found = std::fs::read(view).unwrap();
    assert_eq!(found.len(), size, "{view:?}");
    let len = 10 + usize::from(u16::from_le_bytes([found[8], found[9]]));
    found[len..].to_vec()
}

/// Lines as NumPy's text of one width: bytes, or code points where not all is ASCII.
fn of_one_width(lines: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(lines).unwrap();
    let size = if text.is_ascii() { 1 } else { 4 };
    let width = text
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0);
    let mut all = Vec::new();
    for line in text.lines() {
        let mut value: Vec<u8> = line
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes().into_iter().take(size))
            .collect();
        value.resize(width * size, 0);
        all.append(&mut value);
    }
    all
}

#[test]
fn a_matrix_of_views_is_the_staged_one() {
    for version in ["packed-uint-matrix-v2", "unpacked-double-matrix-v2"] {
        let before = Raw::matrix(version, &mut Seeded::new(1), [600, 80], 30_000);
        let place = place_with(&[("m", &before)]);
        let shown = told(&place, "m");
        let view = |name: &str| place.join("m/views").join(format!("{name}.npy"));
        for name in ["val", "index"] {
            assert_same(view(name), &behind_header(&view(name)), before.get(name));
        }
        let names = of_one_width(before.get("row_names"));
        assert_same(
            view("row_names"),
            &behind_header(&view("row_names")),
            &names,
        );
        // A value more than `index` has: it stays staged.
        let val = before.changed("val", |val| {
            val[0] = 7;
            val.push(3);
        });
        cp(&val, &place.join("m/val")).success();
        assert!(is_staged(&place.join("m")));
        assert_same(view("val"), &behind_header(&view("val")), &val);
        assert_same(
            view("index"),
            &behind_header(&view("index")),
            before.get("index"),
        );
        // Names are counted.
        let names = [before.get("row_names"), b"one more\nand one"].concat();
        cp(&names, &place.join("m/row_names")).code();
        let now = told(&place, "m");
        assert_eq!(of_array(&now, "val")["shape"], serde_json::json!([30_001]));
        assert_eq!(
            of_array(&now, "row_names")["shape"],
            serde_json::json!([602])
        );
        assert_eq!(now["attributes"]["nnz"], 30_001);
        for name in ["val", "row_names"] {
            let stored = |told: &Value| of_array(told, name)["stored_bytes"].clone();
            assert_eq!(stored(&now), stored(&shown), "{name}");
        }
        let shape = xattr(&place.join("m/row_names"), "user.arrayfs.shape").unwrap();
        assert_eq!(shape, "[602]");
        let names = of_one_width(&names);
        assert_same(
            view("row_names"),
            &behind_header(&view("row_names")),
            &names,
        );
    }
}

/// A version that is staged says what the bytes mean.
#[test]
fn types_follow_the_staged_version() {
    let before = Raw::matrix("unpacked-uint-matrix-v2", &mut Seeded::new(2), [60, 8], 300);
    let place = place_with(&[("m", &before)]);
    assert_eq!(of_array(&told(&place, "m"), "val")["dtype"], "uint32");
    let nobody_starts = nobody_starts();
    let file = open(&place.join("m/version"));
    let version = b"unpacked-float-matrix-v2\n";
    file.set_len(0).unwrap();
    file.write_all_at(version, 0).unwrap();
    let now = told(&place, "m");
    assert_eq!(now["version"], "unpacked-float-matrix-v2");
    assert_eq!(of_array(&now, "val")["dtype"], "float32");
    let attribute =
        |of: &str, name: &str| xattr(&place.join(of), &format!("user.arrayfs.{name}")).unwrap();
    assert_eq!(attribute("m", "version"), "unpacked-float-matrix-v2");
    assert_eq!(attribute("m/val", "dtype"), "float32");
    let header = std::fs::read(place.join("m/views/val.npy")).unwrap();
    assert!(String::from_utf8_lossy(&header[..128]).contains("'<f4'"));
    // What is none changes nothing.
    file.set_len(0).unwrap();
    file.write_all_at(b"nonsense\n", 0).unwrap();
    assert_eq!(told(&place, "m")["version"], "unpacked-uint-matrix-v2");
    file.set_len(0).unwrap();
    file.write_all_at(b"unpacked-uint-matrix-v2\n", 0).unwrap();
    drop((file, nobody_starts));
}

/// The largest end so far at every 128th fragment, of one chromosome.
fn maxima(ends: &[u64]) -> Vec<u8> {
    let running = ends.iter().scan(0, |max, end| {
        *max = u64::max(*max, *end);
        Some(*max as u32)
    });
    let running: Vec<u32> = running.collect();
    let last_of_each = running.chunks(128).map(|run| *run.last().unwrap());
    last_of_each.flat_map(u32::to_le_bytes).collect()
}

#[test]
fn end_max_follows_from_the_staged_ends() {
    for version in ["packed-fragments-v2", "unpacked-fragments-v2"] {
        let before = Raw::fragments(version, &mut Seeded::new(3), &[1000]);
        let place = place_with(&[("f", &before)]);
        let (path, view) = (place.join("f/end_max"), place.join("f/views/end_max.npy"));
        let open_before = File::open(&path).unwrap();
        assert_same(
            &path,
            &std::fs::read(&path).unwrap(),
            &maxima(&before.numbers("end")),
        );
        assert_same(
            &view,
            &behind_header(&view),
            &maxima(&before.numbers("end")),
        );
        let nobody_starts = nobody_starts();
        let file = open(&place.join("f/end"));
        let mut ends = before.numbers("end");
        ends[300] = 4_000_000_000;
        let bytes = before.packed_numbers("end", &ends);
        file.write_all_at(&bytes, 0).unwrap();
        let expected = maxima(&ends);
        assert_same(&path, &std::fs::read(&path).unwrap(), &expected);
        assert_same(&view, &behind_header(&view), &expected);
        // Of more of them there are more.
        ends.resize(1400, 7);
        let bytes = before.packed_numbers("end", &ends);
        file.write_all_at(&bytes, 0).unwrap();
        assert_eq!(path.metadata().unwrap().len(), 4 * 11);
        assert_eq!(std::fs::read(&path).unwrap().len(), 4 * 11);
        assert_eq!(behind_header(&view).len(), 4 * 11);
        let shape = of_array(&told(&place, "f"), "end_max")["shape"].clone();
        assert_eq!(shape, serde_json::json!([11]));
        file.set_len(before.get("end").len() as u64).unwrap();
        file.write_all_at(before.get("end"), 0).unwrap();
        drop((file, nobody_starts, open_before));
    }
}
