//! New HDF5 and NetCDF-4 files: copies of what a mount shows of others, and arrays without any
//! description.

use std::ffi::OsStr;
use std::fs::{File, Permissions, create_dir, set_permissions, write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::harness::depth::some_of;
use crate::harness::mounted::Mounted;
use crate::harness::place::{Place, open_directory};
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::run_seed;
use crate::harness::tools::{shell, tool, tools};
use crate::harness::{golden, scratch_directory, wait_until};

/// Copies all containers of a directory that a mount shows, and compares them with the originals.
/// Of one of `one_of` files.
fn copies_have_it_all(source: &Path, copy: &str, one_of: u64) {
    let told = scratch_directory();
    let mounted = Mounted::new(source, &["ro"]);
    let place = Place::mounted(&["settle=600000"]);
    let entries = std::fs::read_dir(mounted.path()).unwrap();
    let containers = entries.map(|entry| entry.unwrap().path()).collect();
    for container in some_of(containers, one_of, 0) {
        let name = container.file_name().unwrap().to_str().unwrap();
        let is_broken = name.starts_with("bad-") || container.join("error.txt").exists();
        if !container.join("arrays.json").exists() || is_broken {
            continue;
        }
        // What cannot be read has an entry, too: it is not there then.
        shell(place.path(), &format!("{copy} || true"), &[&container]);
        place.wait_packed(name);
        let state = xattr(&place.join(name), "user.arrayfs.state").unwrap();
        assert!(state.starts_with("clean"), "{name}: {state}");
        write(told.path().join(name), state).unwrap();
    }
    let h5diff = tool("h5diff");
    let compared = [source, place.source(), told.path()];
    let compared = compared.into_iter().chain(h5diff.as_deref());
    let ran = script("write_hdf5/copied.py", compared).success();
    println!("{}", ran.text());
    arrayfs([Path::new("verify"), place.source()]).success();
}

#[test]
fn copies_of_files_of_every_kind_have_it_all() {
    let source = scratch_directory();
    let seed = PathBuf::from(run_seed().to_string());
    script("write_hdf5/corpus.py", [source.path(), &seed]).success();
    copies_have_it_all(source.path(), r#"cp -r "$1" . 2>/dev/null"#, 1);
}

#[test]
fn so_have_copies_by_rsync() {
    if tools(&["rsync"]) {
        let source = scratch_directory();
        let seed = PathBuf::from(run_seed().to_string());
        script("write_hdf5/corpus.py", [source.path(), &seed]).success();
        copies_have_it_all(source.path(), r#"rsync -aXq "$1" . 2>/dev/null"#, 4);
    }
}

/// What the formats' own programs have written.
#[test]
fn copies_of_the_golden_files_have_it_all() {
    let source = golden("binsparse/sources");
    copies_have_it_all(&source, r#"cp -a "$1" . 2>/dev/null"#, 2);
}

/// The whole of that corpus, where the project is developed.
#[test]
fn copies_of_two_hundred_files_have_it_all() {
    for (format, one_of) in [("binsparse", 8), ("bpcells", 4)] {
        let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden");
        let source = shared.join(format).join("sources");
        match source.exists() {
            true => copies_have_it_all(&source, r#"cp -r "$1" . 2>/dev/null"#, one_of),
            false => eprintln!("not tested: {} is not here", source.display()),
        }
    }
}

/// Matrices of AnnData, Binsparse and Binsparse in NetCDF.
#[test]
fn matrices_and_dataframes_are_copied() {
    let source = open_directory();
    let seed = PathBuf::from(run_seed().to_string());
    let make = [Path::new("make"), source.path(), &seed];
    script("write_hdf5/matrices.py", make).success();
    copies_have_it_all(source.path(), r#"cp -r "$1" . 2>/dev/null"#, 1);
}

#[test]
fn arrays_in_groups_are_bytes_unless_they_are_said_to_be_more() {
    let place = Place::mounted(&["settle=600000"]);
    for name in ["x.h5", "x.hdf5", "x.h5ad", "x.nc"] {
        let at = place.join(name);
        shell(place.path(), r#"mkdir "$1"; mkdir -p "$1/g/h""#, &[&at]);
        write(at.join("g/bytes"), b"abc").unwrap();
        write(at.join("g/h/numbers"), [1, 0, 2, 0, 3, 0, 4, 0]).unwrap();
        let none = rustix::fs::XattrFlags::empty();
        let numbers = at.join("g/h/numbers");
        rustix::fs::setxattr(&numbers, "user.arrayfs.dtype", b"int16", none).unwrap();
        rustix::fs::setxattr(&numbers, "user.arrayfs.shape", b"[2, 2]", none).unwrap();
        place.wait_packed(name);
        assert_content(&at.join("g/bytes"), b"abc");
        assert_eq!(xattr(&numbers, "user.arrayfs.shape").unwrap(), "[2, 2]");
        script(
            "write_hdf5/made.py",
            [OsStr::new("bytes"), place.stored(name).as_os_str()],
        )
        .success();
    }
}

/// An empty one is a file that every program opens, and stays new.
#[test]
fn an_empty_one_is_a_whole_file() {
    let mut place = Place::mounted(&["settle=1"]);
    for name in ["x.h5", "x.nc"] {
        create_dir(place.join(name)).unwrap();
    }
    let stored = ["x.h5", "x.nc"].map(|name| place.stored(name));
    let [hdf5, netcdf] = stored.each_ref().map(|path| path.as_os_str());
    script("write_hdf5/made.py", [OsStr::new("empty"), hdf5, netcdf]).success();
    place.mount_again();
    write(place.join("x.h5/a"), b"abc").unwrap();
    place.wait_packed("x.h5");
    assert_content(&place.join("x.h5/a"), b"abc");
}

/// What is described and not there yet keeps it new.
#[test]
fn it_waits_for_all_that_is_described() {
    let place = Place::mounted(&["settle=600000"]);
    let at = place.join("x.h5");
    create_dir(&at).unwrap();
    let array = |name: &str| format!(r#"{{"name": "{name}", "dtype": "int32", "shape": [2]}}"#);
    let text = format!(r#"{{"arrays": [{}, {}]}}"#, array("a"), array("b"));
    write(at.join("arrays.json"), text).unwrap();
    write(at.join("a"), [0; 8]).unwrap();
    write(at.join("b"), [0; 4]).unwrap();
    let _is_new = File::open(&at).and_then(|directory| directory.sync_all());
    let state = xattr(&at, "user.arrayfs.state").unwrap();
    assert!(state.contains("b has 4 bytes"), "{state}");
    write(at.join("b"), [0; 8]).unwrap();
    place.wait_packed("x.h5");
}

/// A container in a group that is described is one only with what makes it that.
#[test]
fn a_group_that_is_described_waits_for_what_makes_it_a_container() {
    let place = Place::mounted(&["settle=600000"]);
    let at = place.join("x.h5");
    create_dir(&at).unwrap();
    write(at.join("a"), b"abc").unwrap();
    for (format, text) in [("bpcells", "version"), ("binsparse", "binsparse.json")] {
        let given = format!(r#"{{"arrays": [], "containers": {{"m": "{format}"}}}}"#);
        write(at.join("arrays.json"), given).unwrap();
        let _is_new = File::open(&at).and_then(|directory| directory.sync_all());
        let state = xattr(&at, "user.arrayfs.state").unwrap();
        assert!(
            state.contains(&format!("m/{text} is not there yet")),
            "{state}"
        );
    }
}

/// Text has no `w` where it cannot be written, which is no reason for a copy to have none.
#[test]
fn who_may_write_an_array_may_write_the_file() {
    let place = Place::mounted(&["settle=600000"]);
    shell(
        place.path(),
        "mkdir x.h5; printf ab > x.h5/a; printf cd > x.h5/b; chmod 640 x.h5/a; chmod 444 x.h5/b",
        &[],
    );
    place.wait_packed("x.h5");
    let mode = place.stored("x.h5").metadata().unwrap().mode();
    assert_eq!(mode & 0o777, 0o640);
    let bad = shell(
        place.path(),
        "mkdir y.h5; : > y.h5/a; setfattr -n user.arrayfs.dtype -v flaot32 y.h5/a 2>&1 || true",
        &[],
    );
    assert!(bad.text().contains("Invalid argument"), "{}", bad.text());
}

#[test]
fn what_is_not_kept_is_named_by_umount_too() {
    let place = Place::mounted(&["settle=600000"]);
    let at = place.join("x.h5");
    create_dir(&at).unwrap();
    let text = r#"{"arrays": [{"name": "a", "dtype": "int32", "shape": [2],
        "attributes": {"to": null}, "attribute_types": {"to": {"omitted": "reference"}}}]}"#;
    write(at.join("arrays.json"), text).unwrap();
    write(at.join("a"), [0; 8]).unwrap();
    place.wait_packed("x.h5");
    let lost = "not kept: a: attribute to: reference";
    let state = xattr(&at, "user.arrayfs.state").unwrap();
    assert_eq!(state, format!("clean: {lost}"));
    let (mounted, _source) = place.into_parts();
    // Who looks at it meanwhile keeps it in use for a moment.
    wait_until("it is unmounted", || {
        let said = arrayfs([Path::new("umount"), mounted.path()]);
        assert!(said.stderr.contains(lost), "{}", said.stderr);
        said.code() == Some(0)
    });
    mounted.assert_ends();
}

/// Files that are put into it later become arrays of it, beside those that it has; where the mount
/// has not made it they stay files.
#[test]
fn files_that_come_later_become_arrays() {
    for name in ["x.h5", "x.nc"] {
        let mut place = Place::mounted(&["settle=600000"]);
        let at = place.join(name);
        shell(
            place.path(),
            r#"mkdir "$1" "$1/g"; printf abcd > "$1/g/a""#,
            &[&at],
        );
        place.wait_packed(name);
        write(at.join("later"), [1, 0, 2, 0]).unwrap();
        write(at.join(".hidden"), b"x").unwrap();
        let none = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(at.join("later"), "user.arrayfs.dtype", b"int16", none).unwrap();
        let state = xattr(&at, "user.arrayfs.state").unwrap();
        assert_eq!(state, "staged: it is new");
        wait_until("it is an array", || {
            let _not_yet = File::open(&at).and_then(|directory| directory.sync_all());
            xattr(&at.join("later"), "user.arrayfs.shape").is_ok_and(|shape| shape == "[2]")
        });
        // It has been told a type, and the other has not.
        let state = xattr(&at, "user.arrayfs.state").unwrap();
        assert!(state.ends_with("they are bytes (uint8): g/a"), "{state}");
        assert_content(&at.join("later"), &[1, 0, 2, 0]);
        assert_content(&at.join("g/a"), b"abcd");
        assert_content(&at.join(".hidden"), b"x");
        let stored = place.stored(name);
        script(
            "write_hdf5/made.py",
            [OsStr::new("later"), stored.as_os_str()],
        )
        .success();
        // It can be written, and taken up by the next mount, which has not made it.
        shell(&at, "printf z | dd of=g/a conv=notrunc status=none", &[]);
        place.mount_again();
        let at = place.join(name);
        assert_content(&at.join("g/a"), b"zbcd");
        assert_content(&at.join(".hidden"), b"x");
        write(at.join("another"), b"1234").unwrap();
        let _file = File::open(&at).and_then(|directory| directory.sync_all());
        assert_content(&at.join("another"), b"1234");
        place.mount_again();
        assert!(xattr(&place.join(name).join("another"), "user.arrayfs.dtype").is_err());
        arrayfs([Path::new("verify"), place.source()]).success();
    }
}

/// A sparse file may claim any size: no text is read to such an end.
#[test]
fn text_of_any_size_keeps_nobody_waiting() {
    let place = Place::mounted(&["settle=600000"]);
    let at = place.join("x.h5");
    shell(
        place.path(),
        r#"mkdir "$1"; truncate -s 1T "$1/names"
        echo '{"arrays": [{"name": "names", "dtype": "str", "shape": [1]}]}' > "$1/arrays.json""#,
        &[&at],
    );
    let synced = File::open(&at).and_then(|directory| directory.sync_all());
    assert_eq!(synced.unwrap_err().raw_os_error(), Some(22));
    let state = xattr(&at, "user.arrayfs.state").unwrap();
    assert!(
        state.contains("names: more than 256 MiB of text"),
        "{state}"
    );
    shell(place.path(), r#"printf 'a\n' > "$1/names""#, &[&at]);
    place.wait_packed("x.h5");
    assert_content(&at.join("names"), b"a\n");
}

/// What others have changed or have locked is not written anew, and nobody may read more than
/// before: the files stay files.
#[test]
fn nothing_of_others_is_lost_when_files_come_later() {
    let place = Place::mounted(&["settle=600000"]);
    for name in ["changed.h5", "locked.h5", "linked.h5", "private.h5"] {
        let at = place.join(name);
        shell(place.path(), r#"mkdir "$1"; printf abcd > "$1/a""#, &[&at]);
        place.wait_packed(name);
    }
    let stored = place.stored("changed.h5");
    script(
        "write_hdf5/made.py",
        [OsStr::new("refer"), stored.as_os_str()],
    )
    .success();
    std::fs::hard_link(place.stored("linked.h5"), place.source().join("other.h5")).unwrap();
    let locked = File::open(place.stored("locked.h5")).unwrap();
    rustix::fs::flock(
        &locked,
        rustix::fs::FlockOperation::NonBlockingLockExclusive,
    )
    .unwrap();
    let later = |name: &str| place.join(name).join("later");
    let put = |name: &str| {
        write(later(name), b"xy").unwrap();
        if name == "private.h5" {
            set_permissions(later(name), Permissions::from_mode(0o600)).unwrap();
        }
        let synced = File::open(place.join(name)).and_then(|directory| directory.sync_all());
        synced.unwrap();
        assert_content(&later(name), b"xy");
        xattr(&later(name), "user.arrayfs.shape").is_ok()
    };
    for name in ["changed.h5", "locked.h5", "linked.h5", "private.h5"] {
        assert!(!put(name), "{name} was written anew");
    }
    script(
        "write_hdf5/made.py",
        [OsStr::new("referred"), stored.as_os_str()],
    )
    .success();
    drop(locked);
    wait_until("the lock is seen to be gone", || put("locked.h5"));
}

/// Rules that `verify` would find broken keep it new, unless it is a copy of one that breaks them.
#[test]
fn a_binsparse_group_stays_new_until_its_rules_hold() {
    let mounted = Mounted::new(golden("binsparse/sources"), &["ro"]);
    let place = Place::mounted(&["settle=600000"]);
    let from = mounted.path().join("attr-fixed-exact.h5");
    let fill = |at: &Path, rest: &str| {
        let copy = r#"mkdir -p "$2"; cp -r "$1"/* "$2"
                      printf '\377' | dd of="$2/indices_1" conv=notrunc status=none"#;
        shell(place.path(), &format!("{copy}; {rest}"), &[&from, at]);
    };
    for at in ["x.h5", "y.h5/deep"] {
        let (container, at) = (place.join(&at[..4]), place.join(at));
        fill(&at, r#"rm "$2/arrays.json""#);
        let stays = |why: &str| {
            let _ = File::open(&container).and_then(|directory| directory.sync_all());
            let state = xattr(&container, "user.arrayfs.state").unwrap();
            assert!(
                state.contains("binsparse.json: ") && state.contains(why),
                "{state}"
            );
        };
        stays("indices_1");
        let no_descriptor = r#"cp "$1/indices_1" "$2"; echo '{}' > "$2/binsparse.json""#;
        shell(place.path(), no_descriptor, &[&from, &at]);
        stays("the descriptor has no object");
        let descriptor = r#"cp "$1/binsparse.json" "$2""#;
        shell(place.path(), descriptor, &[&from, &at]);
        place.wait_packed(container.file_name().unwrap().to_str().unwrap());
        assert_eq!(xattr(&at, "user.arrayfs.format").unwrap(), "binsparse");
    }
    arrayfs([Path::new("verify"), place.source()]).success();
    for at in ["copy.h5", "copies.h5/deep", "copies.nc/deep"] {
        let container = at.split('/').next().unwrap();
        fill(&place.join(at), "");
        place.wait_packed(container);
        let state = xattr(&place.join(container), "user.arrayfs.state").unwrap();
        assert!(
            state.starts_with("clean: not kept: ") && state.contains("indices_1"),
            "{state}"
        );
    }
}

/// A descriptor declares the types of its arrays.
#[test]
fn arrays_of_a_binsparse_group_have_the_types_that_it_declares() {
    let mounted = Mounted::new(golden("binsparse/sources"), &["ro"]);
    let place = Place::mounted(&["settle=600000"]);
    let from = mounted.path().join("attr-fixed-exact.h5");
    for name in ["x.h5", "x.nc"] {
        let at = place.join(name).join("m");
        let copy = r#"mkdir -p "$2" && cp "$1"/*_1 "$1"/values "$1/binsparse.json" "$2""#;
        shell(place.path(), copy, &[&from, &at]);
        place.wait_packed(name);
        for array in ["indices_1", "pointers_to_1", "values"] {
            let dtype = |path: &Path| xattr(&path.join(array), "user.arrayfs.dtype").unwrap();
            assert_eq!(dtype(&at), dtype(&from), "{array}");
            assert_content(&at.join(array), &std::fs::read(from.join(array)).unwrap());
        }
        assert_eq!(xattr(&at, "user.arrayfs.format").unwrap(), "binsparse");
    }
    arrayfs([Path::new("verify"), place.source()]).success();
}
