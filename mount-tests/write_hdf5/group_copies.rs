//! Copies of a part of a file: groups have their own `arrays.json`, arrays have attributes that say
//! their types, and bytes of which nothing says the type are told.

use std::fs::{File, create_dir, read, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::XattrFlags;
use serde_json::{Value, json};

use super::{commit, state, with_file};
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, names, xattr};
use crate::harness::tools::{shell, tools};
use crate::write_bloscpack::written_by_dd;

fn with(kind: &str, name: &str) -> Place {
    let place = Place::mounted(&[]);
    let path = place.stored(name);
    script("write_hdf5/group_copies.py", [Path::new(kind), &path]).success();
    place
}

fn described(path: &Path) -> Value {
    serde_json::from_slice(&read(path.join("arrays.json")).unwrap()).unwrap()
}

#[test]
fn a_group_says_what_lies_in_it() {
    let place = with("nested", "x.h5");
    let outer = described(&place.join("x.h5/outer"));
    let listed: Vec<&str> = outer["arrays"]
        .as_array()
        .unwrap()
        .iter()
        .map(|array| array["name"].as_str().unwrap())
        .collect();
    assert_eq!(listed, ["floats", "lat", "named"]);
    assert_eq!(outer["attributes"], json!({"title": "outer"}));
    let inner = described(&place.join("x.h5/outer/inner"));
    assert_eq!(inner["arrays"][0]["name"], "words");
    assert_eq!(inner["arrays"][0]["dtype"], "str");
    let empty = described(&place.join("x.h5/empty"));
    assert_eq!(
        empty,
        json!({"format": "hdf5", "arrays": [], "attributes": {}})
    );
    // What is staged is told, too.
    let size = place
        .join("x.h5/outer/arrays.json")
        .metadata()
        .unwrap()
        .len();
    assert_eq!(
        size,
        read(place.join("x.h5/outer/arrays.json")).unwrap().len() as u64
    );
    // A dataset of that name makes way.
    let taken = names(&place.join("x.h5/taken"));
    assert_eq!(taken.len(), 2, "{taken:?}");
    assert!(
        taken.iter().any(|name| name.starts_with("arrays.json~")),
        "{taken:?}"
    );
}

#[test]
fn a_copy_of_a_group_has_types_attributes_and_dimensions() {
    for (name, new) in [("x.h5", "y.h5"), ("x.nc", "y.nc")] {
        let place = with(if name == "x.nc" { "netcdf" } else { "nested" }, name);
        let script_text = format!("mkdir {new}; cp -r {name}/outer {new}/copied");
        shell(place.path(), &script_text, &[]);
        commit(&place);
        File::open(place.join(new)).unwrap().sync_all().unwrap();
        place.wait_packed(new);
        let state = xattr(&place.join(new), "user.arrayfs.state").unwrap();
        assert_eq!(state, "clean", "{name}");
        let (from, to) = (place.stored(name), place.stored(new));
        script(
            "write_hdf5/group_copies.py",
            [Path::new("compare"), &from, &to],
        )
        .success();
    }
}

#[test]
fn a_copy_of_one_array_has_its_type_and_rsync_ends_well() {
    let place = with("nested", "x.h5");
    for copy in ["cp -a", "rsync -aX"] {
        if !tools(&[copy.split(' ').next().unwrap()]) {
            continue;
        }
        create_dir(place.join("y.h5")).unwrap();
        let copied = format!("{copy} x.h5/outer/floats x.h5/outer/inner/words y.h5/");
        shell(place.path(), &copied, &[]);
        File::open(place.join("y.h5")).unwrap().sync_all().unwrap();
        place.wait_packed("y.h5");
        for (name, dtype, shape) in [("floats", "float64", "[2, 3]"), ("words", "str", "[3]")] {
            let path = place.join("y.h5").join(name);
            assert_eq!(xattr(&path, "user.arrayfs.dtype").unwrap(), dtype, "{copy}");
            assert_eq!(xattr(&path, "user.arrayfs.shape").unwrap(), shape, "{copy}");
        }
        assert_eq!(
            xattr(&place.join("y.h5"), "user.arrayfs.state").unwrap(),
            "clean"
        );
        shell(place.path(), "rm -r y.h5", &[]);
    }
}

#[test]
fn bytes_for_want_of_a_type_are_told() {
    let place = Place::mounted(&[]);
    let at = place.join("x.h5");
    create_dir(&at).unwrap();
    let described = r#"{"arrays": [{"name": "typed", "dtype": "u2", "shape": [2]}]}"#;
    write(at.join("typed"), [1, 0, 2, 0]).unwrap();
    write(at.join("bare"), [1, 2, 3]).unwrap();
    write(at.join("arrays.json"), described).unwrap();
    place.wait_packed("x.h5");
    let told = "nothing said their type, so they are bytes (uint8): bare";
    assert_eq!(
        xattr(&at, "user.arrayfs.state").unwrap(),
        format!("clean: {told}")
    );
    assert_eq!(
        xattr(&at.join("typed"), "user.arrayfs.dtype").unwrap(),
        "uint16"
    );
    assert_content(&at.join("bare"), &[1, 2, 3]);
    let (mounted, _source) = place.into_parts();
    let said = arrayfs([Path::new("umount"), mounted.path()]).success();
    assert!(said.stderr.contains(told), "{}", said.stderr);
    mounted.assert_ends();
}

#[test]
fn so_they_are_in_every_format_that_has_other_types() {
    let place = Place::mounted(&[]);
    for (container, bare, typed) in [
        ("x.blp", "data", None),
        ("x.dbdf", "values", None),
        ("y.dbdf", "columns/bare", Some("columns/typed")),
        ("y.blp", "", Some("data")),
    ] {
        let at = place.join(container);
        create_dir(&at).unwrap();
        if container == "y.dbdf" {
            create_dir(at.join("columns")).unwrap();
        }
        for name in [Some(bare).filter(|name| !name.is_empty()), typed] {
            let Some(path) = name.map(|name| at.join(name)) else {
                continue;
            };
            write(&path, [1, 2, 3, 4]).unwrap();
            if name == typed {
                let (name, value) = ("user.arrayfs.dtype", b"uint8");
                rustix::fs::setxattr(&path, name, value, XattrFlags::empty()).unwrap();
            }
        }
        File::open(&at).unwrap().sync_all().unwrap();
        place.wait_packed(container);
        let told = match bare {
            "" => "clean".to_owned(),
            _ => format!("clean: nothing said their type, so they are bytes (uint8): {bare}"),
        };
        assert_eq!(
            xattr(&at, "user.arrayfs.state").unwrap(),
            told,
            "{container}"
        );
    }
}

/// By their names, when it is closed.
#[test]
fn what_arrays_json_says_and_nobody_understands_is_refused() {
    let place = Place::mounted(&[]);
    create_dir(place.join("x.h5")).unwrap();
    // `write` does not look at what closing says.
    let path = place.join("x.h5/arrays.json");
    let closed = |more: &str| {
        let text = format!(r#"{{"arrays": [{{"name": "a", "dtype": "f8", "shape": [4]{more}}}]}}"#);
        File::create(&path).unwrap();
        let said = written_by_dd(&path, 0, text.as_bytes());
        assert!(
            said.code() == Some(0) || said.stderr.contains("Invalid argument"),
            "{said:?}"
        );
        said.code() == Some(0)
    };
    for more in [
        r#", "chunk": [2]"#,
        r#", "codec": "gzipp""#,
        r#", "chunks": [2], "filters": ["lzf"]"#,
        r#", "chunks": [2, 2]"#,
        r#", "type": "NC_DOUBLE""#,
    ] {
        assert!(!closed(more), "{more}");
    }
    for more in ["", r#", "codec": "shuffle+gzip""#, r#", "chunks": [2]"#] {
        assert!(closed(more), "{more}");
    }
    write(place.join("x.h5/a"), [0; 32]).unwrap();
    place.wait_packed("x.h5");
    let codec = xattr(&place.join("x.h5/a"), "user.arrayfs.codec").unwrap();
    assert_eq!(
        codec, "shuffle+gzip",
        "chunks of which no filters are told have the usual ones"
    );
}

#[test]
fn why_something_cannot_be_written_is_told() {
    let place = with("only_read", "x.h5");
    let why = "it is text of variable length in several dimensions";
    assert_eq!(state(&place), "clean");
    let told = xattr(&place.join("x.h5/table"), "user.arrayfs.state").unwrap();
    assert_eq!(told, format!("read-only: {why}"));

    let references = place.join("x.h5/references");
    let told = xattr(&references, "user.arrayfs.state").unwrap();
    let of_type = "read-only: it is not shown: elements of type reference";
    assert_eq!(told, of_type);
    let opened = std::fs::OpenOptions::new().write(true).open(references);
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EROFS));
    let info = arrayfs([Path::new("info"), &place.stored("x.h5")]).success();
    let line = format!("cannot be written: {why}");
    assert!(info.text().contains(&line), "{}", info.text());
    for name in ["external", "references", "table"] {
        let found = place.join("x.h5").join(name).metadata().unwrap();
        assert_eq!(found.permissions().mode() & 0o222, 0, "{name}");
    }
    let place = with_file(&[]);
    assert_eq!(state(&place), "clean");
    let stored = place.stored("x.h5");
    let mut longer = read(&stored).unwrap();
    longer.extend([7; 100]);
    write(&stored, longer).unwrap();
    let why = "100 bytes lie behind its end, which would be lost";
    assert_eq!(state(&place), format!("clean: read-only: {why}"));
    let opened = std::fs::OpenOptions::new()
        .write(true)
        .open(place.join("x.h5/fixed"));
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::EROFS));
    let info = arrayfs([Path::new("info"), &stored]).success();
    assert!(info.text().contains(why), "{}", info.text());
}
