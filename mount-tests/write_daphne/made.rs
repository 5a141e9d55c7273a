//! New containers of a format with groups: `mkdir x.dbdf`, filled by programs that copy directories
//! and by hand, and when they are packed.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use rustix::process::Signal;

use super::{dense, numbers, state};
use crate::harness::depth::some_of;
use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::{arrayfs, send};
use crate::harness::reads::{assert_content, walk, xattr};
use crate::harness::tools::{shell, tools};
use crate::harness::{golden, scratch_directory, wait_until};

/// Containers of more decoded bytes are not copied.
const MOST: u64 = 4 << 20;

/// They are packed when somebody syncs them: a slow machine does not do it in between.
fn place() -> Place {
    Place::mounted(&["settle=600000"])
}

fn drafts_of(stored: &Path) -> PathBuf {
    let name = stored.file_name().unwrap().to_str().unwrap();
    stored.with_file_name(format!(".{name}.arrayfs-drafts"))
}

fn set(path: &Path, name: &str, value: &str) {
    let name = format!("user.arrayfs.{name}");
    rustix::fs::setxattr(path, name.as_str(), value.as_bytes(), XattrFlags::empty()).unwrap();
}

/// The arrays and texts of a container, by their paths in it.
fn shown(container: &Path) -> Vec<(PathBuf, PathBuf)> {
    let (files, failures) = walk(container);
    assert!(failures.is_empty(), "{failures:?}");
    let inside = |file: &PathBuf| file.strip_prefix(container).unwrap().to_owned();
    let all = files.into_iter().map(|file| (inside(&file), file));
    let mut all: Vec<_> = all
        .filter(|(path, _)| !path.starts_with("views") && path != Path::new("arrays.json"))
        .collect();
    all.sort();
    all
}

/// The sound files of the corpus that are not too large, by their names.
fn corpus(mounted: &Path) -> Vec<String> {
    let (files, _) = walk(&golden("daphne/sources"));
    let names = files
        .iter()
        .map(|file| file.file_name().unwrap().to_str().unwrap().to_owned());
    let sound = names.filter(|name| name.ends_with(".dbdf") && !name.starts_with("bad-"));
    let is_small = |name: &String| {
        let container = mounted.join(name);
        let is_sound = xattr(&container, "user.arrayfs.state").unwrap() == "clean";
        let bytes = |(_, file): &(PathBuf, PathBuf)| file.metadata().unwrap().len();
        is_sound
            && shown(&container)
                .iter()
                .map(bytes)
                .fold(0u64, u64::saturating_add)
                < MOST
    };
    sound.filter(is_small).collect()
}

/// Of one of `one_of` containers.
fn copies_hold_what_was_copied(script: &str, one_of: u64) {
    let from = Mounted::new(golden("daphne/sources"), &["ro"]);
    let place = place();
    let names = corpus(from.path());
    assert!(names.len() > 60, "{} containers", names.len());
    for name in &some_of(names, one_of, 0) {
        let (container, copy) = (from.join(name), place.join(name));
        shell(place.path(), script, &[&container]);
        place.wait_packed(name);
        assert_eq!(state(&copy), "clean", "{name}");
        let (before, after) = (shown(&container), shown(&copy));
        let paths = |all: &[(PathBuf, PathBuf)]| -> Vec<PathBuf> {
            all.iter().map(|(path, _)| path.clone()).collect()
        };
        assert_eq!(paths(&after), paths(&before), "{name}");
        for ((_, before), (path, after)) in before.iter().zip(&after) {
            assert_content(after, &std::fs::read(before).unwrap());
            for said in ["dtype", "shape"] {
                let said = format!("user.arrayfs.{said}");
                let of = |file| xattr(file, &said).ok();
                assert_eq!(of(after), of(before), "{name}: {}", path.display());
            }
        }
    }
    drop(from);
    arrayfs([Path::new("verify"), place.source()]).success();
}

#[test]
fn copies_of_the_corpus_hold_the_same_arrays() {
    copies_hold_what_was_copied(r#"cp -r "$1" ."#, 1);
}

#[test]
fn rsync_copies_the_corpus_as_well() {
    if tools(&["rsync"]) {
        copies_hold_what_was_copied(r#"rsync -a "$1" ."#, 4);
    }
}

#[test]
fn a_matrix_is_as_the_program_writes_it() {
    let place = place();
    std::fs::create_dir(place.join("x.dbdf")).unwrap();
    let values = place.join("x.dbdf/values");
    std::fs::write(&values, numbers(&[1, 2, 3, 4, 5, 6])).unwrap();
    set(&values, "dtype", "int64");
    set(&values, "shape", "[2, 3]");
    place.wait_packed("x.dbdf");
    assert_content(&place.stored("x.dbdf"), &dense(2, 3, &[1, 2, 3, 4, 5, 6]));
    assert_content(&place.join("x.dbdf/values"), &numbers(&[1, 2, 3, 4, 5, 6]));
    let spec = Place::mounted(&["settle=600000", "dialect=spec"]);
    std::fs::create_dir(spec.join("x.dbdf")).unwrap();
    std::fs::write(spec.join("x.dbdf/values"), numbers(&[1])).unwrap();
    spec.wait_packed("x.dbdf");
    let json = std::fs::read_to_string(spec.join("x.dbdf/arrays.json")).unwrap();
    assert!(json.contains(r#""dialect": "spec""#), "{json}");
}

/// Its groups are directories like any others until it is packed.
#[test]
fn a_frame_is_put_together_in_a_shell() {
    let place = place();
    let script = r#"
        mkdir x.dbdf && cd x.dbdf
        mkdir columns other
        printf 'abc' > columns/first
        printf 'defg' > other/second
        mv other/second columns/b
        mv columns/first columns/c
        rmdir other
        printf 'x' >> columns/c
        mkdir -p columns/deep/er && mv columns columns2 && mv columns2 columns
        rm -r columns/deep
        printf 'b\nc\n' > labels
        test "$(ls columns)" = "b
c"
    "#;
    shell(place.path(), script, &[]);
    assert_eq!(state(&place.join("x.dbdf")), "staged: it is new");
    place.wait_packed("x.dbdf");
    // What the kernel has looked up under a name may hold for a second.
    let column = place.join("x.dbdf/columns/b");
    wait_until("its columns are shown", || column.is_file());
    for (path, content) in [
        ("columns/b", "defg"),
        ("columns/c", "abcx"),
        ("labels", "b\nc\n"),
    ] {
        assert_content(&place.join("x.dbdf").join(path), content.as_bytes());
    }
    let made = std::fs::create_dir(place.join("x.dbdf/columns/new"));
    assert_eq!(made.unwrap_err().raw_os_error(), Some(libc::EPERM));
}

#[test]
fn types_are_set_of_the_files_in_a_group() {
    let place = place();
    std::fs::create_dir_all(place.join("x.dbdf/columns")).unwrap();
    let column = place.join("x.dbdf/columns/col_0");
    std::fs::write(&column, [0; 16]).unwrap();
    set(&column, "dtype", "float64");
    let name = "user.arrayfs.dtype";
    let bad = rustix::fs::setxattr(&column, name, b"complex64", XattrFlags::empty());
    assert_eq!(bad, Err(rustix::io::Errno::INVAL));
    place.wait_packed("x.dbdf");
    let packed = xattr(&place.join("x.dbdf/columns/col_0"), name).unwrap();
    assert_eq!(packed, "float64");
}

const TWO: &str = r#"{"arrays": [
    {"name": "columns/a", "dtype": "int16", "shape": [2]},
    {"name": "columns/b", "dtype": "int8", "shape": [2]}
]}"#;

#[test]
fn it_stays_new_until_all_is_there_that_is_described() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), &["rw"]);
    let at = mounted.join("x.dbdf");
    std::fs::create_dir_all(at.join("columns")).unwrap();
    std::fs::write(at.join("arrays.json"), TWO).unwrap();
    for (file, content, said) in [
        (None, "", "no array has been put into it yet"),
        (
            Some("a"),
            "123",
            "columns/a has 3 bytes, arrays.json says 4",
        ),
        (
            Some("a"),
            "1234",
            "columns/b, which arrays.json names, is not there yet",
        ),
    ] {
        if let Some(file) = file {
            std::fs::write(at.join("columns").join(file), content).unwrap();
        }
        wait_until(said, || {
            File::open(&at).unwrap().sync_all().unwrap();
            state(&at) == format!("staged: {said}")
        });
    }
    let ended = arrayfs([Path::new("umount"), mounted.path()]);
    ended.failed_saying(1, &["x.dbdf", "columns/b"]);
    mounted.assert_ends();
    let place = Place::over(source, &[]);
    assert_content(&place.join("x.dbdf/columns/a"), b"1234");
    std::fs::write(place.join("x.dbdf/columns/b"), "xy").unwrap();
    place.wait_packed("x.dbdf");
    assert_content(&place.join("x.dbdf/labels"), b"a\nb\n");
    assert_eq!(
        xattr(&place.join("x.dbdf/columns/a"), "user.arrayfs.dtype").unwrap(),
        "int16"
    );
}

/// Nobody syncs it.
#[test]
fn it_is_packed_when_all_that_is_described_is_there() {
    let place = Place::mounted(&["settle=20"]);
    for described in [true, false] {
        let name = format!("{described}.dbdf");
        std::fs::create_dir_all(place.join(&name).join("columns")).unwrap();
        if described {
            std::fs::write(place.join(&name).join("arrays.json"), TWO).unwrap();
        }
        for (column, content) in [("a", "abcd"), ("b", "ef")] {
            let content = if described { content } else { "gh" };
            std::fs::write(place.join(&name).join("columns").join(column), content).unwrap();
        }
        let drafts = drafts_of(&place.stored(&name));
        wait_until("it is packed", || !drafts.exists());
    }
}

#[test]
fn what_cannot_be_a_part_of_it_is_kept_and_named() {
    let place = place();
    for (script, said) in [
        (
            "mkdir x.dbdf/group",
            "group cannot be a part of such a container",
        ),
        (
            "ln -s values x.dbdf/link",
            "link cannot be a part of such a container",
        ),
        (
            "mkdir -p x.dbdf/columns/deep",
            "columns/deep cannot be a part",
        ),
    ] {
        shell(
            place.path(),
            &format!("mkdir x.dbdf; printf x > x.dbdf/values; {script}"),
            &[],
        );
        let synced = File::open(place.join("x.dbdf")).unwrap().sync_all();
        assert_eq!(
            synced.unwrap_err().raw_os_error(),
            Some(libc::EINVAL),
            "{script}"
        );
        let state = state(&place.join("x.dbdf"));
        assert!(state.starts_with(&format!("staged: {said}")), "{state}");
        shell(place.path(), "rm -r x.dbdf", &[]);
        assert!(!drafts_of(&place.stored("x.dbdf")).exists());
    }
    // Files beside the arrays are files, also in groups.
    shell(
        place.path(),
        "mkdir -p x.dbdf/columns; printf x > x.dbdf/columns/a
         printf y > x.dbdf/notes; printf z > x.dbdf/columns/.notes",
        &[],
    );
    place.wait_packed("x.dbdf");
    assert_content(&place.join("x.dbdf/notes"), b"y");
    assert_content(&place.join("x.dbdf/columns/.notes"), b"z");
}

#[test]
fn after_a_kill_the_next_mount_goes_on_with_its_groups() {
    let source = scratch_directory();
    let mounted = Mounted::new(source.path(), &["rw", "settle=600000"]);
    std::fs::create_dir_all(mounted.join("x.dbdf/columns")).unwrap();
    std::fs::write(mounted.join("x.dbdf/columns/a"), "one").unwrap();
    // It looks like a container of its own, and is a draft.
    std::fs::write(mounted.join("x.dbdf/columns/b.blp"), golden_bloscpack()).unwrap();
    send(mounted.daemon(), Signal::KILL);
    arrayfs([Path::new("umount"), mounted.path()]);
    mounted.assert_ends();
    let place = Place::over(source, &["settle=600000"]);
    assert!(place.join("x.dbdf/columns/b.blp").is_file());
    assert_content(&place.join("x.dbdf/columns/a"), b"one");
    std::fs::remove_file(place.join("x.dbdf/columns/b.blp")).unwrap();
    std::fs::rename(place.join("x.dbdf"), place.join("y.dbdf")).unwrap();
    assert_content(&place.join("y.dbdf/columns/a"), b"one");
    place.wait_packed("y.dbdf");
    assert_content(&place.join("y.dbdf/labels"), b"a\n");
    let left: Vec<_> = std::fs::read_dir(place.source()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

fn golden_bloscpack() -> Vec<u8> {
    std::fs::read(golden("bloscpack/sources").join("chunk-127.blp")).unwrap()
}

/// What tells a DAPHNE file is its name.
#[test]
fn under_another_name_it_is_packed_before() {
    let place = place();
    shell(
        place.path(),
        "mkdir x.dbdf; printf x > x.dbdf/values; mv x.dbdf y",
        &[],
    );
    assert!(!drafts_of(&place.stored("y")).exists());
    // What the kernel has looked up under a name holds for a second.
    wait_until("it is shown as a file", || place.join("y").is_file());
    shell(place.path(), "mv y y.dbdf", &[]);
    let values = place.join("y.dbdf/values");
    wait_until("it is shown as a container", || values.is_file());
    assert_content(&values, b"x");
}
