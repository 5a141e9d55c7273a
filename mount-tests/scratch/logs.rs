//! Logs that stay in their files: read by every command and mount, merged by those that may.

use super::*;

/// Writes a file whose last change would move what lies behind it, and returns what it holds.
fn write_what_moves(path: &Path) -> Vec<u8> {
    let mut expected = numbers(200_000);
    std::fs::write(path, &expected).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.sync_all().unwrap();
    expected[8000..12_000].copy_from_slice(&noise(4000));
    file.write_all_at(&expected[8000..12_000], 8000).unwrap();
    file.sync_all().unwrap();
    expected
}

/// Of merges that move more than this test lets them.
const MOVES_LITTLE: &[&str] = &["rw", "scratch", "moves=4K"];

fn assert_nothing_staged(store: &Path) {
    let listed = arrayfs([OsStr::new("stage"), OsStr::new("ls"), store.as_os_str()]);
    assert_eq!(listed.success().text(), "nothing staged\n");
}

#[test]
fn what_would_move_very_much_stays_in_its_log() {
    let source = open_directory();
    let stored = source.path().join("x.blp");
    let mounted = Mounted::new(source.path(), MOVES_LITTLE);
    let expected = write_what_moves(&mounted.join("x"));
    let quick = arrayfs([
        OsStr::new("umount"),
        OsStr::new("--quick"),
        mounted.path().as_os_str(),
    ]);
    mounted.assert_ends();
    let said = quick.success().stderr;
    assert!(
        said.contains("x.blp: its latest changes stay in its log"),
        "{said}"
    );
    // Without a mount.
    let listed = arrayfs([
        OsStr::new("stage"),
        OsStr::new("ls"),
        source.path().as_os_str(),
    ]);
    assert!(
        listed
            .success()
            .text()
            .contains("synced in a scratch mount, not merged")
    );
    let cat = arrayfs([OsStr::new("cat"), stored.as_os_str(), OsStr::new("data")]);
    assert!(cat.success().stdout == expected);
    let unpacked = source.path().join("unpacked");
    let unpack = [
        OsStr::new("unpack"),
        stored.as_os_str(),
        unpacked.as_os_str(),
    ];
    arrayfs(unpack).success();
    assert_content(&unpacked, &expected);
    std::fs::remove_file(unpacked).unwrap();
    arrayfs([OsStr::new("verify"), source.path().as_os_str()]).success();
    let discard = [
        OsStr::new("stage"),
        OsStr::new("discard"),
        stored.as_os_str(),
    ];
    arrayfs(discard).failed_saying(1, &["x.blp", "stage commit"]);
    // In mounts that do not write to it.
    for options in [&["ro", "scratch"][..], &["ro"], &["rw"]] {
        let mounted = Mounted::new(source.path(), options);
        let shown = match options.contains(&"scratch") {
            true => mounted.join("x"),
            false => mounted.join("x.blp/data"),
        };
        assert_content(&shown, &expected);
        let opened = File::options().write(true).open(&shown).unwrap_err();
        assert_eq!(opened.raw_os_error(), Some(libc::EROFS), "{options:?}");
    }
    // A mount that does not write to it keeps it so, and one that ends well merges it.
    send_and_wait(Mounted::new(source.path(), MOVES_LITTLE));
    assert!(stored.metadata().unwrap().len().is_multiple_of(4096));
    drop(Mounted::new(source.path(), MOVES_LITTLE));
    assert_nothing_staged(source.path());
    assert_blpk_reads(&stored, &expected);
}

/// Ends a mount by SIGTERM.
fn send_and_wait(mounted: Mounted) {
    send(mounted.daemon(), Signal::TERM);
    mounted.assert_ends();
}

#[test]
fn a_log_is_merged_by_command_or_when_asked_for() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), MOVES_LITTLE);
    let expected = write_what_moves(&mounted.join("x"));
    send_and_wait(mounted);
    let commit = |path: &Path| {
        let command = [OsStr::new("stage"), OsStr::new("commit"), path.as_os_str()];
        arrayfs(command).success().text()
    };
    let stored = source.path().join("x.blp");
    assert!(commit(source.path()).contains("x.blp: committed"));
    assert_nothing_staged(source.path());
    assert_blpk_reads(&stored, &expected);
    let mounted = Mounted::new(source.path(), MOVES_LITTLE);
    let inside = mounted.join("x");
    let expected = write_what_moves(&inside);
    assert!(commit(&inside).contains("1 stored"));
    assert_nothing_staged(mounted.path());
    assert_blpk_reads(&stored, &expected);
}
