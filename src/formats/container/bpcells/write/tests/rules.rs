//! One change for each rule that keeps a container from being stored, and what is said of it.

use super::*;

fn judged(old: &Model, changed: &[ChangedArray]) -> Consistency {
    let files = created(old, WRAP).unwrap();
    let container = stored(old, &files, WRAP);
    container.consistency(changed, &budget()).unwrap()
}

#[track_caller]
fn not_yet(old: &Model, edits: &[(&str, Vec<u8>)], why: &str) {
    let found = judged(old, &changes(old, &with(old, edits)));
    assert!(
        matches!(&found, Consistency::NotYet(said) if said.contains(why)),
        "{found:?}"
    );
}

#[track_caller]
fn unfit(old: &Model, edits: &[(&str, Vec<u8>)], why: &str) {
    let found = judged(old, &changes(old, &with(old, edits)));
    assert!(
        matches!(&found, Consistency::Unfit(said) if said.contains(why)),
        "{found:?}"
    );
}

#[track_caller]
fn fine(old: &Model, edits: &[(&str, Vec<u8>)]) {
    let new = with(old, edits);
    assert_eq!(judged(old, &changes(old, &new)), Consistency::Now);
    assert!(created(&new, WRAP).is_ok());
}

fn ones(n: usize) -> Vec<u8> {
    le32(&vec![1; n])
}

#[test]
fn values_and_indices_are_as_many_as_the_last_pointer_says() {
    for version in ["packed-uint-matrix-v2", "unpacked-uint-matrix-v2"] {
        let m = matrix(version);
        not_yet(
            &m,
            &[("val", ones(5))],
            "val has 5 values, idxptr ends with 300",
        );
        not_yet(
            &m,
            &[("index", ones(301))],
            "index has 301 values, idxptr ends with 300",
        );
        not_yet(
            &m,
            &[("idxptr", le64(&[0, 1, 2, 299]))],
            "val has 300 values, idxptr ends with 299",
        );
        not_yet(&m, &[("val", vec![1; 1201])], "val has 1201 bytes");
        fine(
            &m,
            &[
                ("val", ones(5)),
                ("index", ones(5)),
                ("idxptr", le64(&[0, 1, 2, 5])),
            ],
        );
    }
}

#[test]
fn pointers_rise_from_zero_and_fit_the_shape() {
    let m = matrix("packed-uint-matrix-v2");
    let pointers = |entries: &[u64]| [("idxptr", le64(entries))];
    not_yet(
        &m,
        &pointers(&[0, 200, 100, 300]),
        "entry 2 is 100, less than the one before, 200",
    );
    not_yet(&m, &pointers(&[1, 200, 200, 300]), "begins with 1");
    not_yet(&m, &pointers(&[]), "idxptr is empty");
    not_yet(&m, &pointers(&[0, 200, 300]), "idxptr has 3 entries");
    not_yet(&m, &[("shape", le32(&[90, 4]))], "idxptr has 4 entries");
    not_yet(&m, &[("shape", le32(&[90]))], "shape has 1 values");
    not_yet(&m, &[(ORDER, b"row\n".to_vec())], "idxptr has 4 entries");
    let nothing = [
        ("val", vec![]),
        ("index", vec![]),
        ("shape", le32(&[90, 0])),
        ("col_names", vec![]),
    ];
    for pointers in [&[0][..], &[0, 0]] {
        fine(&m, &[&nothing[..], &[("idxptr", le64(pointers))]].concat());
    }
    not_yet(
        &m,
        &[&nothing[2..], &[("idxptr", le64(&[0, 300]))]].concat(),
        "ends with 300",
    );
    let packed = matrix("packed-uint-matrix-v9999");
    not_yet(
        &packed,
        &[&nothing[..], &[("idxptr", le32(&[0, 0]))]].concat(),
        "2 entries",
    );
    fine(&packed, &[&nothing[..], &[("idxptr", le32(&[0]))]].concat());
}

#[test]
fn indices_are_of_rows_that_there_are() {
    let m = matrix("packed-uint-matrix-v2");
    let mut index = m["index"].clone();
    index[40..44].copy_from_slice(&90u32.to_le_bytes());
    not_yet(
        &m,
        &[("index", index.clone())],
        "index: value 10 is 90, and there are 90 rows",
    );
    not_yet(
        &m,
        &[("shape", le32(&[80, 3]))],
        "index: value 80 is 80, and there are 80 rows",
    );
    fine(&m, &[("index", index), ("shape", le32(&[91, 3]))]);
    fine(&m, &[("shape", le32(&[u32::MAX, 3]))]);
}

#[test]
fn names_are_lines_for_all_or_none() {
    let m = matrix("packed-uint-matrix-v2");
    let names = |text: &[u8]| [("col_names", text.to_vec())];
    not_yet(
        &m,
        &names(b"a\nb\n"),
        "col_names has 2 lines, and shape says 3",
    );
    not_yet(
        &m,
        &[("row_names", b"x\n".to_vec())],
        "row_names has 1 lines, and shape says 90",
    );
    not_yet(
        &m,
        &[("shape", le32(&[90, 2])), ("idxptr", le64(&[0, 1, 300]))],
        "col_names has 3 lines",
    );
    unfit(&m, &names(b"a\nb\nc"), "the last line has no end");
    unfit(&m, &names(b"a\nb\r\nc\n"), "ends with CR (byte 4)");
    unfit(&m, &names(b"a\n\0\nc\n"), "has a NUL (byte 2)");
    fine(&m, &names(b""));
    fine(&m, &names(b"\n\n\n"));
    fine(&m, &names("\u{e4}\nb\rb\n \n".as_bytes()));
}

#[test]
fn texts_are_one_of_a_few() {
    let m = matrix("packed-uint-matrix-v2");
    not_yet(&m, &[(ORDER, vec![])], "storage_order is empty");
    not_yet(&m, &[(VERSION, vec![])], "version is empty");
    for bad in ["diagonal\n", "col", "col\n\n", "col\r\n"] {
        unfit(&m, &[(ORDER, bad.into())], "storage_order is not");
    }
    for bad in [
        "packed-uint-matrix-v3\n",
        "packed-uint-matrix-v1",
        "packed-uint-matrix-v1\nx\n",
    ] {
        unfit(&m, &[(VERSION, bad.into())], "version is not");
    }
    unfit(&m, &[(VERSION, vec![b'x'; 5000])], "version is not");
    unfit(
        &m,
        &[(VERSION, b"packed-fragments-v2\n".to_vec())],
        "holds something else",
    );
    not_yet(
        &m,
        &[(VERSION, b"packed-uint-matrix-v1\n".to_vec())],
        "idxptr: entry 3 is 0",
    );
    not_yet(
        &m,
        &[(VERSION, b"packed-double-matrix-v2\n".to_vec())],
        "val has 150 values",
    );
    fine(&m, &[(VERSION, b"unpacked-float-matrix-v2\n".to_vec())]);
}

#[test]
fn fragments_are_as_many_as_the_chromosomes_say() {
    for version in ["packed-fragments-v2", "unpacked-fragments-v2"] {
        let f = fragments(version);
        not_yet(
            &f,
            &[("cell", ones(299))],
            "cell has 299 values, the largest of chr_ptr is 300",
        );
        not_yet(&f, &[("end", ones(301))], "end has 301 values");
        not_yet(&f, &[("start", vec![0; 1199])], "start has 1199 bytes");
        let pointers = |entries: &[u64]| [("chr_ptr", le64(entries))];
        not_yet(&f, &pointers(&[0, 140, 300]), "two for each chromosome");
        not_yet(
            &f,
            &pointers(&[300, 140, 0, 140]),
            "chromosome 0 begins with 300 and ends with 140",
        );
        not_yet(
            &f,
            &pointers(&[140, 301, 0, 140]),
            "cell has 300 values, the largest of chr_ptr is 301",
        );
        not_yet(
            &f,
            &pointers(&[0, 300]),
            "chr_names has 2 lines, chr_ptr has 1",
        );
        not_yet(
            &f,
            &[("chr_names", b"a\nb\nc\n".to_vec())],
            "chr_names has 3 lines",
        );
        fine(&f, &[("chr_names", b"a\n".to_vec())]);
        fine(&f, &pointers(&[140, 300, 0, 140, 300, 300]));
    }
}

#[test]
fn cells_have_names() {
    let f = fragments("packed-fragments-v2");
    let mut cell = f["cell"].clone();
    cell[8..12].copy_from_slice(&4u32.to_le_bytes());
    not_yet(
        &f,
        &[("cell", cell.clone())],
        "cell: value 2 is 4, and there are 4 cell_names",
    );
    not_yet(
        &f,
        &[("cell_names", b"A\nB\nC\n".to_vec())],
        "cell: value 3 is 3",
    );
    fine(
        &f,
        &[("cell", cell), ("cell_names", b"A\nB\nC\nD\nE\n".to_vec())],
    );
    unfit(&f, &[("cell_names", b"A\nB\nC\r\nD\n".to_vec())], "CR");
}

#[test]
fn starts_rise_within_a_chromosome() {
    for version in FRAGMENTS {
        let f = fragments(version);
        let start = |at: usize, value: u32| {
            let mut start = f["start"].clone();
            start[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
            [("start", start)]
        };
        not_yet(
            &f,
            &start(10, 100),
            "start: fragment 11 starts at 77, before the one before it, 100",
        );
        not_yet(&f, &start(10, 0), "start: fragment 10 starts at 0");
        fine(&f, &start(10, 65));
        fine(&f, &start(139, u32::MAX));
        fine(&f, &start(140, 0));
    }
    let f = fragments("packed-fragments-v2");
    not_yet(
        &f,
        &[("chr_ptr", le64(&[141, 300, 0, 141]))],
        "start: fragment 140",
    );
    // An end before its start is stored as it is.
    fine(&f, &[("end", le32(&vec![0; 300]))]);
}

#[test]
fn what_was_wrong_before_does_not_matter() {
    let m = matrix("packed-uint-matrix-v2");
    let files = created(&m, WRAP).unwrap();
    let mut index = m["index"].clone();
    index[0..4].copy_from_slice(&5000u32.to_le_bytes());
    let broken = with(
        &m,
        &[("index", index.clone()), ("row_names", b"x".to_vec())],
    );
    let container = stored(&broken, &files, WRAP);
    index[1196..1200].copy_from_slice(&1u32.to_le_bytes());
    let new = with(&broken, &[("index", index), ("val", ones(300))]);
    let judged = container.consistency(&changes(&broken, &new), &budget());
    assert_eq!(judged.unwrap(), Consistency::Now);
}

#[test]
fn what_follows_from_others_is_not_written() {
    let f = fragments("packed-fragments-v2");
    let files = created(&f, WRAP).unwrap();
    let container = stored(&f, &files, WRAP);
    let write = Change::Write { offset: 0, len: 4 };
    for name in ["end_max", "nothing", "val"] {
        assert!(matches!(
            container.permits(ArrayAddress::outermost(name), write),
            Err(Error::Computed(_))
        ));
    }
    for name in ["end", "chr_names", VERSION] {
        assert!(
            container
                .permits(ArrayAddress::outermost(name), write)
                .is_ok()
        );
        for huge in [
            Change::Write {
                offset: MOST,
                len: 1,
            },
            Change::SetLen(MOST + 1),
            Change::Truncate(u64::MAX),
        ] {
            assert!(matches!(
                container.permits(ArrayAddress::outermost(name), huge),
                Err(Error::Invalid(_))
            ));
        }
        assert!(
            container
                .permits(ArrayAddress::outermost(name), Change::SetLen(MOST))
                .is_ok()
        );
    }
}
