//! How many requests something takes.

use std::io::Read;
use std::path::Path;

use super::{command, mount};
use crate::harness::object_server::{Asked, ObjectServer};
use crate::harness::reads::{names, read_direct};
use crate::harness::{golden, python};

/// Everything that was asked for of one object.
fn of(asked: &[Asked], key: &str) -> Vec<Asked> {
    let of_key = asked.iter().filter(|asked| asked.key == key);
    of_key.cloned().collect()
}

#[test]
fn a_bpcells_directory_costs_its_listing_and_its_members() {
    let server = ObjectServer::of(&golden("bpcells/sources"), "c/");
    let name = first_matrix();
    let mounted = mount(&server, "c", &[]);
    names(mounted.path());
    server.take_asked();
    let container = mounted.join(&name);
    for entry in std::fs::read_dir(&container).unwrap() {
        entry.unwrap().metadata().unwrap();
    }
    let asked = server.take_asked();
    let listings = asked.iter().filter(|asked| asked.is_listing).count();
    assert!(listings <= 1, "{asked:?}");
}

fn first_matrix() -> String {
    let all = std::fs::read_dir(golden("bpcells/sources")).unwrap();
    let mut all: Vec<String> = all
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("val_data").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    all.sort();
    all.swap_remove(0)
}

/// A file of one chunked array: 64 chunks of 1 MiB.
fn chunked(path: &Path) -> Vec<u8> {
    let write = "import sys, h5py, numpy
random = numpy.random.default_rng(1)
values = random.integers(0, 4000, 16 << 20).astype('f4')
with h5py.File(sys.argv[1], 'w') as file:
    file.create_dataset('x', data=values, chunks=(1 << 18,), compression=1, shuffle=True)
values.tofile(sys.argv[1] + '.raw')
";
    let mut python = std::process::Command::new(python::interpreter());
    crate::harness::process::run(python.args(["-c", write]).arg(path)).success();
    std::fs::read(path.with_extension("h5.raw")).unwrap()
}

#[test]
fn an_array_is_read_in_few_requests_whichever_way() {
    let directory = crate::harness::scratch_directory();
    let path = directory.path().join("a.h5");
    let known = chunked(&path);
    let server = ObjectServer::start();
    server.put("a.h5", std::fs::read(&path).unwrap());
    let stored = std::fs::metadata(&path).unwrap().len();
    assert!(stored > 20 << 20, "{stored}");
    let mounted = mount(&server, "", &["cache=256M"]);
    let array = mounted.join("a.h5/x");
    assert_eq!(read_direct(&array, 0, 4096).unwrap(), known[..4096]);
    for number in [11u64, 37, 52] {
        server.take_asked();
        let at = number << 20;
        let read = read_direct(&array, at + 5 * 4096, 4096).unwrap();
        assert_eq!(read, known[at as usize + 5 * 4096..][..4096]);
        let asked = of(&server.take_asked(), "a.h5");
        assert!(asked.len() <= 2, "{asked:?}");
    }
    let again = mount(&server, "", &["cache=256M"]);
    server.take_asked();
    let mut all = Vec::new();
    std::fs::File::open(again.join("a.h5/x"))
        .unwrap()
        .read_to_end(&mut all)
        .unwrap();
    assert!(all == known);
    let asked = of(&server.take_asked(), "a.h5");
    // Pieces of a megabyte at least, in the middle.
    let most = stored / (1 << 20) + 16;
    assert!((asked.len() as u64) < most, "{}", asked.len());
    let bytes: u64 = asked
        .iter()
        .filter_map(|asked| asked.range.as_ref())
        .map(|range| range.end - range.start)
        .sum();
    assert!(bytes < stored + (4 << 20), "{bytes} of {stored}");
}

#[test]
fn commands_work_by_urls() {
    let server = ObjectServer::of(&golden("bloscpack/sources"), "b/");
    let url = server.url("b/append-fits.blp");
    let listed = command(&server, &["ls", "-l", &url]).success().text();
    assert!(
        listed.contains(&url) && listed.contains("uint8"),
        "{listed}"
    );
    let local = golden("bloscpack/sources/append-fits.blp");
    let local = |word: &str| super::arrayfs([Path::new(word), &local]).success();
    let remote = |word: &str| command(&server, &[word, &url]).success();
    assert_eq!(remote("cat").stdout, local("cat").stdout);
    let values =
        |ran: crate::harness::process::Ran| ran.text().split_once('\n').unwrap().1.to_owned();
    assert_eq!(values(remote("show")), values(local("show")));
    remote("verify");
    let array = format!("{url}/data");
    assert_eq!(
        command(&server, &["cat", &array]).success().stdout,
        local("cat").stdout
    );
    // As it is typed.
    let typed = server.url("b/append-fi");
    let mut complete = std::process::Command::new(crate::harness::process::ARRAYFS);
    complete.args(["complete", "words", "--", "arrayfs", "cat", &typed]);
    complete
        .env("AWS_ENDPOINT_URL", server.endpoint())
        .env("AWS_ACCESS_KEY_ID", "a");
    let offered = crate::harness::process::run(complete.env("AWS_SECRET_ACCESS_KEY", "b"));
    assert!(offered.text().contains(&url), "{offered:?}");
    // In a mount it is what lies there.
    let mounted = mount(&server, "b", &[]);
    let there = mounted.join("append-fits.blp");
    let of_mount = super::arrayfs([Path::new("cat"), &there]).success();
    assert_eq!(of_mount.stdout, local("cat").stdout);
}
