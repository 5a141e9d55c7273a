//! Scratch mounts as their users meet them: files that programs write as anywhere are Bloscpack
//! files in the store, which the real program reads, and nothing that was synced is lost.
//!
//! What holds of any writable mount is tested there: scenarios that are `everywhere` run in a
//! scratch mount, too.

mod logs;
mod overlaid;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::harness::mounted::Mounted;
use crate::harness::place::open_directory;
use crate::harness::process::{arrayfs, has_ended, run, send};
use crate::harness::python::script;
use crate::harness::reads::assert_content;
use crate::harness::{scratch_directory, wait_until};

const RW: &[&str] = &["rw", "scratch"];

/// Rising numbers, with some noise.
fn numbers(count: u32) -> Vec<u8> {
    let noise = |i: u32| i.wrapping_mul(2_654_435_761) >> 22;
    let number = |i: u32| f64::from(i) + f64::from(noise(i)) / 1e9;
    (0..count).flat_map(|i| number(i).to_le_bytes()).collect()
}

fn noise(count: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252u64;
    let byte = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(byte).collect()
}

/// The real program decodes a stored file to these bytes.
#[track_caller]
fn assert_blpk_reads(stored: &Path, content: &[u8]) {
    let directory = scratch_directory();
    let raw = directory.path().join("raw");
    std::fs::write(&raw, content).unwrap();
    script(
        "oracle_bloscpack.py",
        [OsStr::new("plain"), stored.as_os_str(), raw.as_os_str()],
    )
    .success();
}

#[test]
fn what_a_program_reserves_is_given_back_when_less_is_stored() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), RW);
    let content = noise(64).repeat(160 << 10);
    let file = File::create_new(mounted.join("x")).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, content.len() as u64).unwrap();
    file.write_all_at(&content, 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    wait_until("the room is given back", || {
        let stored = source.path().join("x.blp").metadata().unwrap();
        stored.blocks() * 512 < 1 << 20
    });
}

#[test]
fn what_programs_write_is_a_bloscpack_file() {
    let source = open_directory();
    let contents: Vec<(&str, Vec<u8>)> = vec![
        ("numbers", numbers(100_000)),
        ("noise", noise(300_000)),
        ("zeros", vec![0; 1 << 20]),
        ("text", b"let x = y;\n".repeat(10_000)),
        ("short", b"short".to_vec()),
        ("empty", Vec::new()),
        ("one-chunk", numbers(16 << 10)),
        ("named.blp", numbers(10)),
    ];
    let mounted = Mounted::new(source.path(), RW);
    for (name, content) in &contents {
        std::fs::write(mounted.join(name), content).unwrap();
        assert_content(&mounted.join(name), content);
    }
    drop(mounted);
    let mut sizes = Vec::new();
    for (name, content) in &contents {
        let stored = source.path().join(format!("{name}.blp"));
        assert_blpk_reads(&stored, content);
        sizes.push(stored.metadata().unwrap().len() as f64 / content.len().max(1) as f64);
    }
    assert!(
        sizes[0] < 0.4 && sizes[1] < 1.002 && sizes[2] < 0.01 && sizes[3] < 0.02,
        "{sizes:?}"
    );
    let mounted = Mounted::new(source.path(), RW);
    for (name, content) in &contents {
        assert_eq!(
            mounted.join(name).metadata().unwrap().len(),
            content.len() as u64
        );
        assert_content(&mounted.join(name), content);
    }
}

#[test]
fn what_was_closed_is_in_the_store_a_few_seconds_later() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), RW);
    std::fs::write(mounted.join("x"), numbers(50_000)).unwrap();
    let before = mounted.join("x").metadata().unwrap();
    let stored = source.path().join("x.blp");
    wait_until("it is stored", || stored.metadata().unwrap().len() > 1000);
    // Its daemon is killed.
    let after = mounted.join("x").metadata().unwrap();
    let times = |of: &std::fs::Metadata| (of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec());
    assert_eq!(times(&before), times(&after));
    assert_eq!((before.ino(), before.nlink()), (after.ino(), after.nlink()));
    let source = kill(mounted, source);
    let mounted = Mounted::new(source.path(), RW);
    assert_content(&mounted.join("x"), &numbers(50_000));
}

/// Kills the daemon and waits until its mount is gone.
fn kill<T>(mounted: Mounted, source: T) -> T {
    let daemon = mounted.daemon();
    send(daemon, Signal::KILL);
    wait_until("the daemon has ended", || has_ended(daemon));
    drop(arrayfs([OsStr::new("umount"), mounted.path().as_os_str()]));
    mounted.assert_ends();
    source
}

#[test]
fn what_was_synced_outlives_the_daemon() {
    let mut source = open_directory();
    let mut expected = numbers(200_000);
    for round in 0..4u8 {
        let mounted = Mounted::new(source.path(), RW);
        let path = mounted.join("x");
        if round == 0 {
            std::fs::write(&path, &expected).unwrap();
        }
        assert_content(&path, &expected);
        let file = File::options().write(true).open(&path).unwrap();
        for at in [0usize, 99_999, 130_000, 1_000_001, 1_599_000] {
            let bytes = [round + 1; 700];
            file.write_all_at(&bytes, at as u64).unwrap();
            expected[at..at + 700].copy_from_slice(&bytes);
        }
        file.sync_data().unwrap();
        let mut more = File::options().append(true).open(&path).unwrap();
        more.write_all(&noise(5000)).unwrap();
        more.sync_all().unwrap();
        expected.extend(noise(5000));
        // This may be lost, and nothing else.
        file.write_all_at(&[0], 0).unwrap();
        drop((file, more));
        source = kill(mounted, source);
        let mounted = Mounted::new(source.path(), RW);
        let mut found = std::fs::read(mounted.join("x")).unwrap();
        found[0] = expected[0];
        assert!(found == expected, "round {round}");
        File::options()
            .write(true)
            .open(mounted.join("x"))
            .unwrap()
            .write_all_at(&expected[..1], 0)
            .unwrap();
    }
    assert_blpk_reads(&source.path().join("x.blp"), &expected);
}

#[test]
fn names_are_stored_so_that_none_is_lost() {
    let source = open_directory();
    std::fs::write(source.path().join("raw"), "raw").unwrap();
    std::fs::write(source.path().join("both"), "raw").unwrap();
    std::fs::write(source.path().join("broken.blp"), "no such file").unwrap();
    std::fs::write(source.path().join("nothing.blp"), "").unwrap();
    let mounted = Mounted::new(source.path(), RW);
    let at = |name: &str| mounted.join(name);
    std::fs::create_dir(at("d.blp")).unwrap();
    std::fs::write(at("d.blp/x.blp"), "in").unwrap();
    symlink("d.blp/x.blp", at("l.blp")).unwrap();
    assert_content(&at("l.blp"), b"in");
    assert!(source.path().join("d.blp~/x.blp.blp").is_file());
    assert_content(&at("raw"), b"raw");
    assert_content(&at("nothing"), b"");
    assert_eq!(
        std::fs::read(at("broken")).unwrap_err().raw_os_error(),
        Some(libc::EIO)
    );
    assert_eq!(at("broken").metadata().unwrap().len(), 12);
    let made = File::options()
        .write(true)
        .create_new(true)
        .open(at("both"));
    assert_eq!(made.unwrap_err().raw_os_error(), Some(libc::EEXIST));
    let long = "x".repeat(251);
    std::fs::write(at(&long), "long").unwrap();
    let longer = std::fs::write(at(&"x".repeat(252)), "").unwrap_err();
    assert_eq!(longer.raw_os_error(), Some(libc::ENAMETOOLONG));
    let exchange =
        |from: &str, to: &str| renameat_with(CWD, at(from), CWD, at(to), RenameFlags::EXCHANGE);
    assert_eq!(exchange(&long, "d.blp"), Err(Errno::INVAL));
    // Kinds replace each other.
    std::fs::rename(at("l.blp"), at(&long)).unwrap();
    assert!(at(&long).symlink_metadata().unwrap().is_symlink());
    std::fs::write(at("file"), "file").unwrap();
    std::fs::rename(at("file"), at(&long)).unwrap();
    assert_content(&at(&long), b"file");
    std::fs::rename(at("both"), at("file")).unwrap();
    drop(mounted);
    std::fs::write(source.path().join("both"), "again").unwrap();
    std::fs::copy(
        source.path().join("nothing.blp"),
        source.path().join("both.blp"),
    )
    .unwrap();
    let mounted = Mounted::new(source.path(), RW);
    let mut names: Vec<_> = std::fs::read_dir(mounted.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "both", "both~raw", "broken", "d.blp", "file", "nothing", "raw", &long,
    ];
    assert_eq!(names, expected);
    assert_content(&mounted.join("both~raw"), b"again");
    assert_content(&mounted.join("both"), b"");
    std::fs::remove_file(mounted.join("both")).unwrap();
    assert_content(&mounted.join("both"), b"again");
}

/// What another program has packed, in any way that Bloscpack has.
#[test]
fn files_of_the_real_program_are_files() {
    let source = open_directory();
    let made = scratch_directory();
    script(
        "oracle_bloscpack.py",
        [OsStr::new("make"), OsStr::new("7"), made.path().as_os_str()],
    )
    .success();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(made.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "blp") {
            std::fs::copy(&path, source.path().join(path.file_name().unwrap())).unwrap();
            files.push(path.file_stem().unwrap().to_owned());
        }
    }
    assert!(files.len() > 50);
    let plain = |name: &OsStr| std::fs::read(made.path().join(name).with_extension("blp.raw"));
    let mounted = Mounted::new(source.path(), RW);
    let mut contents = Vec::new();
    for name in &files {
        let mut content = std::fs::read(mounted.join(name)).unwrap();
        if let Ok(plain) = plain(name) {
            assert!(content == plain, "{name:?}");
        }
        let file = File::options()
            .write(true)
            .open(mounted.join(name))
            .unwrap();
        let middle = content.len() / 2;
        file.write_all_at(b"changed", middle as u64).unwrap();
        content.resize(content.len().max(middle + 7), 0);
        content[middle..middle + 7].copy_from_slice(b"changed");
        assert_content(&mounted.join(name), &content);
        contents.push(content);
    }
    drop(mounted);
    for (name, content) in files.iter().zip(&contents) {
        assert_blpk_reads(&source.path().join(name).with_extension("blp"), content);
    }
}

#[test]
fn a_sparse_file_costs_next_to_nothing() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), RW);
    let file = File::create(mounted.join("x")).unwrap();
    file.set_len(3 << 30).unwrap();
    file.write_all_at(b"end", (3 << 30) - 3).unwrap();
    drop(file);
    drop(mounted);
    let stored = source.path().join("x.blp").metadata().unwrap().len();
    assert!(stored < 3 << 21, "{stored}");
    let mounted = Mounted::new(source.path(), RW);
    let file = File::open(mounted.join("x")).unwrap();
    let seek = |from| rustix::fs::seek(&file, from);
    assert_eq!(
        seek(rustix::fs::SeekFrom::Data(0)),
        Ok((3 << 30) - (128 << 10))
    );
    assert_eq!(seek(rustix::fs::SeekFrom::Hole(0)), Ok(0));
    let mut end = [7; 6];
    file.read_exact_at(&mut end, (3 << 30) - 6).unwrap();
    assert_eq!(&end, b"\0\0\0end");
}

#[test]
fn what_cannot_be_stored_keeps_the_mount() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), RW);
    let mut file = File::create(mounted.join("x")).unwrap();
    file.write_all(&numbers(1000)).unwrap();
    drop(file);
    let stored = source.path().join("x.blp");
    let attributes = |how: &str| {
        let mut chattr = std::process::Command::new("chattr");
        run(chattr.arg(how).arg(&stored)).success();
    };
    attributes("+i");
    let umount = || arrayfs([OsStr::new("umount"), mounted.path().as_os_str()]);
    umount().failed_saying(
        1,
        &["x.blp: not all of it can be stored", "is not unmounted"],
    );
    assert_content(&mounted.join("x"), &numbers(1000));
    attributes("-i");
    umount().success();
    mounted.assert_ends();
    assert_blpk_reads(&stored, &numbers(1000));
}

#[test]
fn a_raw_file_that_is_cut_to_nothing_is_stored_like_others() {
    let source = open_directory();
    for name in ["x", "held", "linked"] {
        std::fs::write(source.path().join(name), b"as it was").unwrap();
    }
    std::fs::hard_link(source.path().join("linked"), source.path().join("other")).unwrap();
    let mounted = Mounted::new(source.path(), RW);
    let before = mounted.join("x").metadata().unwrap();
    std::fs::write(mounted.join("x"), numbers(3000)).unwrap();
    assert_content(&mounted.join("x"), &numbers(3000));
    assert_eq!(mounted.join("x").metadata().unwrap().ino(), before.ino());
    // Of these others would see what is stored.
    let held = File::open(mounted.join("held")).unwrap();
    std::fs::write(mounted.join("held"), b"written").unwrap();
    assert_content(&mounted.join("held"), b"written");
    let mut bytes = [0; 7];
    held.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"written");
    std::fs::write(mounted.join("linked"), b"written").unwrap();
    assert_content(&mounted.join("other"), b"written");
    drop(held);
    // By its name, and by what is appended then.
    File::options()
        .write(true)
        .open(mounted.join("held"))
        .unwrap()
        .set_len(0)
        .unwrap();
    let mut file = File::options()
        .append(true)
        .open(mounted.join("held"))
        .unwrap();
    file.write_all(b"again").unwrap();
    drop(file);
    drop(mounted);
    assert_blpk_reads(&source.path().join("x.blp"), &numbers(3000));
    assert_blpk_reads(&source.path().join("held.blp"), b"again");
    assert_content(&source.path().join("other"), b"written");
    for name in ["x", "held", "linked.blp", "other.blp"] {
        assert!(!source.path().join(name).exists(), "{name}");
    }
}

#[test]
fn a_file_of_which_nothing_was_stored_is_an_empty_file_after_a_crash() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), RW);
    std::fs::write(mounted.join("x"), b"too late").unwrap();
    let source = kill(mounted, source);
    let directory = scratch_directory();
    let log = directory.path().join("log");
    let option = format!("rw,scratch,log={}", log.display());
    let mounted = Mounted::new(source.path(), &[&option]);
    let len = mounted.join("x").metadata().unwrap().len();
    drop(mounted);
    // It may have been stored in time, on a machine that is very busy.
    let told = std::fs::read_to_string(&log).unwrap();
    let lost = "x.blp: was never synced, and is empty";
    assert_eq!(told.contains(lost), len == 0, "{told}");
    assert_blpk_reads(&source.path().join("x.blp"), &b"too late"[..len as usize]);
    arrayfs([OsStr::new("verify"), source.path().as_os_str()]).success();
}

#[test]
fn a_rename_over_content_waits_for_the_new_content() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), RW);
    // Neither has been stored yet.
    std::fs::write(mounted.join("x"), numbers(5000)).unwrap();
    std::fs::write(mounted.join("new"), numbers(9000)).unwrap();
    std::fs::rename(mounted.join("new"), mounted.join("x")).unwrap();
    let source = kill(mounted, source);
    let mounted = Mounted::new(source.path(), RW);
    assert_content(&mounted.join("x"), &numbers(9000));
}

#[test]
fn status_says_what_is_saved() {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), RW);
    std::fs::write(mounted.join("x"), numbers(100_000)).unwrap();
    std::fs::hard_link(mounted.join("x"), mounted.join("y")).unwrap();
    File::open(mounted.join("x")).unwrap().sync_all().unwrap();
    let status = || {
        let status = [
            OsStr::new("status"),
            OsStr::new("--json"),
            mounted.path().as_os_str(),
        ];
        let found = serde_json::from_slice::<serde_json::Value>(&arrayfs(status).success().stdout);
        found.unwrap()[0]["daemon"]["saved"].clone()
    };
    let saved = status();
    let number = |name: &str| saved[name].as_f64().unwrap();
    let (bytes, stored) = (number("bytes"), number("stored_bytes"));
    assert!(bytes == 800_000.0 && stored < 400_000.0, "{saved}");
    assert_eq!(number("ratio"), bytes / stored);
    // It is counted as it goes: nothing is looked at.
    let listings = || {
        let kinds = &mounted.status()["requests"]["kinds"];
        let count = |kind: &str| kinds[kind]["count"].as_u64().unwrap_or(0);
        [count("readdir"), count("readdirplus"), count("lookup")]
    };
    let before = listings();
    let text = arrayfs([OsStr::new("status"), mounted.path().as_os_str()]);
    let text = text.success().text();
    assert!(
        text.contains(" since it was mounted: 781.2 KiB are stored in "),
        "{text}"
    );
    assert_eq!(listings(), before);
}

#[test]
fn an_old_handle_of_a_raw_file_copies_what_is_shown() {
    let source = open_directory();
    std::fs::write(source.path().join("x"), noise(3000)).unwrap();
    std::fs::write(source.path().join("raw"), b"raw").unwrap();
    let mounted = Mounted::new(source.path(), RW);
    let handle = File::open(mounted.join("x")).unwrap();
    std::fs::write(mounted.join("x"), numbers(500)).unwrap();
    File::open(mounted.join("x")).unwrap().sync_all().unwrap();
    let raw = File::options()
        .write(true)
        .open(mounted.join("raw"))
        .unwrap();
    let copied = rustix::fs::copy_file_range(&handle, None, &raw, None, 10_000).unwrap();
    drop(raw);
    assert_eq!(copied, 4000);
    assert_content(&mounted.join("raw"), &numbers(500));
}
