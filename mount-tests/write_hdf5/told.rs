//! What `info` and `arrays.json` tell of how a file stores what was written.

use std::path::Path;

use serde_json::{Value, json};

use super::{assert_array, numbers, with_file, write_at};
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::xattr;
use crate::harness::scratch_directory;
use crate::harness::seeded::Seeded;

/// Of an array, by `info` and in the mount.
fn unfiltered(container: &Path, stored: &Path, name: &str) -> [Value; 2] {
    let told = arrayfs(["info".as_ref(), "--json".as_ref(), stored.as_os_str()]).success();
    let shown = std::fs::read(container.join("arrays.json")).unwrap();
    [told.stdout, shown].map(|text| {
        let told: Value = serde_json::from_slice(&text).unwrap();
        let arrays = told["arrays"].as_array().unwrap();
        let array = arrays.iter().find(|array| array["name"] == name);
        array.unwrap()["unfiltered"].clone()
    })
}

/// Its filter has no encoder: what is changed is stored as it is.
#[test]
fn chunks_that_skip_their_filters_are_told() {
    let place = with_file(&[]);
    let (container, stored) = (place.join("x.h5"), place.stored("x.h5"));
    let why = "there is no encoder for lzf";
    let changed = json!({ "changed": why });
    let [counted, shown] = unfiltered(&container, &stored, "never");
    assert_eq!(counted, json!({ "chunks": 0, "changed": why }));
    assert_eq!(shown, changed);
    write_at(&container.join("never"), &numbers(&[1]), 0).unwrap();
    assert_array(&place, "never", "[4]", &numbers(&[1, 5, 5, 5]));
    let [counted, shown] = unfiltered(&container, &stored, "never");
    assert_eq!(counted, json!({ "chunks": 1, "changed": why }));
    assert_eq!(shown, changed);
    let text = arrayfs(["info".as_ref(), stored.as_os_str()]).success();
    let said = format!("1 chunk is stored unfiltered, and so is one that changes: {why}");
    assert!(text.text().contains(&said), "{}", text.text());
    // Of one with an encoder, and of one without filters, there is nothing to say.
    for name in ["rows", "fixed"] {
        let told = unfiltered(&container, &stored, name);
        assert_eq!(told, [Value::Null, Value::Null], "{name}");
    }
}

/// Once for each dataset, however often it is written.
#[test]
fn the_log_says_once_that_chunks_skip_their_filters() {
    let logged = scratch_directory();
    let log = logged.path().join("log");
    for commit in ["commit=replace", "commit=inplace"] {
        std::fs::write(&log, "").unwrap();
        let place = Place::mounted(&[commit, &format!("log={}", log.display())]);
        let stored = place.stored("x.h5");
        script("write_hdf5/scenario.py", [Path::new("lzf"), &stored]).success();
        for round in 0..3 {
            for name in ["a", "b"] {
                let path = place.join("x.h5").join(name);
                write_at(&path, &numbers(&[round, 1]), 4).unwrap();
                assert_array(&place, name, "[4]", &numbers(&[5, round, 1, 5]));
            }
        }
        let (mounted, _source) = place.into_parts();
        drop(mounted);
        let said = std::fs::read_to_string(&log).unwrap();
        for name in ["a", "b"] {
            let path = stored.display();
            let told = format!("{path}: {name}: chunks are stored unfiltered: there is no encoder");
            assert_eq!(said.matches(&told).count(), 1, "{commit}: {said}");
        }
    }
}

/// Places that chunks have left are known to the daemon that moved them, and to nobody later.
#[test]
fn what_commits_have_freed_is_told_while_it_is_known() {
    let mut place = Place::mounted(&["commit=inplace"]);
    let stored = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("many"), &stored]).success();
    let said = |path: &Path| {
        arrayfs(["info".as_ref(), path.as_os_str()])
            .success()
            .text()
    };
    let known = |place: &Place| -> u64 {
        let known = xattr(&place.join("x.h5"), "user.arrayfs.dead_bytes");
        known.unwrap().parse().unwrap()
    };
    assert_eq!(known(&place), 0);
    assert!(!said(&place.join("x.h5")).contains("dead: "));
    let before = std::fs::metadata(&stored).unwrap().len();
    let noise = Seeded::new(1).noise(8000);
    write_at(&place.join("x.h5/packed"), &noise, 0).unwrap();
    let grown = std::fs::metadata(&stored).unwrap().len() - before;
    let dead = known(&place);
    assert!(dead > 0 && dead < grown, "{dead} of {grown}");
    for path in [
        place.join("x.h5"),
        place.join("x.h5/packed"),
        stored.clone(),
    ] {
        let said = said(&path);
        assert!(said.contains("dead: "), "{}: {said}", path.display());
    }
    place.mount_again();
    assert_eq!(known(&place), 0);
    assert!(!said(&place.join("x.h5")).contains("dead: "));
}
