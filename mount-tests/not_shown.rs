//! What is whole and cannot be shown is no damage: it is named, an error for who reads it, and nothing else.
//!
//! `write_hdf5.py whole` writes a file with datasets of that kind, and containers that need one or do not.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::mounted::Mounted;
use crate::harness::process::{Ran, arrayfs};
use crate::harness::python::Written;
use crate::harness::reads::{assert_content, xattr};

/// What cannot be shown of `whole.h5`, and a part of the reason.
const NOT_SHOWN: [(&str, &str); 4] = [
    ("filtered", "filter 32013 (zfp)"),
    ("group/references", "reference"),
    ("link", "other.h5"),
    ("raw", "other.raw"),
];

fn verify(arguments: &[&str], path: PathBuf) -> Ran {
    let arguments = arguments.iter().map(PathBuf::from);
    arrayfs(
        [PathBuf::from("verify")]
            .into_iter()
            .chain(arguments)
            .chain([path]),
    )
}

#[test]
fn it_is_named_and_an_error_for_its_readers_alone() {
    let written = Written::new("whole");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("whole.h5");
    let text = std::fs::read(file.join("arrays.json")).unwrap();
    let described: Value = serde_json::from_slice(&text).unwrap();
    let unreadable = described["unreadable"].as_array().unwrap();
    assert_eq!(unreadable.len(), NOT_SHOWN.len(), "{unreadable:?}");
    for (name, part) in NOT_SHOWN {
        let member = unreadable.iter().find(|member| member["name"] == name);
        let reason = member.and_then(|member| member["reason"].as_str());
        assert!(
            reason.is_some_and(|reason| reason.contains(part)),
            "{name} in {unreadable:?}"
        );
        let read = std::fs::read(file.join(name)).expect_err(name);
        assert_eq!(read.raw_os_error(), Some(libc::EIO), "{name}");
    }
    assert_eq!(described.get("faults"), None);
    assert!(!file.join("error.txt").exists());
    assert_eq!(xattr(&file, "user.arrayfs.state").unwrap(), "clean");
    let numbers: Vec<u8> = (0..10i32).flat_map(i32::to_le_bytes).collect();
    assert_content(&file.join("sound"), &numbers);
}

/// Strings have no size before they are read: what cannot be read must not take its container with it.
#[test]
fn strings_are_an_error_for_their_readers_alone() {
    let written = Written::new("whole_strings");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("whole_strings.h5");
    let text = std::fs::read(file.join("arrays.json")).unwrap();
    let described: Value = serde_json::from_slice(&text).unwrap();
    let unreadable = described["unreadable"].as_array().unwrap();
    let parts = [
        ("filtered", "filter 500"),
        ("raw", "other.raw"),
        ("view", "filter 500"),
        ("virtual", "other.h5"),
    ];
    assert_eq!(unreadable.len(), parts.len(), "{unreadable:?}");
    let listed = std::fs::read_dir(&file).unwrap();
    let listed: Vec<_> = listed.map(|entry| entry.unwrap().file_name()).collect();
    for (name, part) in parts {
        let told = unreadable.iter().find(|member| member["name"] == name);
        let reason = told.and_then(|member| member["reason"].as_str());
        assert!(
            reason.is_some_and(|reason| reason.contains(part)),
            "{name} in {unreadable:?}"
        );
        assert!(listed.iter().any(|entry| entry == name), "{listed:?}");
        assert_eq!(std::fs::metadata(file.join(name)).unwrap().len(), 0);
        let read = std::fs::read(file.join(name)).expect_err(name);
        assert_eq!(read.raw_os_error(), Some(libc::EIO), "{name}");
    }
    assert_eq!(described["arrays"][0]["name"], "sound");
    assert_content(&file.join("sound"), b"a\nb\n");
    assert!(!file.join("error.txt").exists());
    let ls = [Path::new("ls"), &written.source().join("whole_strings.h5")];
    let said = arrayfs(ls).success();
    assert!(
        said.text().contains("whole_strings.h5/sound"),
        "{}",
        said.text()
    );
}

#[test]
fn verify_tells_it_and_finds_no_fault() {
    let written = Written::new("whole");
    let verified = verify(&[], written.source().join("whole.h5")).success();
    assert_eq!(verified.stderr, "");
    let text = verified.text();
    let lines: Vec<&str> = text.lines().collect();
    let (summary, told) = lines.split_last().unwrap();
    assert!(summary.ends_with(": sound, 4 not shown"), "{summary}");
    for (name, part) in NOT_SHOWN {
        let of = |line: &&&str| {
            line.starts_with("not shown: ") && line.contains(&format!("whole.h5: {name}: "))
        };
        let line = told.iter().find(of);
        assert!(
            line.is_some_and(|line| line.contains(part)),
            "{name} in {text}"
        );
    }
    assert_eq!(told.len(), NOT_SHOWN.len(), "{text}");

    let verified = verify(&["--json"], written.source().join("whole.h5")).success();
    let document: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(document["not_shown"], 4);
    assert_eq!(document["unreadable"].as_array().unwrap().len(), 4);
    assert_eq!(document["faults"].as_array().unwrap().len(), 0);
}

#[test]
fn the_other_commands_say_it_as_well() {
    let written = Written::new("whole");
    let file = written.source().join("whole.h5");
    for (command, part) in [
        (vec!["ls"], "whole.h5/link: not shown: an external link"),
        (vec!["ls", "-l"], "not shown: an external link"),
        (vec!["info"], "not shown: an external link"),
    ] {
        let command = command.iter().map(Path::new).chain([&*file]);
        let said = arrayfs(command).success();
        assert!(said.text().contains(part), "{}", said.text());
    }
    for (name, part) in NOT_SHOWN {
        let cat = [Path::new("cat"), &file, Path::new(name)];
        arrayfs(cat).failed_saying(1, &["not shown: ", name, part]);
    }
}

#[test]
fn a_container_that_needs_it_is_at_fault() {
    let written = Written::new("whole");
    let needs = written.source().join("needs.h5");
    let told = "values: the array cannot be read: raw data in other files (other.raw)";
    verify(&[], needs).failed_saying(1, &[told]);
    let mounted = Mounted::new(written.source(), &[]);
    let text = std::fs::read_to_string(mounted.join("needs.h5/error.txt")).unwrap();
    assert!(text.contains(told), "{text}");
    // One value for all, stored without a dimension, is there.
    let verified = verify(&[], written.source().join("iso.h5")).success();
    assert_eq!(verified.stderr, "");
    assert!(
        verified.text().ends_with(": sound\n"),
        "{}",
        verified.text()
    );
}
