//! What may go wrong with requests, and what programs get then.

use std::time::{Duration, Instant};

use super::{command, mount};
use crate::harness::object_server::{ObjectServer, Wrong};
use crate::harness::reads::read_direct;

fn of_one(len: usize) -> ObjectServer {
    let server = ObjectServer::start();
    server.put("x.bin", (0..len).map(|at| (at / 7) as u8).collect());
    server
}

/// The error number of a read of the first bytes.
fn read_fails(server: &ObjectServer, options: &[&str]) -> Option<i32> {
    let mounted = mount(server, "", options);
    let read = read_direct(&mounted.join("x.bin"), 0, 4096);
    read.err().and_then(|e| e.raw_os_error())
}

fn only_reads(
    wrong: Wrong,
) -> impl Fn(&crate::harness::object_server::Asked, usize) -> Option<Wrong> {
    move |asked, _| asked.range.as_ref().map(|_| wrong.clone())
}

#[test]
fn what_may_pass_is_asked_for_again() {
    let wrongs = [
        Wrong::Status(503, vec![("Retry-After", "0".into())]),
        Wrong::Status(500, Vec::new()),
        Wrong::Status(429, Vec::new()),
        Wrong::Reset,
        Wrong::Short,
    ];
    let server = of_one(100_000);
    let known: Vec<u8> = (0..100_000).map(|at| (at / 7) as u8).collect();
    for wrong in wrongs {
        let mounted = mount(&server, "", &[]);
        server.take_asked();
        let told = format!("{wrong:?}");
        server.decide(move |_, number| (number < 2).then(|| wrong.clone()));
        assert_eq!(
            std::fs::read(mounted.join("x.bin")).unwrap(),
            known,
            "{told}"
        );
        server.decide(|_, _| None);
        let retries = mounted.status()["remote"]["retries"].as_u64().unwrap();
        assert!(retries >= 2, "{told}: {retries}");
    }
}

#[test]
fn what_does_not_pass_has_its_number() {
    let table = [
        (Wrong::Status(404, Vec::new()), libc::ESTALE),
        (Wrong::Status(412, Vec::new()), libc::ESTALE),
        (Wrong::Status(401, Vec::new()), libc::EACCES),
        (Wrong::Status(403, Vec::new()), libc::EACCES),
        (Wrong::Status(501, Vec::new()), libc::EIO),
        (Wrong::Encoded, libc::EIO),
        (Wrong::Elsewhere, libc::EIO),
    ];
    let server = of_one(40 << 20);
    for (wrong, errno) in table {
        let told = format!("{wrong:?}");
        server.decide(only_reads(wrong));
        assert_eq!(read_fails(&server, &[]), Some(errno), "{told}");
        server.decide(|_, _| None);
    }
}

#[test]
fn a_store_that_ignores_ranges_is_read_whole_or_refused() {
    let small = of_one(1 << 20);
    small.decide(only_reads(Wrong::NoRanges));
    assert_eq!(read_fails(&small, &[]), None);
    let large = of_one(40 << 20);
    large.decide(only_reads(Wrong::NoRanges));
    assert_eq!(read_fails(&large, &[]), Some(libc::EIO));
}

#[test]
fn what_is_never_answered_ends_in_time_and_holds_nothing_else_up() {
    let server = of_one(40 << 20);
    server.put("y.bin", vec![7; 100]);
    let mounted = mount(&server, "", &["timeout=4"]);
    assert_eq!(std::fs::read(mounted.join("y.bin")).unwrap(), [7; 100]);
    server.decide(|asked, _| (asked.key == "x.bin").then_some(Wrong::Stall));
    let begun = Instant::now();
    let path = mounted.join("x.bin");
    let readers: Vec<_> = (0..64)
        .map(|number| {
            let path = path.clone();
            let read = move || read_direct(&path, number << 19, 4096);
            std::thread::spawn(read)
        })
        .collect();
    // While all of these wait.
    assert_eq!(std::fs::metadata(mounted.join("y.bin")).unwrap().len(), 100);
    assert!(mounted.status()["pid"].is_u64());
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    for reader in readers {
        let failed = reader.join().unwrap().unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(libc::ETIMEDOUT));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_mount_is_refused_with_what_to_do() {
    let server = of_one(10);
    let url = server.url("");
    let elsewhere = vec![("x-amz-bucket-region", "eu-central-1".into())];
    let table = [
        (
            Wrong::Status(301, elsewhere),
            "bucket bucket is in eu-central-1: -o region=eu-central-1",
        ),
        (
            Wrong::Status(403, Vec::new()),
            "without -o anonymous requests are signed",
        ),
    ];
    for (wrong, said) in table {
        server.decide(move |_, _| Some(wrong.clone()));
        command(&server, &["ls", &url]).failed_saying(1, &[said]);
    }
    server.decide(|_, _| None);
    command(&server, &["info", &server.url("none.h5")]).failed_saying(1, &["none.h5"]);
    let options = format!("rw,endpoint={},anonymous", server.endpoint());
    let at = crate::harness::scratch_directory();
    let at = at.path().to_str().unwrap();
    let refused = super::arrayfs(["mount", "-o", &options, &url, at]);
    refused.failed_saying(1, &["read-only"]);
}

#[test]
fn a_listing_that_comes_to_no_end_is_an_error() {
    let server = of_one(10);
    server.decide(|asked, _| asked.is_listing.then_some(Wrong::Endless));
    command(&server, &["ls", &server.url("")]).failed_saying(1, &["comes to no end"]);
}

#[test]
fn a_store_that_is_not_there_is_told_soon() {
    let begun = Instant::now();
    let said = super::arrayfs([
        "ls",
        "--anonymous",
        "--timeout=3",
        "--endpoint=http://127.0.0.1:1",
        "s3://bucket",
    ]);
    said.failed_saying(1, &["s3://bucket", "within 3s"]);
    assert!(begun.elapsed() < Duration::from_secs(10));
}
