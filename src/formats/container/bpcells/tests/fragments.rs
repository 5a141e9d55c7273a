//! Fragments, sound and damaged.

use super::*;

#[test]
fn packed_and_unpacked_show_the_same() {
    let n = 65536 + 300;
    let [start, end, cell] = fragment_values(n);
    for packed in [true, false] {
        let container = fragment_store(packed, n).open();
        assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
        let names = [
            "cell",
            "start",
            "end",
            "end_max",
            "chr_ptr",
            "cell_names",
            "chr_names",
        ];
        assert_eq!(shown(&container), names);
        assert!(content(&container, "cell") == le32(&cell));
        assert!(content(&container, "start") == le32(&start));
        assert!(content(&container, "end") == le32(&end));
        let n = u64::from(n);
        assert_eq!(
            content(&container, "chr_ptr"),
            le64(&[100, n, 0, 100, n, n])
        );
        assert_eq!(container.attributes["fragments"], n);
        assert_eq!(container.attributes["chromosomes"], 3);
        for name in names {
            assert_eq!(verified(&container, name), [""; 0], "{name}");
        }
    }
}

#[test]
fn no_fragments() {
    let dir = Dir::new("packed-fragments-v2\n");
    for (name, transform) in [
        ("cell", Transform::Plain),
        ("start", Transform::Delta),
        ("end", Transform::Plain),
    ] {
        dir.packed(name, transform, &[]);
    }
    dir.u64s("chr_ptr", &[]);
    dir.u32s("end_max", &[]);
    dir.put("cell_names", "");
    dir.put("chr_names", "");
    let container = dir.open();
    assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
    assert_eq!(content(&container, "end"), b"");
}

#[test]
fn chr_ptr_that_claims_too_much() {
    for packed in [true, false] {
        for claim in [3000, 1 << 50, u64::MAX] {
            let dir = fragment_store(packed, 1000);
            dir.u64s("chr_ptr", &[0, 10, 10, claim]);
            let container = dir.open();
            refused(&container, &["cell", "start", "end"], "");
            assert_eq!(content(&container, "end_max").len(), 32);
        }
    }
}

#[test]
fn chr_ptr_itself() {
    let dir = fragment_store(true, 1000);
    dir.u64s("chr_ptr", &[0, 10, 1000]);
    let names = ["cell", "start", "end", "chr_ptr"];
    refused(&dir.open(), &names, "chr_ptr cannot be trusted");
    dir.u64s("chr_ptr", &[0, 10, 1000, 10]);
    let container = dir.open();
    let error = read(array(&container, "chr_ptr"), 0..8)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("chromosome 1 ends before it begins"),
        "{error}"
    );
    assert_eq!(content(&container, "cell").len(), 4000);
}

#[test]
fn parts() {
    let dir = fragment_store(true, 1000);
    dir.truncate("end_max", 8 + 7 * 4);
    refused(&dir.open(), &["end_max"], "expected 8 values, found 7");
    let dir = fragment_store(true, 1000);
    dir.remove("start_starts");
    refused(&dir.open(), &["start", "end"], "");
}

#[test]
fn verify_compares_the_arrays() {
    let dir = fragment_store(true, 1000);
    dir.put("cell_names", "A\nB\nC\n");
    let mut maxima = dir.get("end_max");
    maxima[8 + 4 * 2] -= 1;
    dir.put("end_max", maxima);
    let container = dir.open();
    let found = verified(&container, "cell");
    let expected = "block 0: value 3 is out of range: expected less than the 3 cell_names, found 3";
    assert_eq!(found, [expected]);
    let found = verified(&container, "end_max");
    assert!(
        found.len() == 1 && found[0].contains("entry 2 is less than an end"),
        "{found:?}"
    );
}

#[test]
fn verify_compares_names_and_chromosomes() {
    let dir = fragment_store(true, 1000);
    for (names, faults) in [("a\nb\nc\nd\n", 1), ("a\nb\nc\n", 0), ("a\nb\n", 0)] {
        dir.put("chr_names", names);
        let found = verified(&dir.open(), "chr_names");
        assert_eq!(found.len(), faults, "{found:?}");
    }
    dir.u64s("chr_ptr", &[0; 6]);
    let container = dir.open();
    assert_eq!(container.faults.len(), 0, "{:?}", container.faults);
    assert_eq!(
        content(&container, "start"),
        b"",
        "what is left over is not asked for"
    );
}
