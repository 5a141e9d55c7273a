//! Objects that become others while they are read.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::mount;
use crate::harness::object_server::{ObjectServer, Wrong};
use crate::harness::reads::read_direct;
use crate::harness::{golden, wait_until};

const STALE: Option<i32> = Some(libc::ESTALE);

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state as u8
    };
    (0..len).map(|_| step(&mut state)).collect()
}

#[test]
fn who_has_the_old_version_open_gets_an_error_and_who_opens_it_the_new_one() {
    let server = ObjectServer::start();
    let (old, new) = (noise(1, 40 << 20), noise(2, 40 << 20));
    server.put("x.bin", old.clone());
    let mounted = mount(&server, "", &["metadata_ttl=0"]);
    let opened = File::open(mounted.join("x.bin")).unwrap();
    let mut first = [0; 4096];
    opened.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(first, old[..4096]);
    server.put("x.bin", new.clone());
    let mut far = [0; 4096];
    let read = opened.read_exact_at(&mut far, 32 << 20);
    assert_eq!(read.map_err(|e| e.raw_os_error()), Err(STALE));
    wait_until("the new version is shown", || {
        let read = std::fs::read(mounted.join("x.bin"));
        read.is_ok_and(|read| read == new)
    });
}

#[test]
fn an_answer_of_another_version_is_never_taken() {
    let server = ObjectServer::start();
    server.put("x.bin", noise(3, 40 << 20));
    let mounted = mount(&server, "", &[]);
    let path = mounted.join("x.bin");
    // A server that ignores If-Match, and whose object is another by now.
    server.decide(|asked, _| asked.range.as_ref().map(|_| Wrong::OtherTag));
    let read = read_direct(&path, 0, 4096);
    assert_eq!(read.map_err(|e| e.raw_os_error()), Err(STALE));
    server.decide(|_, _| None);
    wait_until("it is read again", || read_direct(&path, 0, 4096).is_ok());
}

#[test]
fn a_container_that_was_replaced_is_another_one() {
    let of = |name: &str| std::fs::read(golden(&format!("bloscpack/sources/{name}"))).unwrap();
    let expected = |name: &str| std::fs::read(golden(&format!("bloscpack/expected/{name}/data")));
    let server = ObjectServer::start();
    server.put("a.blp", of("append-fits.blp"));
    let mounted = mount(&server, "", &["metadata_ttl=0"]);
    let array = mounted.join("a.blp/data");
    let before = std::fs::read(&array).unwrap();
    if let Ok(known) = expected("append-fits") {
        assert_eq!(before, known);
    }
    server.put("a.blp", of("append-codec.blp"));
    wait_until("the new one is shown", || {
        std::fs::read(&array).is_ok_and(|read| read != before)
    });
    server.remove("a.blp");
    wait_until("it has gone", || !array.exists());
}
