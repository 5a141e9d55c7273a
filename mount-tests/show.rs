//! `arrayfs show` and `info --stats`: values as tables, pictures and figures. `shown.py` compares
//! what they say with what the formats' own libraries read.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, run};
use crate::harness::python::{Written, script};
use crate::harness::seeded::{Seeded, run_seed};
use crate::harness::writers::{Bloscpack, Matrix};
use crate::harness::{golden, scratch_directory};

fn show(arguments: &[&OsStr]) -> Ran {
    let words = std::iter::once(OsStr::new("show")).chain(arguments.iter().copied());
    arrayfs(words)
}

fn shown(path: &Path, more: &[&str]) -> Ran {
    let mut words = vec![path.as_os_str()];
    words.extend(more.iter().map(OsStr::new));
    show(&words)
}

fn stats(path: &Path) -> Value {
    let words = ["info", "--stats", "--json"].map(OsStr::new);
    let told = arrayfs(words.into_iter().chain([path.as_os_str()]));
    serde_json::from_str(&told.success().text()).unwrap()
}

#[test]
fn tables_figures_and_pictures_are_what_libraries_read() {
    let directory = scratch_directory();
    let seed = run_seed().to_string();
    let to = directory.path().join("shown");
    let words = [OsStr::new(ARRAYFS), OsStr::new(&seed), to.as_os_str()];
    script("shown.py", words).success();
}

#[test]
fn values_of_every_kind_are_shown() {
    let written = Written::new("shown");
    let file = written.source().join("shown.h5");
    let lines = |name: &str| {
        let text = shown(&file.join(name), &[]).success().text();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines("text"), ["0  x", "1  yy\\u{1b}[2J", "2  zürich"]);
    assert_eq!(lines("fixed"), ["0  a", "1  bcd"]);
    assert_eq!(lines("enum"), ["0  low", "1  high", "2  9"]);
    assert_eq!(lines("complex"), ["0  1.0+2.0j", "1  3.0-4.0j"]);
    assert_eq!(lines("scalar"), ["3.5"]);
    assert_eq!(lines("empty"), ["no elements"]);
    let compound = ["   a    b  s", "0  1  2.5  q", "1  3  nan  rr"];
    assert_eq!(lines("compound"), compound);
    // The first and the last of many.
    let many = lines("many");
    assert_eq!(many.len(), 1001);
    assert_eq!((&*many[0], &*many[1000]), ("   0  0", "4999  4999"));
    let sliced = shown(&file, &["many", "--slice", "::-2500"])
        .success()
        .text();
    let sliced: Vec<&str> = sliced.lines().skip(2).collect();
    assert_eq!(sliced, ["4999  4999", "2499  2499"]);
    let all = shown(&file.join("many"), &["--all"]).success().text();
    assert_eq!(all.lines().count(), 5001);
}

#[test]
fn a_table_fits_the_width_that_is_told() {
    let written = Written::new("shown");
    let wide = written.source().join("shown.h5/wide");
    let ran = run(Command::new(ARRAYFS)
        .arg("show")
        .arg(&wide)
        .env("COLUMNS", "60"));
    let text = ran.success().text();
    assert!(
        text.lines().skip(1).all(|line| line.chars().count() <= 60),
        "{text}"
    );
    let header = text.lines().nth(1).unwrap();
    assert!(
        header.trim_start().starts_with("0 ") && header.ends_with("199"),
        "{header}"
    );
    assert!(header.contains('…'), "{header}");
}

#[test]
fn arrays_of_matrices_and_in_mounts_are_shown() {
    let directory = scratch_directory();
    let matrix = Matrix::random(3, 20_000);
    matrix.write_packed(&directory.path().join("counts"));
    let plain = Seeded::new(1).rising(3000);
    Bloscpack::default().write(&directory.path().join("x.blp"), &plain);
    let told = stats(&directory.path().join("counts"));
    let entries = &told["sparse"][0];
    assert_eq!(entries["entries"], serde_json::json!(20_000));
    assert_eq!(entries["pointers"], serde_json::json!("idxptr"));
    let mounted = Mounted::new(directory.path(), &[]);
    for name in ["counts/val", "counts/idxptr", "x.blp/data"] {
        let here = shown(&directory.path().join(name), &["--all"])
            .success()
            .text();
        let there = shown(&mounted.path().join(name), &["--all"])
            .success()
            .text();
        let rows = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(rows(&here), rows(&there));
        assert!(rows(&here).len() > 100, "{name}");
    }
    let first = shown(&directory.path().join("x.blp"), &["data", "-s", "0"]);
    let text = first.success().text();
    assert_eq!(text.lines().last(), Some(&*plain[0].to_string()));
}

#[test]
fn rows_of_sparse_matrices_are_counted_in_every_format() {
    let csr = stats(&golden("binsparse/sources/fmt-csr-1.h5"));
    assert_eq!(csr["sparse"][0]["per"], serde_json::json!("row"));
    let csc = stats(&golden("binsparse/sources/fmt-csc-1.h5"));
    assert_eq!(csc["sparse"][0]["per"], serde_json::json!("column"));
    let cells = stats(&golden("binsparse/sources/cells.h5ad"));
    let names: Vec<&str> = cells["sparse"]
        .as_array()
        .unwrap()
        .iter()
        .map(|matrix| matrix["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"X"), "{names:?}");
    let group = golden("binsparse/sources/cells.h5ad").join("X");
    shown(&group, &[]).failed_saying(2, &["X is a group", "X/data"]);
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    let written = Written::new("shown");
    let file = written.source().join("shown.h5");
    let at = |name: &str| file.join(name);
    let parts = ["axis 1", "200 elements", "e.g."];
    shown(&at("wide"), &["--slice", "0,200"]).failed_saying(2, &parts);
    shown(&at("wide"), &["--slice", "x"]).failed_saying(2, &["no whole number"]);
    shown(&at("wide"), &["--plot=line"]).failed_saying(2, &["--slice"]);
    shown(&at("scalar"), &["--plot"]).failed_saying(2, &["a single value"]);
    shown(&at("wide"), &["-o", "x.jpg"]).failed_saying(2, &[".png"]);
    shown(&at("wide"), &["-o", "x.png", "--size", "3x3"]).failed_saying(2, &["too small"]);
    shown(&at("wide"), &["-o", "-"]).failed_saying(2, &["standard output"]);
    shown(&at("text"), &["--plot"]).failed_saying(1, &["no numbers"]);
    shown(&at("none"), &[]).failed_saying(1, &["no array 'none'"]);
    shown(&file, &[]).failed_saying(2, &["say which array"]);
    let none = at("none");
    let info = [OsStr::new("info"), OsStr::new("--stats"), none.as_os_str()];
    arrayfs(info).failed_saying(1, &["no array 'none'"]);
}

#[test]
fn a_picture_replaces_files_and_no_container() {
    let written = Written::new("shown");
    let (file, directory) = (written.source().join("shown.h5"), scratch_directory());
    let wide = file.join("wide");
    let picture = directory.path().join("picture.png");
    std::fs::write(&picture, "before").unwrap();
    let to = |path: &Path| shown(&wide, &["-o", path.to_str().unwrap()]);
    to(&picture).success();
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 1, "nothing is left beside it");
    let container = directory.path().join("container.png");
    std::fs::copy(&file, &container).unwrap();
    to(&container).failed_saying(1, &["is a container"]);
    assert_eq!(
        std::fs::read(&file).unwrap(),
        std::fs::read(&container).unwrap()
    );
    to(&directory.path().join("none/x.png")).failed_saying(1, &["No such file"]);
}

#[test]
fn colours_are_those_that_are_asked_for() {
    let written = Written::new("shown");
    let wide = written.source().join("shown.h5/wide");
    let drawn = |colour: &str, no_colour: &str| {
        let mut command = Command::new(ARRAYFS);
        command.arg("show").arg(&wide).arg("--plot");
        command.env("CLICOLOR_FORCE", "1").env("COLORTERM", colour);
        command
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", no_colour);
        run(&mut command).success().text()
    };
    assert!(drawn("truecolor", "").contains("\u{1b}[38;2;"));
    assert!(drawn("", "").contains("\u{1b}[38;5;"));
    assert!(!drawn("truecolor", "1").contains('\u{1b}'));
}

/// Of a file that cannot be shown there is a reason, not a list of nothing.
#[test]
fn a_file_of_which_nothing_is_shown_says_why() {
    let directory = scratch_directory();
    let written = Written::new("groups");
    let whole = std::fs::read(written.source().join("groups.h5")).unwrap();
    let cut = directory.path().join("cut.h5");
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    for command in ["show", "cat", "info"] {
        for what in [cut.clone(), cut.join("x")] {
            if command == "info" && what == cut {
                continue;
            }
            let ran = run(Command::new(ARRAYFS).arg(command).arg(what));
            ran.failed_saying(1, &["cut.h5: the file ends early"]);
        }
    }
}
