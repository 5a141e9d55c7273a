//! The commands that need no mount: what they print, for people and as JSON, and how they end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::golden;
use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, Ran, arrayfs, run, start, wait_for_end};
use crate::harness::python::Written;
use crate::harness::reads::{assert_same, xattr};
use crate::harness::scratch_directory;
use crate::harness::seeded::Seeded;
use crate::harness::writers::{Bloscpack, Matrix};

/// A matrix and a Bloscpack file, one of them deeper.
struct Known {
    directory: TempDir,
    matrix: Matrix,
    plain: Vec<u8>,
}

fn known() -> Known {
    let directory = scratch_directory();
    let matrix = Matrix::random(1, 20_000);
    matrix.write_packed(&directory.path().join("deep/counts"));
    let plain = Seeded::new(1).rising(3_000_000);
    Bloscpack::default().write(&directory.path().join("x.blp"), &plain);
    std::fs::write(directory.path().join("notes.txt"), "no container").unwrap();
    Known {
        directory,
        matrix,
        plain,
    }
}

impl Known {
    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn blp(&self) -> PathBuf {
        self.path().join("x.blp")
    }

    fn counts(&self) -> PathBuf {
        self.path().join("deep/counts")
    }
}

/// Runs a command on a path.
fn on(path: &Path, arguments: &[&str]) -> Ran {
    let (command, rest) = arguments.split_first().unwrap();
    run(Command::new(ARRAYFS).arg(command).arg(path).args(rest))
}

fn json(ran: Ran) -> Value {
    serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

#[test]
fn ls_lists_every_array_of_every_container() {
    let known = known();
    let listed = on(known.path(), &["ls"]).success().text();
    let arrays = ["val", "index", "idxptr", "shape", "row_names", "col_names"];
    let mut expected: Vec<PathBuf> = arrays
        .iter()
        .map(|name| known.counts().join(name))
        .collect();
    expected.push(known.blp().join("data"));
    expected.sort();
    let mut found: Vec<PathBuf> = listed.lines().map(PathBuf::from).collect();
    found.sort();
    assert_eq!(found, expected);
    // One container, and the working directory when nothing is said.
    let listed = on(&known.blp(), &["ls"]).success().text();
    assert_eq!(Path::new(listed.trim_end()), known.blp().join("data"));
    let here = run(Command::new(ARRAYFS).arg("ls").current_dir(known.path()))
        .success()
        .text();
    assert_eq!(here.lines().count(), expected.len());
}

#[test]
fn an_array_that_is_not_there_is_answered_with_the_one_that_may_be_meant() {
    let known = known();
    for (path, meant) in [
        ("x.blp/dta", Some("did you mean 'data'? ")),
        ("deep/counts/indx", Some("did you mean 'index'? ")),
        ("deep/counts/temperature", None),
    ] {
        for command in ["cat", "show", "ls"] {
            let said = on(&known.path().join(path), &[command]).stderr;
            assert!(said.contains("has no array"), "{said}");
            match meant {
                Some(meant) => assert!(said.contains(meant), "{said}"),
                None => assert!(!said.contains("did you mean"), "{said}"),
            }
        }
    }
}

#[test]
fn ls_l_shows_types_shapes_sizes_and_codecs() {
    let known = known();
    let listed = on(known.path(), &["ls", "-l"]).success().text();
    let line = |name: &str| {
        listed
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap()
    };
    for part in ["uint32", "(20000)", "78.1 KiB"] {
        assert!(
            line("val ").contains(part),
            "'{part}' is missing in {listed}"
        );
    }
    assert!(line("data ").contains("lz4"), "{listed}");
    assert!(listed.contains("packed-uint-matrix-v2"), "{listed}");
}

#[test]
fn ls_json_is_what_info_says_of_each() {
    let known = known();
    let listed = json(on(known.path(), &["ls", "--json"]).success());
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2);
    for container in listed {
        let path = Path::new(container["path"].as_str().unwrap());
        assert_eq!(
            container["container"],
            json(on(path, &["info", "--json"]).success())
        );
    }
    let empty = scratch_directory();
    assert_eq!(
        json(on(empty.path(), &["ls", "--json"]).success()),
        Value::Array(vec![])
    );
}

#[test]
fn info_json_is_arrays_json() {
    let known = known();
    let mounted = Mounted::new(known.path(), &[]);
    for container in ["deep/counts", "x.blp"] {
        let said = on(&known.path().join(container), &["info", "--json"]).success();
        let shown = std::fs::read(mounted.join(container).join("arrays.json")).unwrap();
        assert_same(container, &said.stdout, &shown);
        json(said);
    }
}

#[test]
fn info_tells_people_of_every_array() {
    let known = known();
    let said = on(&known.counts(), &["info"]).success().text();
    for part in [
        "bpcells packed-uint-matrix-v2",
        "val",
        "index",
        "uint32",
        "uint64",
        "20000",
    ] {
        assert!(said.contains(part), "'{part}' is missing in {said}");
    }
    on(known.path(), &["info"]).failed_saying(1, &["not a container"]);
    on(&known.path().join("notes.txt"), &["info"])
        .failed_saying(1, &["notes.txt", "not a container"]);
    on(&known.path().join("no-such"), &["info"]).failed_saying(1, &["no-such"]);
}

#[test]
fn cat_writes_decoded_bytes() {
    let known = known();
    let whole = on(&known.blp(), &["cat", "data"]).success();
    assert_same("data", &whole.stdout, &known.plain);
    for (name, _, _, bytes) in known.matrix.arrays() {
        assert_same(
            name,
            &on(&known.counts(), &["cat", name]).success().stdout,
            &bytes,
        );
    }
    let names = on(&known.counts(), &["cat", "row_names"]).success();
    assert_eq!(names.text(), known.matrix.row_names_text());
}

#[test]
fn cat_writes_the_range_that_is_asked_for() {
    let known = known();
    let (end, huge) = (known.plain.len(), u64::MAX.to_string());
    let part = |arguments: &[&str]| {
        let ran = on(&known.blp(), &[&["cat", "data"], arguments].concat()).success();
        assert_eq!(ran.stderr, "");
        ran.stdout
    };
    let range = part(&["--offset", "1234567", "--length", "300001"]);
    assert_same("a range", &range, &known.plain[1_234_567..][..300_001]);
    assert_same("a beginning", &part(&["--length", "1"]), &known.plain[..1]);
    assert_same(
        "a tail",
        &part(&["--offset", "2999990"]),
        &known.plain[end - 10..],
    );
    assert_same(
        "over the end",
        &part(&["--offset", "2999990", "--length", "50"]),
        &known.plain[end - 10..],
    );
    assert_same("everything", &part(&["--length", &huge]), &known.plain);
    for past in [end.to_string(), (end + 1).to_string(), huge.clone()] {
        assert_eq!(part(&["--offset", &past]), b"");
        assert_eq!(part(&["--offset", &past, "--length", &huge]), b"");
    }
    assert_eq!(part(&["--length", "0"]), b"");
}

#[test]
fn cat_says_what_it_cannot_write() {
    let known = known();
    on(&known.counts(), &["cat", "vall"]).failed_saying(1, &["no array 'vall'", "val", "index"]);
    on(&known.path().join("notes.txt"), &["cat", "data"]).failed_saying(1, &["not a container"]);
    on(&known.blp(), &["cat", "data", "--offset=-1"]).failed_saying(2, &["--offset"]);
    let bad = golden("bpcells/sources/bad-trunc-val");
    on(&bad, &["cat", "val"]).failed_saying(1, &["val"]);
    let bad = golden("bloscpack/sources/bad-sum-adler32-data.blp");
    on(&bad, &["cat", "data"]).failed_saying(1, &["block 0", "adler32"]);
}

#[test]
fn nested_containers_are_listed_read_and_verified_by_their_paths() {
    let written = Written::new("nested");
    let file = written.source().join("nested.h5");
    let listed = on(&file, &["ls"]).success().text();
    let mut found: Vec<&str> = listed.lines().collect();
    found.sort_unstable();
    let below = |name: &str| file.join(name).display().to_string();
    let members =
        ["indices_1", "pointers_to_1", "values"].map(|name| format!("outer/matrix/{name}"));
    let mut expected = vec![below("beside/numbers")];
    expected.extend(members.iter().map(|name| below(name)));
    assert_eq!(found, expected);

    let described = json(on(&file, &["info", "--json"]).success());
    assert_eq!(described["containers"]["outer/matrix"], "binsparse");
    assert_eq!(described["links"]["way"], "outer/matrix");
    let said = on(&file, &["info"]).success().text();
    for part in ["outer/matrix/values", "float32", "way"] {
        assert!(said.contains(part), "'{part}' is missing in {said}");
    }

    let values: Vec<u8> = [1f32, 2.0, 3.0, 4.0]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    for path in ["outer/matrix/values", "way/values", "/way/values"] {
        assert_same(path, &on(&file, &["cat", path]).success().stdout, &values);
    }
    let part = on(
        &file,
        &["cat", "way/values", "--offset", "4", "--length", "8"],
    )
    .success();
    assert_same("a part", &part.stdout, &values[4..12]);
    on(&file, &["cat", "way/none"]).failed_saying(1, &["outer/matrix/none", "outer/matrix/values"]);
    let said = json(on(&file, &["verify", "--json"]).success());
    assert_eq!(
        (&said["arrays"], &said["faults"]),
        (&4.into(), &Value::Array(vec![]))
    );
}

#[test]
fn faults_of_nested_containers_say_where_they_are() {
    let file = golden("binsparse/sources/bad-idx-bound.h5");
    on(&file, &["verify"]).failed_saying(1, &["bad-idx-bound.h5", "indices_1"]);
    let file = golden("binsparse/sources/bad-external-link.h5");
    on(&file, &["cat", "values"]).failed_saying(1, &["external link"]);
}

/// Without cells, a file may be of either dialect, and only the types differ.
#[test]
fn the_dialect_of_daphne_files_can_be_forced() {
    let written = Written::new("dialects");
    let file = written.source().join("none.dbdf");
    for (dialect, dtype) in [("auto", "uint64"), ("spec", "uint64"), ("daphne", "uint32")] {
        let described = json(on(&file, &["info", "--json", "--dialect", dialect]).success());
        assert_eq!(
            described["arrays"][0]["dtype"], dtype,
            "{dialect}: {described}"
        );
        on(&file, &["verify", "--dialect", dialect]).success();
        let mounted = Mounted::new(written.source(), &[&format!("dialect={dialect}")]);
        let shown = xattr(&mounted.join("none.dbdf/values"), "user.arrayfs.dtype");
        assert_eq!(shown.unwrap(), dtype, "{dialect}");
    }
    on(&file, &["info", "--dialect", "klingon"]).failed_saying(2, &["klingon", "daphne"]);
}

/// `arrayfs cat ... | head` ends silently.
#[test]
fn cat_into_a_closed_pipe_is_quiet() {
    let known = known();
    let mut command = Command::new(ARRAYFS);
    command.arg("cat").arg(known.blp()).arg("data");
    let mut child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(wait_for_end(&mut child).code(), Some(0));
    assert_eq!(said, "");
}

/// Runs a command with an output redirected by the shell.
fn redirected(redirection: &str, path: &Path, arguments: &[&str]) -> Ran {
    let (command, rest) = arguments.split_first().unwrap();
    let script = format!(r#""$0" "$@" {redirection}"#);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, ARRAYFS, command]);
    run(shell.arg(path).args(rest))
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let known = known();
    for arguments in [
        &["ls"][..],
        &["ls", "-l"],
        &["ls", "--json"],
        &["info"],
        &["info", "--json"],
        &["cat", "data"],
        &["verify"],
        &["verify", "--json"],
    ] {
        let full = redirected(">/dev/full", &known.blp(), arguments);
        full.failed_saying(1, &["standard output", "No space left"]);
    }
    let mounted = Mounted::new(known.path(), &[]);
    for arguments in [&["status"][..], &["status", "--json"]] {
        let full = redirected(">/dev/full", mounted.path(), arguments);
        full.failed_saying(1, &["standard output", "No space left"]);
    }
}

#[test]
fn a_message_that_cannot_be_written_changes_nothing() {
    let known = known();
    let bad = golden("bloscpack/sources/bad-sum-two.blp");
    for redirection in ["2>/dev/full", "2>&-"] {
        for arguments in [
            &["ls"][..],
            &["info"],
            &["cat", "x"],
            &["verify"],
            &["umount"],
        ] {
            let ran = redirected(redirection, &known.path().join("no-such"), arguments);
            assert_eq!(ran.code(), Some(1), "{redirection} {arguments:?}");
        }
        let ran = redirected(redirection, &bad, &["verify"]);
        assert_eq!(ran.code(), Some(1), "{redirection}");
        assert!(ran.text().contains("2 faults"), "{ran:?}");
        redirected(redirection, &known.blp(), &["verify"]).success();
    }
}

#[test]
fn verify_of_what_is_sound_ends_with_0() {
    let known = known();
    for path in [known.path().to_owned(), known.blp(), known.counts()] {
        let ran = on(&path, &["verify"]).success();
        assert!(ran.text().contains("sound"), "{ran:?}");
        assert_eq!(ran.stderr, "");
    }
    let said = json(on(known.path(), &["verify", "--json"]).success());
    assert_eq!(
        (&said["containers"], &said["arrays"]),
        (&2.into(), &7.into())
    );
    assert_eq!(said["faults"], Value::Array(vec![]));
    assert!(said["bytes"].as_u64() >= Some(3_160_000), "{said}");
}

#[test]
fn verify_tells_every_fault_in_a_line_and_ends_with_1() {
    let bad = golden("bloscpack/sources/bad-sum-two.blp");
    let ran = on(&bad, &["verify"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
    for (line, block) in [("block 0", 0), ("block 2", 2)] {
        assert!(ran.stderr.contains(line), "{block}: {}", ran.stderr);
    }
    let said = json(on(&bad, &["verify", "--json"]));
    assert_eq!(said["faults"].as_array().unwrap().len(), 2, "{said}");
    // Sound ones beside a bad one, and several paths at once.
    let known = known();
    let both = arrayfs([Path::new("verify"), &known.blp(), &bad]);
    assert_eq!(both.code(), Some(1));
    on(&golden("bloscpack/sources"), &["verify"]).failed_saying(1, &["bad-sum-two.blp"]);
}

#[test]
fn verify_of_what_is_not_there_or_no_container_ends_with_1() {
    let known = known();
    on(&known.path().join("no-such"), &["verify"]).failed_saying(1, &["no-such"]);
    on(&known.path().join("notes.txt"), &["verify"]).failed_saying(1, &["not a container"]);
    let mixed = arrayfs([
        Path::new("verify"),
        &known.path().join("no-such"),
        &known.blp(),
    ]);
    mixed.failed_saying(1, &["no-such"]);
}

#[test]
fn wrong_usage_ends_with_2_and_says_how_it_goes() {
    for wrong in [
        &["frobnicate"][..],
        &[],
        &["cat"],
        &["verify"],
        &["ls", "--long"],
    ] {
        let ran = arrayfs(wrong);
        assert_eq!(ran.code(), Some(2), "{wrong:?}: {ran:?}");
        assert!(ran.stderr.contains("Usage"), "{wrong:?}: {}", ran.stderr);
    }
}

#[test]
fn help_mentions_every_command() {
    let help = arrayfs(["--help"]).success().text();
    for command in [
        "mount", "umount", "ls", "info", "cat", "verify", "status", "pack", "unpack", "append",
    ] {
        let has = help
            .lines()
            .any(|line| line.trim_start().starts_with(&format!("{command} ")));
        assert!(has, "{command} is missing in {help}");
        let own = arrayfs([command, "--help"]).success().text();
        assert!(own.contains("Usage: arrayfs"), "{own}");
    }
}
