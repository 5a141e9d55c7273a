//! Files that are open: appended to by several, made by exactly one, truncated, unlinked, moved,
//! direct.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{Timespec, Timestamps, futimens};

use crate::harness::place::{Place, scenarios};
use crate::harness::process::{install, start, wait_for_end};
use crate::harness::reads::{assert_content, assert_same};
use crate::harness::seeded::Seeded;
use crate::harness::tools::tool;

scenarios![
    everywhere
    appending_processes_lose_no_line,
    appending_handles_lose_no_line,
    exactly_one_makes_a_file,
    opening_truncates,
    a_program_that_runs_is_not_written_to,
    an_unlinked_file_lives_on,
    a_removed_directory_that_is_open_can_be_synced,
    a_replaced_file_lives_on,
    open_files_follow_a_renamed_directory,
    all_names_of_a_file_are_one_file,
    attributes_of_an_open_file_are_those_of_its_names,
    what_one_handle_writes_another_reads,
    direct_and_synchronous_writes_are_there,
    a_mapping_and_a_handle_see_the_same,
    holes_between_writes_are_zeros,
];

fn read_write() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options
}

fn create(place: &Place, name: &str, content: &[u8]) -> File {
    let mut options = read_write();
    let mut file = options.create_new(true).open(place.join(name)).unwrap();
    file.write_all(content).unwrap();
    file
}

/// Every line once, those of each writer in their order.
#[track_caller]
fn assert_lines(place: &Place, name: &str, writers: usize, lines: usize) {
    for path in [place.join(name), place.stored(name)] {
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), writers * lines);
        for writer in 0..writers {
            let own = format!("writer {writer} ");
            let numbers = text.lines().filter_map(|line| line.strip_prefix(&own));
            let expected: Vec<String> = (1..=lines).map(|line| format!("line {line}")).collect();
            assert!(numbers.eq(expected.iter()), "writer {writer}");
        }
    }
}

fn appending_processes_lose_no_line(place: &Place) {
    const LINES: usize = 400;
    let writer = |writer: usize| -> Child {
        let script =
            "exec >>log; n=0; while [ $n -lt $2 ]; do n=$((n+1)); echo \"writer $1 line $n\"; done";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", &writer.to_string(), &LINES.to_string()]);
        start(command.current_dir(place.path()).stdin(Stdio::null())).unwrap()
    };
    for mut child in [0, 1, 2].map(writer) {
        assert!(wait_for_end(&mut child).success());
    }
    assert_lines(place, "log", 3, LINES);
}

fn appending_handles_lose_no_line(place: &Place) {
    const LINES: usize = 300;
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for line in 1..=LINES {
                    // A handle each, and one that stays.
                    let mut options = OpenOptions::new();
                    let options = options.append(true).create(true);
                    let mut file = options.open(place.join("log")).unwrap();
                    let text = format!("writer {writer} line {line}\n");
                    assert_eq!(file.write(text.as_bytes()).unwrap(), text.len());
                }
            });
        }
    });
    assert_lines(place, "log", 4, LINES);
}

fn exactly_one_makes_a_file(place: &Place) {
    for round in 0..50 {
        let (made, directories) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (file, directory) = (
            place.join(format!("f{round}")),
            place.join(format!("d{round}")),
        );
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let new = usize::from(File::create_new(&file).is_ok());
                    made.fetch_add(new, Ordering::Relaxed);
                    let new = usize::from(std::fs::create_dir(&directory).is_ok());
                    directories.fetch_add(new, Ordering::Relaxed);
                });
            }
        });
        assert_eq!((made.into_inner(), directories.into_inner()), (1, 1));
    }
}

fn opening_truncates(place: &Place) {
    let reader = create(place, "file", b"some content");
    let writer = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(place.join("file"));
    let writer = writer.unwrap();
    assert_eq!(reader.metadata().unwrap().len(), 0);
    assert_eq!(place.stored("file").metadata().unwrap().len(), 0);
    assert_eq!(reader.read_at(&mut [0; 10], 0).unwrap(), 0);
    writer.write_all_at(b"new", 2).unwrap();
    assert_content(&place.stored("file"), b"\0\0new");
    assert_content(&place.join("file"), b"\0\0new");
}

/// And not truncated before it is said that it cannot be.
fn a_program_that_runs_is_not_written_to(place: &Place) {
    let Some(sleep) = tool("sleep") else {
        return;
    };
    let program = place.join("sleep");
    install(&sleep, &program);
    let content = std::fs::read(&program).unwrap();
    let mut command = Command::new(&program);
    let mut running = start(command.arg("100")).unwrap();
    for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_TRUNC] {
        let flags = rustix::fs::OFlags::from_bits_retain(flags as u32);
        let opened = rustix::fs::open(&program, flags, rustix::fs::Mode::empty());
        assert_eq!(opened.err(), Some(rustix::io::Errno::TXTBSY), "{flags:?}");
        assert_content(&place.stored("sleep"), &content);
    }
    assert!(running.try_wait().unwrap().is_none());
    running.kill().unwrap();
    running.wait().unwrap();
    std::fs::write(&program, "again").unwrap();
}

fn an_unlinked_file_lives_on(place: &Place) {
    let mut file = create(place, "file", b"0123456789");
    std::fs::remove_file(place.join("file")).unwrap();
    assert!(!place.join("file").exists() && !place.stored("file").exists());
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.write_all_at(b"abc", 8).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 11);
    file.set_len(9).unwrap();
    file.set_permissions(Permissions::from_mode(0o604)).unwrap();
    let time = |tv_sec| Timespec { tv_sec, tv_nsec: 5 };
    let times = Timestamps {
        last_access: time(10),
        last_modification: time(20),
    };
    futimens(&file, &times).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::fsetxattr(&file, "user.x", b"value", flags).unwrap();
    assert_eq!(
        rustix::fs::fgetxattr(&file, "user.x", &mut [0; 9][..]),
        Ok(5)
    );
    file.sync_all().unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o7777), (9, 0o604));
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (20, 5));
    let mut content = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "01234567a");
    // Another one of that name is another one.
    std::fs::write(place.join("file"), "other").unwrap();
    file.write_all_at(b"X", 0).unwrap();
    assert_content(&place.join("file"), b"other");
    let reopened = File::open(format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(&file)
    ));
    let mut byte = [0];
    reopened.unwrap().read_at(&mut byte, 0).unwrap();
    assert_eq!(byte, *b"X");
}

fn a_removed_directory_that_is_open_can_be_synced(place: &Place) {
    std::fs::create_dir(place.join("d")).unwrap();
    let open = File::open(place.join("d")).unwrap();
    std::fs::remove_dir(place.join("d")).unwrap();
    open.sync_all().unwrap();
    open.sync_data().unwrap();
    assert!(open.metadata().unwrap().is_dir());
    assert_eq!(rustix::fs::Dir::read_from(&open).unwrap().count(), 0);
    let flags = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
    let made = rustix::fs::openat(&open, "x", flags, rustix::fs::Mode::from_raw_mode(0o600));
    assert_eq!(made.err(), Some(rustix::io::Errno::NOENT));
}

fn a_replaced_file_lives_on(place: &Place) {
    let old = create(place, "file", b"old");
    let new = create(place, "new", b"new");
    std::fs::rename(place.join("new"), place.join("file")).unwrap();
    new.write_all_at(b"er", 3).unwrap();
    old.write_all_at(b"er", 3).unwrap();
    let mut content = [0; 5];
    old.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"older");
    assert_eq!(
        (
            old.metadata().unwrap().nlink(),
            new.metadata().unwrap().nlink()
        ),
        (0, 1)
    );
    assert_content(&place.join("file"), b"newer");
    assert_content(&place.stored("file"), b"newer");
}

fn open_files_follow_a_renamed_directory(place: &Place) {
    std::fs::create_dir_all(place.join("a/b/c")).unwrap();
    std::fs::create_dir(place.join("other")).unwrap();
    let mut file = create(place, "a/b/c/file", b"one");
    let directory = File::open(place.join("a/b")).unwrap();
    for (from, to) in [("a", "z"), ("z", "other/y"), ("other", "x")] {
        std::fs::rename(place.join(from), place.join(to)).unwrap();
        file.write_all(b" more").unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
    }
    assert_content(&place.join("x/y/b/c/file"), b"one mor mor mor");
    assert_content(&place.stored("x/y/b/c/file"), b"one mor mor mor");
    assert!(!place.join("a").exists() && !place.join("z").exists());
    // What is made in a directory that is open lies in it, wherever it is now.
    use rustix::fs::{Mode, OFlags, openat, renameat};
    let flags = OFlags::CREATE | OFlags::WRONLY;
    openat(&directory, "made", flags, Mode::from_raw_mode(0o600)).unwrap();
    renameat(&directory, "made", &directory, "c/moved").unwrap();
    assert!(place.stored("x/y/b/c/moved").exists());
    assert!(place.join("x/y/b/c/moved").exists());
}

fn all_names_of_a_file_are_one_file(place: &Place) {
    std::fs::create_dir(place.join("d")).unwrap();
    let file = create(place, "one", b"content");
    std::fs::hard_link(place.join("one"), place.join("d/two")).unwrap();
    std::fs::hard_link(place.join("d/two"), place.join("three")).unwrap();
    let names = ["one", "d/two", "three"];
    let of = |name: &str| place.join(name).metadata().unwrap();
    for name in names {
        assert_eq!(
            (of(name).ino(), of(name).nlink()),
            (of("one").ino(), 3),
            "{name}"
        );
    }
    assert_eq!(file.metadata().unwrap().nlink(), 3);
    std::fs::write(place.join("d/two"), "changed").unwrap();
    std::fs::set_permissions(place.join("three"), Permissions::from_mode(0o604)).unwrap();
    for name in names {
        assert_content(&place.join(name), b"changed");
        assert_eq!(of(name).mode() & 0o7777, 0o604);
    }
    std::fs::remove_file(place.join("one")).unwrap();
    std::fs::rename(place.join("three"), place.join("d/three")).unwrap();
    assert_eq!((of("d/two").nlink(), of("d/three").nlink()), (2, 2));
    // One over another name of the same file changes nothing.
    std::fs::rename(place.join("d/two"), place.join("d/three")).unwrap();
    assert_eq!((of("d/two").nlink(), of("d/three").nlink()), (2, 2));
    file.write_all_at(b"C", 0).unwrap();
    assert_content(&place.stored("d/two"), b"Changed");
    assert_content(&place.join("d/three"), b"Changed");
}

fn attributes_of_an_open_file_are_those_of_its_names(place: &Place) {
    drop(create(place, "file", b"content"));
    let (first, second) = (place.join("file"), place.join("moved"));
    let mut ways = [OpenOptions::new(), OpenOptions::new(), read_write()];
    ways[0].read(true);
    ways[1].write(true);
    let mode_of = |metadata: std::fs::Metadata| metadata.mode() & 0o7777;
    for way in ways {
        let file = way.open(&first).unwrap();
        let set = |mode: u32| file.set_permissions(Permissions::from_mode(mode)).unwrap();
        set(0o640);
        assert_eq!(mode_of(first.metadata().unwrap()), 0o640);
        std::fs::set_permissions(&first, Permissions::from_mode(0o604)).unwrap();
        assert_eq!(mode_of(file.metadata().unwrap()), 0o604);
        // Its name goes elsewhere, and another file gets the one that it had.
        std::fs::rename(&first, &second).unwrap();
        drop(create(place, "file", b"another"));
        std::fs::set_permissions(&first, Permissions::from_mode(0o660)).unwrap();
        set(0o600);
        assert_eq!(mode_of(first.metadata().unwrap()), 0o660);
        assert_eq!(mode_of(second.metadata().unwrap()), 0o600);
        assert_eq!(mode_of(place.stored("moved").metadata().unwrap()), 0o600);
        std::fs::remove_file(&second).unwrap();
        set(0o400);
        assert_eq!(mode_of(file.metadata().unwrap()), 0o400);
    }
}

fn what_one_handle_writes_another_reads(place: &Place) {
    let writer = create(place, "file", b"");
    let reader = File::open(place.join("file")).unwrap();
    let mut random = Seeded::new(11);
    let mut expected = Vec::new();
    for _ in 0..200 {
        let (at, len) = (random.below(200_000), 1 + random.below(20_000));
        let bytes = random.noise(len);
        expected.resize(expected.len().max(at + len), 0);
        expected[at..at + len].copy_from_slice(&bytes);
        writer.write_all_at(&bytes, at as u64).unwrap();
        let mut found = vec![0; expected.len()];
        reader.read_exact_at(&mut found, 0).unwrap();
        assert_same("file", &found, &expected);
    }
    assert_content(&place.stored("file"), &expected);
}

fn direct_and_synchronous_writes_are_there(place: &Place) {
    let mut pages = memmap2::MmapMut::map_anon(8192).unwrap();
    for (number, flag) in [
        libc::O_DIRECT,
        libc::O_SYNC,
        libc::O_DSYNC,
        libc::O_DIRECT | libc::O_SYNC,
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("file-{number}");
        let mut options = read_write();
        let options = options.create_new(true).custom_flags(flag);
        let file = options.open(place.join(&name)).unwrap();
        let buffered = File::open(place.join(&name)).unwrap();
        for round in 0..10u8 {
            pages.fill(round);
            file.write_all_at(&pages, 4096 * u64::from(round)).unwrap();
            assert_content(
                &place.join(&name),
                &std::fs::read(place.stored(&name)).unwrap(),
            );
            let mut byte = [99];
            buffered
                .read_exact_at(&mut byte, 4096 * u64::from(round) + 5000)
                .unwrap();
            assert_eq!(byte, [round]);
            file.read_exact_at(&mut pages, 0).unwrap();
            assert_eq!(pages[0], 0);
        }
        assert_eq!(file.metadata().unwrap().len(), 11 * 4096);
    }
}

fn a_mapping_and_a_handle_see_the_same(place: &Place) {
    let file = create(place, "file", &[0; 20_000]);
    // SAFETY: nobody makes the file shorter while it is mapped.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
    let mut byte = [0];
    for round in 1..100u8 {
        let at = usize::from(round) * 197;
        map[at] = round;
        file.read_exact_at(&mut byte, at as u64).unwrap();
        assert_eq!(byte, [round], "a handle reads what the mapping holds");
        file.write_all_at(&[round + 100], at as u64 + 1).unwrap();
        assert_eq!(
            map[at + 1],
            round + 100,
            "the mapping holds what a handle wrote"
        );
    }
    map.flush().unwrap();
    assert_content(&place.stored("file"), &map);
    let other = File::open(place.join("file")).unwrap();
    map[0] = 77;
    other.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [77]);
    let expected = map.to_vec();
    drop(map);
    drop(file);
    assert_content(&place.join("file"), &expected);
    assert_content(&place.stored("file"), &expected);
}

fn holes_between_writes_are_zeros(place: &Place) {
    let file = create(place, "file", b"start");
    file.set_len(3).unwrap();
    file.write_all_at(b"end", 100_000).unwrap();
    file.set_len(150_000).unwrap();
    let mut expected = vec![0; 150_000];
    expected[..3].copy_from_slice(b"sta");
    expected[100_000..100_003].copy_from_slice(b"end");
    assert_content(&place.join("file"), &expected);
    assert_content(&place.stored("file"), &expected);
}
