//! A dataset that is whole and cannot be shown is no damage: it is named, reading it is an error,
//! and that is all.
//!
//! `write_hdf5.py whole` writes a file with datasets of that kind, and containers that need one or
//! do not.

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

/// Strings have no size before they are read: what cannot be read must not take its container with
/// it.
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
fn what_is_larger_than_any_file_is_told_and_harms_nothing() {
    let written = Written::new("too_large");
    let mounted = Mounted::new(written.source(), &["rw"]);
    let file = mounted.join("too_large.h5");
    let text = std::fs::read(file.join("arrays.json")).unwrap();
    let described: Value = serde_json::from_slice(&text).unwrap();
    let most = "more than any file can have";
    for (name, part) in [("big", most), ("texts", most), ("chunks", "4 GiB")] {
        let mut members = described["unreadable"].as_array().unwrap().iter();
        let told = members.find(|member| member["name"] == name).unwrap();
        let reason = told["reason"].as_str().unwrap();
        assert!(reason.contains(part), "{reason}");
        let read = std::fs::read(file.join(name)).expect_err(name);
        assert_eq!(read.raw_os_error(), Some(libc::EIO), "{name}");
    }
    assert!(described.get("faults").is_none(), "{described}");
    // The rest is written as ever.
    let changed: Vec<u8> = [7i32, 8, 9].iter().flat_map(|n| n.to_le_bytes()).collect();
    std::fs::write(file.join("small"), &changed).unwrap();
    drop(mounted);
    let verified = verify(&[], written.source().join("too_large.h5")).success();
    assert!(
        verified.text().contains("sound, 3 not shown"),
        "{verified:?}"
    );
    let mounted = Mounted::new(written.source(), &[]);
    assert_content(&mounted.join("too_large.h5/small"), &changed);
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

/// A dataset that is whole and has a name has an entry with its description; a link to nothing has
/// none.
#[test]
fn whatever_is_whole_has_an_entry_and_keeps_its_attributes() {
    let written = Written::new("odd");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("odd.h5");
    let text = std::fs::read(file.join("arrays.json")).unwrap();
    let described: Value = serde_json::from_slice(&text).unwrap();
    let unreadable = described["unreadable"].as_array().unwrap();
    let listed = std::fs::read_dir(&file).unwrap();
    let listed: Vec<String> = listed
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for (name, part, attributes) in [
        ("lists", "sequence", true),
        ("references", "reference", true),
        ("endless", "where it ends is not known", true),
        ("numbered", "where it ends is not known", true),
        ("endless-view", "virtual itself", true),
        ("view", "virtual itself", true),
        ("rows", "other.h5", false),
    ] {
        let told = unreadable.iter().find(|member| member["name"] == name);
        let told = told.unwrap_or_else(|| panic!("{name} in {unreadable:?}"));
        assert!(told["reason"].as_str().unwrap().contains(part), "{told}");
        let unit = told.get("attributes").map(|told| &told["unit"]);
        assert_eq!(unit, attributes.then_some(&Value::from("m")), "{told}");
        assert!(listed.iter().any(|entry| entry == name), "{listed:?}");
        let read = std::fs::read(file.join(name)).expect_err(name);
        assert_eq!(read.raw_os_error(), Some(libc::EIO), "{name}");
    }
    assert_eq!(described.get("groups"), None);
    let endless = listed.iter().filter(|name| name.starts_with("nnn"));
    let endless: Vec<&String> = endless.collect();
    assert_eq!(endless.len(), 2, "{listed:?}");
    for name in endless {
        assert!(unreadable.iter().any(|member| member["name"] == **name));
        let read = std::fs::read(file.join(name)).unwrap_err();
        assert_eq!(read.raw_os_error(), Some(libc::EIO));
    }
    assert!(unreadable.iter().any(|member| member["name"] == "nowhere"));
    let read = std::fs::read(file.join("nowhere")).unwrap_err();
    assert_eq!(read.raw_os_error(), Some(libc::ENOENT));
    assert!(!file.join("error.txt").exists());
    verify(&[], written.source().join("odd.h5")).success();
}

/// Filters that have no decoder harm the chunks that went through them, and no others.
#[test]
fn filters_without_a_decoder_are_refused_chunk_by_chunk() {
    let written = Written::new("odd");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("skipped.h5");
    let numbers = |chunks: i32| (0..5000 * chunks).flat_map(i32::to_le_bytes);
    let numbers = |chunks| numbers(chunks).collect::<Vec<u8>>();
    assert_content(&file.join("all"), &numbers(2));
    assert_content(&file.join("many"), &numbers(400));
    let text = std::fs::read(file.join("arrays.json")).unwrap();
    let described: Value = serde_json::from_slice(&text).unwrap();
    let unreadable = described["unreadable"].as_array().unwrap();
    let names: Vec<&str> = unreadable
        .iter()
        .map(|member| member["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["many-one", "one"]);
    assert_eq!(described["arrays"].as_array().unwrap().len(), 4);
    for (name, chunks) in [("one", 1), ("many-one", 399)] {
        let read = std::fs::read(file.join(name)).unwrap_err();
        assert_eq!(read.raw_os_error(), Some(libc::EIO), "{name}");
        // Pages that touch the last chunk are refused.
        let whole = numbers(chunks);
        let pages = whole.len() / 4096 * 4096;
        let mut front = vec![0; pages];
        let opened = std::fs::File::open(file.join(name)).unwrap();
        std::os::unix::fs::FileExt::read_exact_at(&opened, &mut front, 0).unwrap();
        assert!(front == whole[..pages], "{name}");
    }
    assert!(!file.join("error.txt").exists());
    let verified = verify(&[], written.source().join("skipped.h5")).success();
    let text = verified.text();
    assert!(text.ends_with(": sound, 2 not shown\n"), "{text}");
    assert_eq!(text.matches("filter 32013 (zfp)").count(), 2, "{text}");
}

#[test]
fn a_bpcells_group_says_what_its_missing_array_is() {
    let written = Written::new("odd");
    let mounted = Mounted::new(written.source(), &[]);
    for (group, part) in [
        (
            "external",
            "val: cannot be shown: an external link to /val in other.h5",
        ),
        ("dangling", "val: cannot be shown: a soft link to /no/such"),
        ("group", "val: cannot be shown: a group, no dataset"),
        ("missing", "val: the dataset is missing"),
    ] {
        let text = mounted.join("lacking.h5").join(group).join("error.txt");
        let text = std::fs::read_to_string(text).unwrap();
        assert!(text.contains(part), "{group}: {text}");
    }
    verify(&[], written.source().join("lacking.h5")).failed_saying(1, &["never followed"]);
}
