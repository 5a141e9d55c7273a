//! What was read, kept on the disk: for later mounts, and whatever becomes of it.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{command, mount};
use crate::harness::mounted::Mounted;
use crate::harness::object_server::{ObjectServer, Wrong};
use crate::harness::process::run;
use crate::harness::reads::names;
use crate::harness::{python, scratch_directory, wait_until};

fn known() -> Vec<u8> {
    (0..30_000_000u32)
        .flat_map(|number| (number / 3).to_le_bytes())
        .take(30_000_000)
        .collect()
}

fn server() -> ObjectServer {
    let server = ObjectServer::start();
    server.put("x.bin", known());
    server
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn read(server: &ObjectServer, option: &str) -> Vec<u8> {
    let mounted = mount(server, "", &[option]);
    std::fs::read(mounted.join("x.bin")).unwrap()
}

/// How many requests for bytes a mount makes that reads everything.
fn bytes_asked(server: &ObjectServer, option: &str) -> usize {
    server.take_asked();
    assert!(read(server, option) == known());
    let asked = server.take_asked();
    asked.iter().filter(|asked| asked.range.is_some()).count()
}

#[test]
fn the_next_mount_asks_whether_it_is_the_same_and_for_nothing_else() {
    let (server, directory) = (server(), scratch_directory());
    let cache = directory.path().join("cache");
    let option = format!("disk_cache={}", cache.display());
    assert!(bytes_asked(&server, &option) > 0);
    server.take_asked();
    assert!(read(&server, &option) == known());
    let asked = server.take_asked();
    assert!(
        asked.len() <= 2 && asked.iter().all(|asked| asked.range.is_none()),
        "{asked:?}"
    );
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&cache), mode(&files(&cache)[0])), (0o700, 0o600));
    // Another version is another file.
    server.put("x.bin", vec![9; 20_000_000]);
    assert!(read(&server, &option) == vec![9; 20_000_000]);
    // What may not be read is not read out of the cache either.
    server.decide(|asked, _| (!asked.is_listing).then_some(Wrong::Status(403, Vec::new())));
    let mounted = mount(&server, "", &[&option]);
    let refused = std::fs::read(mounted.join("x.bin")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
    server.decide(|_, _| None);
}

#[test]
fn whatever_becomes_of_the_cache_costs_speed_alone() {
    let (server, directory) = (server(), scratch_directory());
    let cache = directory.path().join("cache");
    let option = format!("disk_cache={}", cache.display());
    assert!(read(&server, &option) == known());
    let file = files(&cache).remove(0);
    let open = || std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    // Bits turned, here and there; cut; emptied; made a directory; removed.
    for at in (0..31_000_000).step_by(1_111_111) {
        open().write_all_at(b"?", at).unwrap();
    }
    assert!(read(&server, &option) == known());
    open().set_len(10_000_000).unwrap();
    assert!(read(&server, &option) == known());
    open().set_len(0).unwrap();
    assert!(read(&server, &option) == known());
    assert_eq!(bytes_asked(&server, &option), 0, "it is there again");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert!(read(&server, &option) == known());
    std::fs::remove_dir(&file).unwrap();
    let small = format!("{option},disk_cache_size=1M");
    assert!(read(&server, &small) == known());
    let used: u64 = files(&cache)
        .iter()
        .map(|file| std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(file).unwrap()) * 512)
        .sum();
    assert!(used <= 40 << 20, "{used}");
}

#[test]
fn two_daemons_share_a_cache_while_it_is_emptied() {
    let (server, directory) = (server(), scratch_directory());
    let cache = directory.path().join("cache");
    let option = format!("disk_cache={}", cache.display());
    let [one, other] = [(), ()].map(|()| mount(&server, "", &[&option]));
    let all = known();
    std::thread::scope(|threads| {
        for mounted in [&one, &other] {
            let all = &all;
            threads.spawn(move || assert!(std::fs::read(mounted.join("x.bin")).unwrap() == *all));
        }
        for _ in 0..20 {
            if let Ok(entries) = std::fs::read_dir(&cache) {
                entries
                    .flatten()
                    .for_each(|entry| drop(std::fs::remove_file(entry.path())));
            }
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_cache_that_others_may_write_to_is_refused() {
    let (server, directory) = (server(), scratch_directory());
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let flag = format!("--disk-cache={}", directory.path().display());
    let said = command(&server, &["ls", &flag, &server.url("")]);
    said.failed_saying(1, &["disk_cache=", "others may write there"]);
}

#[test]
fn a_daemon_that_is_killed_while_it_reads_leaves_nothing_that_is_wrong() {
    let (server, directory) = (server(), scratch_directory());
    let cache = directory.path().join("cache");
    let option = format!("disk_cache={}", cache.display());
    for bytes in [1, 5, 9, 14, 20] {
        let mounted = mount(&server, "", &[&option]);
        let mut file = std::fs::File::open(mounted.join("x.bin")).unwrap();
        let mut read = vec![0; bytes * 1_000_000];
        std::io::Read::read_exact(&mut file, &mut read).unwrap();
        assert!(read == known()[..read.len()]);
        let daemon = rustix::process::Pid::from_raw(mounted.daemon() as i32).unwrap();
        rustix::process::kill_process(daemon, rustix::process::Signal::KILL).unwrap();
        drop(file);
        super::arrayfs([Path::new("umount"), mounted.path()]).success();
        mounted.assert_ends();
    }
    assert!(read(&server, &option) == known());
    assert_eq!(bytes_asked(&server, &option), 0);
}

#[test]
fn what_a_worker_has_found_out_is_not_asked_for_again() {
    let (server, directory) = (ObjectServer::start(), scratch_directory());
    let path = directory.path().join("a.h5");
    let write = "import sys, h5py, numpy
with h5py.File(sys.argv[1], 'w') as file:
    for number in range(50):
        file.create_dataset(f'x{number}', data=numpy.arange(1000) + number, chunks=(100,), compression=1)
    file.create_dataset('large', data=numpy.arange(3000000), chunks=(1000,))
";
    let mut python = std::process::Command::new(python::interpreter());
    run(python.args(["-c", write]).arg(&path)).success();
    server.put("a.h5", std::fs::read(&path).unwrap());
    let option = format!("disk_cache={}", directory.path().join("cache").display());
    let read = |worker: &[(&str, &str)]| {
        let own = server.options();
        let options = [&*own[0], &*own[1], &*option];
        let mounted = Mounted::with_environment(Path::new(&server.url("")), &options, worker);
        let large = std::fs::read(mounted.join("a.h5/large")).ok()?;
        let all = names(&mounted.join("a.h5"));
        Some((large, all, std::fs::read(mounted.join("a.h5/x7")).ok()?))
    };
    let first = read(&[]).unwrap();
    assert!(first.1.len() > 50);
    // Where no worker can be had. Nobody waits for what is put into the cache.
    let none = [("ARRAYFS_HDF5_WORKER", "/bin/false")];
    wait_until("all is kept", || {
        let found = read(&none);
        assert!(found.as_ref().is_none_or(|found| *found == first));
        found.is_some() || read(&[]).is_none()
    });
    // A finding that is damaged is no finding.
    for file in files(&directory.path().join("cache")) {
        let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
        for block in 0..100 {
            file.write_all_at(b"?", block * 65536 + 5000).unwrap();
        }
    }
    assert!(read(&none).is_none_or(|read| read.0 != first.0));
    assert!(read(&[]).as_ref() == Some(&first));
}

#[test]
fn an_object_that_is_larger_than_the_cache_pushes_nothing_out() {
    let (server, directory) = (server(), scratch_directory());
    server.put("y.bin", vec![5; 1 << 20]);
    let cache = directory.path().join("cache");
    let option = format!("disk_cache={},disk_cache_size=8M", cache.display());
    let read_all = || {
        let mounted = mount(&server, "", &[&option]);
        assert!(std::fs::read(mounted.join("y.bin")).unwrap() == vec![5; 1 << 20]);
        assert!(std::fs::read(mounted.join("x.bin")).unwrap() == known());
    };
    // Nobody waits for what is put into the cache.
    wait_until("both are kept", || {
        read_all();
        server.take_asked();
        read_all();
        let asked = server.take_asked();
        let bytes = |key: &str| {
            let of_key = asked.iter().filter(|asked| asked.key == key);
            let ranges = of_key.filter_map(|asked| asked.range.as_ref());
            ranges.map(|range| range.end - range.start).sum::<u64>()
        };
        bytes("y.bin") == 0 && (24_000_000..29_000_000).contains(&bytes("x.bin"))
    });
}
