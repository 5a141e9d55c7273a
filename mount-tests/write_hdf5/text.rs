//! Text of variable length: which lines a dataset takes, and what becomes of the others.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::{assert_staged, commit, errno, state, write_at};
use crate::harness::copy_directory;
use crate::harness::depth::rounds;
use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::{Ran, arrayfs};
use crate::harness::python::script;
use crate::harness::reads::{assert_content, assert_same, xattr};
use crate::harness::scratch_directory;
use crate::harness::seeded::run_seed;
use crate::harness::tools::shell;
use crate::write_bloscpack::written_by_dd;

fn session(options: &[&str]) {
    let (source, beside) = (open_directory(), scratch_directory());
    let [before, model] = ["before", "model"].map(|name| beside.path().join(name));
    let seed = std::path::PathBuf::from(run_seed().to_string());
    script(
        "write_hdf5/text.py",
        [Path::new("make"), source.path(), &seed],
    )
    .success();
    copy_directory(source.path(), &before);
    let place = Place::over(source, options);
    let arguments = [Path::new("session"), place.path(), &seed, &model];
    script("write_hdf5/text.py", arguments).success();
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let verified = arrayfs([Path::new("verify"), source.path()]);
    assert_eq!(verified.code(), Some(0), "{}", verified.stderr);
    let arguments = [Path::new("check"), source.path(), &before, &model];
    script("write_hdf5/text.py", arguments).success();
}

#[test]
fn other_programs_read_the_lines_of_files_that_were_replaced() {
    session(&["commit=replace"]);
}

#[test]
fn other_programs_read_the_lines_of_files_that_were_written_in_place() {
    session(&["commit=inplace"]);
}

#[test]
fn other_programs_read_the_lines_however_they_are_committed_with_little_memory() {
    session(&["cache=16M"]);
}

/// A mount of `x.h5`, which has a dataset `text` of a kind that `text.py` knows.
fn with_text(kind: &str) -> Place {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    let arguments = [Path::new("one"), &path, Path::new(kind)];
    script("write_hdf5/text.py", arguments).success();
    place
}

fn text(place: &Place) -> std::path::PathBuf {
    place.join("x.h5/text")
}

/// The mount and the file have these values.
#[track_caller]
fn assert_lines(place: &Place, name: &str, expected: &str) {
    let path = place.join("x.h5").join(name);
    assert_content(&path, expected.as_bytes());
    commit(place);
    assert!(state(place).starts_with("clean"), "{}", state(place));
    let shape = format!("[{}]", expected.lines().count());
    assert_eq!(xattr(&path, "user.arrayfs.shape").unwrap(), shape);
    let stored = place.stored("x.h5");
    let arguments = [Path::new("shown"), &stored, Path::new(name)];
    let shown = script("write_hdf5/text.py", arguments).success().stdout;
    assert_same(name, &shown, expected.as_bytes());
}

fn refused(place: &Place, content: &[u8]) -> Ran {
    let ran = written_by_dd(&text(place), 0, content);
    assert_ne!(ran.code(), Some(0), "{ran:?}");
    ran
}

fn write(place: &Place, content: &str) {
    std::fs::write(text(place), content).unwrap();
    commit(place);
}

#[test]
fn a_fixed_extent_takes_as_many_lines_as_it_has_values() {
    let place = with_text("fixed");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    write(&place, "one\ntwo\n");
    assert_staged(&place, "text has 2 lines for its 3 values", &before);
    write(&place, "one\ntwo\nthree\nfour\n");
    assert_staged(&place, "text has 4 lines for its 3 values", &before);
    write(&place, "one\n\ndrei größer\n");
    assert_lines(&place, "text", "one\n\ndrei größer\n");
}

#[test]
fn an_extent_takes_as_many_lines_as_it_may_have_values() {
    let place = with_text("grows");
    write(&place, "1\n2\n3\n4\n5\n");
    assert_lines(&place, "text", "1\n2\n3\n4\n5\n");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    write_at(&text(&place), b"6\n", 10).unwrap();
    commit(&place);
    assert_staged(&place, "at most 5 values", &before);
    write(&place, "6\n");
    assert_lines(&place, "text", "6\n");
    write(&place, "");
    assert_lines(&place, "text", "");
}

#[test]
fn a_line_without_its_end_is_refused_until_it_has_one() {
    let place = with_text("free");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let ran = refused(&place, b"x\nyyyy");
    assert!(ran.stderr.contains("Invalid argument"), "{ran:?}");
    assert_staged(&place, "the last line has no end", &before);
    write_at(&text(&place), b"\n", 6).unwrap();
    assert_lines(&place, "text", "x\nyyyy\n");
}

#[test]
fn a_nul_is_refused() {
    let place = with_text("free");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let ran = refused(&place, b"x\0y\n");
    assert!(ran.stderr.contains("Invalid argument"), "{ran:?}");
    assert_staged(&place, "no NUL", &before);
}

/// A line would be a part of one.
#[test]
fn values_with_line_feeds_are_not_written_over() {
    let place = with_text("feeds");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    assert_content(&text(&place), b"a\nb\nc\nd\n");
    for content in [&b"a\nb\nc\ne\n"[..], b"x\ny\nz\n"] {
        let ran = written_by_dd(&text(&place), 0, content);
        assert!(ran.stderr.contains("Invalid argument"), "{ran:?}");
        assert_staged(&place, "line feeds", &before);
    }
}

/// Whatever line feeds it has.
#[test]
fn a_dataset_of_one_value_is_that_value() {
    for (kind, shown, shape) in [("scalar", "a\nb\n", "[]"), ("lone", "a\nb\n\n", "[1]")] {
        let place = with_text(kind);
        assert_content(&text(&place), shown.as_bytes());
        for value in ["x\n\ny", "\n", "", "one line"] {
            let content = format!("{value}\n");
            write(&place, &content);
            assert_eq!(state(&place), "clean", "{kind}");
            assert_content(&text(&place), content.as_bytes());
            assert_eq!(xattr(&text(&place), "user.arrayfs.shape").unwrap(), shape);
            let stored = place.stored("x.h5");
            let arguments = [Path::new("shown"), &stored, Path::new("text")];
            let found = script("write_hdf5/text.py", arguments).success().stdout;
            assert_same(kind, &found, content.as_bytes());
        }
        // Before it is committed its view is one value, too.
        let file = std::fs::OpenOptions::new().write(true).open(text(&place));
        let file = file.unwrap();
        file.set_len(0).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"p\nq\n", 0).unwrap();
        let view = std::fs::read(place.join("x.h5/views/text.npy")).unwrap();
        assert!(view.ends_with(b"p\nq"), "{kind}: {view:?}");
    }
}

/// As copying tools do with what is alike.
#[test]
fn the_same_lines_again_are_no_change() {
    let place = with_text("feeds");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    std::fs::write(text(&place), "a\nb\nc\nd\n").unwrap();
    commit(&place);
    assert_eq!(state(&place), "clean");
    assert_eq!(std::fs::read(place.stored("x.h5")).unwrap(), before);
}

/// `arrays.json` says what lines do not.
#[test]
fn copies_have_values_with_line_feeds() {
    for kind in ["feeds", "scalar", "lone", "free", "long"] {
        let place = with_text(kind);
        shell(place.path(), "cp -r x.h5 y.h5", &[]).success();
        place.wait_packed("y.h5");
        let values = |name: &str| {
            let stored = place.stored(name);
            let arguments = [Path::new("digest"), &stored, Path::new("text")];
            script("write_hdf5/text.py", arguments).success().text()
        };
        assert_eq!(values("y.h5"), values("x.h5"), "{kind}");
    }
    let place = with_text("feeds");
    let described = std::fs::read_to_string(place.join("x.h5/arrays.json")).unwrap();
    assert!(
        described.contains("\"line_feeds\": [[1, 1]]"),
        "{described}"
    );
    // Who has other lines than are told would get other values.
    for lines in ["a\nb\nc\nd\ne\n", "a\nb\n"] {
        let _ = std::fs::remove_dir_all(place.join("z.h5"));
        shell(place.path(), "mkdir z.h5; cp x.h5/beside z.h5", &[]).success();
        std::fs::write(place.join("z.h5/text"), lines).unwrap();
        let described = described.replace("\"bytes\": 8", &format!("\"bytes\": {}", lines.len()));
        std::fs::write(place.join("z.h5/arrays.json"), described).unwrap();
        let synced = std::fs::File::open(place.join("z.h5")).unwrap().sync_all();
        assert_eq!(errno(synced), Some(libc::EINVAL), "{lines:?}");
        let told = xattr(&place.join("z.h5"), "user.arrayfs.state").unwrap();
        assert!(told.contains("lines for 3 texts"), "{told}");
    }
}

/// Who lists a directory need not wait until all of its text has been read.
#[test]
fn a_description_has_all_of_it_from_its_opening_on() {
    for options in [&["ro"][..], &["rw"]] {
        let source = open_directory();
        let path = source.path().join("x.h5");
        let arguments = [Path::new("one"), &path, Path::new("long")];
        script("write_hdf5/text.py", arguments).success();
        let mounted = Mounted::new(source.path(), options);
        let path = mounted.join("x.h5/arrays.json");
        let listed = path.metadata().unwrap().len();
        let file = std::fs::File::open(&path).unwrap();
        let opened = file.metadata().unwrap().len();
        assert!(opened > listed, "{opened} and {listed}");
        let described = std::io::read_to_string(&file).unwrap();
        assert_eq!(described.len() as u64, opened);
        let told = "\"line_feeds\": [[1, 1], [2, 18000]]";
        assert!(described.contains(told), "{described}");
        assert_eq!(path.metadata().unwrap().len(), opened);
    }
}

#[test]
fn what_libhdf5_cannot_store_shows_no_right_to_write() {
    for kind in ["lzf", "table", "shared"] {
        let place = with_text(kind);
        let path = text(&place);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o222, 0, "{kind}");
        let opened = std::fs::OpenOptions::new().write(true).open(&path);
        assert_eq!(errno(opened), Some(libc::EROFS), "{kind}");
    }
}

#[test]
fn more_text_than_can_be_stored_is_too_large() {
    let place = with_text("free");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let longer = write_at(&text(&place), b"x\n", 256 << 20);
    assert_eq!(errno(longer), Some(libc::EFBIG));
    // Each of these lines takes 40 bytes of the file.
    let ran = refused(&place, &b"a\n".repeat(5 << 20));
    assert!(ran.stderr.contains("File too large"), "{ran:?}");
    assert_staged(&place, "text", &before);
    write(&place, "short\n");
    assert_lines(&place, "text", "short\n");
}

/// In a sample, and in the whole.
const LINES: (u64, u64) = (250_000, 600_000);

/// As much as can be said to fit does.
#[test]
fn many_lines_become_values() {
    let place = with_text("free");
    let many: String = (0..rounds(LINES)).map(|n| format!("cell-{n}\n")).collect();
    write(&place, &many);
    assert_lines(&place, "text", &many);
    let longer = format!("{many}{}\n", "long".repeat(1 << 20));
    write(&place, &longer);
    assert_lines(&place, "text", &longer);
}

/// Each call of libhdf5 encodes the whole chunk that it touches.
#[test]
fn lines_here_and_there_in_one_chunk_are_committed_together() {
    let place = with_text("single");
    let changed = |n: u32| format!("{}{n}\n", if n % 2 == 1 { "other " } else { "" });
    let lines: String = (0..300_000).map(changed).collect();
    write(&place, &lines);
    assert_lines(&place, "text", &lines);
    assert!(std::fs::metadata(place.stored("x.h5")).unwrap().len() < 32 << 20);
}

/// What was there before gives its room back.
#[test]
fn a_file_does_not_grow_with_every_other_text() {
    let place = with_text("number");
    let before = std::fs::metadata(place.stored("x.h5")).unwrap().len();
    for round in 0..rounds((8, 12)) {
        let number = |n: u64| n.wrapping_mul(round + 7) % 65_521;
        let lines: String = (0..20_000).map(|n| format!("{}\n", number(n))).collect();
        write(&place, &lines);
        assert_content(&text(&place), lines.as_bytes());
        if round % 4 == 3 {
            assert_lines(&place, "text", &lines);
        }
    }
    let after = std::fs::metadata(place.stored("x.h5")).unwrap().len();
    assert!(after < 2 * before, "{before} bytes became {after}");
}

/// libhdf5 takes a value out of the file that it replaces, whoever has it, too.
#[test]
fn a_value_that_stands_for_two_elements_is_not_lost() {
    for of in ["own", "other"] {
        let place = Place::mounted(&[]);
        let path = place.stored("x.h5");
        let arguments = [Path::new("heap"), &path, Path::new(of)];
        script("write_hdf5/text.py", arguments).success();
        let before = std::fs::read(&path).unwrap();
        let ran = refused(&place, b"new");
        assert!(ran.stderr.contains("Input/output error"), "{ran:?}");
        assert_staged(&place, "the global heap has no such object", &before);
    }
}

/// AnnData's columns have one length, text or not.
#[test]
fn a_dataframe_waits_for_its_columns_of_text() {
    let place = with_text("frame");
    let before = std::fs::read(place.stored("x.h5")).unwrap();
    let column = |name: &str| place.join("x.h5/text").join(name);
    let write = |name: &str, content: &[u8]| std::fs::write(column(name), content).unwrap();
    write("word", b"a\nb\nc\n");
    commit(&place);
    assert_staged(&place, "has 3 rows", &before);
    write("_index", b"x\ny\nz\n");
    write("count", &[1i64, 2, 3].map(i64::to_le_bytes).concat());
    commit(&place);
    assert_staged(&place, "kind/codes", &before);
    write("kind/codes", &[0, 1, 2]);
    commit(&place);
    assert_staged(&place, "there are 2 categories", &before);
    write("kind/categories", b"u\nv\nw\n");
    assert_lines(&place, "text/word", "a\nb\nc\n");
    assert_lines(&place, "text/kind/categories", "u\nv\nw\n");
}

/// A list of free room in the file may lie: libhdf5 believes it.
#[test]
fn nothing_is_put_where_chunks_of_others_lie() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("listed"), &path]).success();
    let text = place.join("x.h5/t");
    for round in 0..6 {
        let line = |n| format!("a fairly long line of text {round} {n}\n");
        std::fs::write(&text, (0..500).map(line).collect::<String>()).unwrap();
    }
    commit(&place);
    assert!(state(&place).contains("would change other stored data"));
    script("write_hdf5/scenario.py", [Path::new("big_rows"), &path]).success();
}

/// What cannot be shown of a virtual dataset harms nothing else of the file.
#[test]
fn virtual_text_shows_its_fill_value_and_that_of_its_parts() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("composed"), &path]).success();
    let lines = |rest: &str| format!("NA\none\n{}", rest.repeat(4));
    assert_content(&place.join("x.h5/t"), lines("NA\n").as_bytes());
    let alike = format!("{}NA\nNA\n", lines("NA\n"));
    assert_content(&place.join("x.h5/alike"), alike.as_bytes());
    for name in ["other", "within"] {
        assert!(
            std::fs::read(place.join("x.h5").join(name)).is_err(),
            "{name}"
        );
    }
}

/// Elements of chunks that come to be would get it, one by one: so it cannot be written.
#[test]
fn text_with_a_fill_value_is_only_read() {
    let place = Place::mounted(&[]);
    let path = place.stored("x.h5");
    script("write_hdf5/scenario.py", [Path::new("filled"), &path]).success();
    let mode = |name: &str| place.join("x.h5").join(name).metadata().unwrap().mode() & 0o222;
    assert_eq!((mode("t"), mode("empty")), (0, 0o200));
    // Its second chunk was never written: libhdf5 reads that in a file that it may write alone.
    assert_content(&place.join("x.h5/t"), b"NA\none\nNA\nNA\nNA\nNA\n");
    std::fs::write(place.join("x.h5/empty"), "a\nb\n").unwrap();
    assert_lines(&place, "empty", "a\nb\n");
}
