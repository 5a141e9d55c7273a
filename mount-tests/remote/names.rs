//! What keys are called in a mount, and what of them is looked into.

use std::os::unix::fs::MetadataExt;

use super::{command, mount};
use crate::harness::object_server::ObjectServer;
use crate::harness::reads::names;
use crate::harness::{golden, wait_until};

#[test]
fn keys_are_names_where_a_path_can_have_them() {
    let server = ObjectServer::start();
    for key in ["a b+c%20d", "x", "x/y", "x~0", "d/", "\u{fc}/z", "q/\\?#&"] {
        server.put(key, key.as_bytes().to_vec());
    }
    for key in ["e//f", "e/../g", "e/./h", "/i"] {
        server.put(key, b"left out".to_vec());
    }
    server.put("e/ok", b"ok".to_vec());
    let mounted = mount(&server, "", &[]);
    let all = ["a b+c%20d", "d", "e", "q", "x", "x~0", "x~1", "\u{fc}"];
    assert_eq!(names(mounted.path()), all);
    assert_eq!(names(&mounted.join("e")), ["ok"]);
    assert_eq!(names(&mounted.join("d")), [""; 0]);
    let read = |name| std::fs::read_to_string(mounted.join(name)).unwrap();
    assert_eq!(read("a b+c%20d"), "a b+c%20d");
    assert_eq!([read("x~0"), read("x~1")], ["x~0", "x"]);
    assert_eq!([read("x/y"), read("q/\\?#&")], ["x/y", "q/\\?#&"]);
    assert!(!mounted.join("none").exists());
    let found = std::fs::metadata(mounted.join("x~1")).unwrap();
    assert_eq!(
        (found.mode() & 0o7777, found.mtime()),
        (0o444, 1_793_534_400)
    );
    assert_eq!(
        std::fs::metadata(mounted.join("e")).unwrap().mode() & 0o7777,
        0o555
    );
}

#[test]
fn a_directory_of_many_keys_is_listed_page_by_page() {
    let server = ObjectServer::start();
    for number in 0..2500 {
        server.put(&format!("many/{number:04}.txt"), vec![7; 3]);
    }
    for number in 0..300 {
        server.put(&format!("many/d{number:03}/x"), vec![7; 3]);
    }
    let mounted = mount(&server, "many", &[]);
    server.take_asked();
    assert_eq!(names(mounted.path()).len(), 2800);
    let asked = server.take_asked();
    assert!(
        asked.iter().all(|asked| asked.is_listing) && asked.len() <= 3,
        "{}",
        asked.len()
    );
    // What a listing says of its entries is not asked for again.
    for number in [0, 1234, 2499] {
        let name = format!("{number:04}.txt");
        assert_eq!(std::fs::metadata(mounted.join(name)).unwrap().len(), 3);
    }
    assert_eq!(server.take_asked(), []);
}

#[test]
fn a_name_in_a_directory_of_many_keys_is_found_without_all_of_them() {
    let server = ObjectServer::start();
    for number in 0..5000 {
        server.put(&format!("many/{number:04}.txt"), vec![7; 3]);
    }
    let mounted = mount(&server, "", &[]);
    server.take_asked();
    assert_eq!(
        std::fs::read(mounted.join("many/4321.txt")).unwrap(),
        [7; 3]
    );
    assert!(!mounted.join("many/x").exists());
    let asked = server.take_asked();
    let keys: Vec<&String> = asked.iter().map(|asked| &asked.key).collect();
    assert!(keys.len() <= 8, "{keys:?}");
    // All of it needs no page that is there already.
    assert_eq!(names(&mounted.join("many")).len(), 5000);
    let asked = server.take_asked();
    assert!(asked.len() <= 4, "{asked:?}");
}

/// For a night: `ARRAYFS_TEST_WHOLE`.
#[test]
fn a_hundred_thousand_keys_are_listed_in_a_hundred_pages() {
    if std::env::var_os("ARRAYFS_TEST_WHOLE").is_none() {
        return;
    }
    let server = ObjectServer::start();
    for number in 0..100_000 {
        server.put(&format!("many/{number:06}.txt"), vec![7; 3]);
    }
    let mounted = mount(&server, "many", &["cache=64M"]);
    server.take_asked();
    assert_eq!(names(mounted.path()).len(), 100_000);
    assert!(server.take_asked().len() <= 100);
}

#[test]
fn only_what_is_named_like_a_container_is_looked_into() {
    let bytes = std::fs::read(golden("bloscpack/sources/append-fits.blp")).unwrap();
    let server = ObjectServer::start();
    server.put("a.blp", bytes.clone());
    server.put("b.data", bytes);
    let mounted = mount(&server, "", &[]);
    assert!(mounted.join("a.blp").is_dir());
    server.take_asked();
    assert!(mounted.join("b.data").is_file());
    assert_eq!(server.take_asked(), []);
    // Who names it gets it.
    let url = server.url("b.data");
    let told = command(&server, &["info", &url]).success();
    assert!(told.text().contains("bloscpack"), "{}", told.text());
    let url = server.url("b.data/data");
    command(&server, &["cat", &url]).success();
    let at = mounted.join("b.data");
    super::arrayfs([std::ffi::OsStr::new("refresh"), at.as_os_str()]).success();
    wait_until("it is shown as the container", || at.join("data").is_file());
}
