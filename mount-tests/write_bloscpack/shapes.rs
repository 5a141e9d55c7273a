//! Lengths: NumPy shapes follow them, what is no whole rows is refused, and offsets that have no
//! room move.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, XattrFlags, fallocate, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use serde_json::Value;

use super::{assert_stored, both_ways, container, either_way, written_by_dd};
use crate::harness::golden;
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::Seeded;

both_ways![
    a_numpy_shape_follows_the_length,
    an_array_of_nothing_grows_and_shrinks_to_nothing,
    offsets_get_more_room_when_the_spare_ones_are_used_up,
    a_file_without_offsets_grows,
    offsets_that_a_writer_left_open_are_all_filled_in,
    a_hole_is_zeros,
];
either_way![
    a_length_of_no_whole_rows_is_refused,
    a_write_that_leaves_no_whole_rows_is_refused_at_close,
    an_array_of_a_fixed_shape_keeps_its_length,
    a_terabyte_of_zeros_takes_no_room,
    a_file_renamed_over_an_array_gives_it_its_shape_at_once,
];

/// Some that are filled in beside others that are not would be wrong.
fn offsets_that_a_writer_left_open_are_all_filled_in(place: &Place) {
    let from = golden("bloscpack/sources").join("offsets-all-minus1.blp");
    std::fs::copy(from, place.stored("x.blp")).unwrap();
    let path = place.join("x.blp/data");
    let mut expected = std::fs::read(&path).unwrap();
    let at = expected.len() - 3;
    expected[at] ^= 1;
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&expected[at..=at], at as u64).unwrap();
    drop(file);
    assert_content(&path, &expected);
    assert_stored(&place.stored("x.blp"), &expected);
    arrayfs(["verify".as_ref(), place.stored("x.blp").as_os_str()]).success();
}

/// For a second the kernel goes on taking the array's name for the file that was renamed over it.
fn a_file_renamed_over_an_array_gives_it_its_shape_at_once(place: &Place) {
    const SHAPE: &str = "user.arrayfs.shape";
    copy(place, NUMPY);
    let (array, new) = (place.join("x.blp/data"), place.join("x.blp/.data"));
    let plain = std::fs::read(&array).unwrap();
    let before = numpy_shape(&place.stored("x.blp"));
    let row = plain.len() / before[0] as usize;
    let put = |rows: usize| {
        std::fs::write(&new, vec![rows as u8; rows * row]).unwrap();
        std::fs::rename(&new, &array).unwrap();
    };
    let assert_shape = |rows: usize| {
        let shown = xattr(&array, SHAPE).unwrap();
        let shape = [&[rows as u64], &before[1..]].concat();
        assert_eq!(serde_json::from_str::<Vec<u64>>(&shown).unwrap(), shape);
    };
    for rows in [1, 4] {
        put(rows);
        assert_shape(rows);
    }
    put(2);
    let mut names = vec![0; 4096];
    let n = listxattr(&array, &mut names[..]).unwrap();
    let mut names = names[..n].split(|byte| *byte == 0);
    assert!(names.any(|name| name == SHAPE.as_bytes()));
    put(3);
    let (dtype, value) = ("user.arrayfs.dtype", "int64");
    setxattr(&array, dtype, value.as_bytes(), XattrFlags::empty()).unwrap();
    assert_eq!(xattr(&array, dtype).unwrap(), value);
    assert_shape(3);
    put(5);
    let removed = removexattr(&array, "user.none");
    assert_eq!(removed, Err(Errno::ROFS), "as of any array");
    assert_stored(&place.stored("x.blp"), &vec![5; 5 * row]);
    assert_eq!(numpy_shape(&place.stored("x.blp"))[0], 5);
}

fn a_terabyte_of_zeros_takes_no_room(place: &Place) {
    const TERABYTE: u64 = 1 << 40;
    container(place, "x.blp", &[7; 100_000]);
    let file = write(place);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 1000, TERABYTE).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 500, TERABYTE).unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1000 + TERABYTE);
    let log = place.stored(".x.blp.arrayfs-stage").metadata().unwrap();
    assert!(log.len() <= 1 << 20, "{} bytes of log", log.len());
    for (at, expected) in [
        (0, [7, 7]),
        (499, [7, 0]),
        (99_999, [0, 0]),
        (TERABYTE, [0, 0]),
    ] {
        let mut bytes = [1; 2];
        file.read_exact_at(&mut bytes, at).unwrap();
        assert_eq!(bytes, expected, "at {at}");
    }
    file.set_len(2000).unwrap();
    drop(file);
    assert_stored(
        &place.stored("x.blp"),
        &[[7; 500], [0; 500], [0; 500], [0; 500]].concat(),
    );
}

fn copy(place: &Place, name: &str) {
    let from = golden("bloscpack/sources").join(format!("{name}.blp"));
    std::fs::copy(from, place.stored("x.blp")).unwrap();
}

fn write(place: &Place) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    options.open(place.join("x.blp/data")).unwrap()
}

fn arrays_json(place: &Place) -> Value {
    let text = std::fs::read(place.join("x.blp/arrays.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["arrays"][0].clone()
}

/// The shape as the real library reads it.
fn numpy_shape(container: &Path) -> Vec<u64> {
    let arguments = [OsStr::new("shape"), container.as_os_str()];
    let told = script("oracle_bloscpack.py", arguments).success();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    serde_json::from_value(told[0].clone()).unwrap()
}

fn errno<T>(done: io::Result<T>) -> Option<i32> {
    done.err().and_then(|e| e.raw_os_error())
}

/// Of the corpus: `float64` in rows of 8 * the last dimensions.
const NUMPY: &str = "np-3d";

fn a_numpy_shape_follows_the_length(place: &Place) {
    copy(place, NUMPY);
    let plain = std::fs::read(place.join("x.blp/data")).unwrap();
    let before = numpy_shape(&place.stored("x.blp"));
    let row = plain.len() / before[0] as usize;
    let text = std::fs::read_to_string(place.join("x.blp/metadata.json")).unwrap();
    for rows in [before[0] as usize + 3, 1, before[0] as usize, 0, 7] {
        let mut expected = plain.clone();
        expected.resize(rows * row, 0);
        let file = write(place);
        file.set_len((rows * row) as u64).unwrap();
        file.write_all_at(&expected, 0).unwrap();
        let mut shape = before.clone();
        shape[0] = rows as u64;
        drop(file);
        assert_stored(&place.stored("x.blp"), &expected);
        assert_eq!(numpy_shape(&place.stored("x.blp")), shape);
        let shown = xattr(&place.join("x.blp/data"), "user.arrayfs.shape").unwrap();
        assert_eq!(serde_json::from_str::<Vec<u64>>(&shown).unwrap(), shape);
        let told = arrays_json(place);
        assert_eq!(told["shape"], serde_json::to_value(&shape).unwrap());
        assert_eq!(told["bytes"], expected.len());
        let view = std::fs::read(place.join("x.blp/views/data.npy")).unwrap();
        assert!(view.ends_with(&expected));
        // All but the shape is as it was, to the letter.
        let now = std::fs::read_to_string(place.join("x.blp/metadata.json")).unwrap();
        assert_eq!(without_numbers(&now), without_numbers(&text));
    }
}

fn without_numbers(text: &str) -> String {
    let kept = |c: &char| !c.is_ascii_digit() && *c != ' ';
    text.chars().filter(kept).collect()
}

fn a_length_of_no_whole_rows_is_refused(place: &Place) {
    copy(place, NUMPY);
    let plain = std::fs::read(place.join("x.blp/data")).unwrap();
    let len = plain.len() as u64;
    let file = write(place);
    for bad in [1, len - 1, len + 8, len * 3 + 1] {
        assert_eq!(errno(file.set_len(bad)), Some(libc::EINVAL), "{bad}");
        let cut = OpenOptions::new()
            .write(true)
            .open(place.join("x.blp/data"));
        assert_eq!(errno(cut.unwrap().set_len(bad)), Some(libc::EINVAL));
        assert_eq!(
            errno(truncate(&place.join("x.blp/data"), bad)),
            Some(libc::EINVAL)
        );
    }
    drop(file);
    assert_content(&place.join("x.blp/data"), &plain);
    assert_stored(&place.stored("x.blp"), &plain);
}

fn truncate(path: &Path, len: u64) -> io::Result<()> {
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a zero byte.
    match unsafe { libc::truncate(text.as_ptr(), len as i64) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// On the way to whole rows any length may be passed.
fn a_write_that_leaves_no_whole_rows_is_refused_at_close(place: &Place) {
    copy(place, NUMPY);
    let plain = std::fs::read(place.join("x.blp/data")).unwrap();
    let row = plain.len() / numpy_shape(&place.stored("x.blp"))[0] as usize;
    let stored = std::fs::read(place.stored("x.blp")).unwrap();
    let ran = written_by_dd(&place.join("x.blp/data"), plain.len() as u64, b"more");
    ran.failed_saying(1, &["Invalid argument"]);
    // What was written is still there, and can be completed.
    let mut expected = [&plain[..], b"more"].concat();
    assert_content(&place.join("x.blp/data"), &expected);
    assert_content(&place.stored("x.blp"), &stored);
    let state = xattr(&place.join("x.blp"), "user.arrayfs.state").unwrap();
    assert!(
        state.starts_with("staged: ") && state.contains("rows"),
        "{state}"
    );
    let told = arrayfs(["status".as_ref(), place.path().as_os_str()]).success();
    let staged = told
        .text()
        .lines()
        .find(|line| line.contains("  staged  "))
        .map(str::to_owned);
    let says = |what: &str| staged.as_ref().is_some_and(|line| line.contains(what));
    assert!(
        says("x.blp, ") && says(" in its log") && says("rows"),
        "{told:?}"
    );
    let file = write(place);
    file.write_all_at(&vec![7; row - 4], expected.len() as u64)
        .unwrap();
    expected.resize(plain.len() + row, 7);
    drop(file);
    assert_stored(&place.stored("x.blp"), &expected);
    let state = xattr(&place.join("x.blp"), "user.arrayfs.state").unwrap();
    assert!(!state.contains("staged"), "{state}");
}

fn an_array_of_a_fixed_shape_keeps_its_length(place: &Place) {
    for name in ["np-2d-F", "np-0d"] {
        copy(place, name);
        let path = place.join("x.blp/data");
        crate::harness::wait_until("it is shown", || path.exists());
        let mut plain = std::fs::read(&path).unwrap();
        let file = write(place);
        for len in [0, 4, 2 * plain.len() as u64] {
            let refused = errno(file.set_len(len));
            // To nothing it may be cut on the way.
            assert!(
                len == 0 || refused == Some(libc::EINVAL),
                "{name} {len}: {refused:?}"
            );
        }
        let _ = file.set_len(plain.len() as u64);
        plain[..4].copy_from_slice(b"over");
        file.write_all_at(&plain, 0).unwrap();
        drop(file);
        assert_stored(&place.stored("x.blp"), &plain);
        std::fs::remove_file(place.stored("x.blp")).unwrap();
        crate::harness::wait_until("it is gone", || !place.join("x.blp").exists());
    }
}

fn an_array_of_nothing_grows_and_shrinks_to_nothing(place: &Place) {
    for name in [
        "empty-default",
        "empty-nooffsets",
        "empty-sha512",
        "np-0len",
    ] {
        copy(place, name);
        let path = place.join("x.blp/data");
        crate::harness::wait_until("it is shown", || path.exists());
        assert_content(&path, b"");
        for len in [24, 3_000_000, 8, 0] {
            let bytes = Seeded::new(len).rising(len as usize);
            std::fs::write(&path, &bytes).unwrap();
            assert_content(&path, &bytes);
            assert_stored(&place.stored("x.blp"), &bytes);
        }
        std::fs::remove_file(place.stored("x.blp")).unwrap();
        crate::harness::wait_until("it is gone", || !place.join("x.blp").exists());
    }
}

/// Seven spare ones are in the file.
fn offsets_get_more_room_when_the_spare_ones_are_used_up(place: &Place) {
    copy(place, "offsets-app7");
    let mut expected = std::fs::read(place.join("x.blp/data")).unwrap();
    let mut random = Seeded::new(1);
    for _ in 0..12 {
        let more = random.rising(9000);
        let file = write(place);
        file.write_all_at(&more, expected.len() as u64).unwrap();
        expected.extend(more);
        drop(file);
        assert_stored(&place.stored("x.blp"), &expected);
    }
    assert_content(&place.join("x.blp/data"), &expected);
    copy_and_append(place, &expected);
}

/// The real program can append to it.
fn copy_and_append(place: &Place, plain: &[u8]) {
    let (more, copy) = (place.stored("more"), place.stored("copy.blp"));
    std::fs::write(&more, b"and more").unwrap();
    std::fs::copy(place.stored("x.blp"), &copy).unwrap();
    script("oracle_bloscpack.py", [Path::new("append"), &copy, &more]).success();
    assert_stored(&copy, &[plain, b"and more"].concat());
}

fn a_file_without_offsets_grows(place: &Place) {
    copy(place, "offsets-none");
    let mut expected = std::fs::read(place.join("x.blp/data")).unwrap();
    let file = write(place);
    let more = Seeded::new(2).noise(100_000);
    file.write_all_at(&more, expected.len() as u64).unwrap();
    expected.extend(more);
    drop(file);
    assert_stored(&place.stored("x.blp"), &expected);
}

fn a_hole_is_zeros(place: &Place) {
    container(place, "x.blp", b"begin");
    let file = write(place);
    file.write_all_at(b"end", 5_000_000).unwrap();
    let mut expected = b"begin".to_vec();
    expected.resize(5_000_000, 0);
    expected.extend(b"end");
    assert_content(&place.join("x.blp/data"), &expected);
    drop(file);
    assert_stored(&place.stored("x.blp"), &expected);
    assert!(place.stored("x.blp").metadata().unwrap().len() < 100_000);
    // Cut in the middle of zeros, and made longer again.
    let file = write(place);
    file.set_len(100_000).unwrap();
    file.set_len(200_000).unwrap();
    drop(file);
    expected.truncate(100_000);
    expected.resize(200_000, 0);
    assert_stored(&place.stored("x.blp"), &expected);
}

/// The mount ends while something is staged that is no whole rows: it is kept, and reported.
#[test]
fn what_cannot_be_committed_outlives_the_mount() {
    let place = Place::mounted(&[]);
    copy(&place, NUMPY);
    let plain = std::fs::read(place.join("x.blp/data")).unwrap();
    let row = plain.len() / numpy_shape(&place.stored("x.blp"))[0] as usize;
    let stored = std::fs::read(place.stored("x.blp")).unwrap();
    let ran = written_by_dd(&place.join("x.blp/data"), plain.len() as u64, b"more");
    ran.failed_saying(1, &["Invalid argument"]);
    let (mounted, source) = place.into_parts();
    drop(mounted);
    assert_content(&source.path().join("x.blp"), &stored);
    let mounted = Mounted::new(source.path(), &["rw"]);
    let staged = [&plain[..], b"more"].concat();
    assert_content(&mounted.join("x.blp/data"), &staged);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .open(mounted.join("x.blp/data"))
        .unwrap();
    file.write_all_at(&vec![1; row - 4], staged.len() as u64)
        .unwrap();
    drop(file);
    let expected = [&staged[..], &vec![1; row - 4]].concat();
    assert_stored(&source.path().join("x.blp"), &expected);
}
