//! What describes a new container: as long as it may be, and charged before it is read.

use std::fs::{File, create_dir, write};
use std::path::Path;

use super::assert_bounded;
use crate::harness::mounted::Mounted;
use crate::harness::place::open_directory;
use crate::harness::reads::{assert_content, xattr};

/// Longest `arrays.json` that is read.
const LONGEST: usize = 64 << 20;

/// Of a first array that is there, and of so many that are not.
fn description(more: usize) -> String {
    let array = |name: &str| format!(r#"{{"name": "{name}", "dtype": "int32", "shape": [1]}}"#);
    let names = (0..more).map(|number| array(&format!("array-{number}")));
    let all: Vec<String> = std::iter::once(array("a")).chain(names).collect();
    format!(r#"{{"arrays": [{}]}}"#, all.join(", "))
}

/// What a sync of the directory says, which packs what is complete.
fn synced(at: &Path) -> Option<i32> {
    let synced = File::open(at).and_then(|directory| directory.sync_all());
    synced.err().and_then(|error| error.raw_os_error())
}

/// It is asked to be described by a text that is refused, and then by one that is not.
fn is_refused(text: &str, code: i32, why: &str) {
    let source = open_directory();
    let mounted = Mounted::new(source.path(), &["rw", "cache=16M", "settle=600000"]);
    let at = mounted.join("x.h5");
    create_dir(&at).unwrap();
    write(at.join("arrays.json"), text).unwrap();
    write(at.join("a"), 7i32.to_le_bytes()).unwrap();
    assert_eq!(synced(&at), Some(code));
    let state = xattr(&at, "user.arrayfs.state").unwrap();
    assert!(state.contains(why), "{state}");
    assert_bounded(&mounted, 0);
    write(at.join("arrays.json"), description(0)).unwrap();
    crate::harness::wait_until("it is packed", || {
        synced(&at);
        xattr(&at, "user.arrayfs.state").is_ok_and(|state| state == "clean")
    });
    assert_content(&at.join("a"), &7i32.to_le_bytes());
    assert_bounded(&mounted, 0);
}

#[test]
fn a_description_may_have_so_many_bytes_and_no_more() {
    let text = description(0) + &" ".repeat(LONGEST);
    is_refused(&text, libc::EINVAL, "arrays.json");
}

/// As long as it may be, but more than the cache has room for.
#[test]
fn a_description_without_room_is_refused_before_it_is_read() {
    let mut text = description(0) + &" ".repeat(LONGEST);
    text.truncate(LONGEST);
    is_refused(&text, libc::ENOMEM, "memory");
}

/// The text has room, and what is made of it has none.
#[test]
fn what_a_description_is_made_into_is_charged() {
    let text = description(60_000);
    assert!(text.len() < 4 << 20, "{} bytes", text.len());
    is_refused(&text, libc::ENOMEM, "memory");
}
