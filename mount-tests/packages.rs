//! What packages are made of: the version that the program tells, its manual pages, and completions
//! that shells take. The packages themselves are tried by `scripts/test_packages.sh`.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::harness::mounted::Mounted;
use crate::harness::process::{ARRAYFS, arrayfs, run};
use crate::harness::python::Written;
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
fn the_service_is_confined() {
    let Some(analyze) = tool("systemd-analyze") else {
        return;
    };
    let directory = scratch_directory();
    let unit = directory.path().join("arrayfs@x.service");
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/arrayfs@.service");
    std::fs::copy(template, &unit).unwrap();
    let mut analyze = Command::new(analyze);
    let analyze = analyze.args(["security", "--offline=yes", "--no-pager", "--threshold=50"]);
    // Beyond the threshold, which counts tenths, it fails.
    let said = run(analyze.arg(&unit));
    if said.stderr.contains("unrecognized option") {
        println!("skipped: systemd-analyze is older than 250");
        return;
    }
    assert!(said.text().contains("Overall exposure level"), "{said:?}");
    said.success();
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
        "mount.arrayfs.8",
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

/// What follows from files and mounts the shells ask the program for.
#[test]
fn shells_complete_arrays_mounts_and_options() {
    let scratch = scratch_directory();
    let directory = scratch.path().join("completions");
    arrayfs([Path::new("generate"), Path::new("completions"), &directory]).success();
    let source = scratch.path().join("my data");
    std::fs::create_dir(&source).unwrap();
    let written = Written::new("groups");
    let groups = written.source().join("groups.h5");
    std::fs::copy(groups, source.join("x.h5")).unwrap();
    let listed = arrayfs([Path::new("ls"), &source.join("x.h5")])
        .success()
        .text();
    let mut arrays = listed
        .lines()
        .map(|line| line.rsplit_once("x.h5/").unwrap().1);
    let group = arrays.find_map(|array| array.split_once('/')).unwrap().0;
    let name = format!("{group}/");
    let mounted = Mounted::new(&source, &[]);
    let mountpoint = mounted.path().to_str().unwrap().to_owned();
    let start = &mountpoint[..mountpoint.len() - 1];
    let lines = [
        (
            r"arrayfs show my\ data/x.h5/".to_owned(),
            format!("my data/x.h5/{name}"),
        ),
        (format!("arrayfs cat 'my data/x.h5' {}", &name[..1]), name),
        (format!("arrayfs umount {start}"), mountpoint.clone()),
        (
            "arrayfs mount -o ro,commit=in".to_owned(),
            "ro,commit=inplace".to_owned(),
        ),
        ("arrayfs verif".to_owned(), "verify".to_owned()),
    ];
    let bin = scratch.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(ARRAYFS, bin.join("arrayfs")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let asked = |shell: &Path, script: &str, file: &str, line: &str| {
        let mut command = Command::new(shell);
        command.args(["-c", script]).current_dir(scratch.path());
        command.env("PATH", &path).env("HOME", scratch.path());
        let file = directory.join(file);
        run(command.env("LINE", line).env("COMPLETIONS", file))
            .success()
            .text()
    };
    for (line, expected) in &lines {
        let said = asked(Path::new("bash"), BASH_TAB, "bash/arrayfs", line);
        // Bash begins a word at the equals sign.
        let expected_end = expected.rsplit('=').next().unwrap();
        assert!(
            said.lines().any(|one| one == expected_end),
            "bash: {line}: {said}"
        );
        if let Some(fish) = tool("fish") {
            let said = asked(&fish, FISH_TAB, "fish/arrayfs.fish", line);
            let mut found = said.lines().map(|line| line.split('\t').next().unwrap());
            assert!(found.any(|one| one == expected), "fish: {line}: {said}");
        }
    }
}

/// What the key does, as far as it is the completions' business.
const BASH_TAB: &str = r#". "$COMPLETIONS"
    COMP_LINE=$LINE COMP_POINT=${#LINE}
    read -ra COMP_WORDS <<<"$LINE"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    complete -p arrayfs | grep -q -- '-F _arrayfs_asking' || exit 3
    _arrayfs_asking arrayfs "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s\n' "${COMPREPLY[@]}""#;

const FISH_TAB: &str = "source $COMPLETIONS; complete -C $LINE";

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
