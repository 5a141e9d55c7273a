//! What packages are made of: the version that the program tells, its manual pages, and completions
//! that shells take. The packages themselves are tried by `scripts/test_packages.sh`.

use std::path::Path;
use std::process::Command;

use crate::harness::process::{arrayfs, run};
use crate::harness::reads::{names, walk};
use crate::harness::scratch_directory;
use crate::harness::tools::tool;

#[test]
fn the_version_is_told_in_a_line_and_at_length() {
    let version = concat!("arrayfs ", env!("CARGO_PKG_VERSION"), "\n");
    let short = arrayfs(["-V"]).success();
    assert_eq!(short.text(), version);
    let long = arrayfs(["--version"]).success().text();
    assert!(long.starts_with(version), "{long}");
    for part in [
        "\ncommit: ",
        "\nHDF5: ",
        "\nBlosc codecs: ",
        "\nHDF5 filters: ",
    ] {
        assert!(long.contains(part), "{part}: {long}");
    }
}

#[test]
fn no_help_shows_what_is_not_for_users() {
    let help = arrayfs(["--help"]).success().text();
    assert!(help.contains("verify"), "{help}");
    for internal in ["hdf5-worker", "guardian", "generate"] {
        assert!(!help.contains(internal), "{help}");
    }
}

#[test]
fn pages_are_made_for_every_command_and_taken_by_man() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("man");
    arrayfs([Path::new("generate"), Path::new("man"), &directory]).success();
    let pages = names(&directory);
    for page in [
        "arrayfs.1",
        "arrayfs-stage-commit.1",
        "mount.fuse.arrayfs.8",
        "umount.fuse.arrayfs.8",
    ] {
        assert!(pages.iter().any(|name| name == page), "{pages:?}");
    }
    for page in &pages {
        let page = directory.join(page);
        if let Some(man) = tool("man") {
            let said = run(Command::new(man)
                .args(["--warnings", "-l"])
                .arg(&page)
                .env("LC_ALL", "C.UTF-8"))
            .success();
            assert_eq!(said.stderr, "", "{}", page.display());
            assert!(said.text().contains("EXIT STATUS"), "{}", page.display());
        }
        if let Some(mandoc) = tool("mandoc") {
            let lint = ["-T", "lint", "-W", "warning"];
            let said = run(Command::new(mandoc).args(lint).arg(&page)).text();
            assert_eq!(said, "");
        }
    }
}

#[test]
fn shells_take_the_completions() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("completions");
    arrayfs([Path::new("generate"), Path::new("completions"), &directory]).success();
    let script = ". \"$0\"; complete -p arrayfs; COMP_WORDS=(arrayfs pack --codec ''); COMP_CWORD=3
         _arrayfs arrayfs '' --codec; echo \"${COMPREPLY[*]}\"";
    let bash = directory.join("bash/arrayfs");
    let said = run(Command::new("bash").args(["-c", script]).arg(bash)).success();
    assert!(said.text().contains("-F _arrayfs"), "{said:?}");
    assert!(said.text().contains("zstd"), "{said:?}");
    let parsed = |shell: &str, file: &str| {
        if let Some(shell) = tool(shell) {
            let said = run(Command::new(shell).arg("-n").arg(directory.join(file))).success();
            assert_eq!(said.stderr, "");
        }
    };
    parsed("zsh", "zsh/_arrayfs");
    parsed("fish", "fish/arrayfs.fish");
}

#[test]
fn what_cannot_be_written_is_said() {
    let scratch = scratch_directory();
    let file = scratch.path().join("file");
    std::fs::write(&file, "").unwrap();
    for what in ["man", "completions"] {
        let ran = arrayfs([Path::new("generate"), Path::new(what), &file]);
        ran.failed_saying(1, &["cannot write", "file"]);
    }
    assert_eq!(walk(scratch.path()).0, [file]);
}
