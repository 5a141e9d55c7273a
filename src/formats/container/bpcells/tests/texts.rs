//! Names, from Unix and from Windows.

use super::*;
use crate::error::Error;

fn names(stored: &[u8]) -> Container {
    let dir = matrix(PACKED, 10);
    dir.put("row_names", stored);
    dir.open()
}

#[test]
fn line_ends() {
    for (stored, expected, lines) in [
        (&b"a\nb\n"[..], &b"a\nb\n"[..], 2),
        (b"a\r\nb\r\n", b"a\nb\n", 2),
        (b"a\nb", b"a\nb\n", 2),
        (b"a\r\r\nb\r", b"a\r\nb\n", 2),
        (b"\n", b"\n", 1),
        (b"\r", b"\n", 1),
        (b"a\rb\n", b"a\rb\n", 1),
        (b"", b"", 0),
        (b"\xff\0\n", b"\xff\0\n", 1),
    ] {
        let container = names(stored);
        assert_eq!(content(&container, "row_names"), expected);
        assert_eq!(
            array(&container, "row_names").info().unwrap().shape,
            [lines]
        );
    }
}

#[test]
fn long_ones() {
    let unix: String = (0..100_000).map(|i| format!("cell-{i}\n")).collect();
    let windows = unix.replace('\n', "\r\n");
    let container = names(unix.as_bytes());
    assert!(content(&container, "row_names") == unix.as_bytes());
    assert_eq!(array(&container, "row_names").info().unwrap().blocks, 1);
    let container = names(windows.as_bytes());
    let array = array(&container, "row_names");
    let info = array.info().unwrap();
    assert_eq!(
        (info.bytes, info.shape, info.blocks),
        (unix.len() as u64, vec![100_000], 5)
    );
    assert!(read(array, 0..info.bytes).unwrap() == unix.as_bytes());
    let part = read(array, 250_000..550_001).unwrap();
    assert!(part == unix.as_bytes()[250_000..550_001]);
}

#[test]
fn the_index_of_lines_is_charged_while_the_container_is_open() {
    let dir = matrix(PACKED, 100);
    dir.put("row_names", "one\r\ntwo\r\n");
    let budget = Budget::new(1 << 20);
    let container = dir.open_with(&budget);
    assert_eq!(
        read_all(array(&container, "row_names")).unwrap(),
        b"one\ntwo\n"
    );
    assert_eq!(budget.kept(), 16, "where the only block begins and ends");
    drop(container);
    assert_eq!(budget.kept(), 0);
    let container = dir.open_with(&Budget::new(16));
    let refused = array(&container, "row_names").info().unwrap_err();
    assert_eq!(errno(&refused), Some(libc::ENOMEM), "{refused}");
}

fn errno(error: &Error) -> Option<i32> {
    match error {
        Error::Io { cause, .. } => cause.raw_os_error(),
        _ => None,
    }
}
