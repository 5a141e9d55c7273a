//! HDF5 files as directories: groups, attributes, links, what leads out of the file, and files that
//! change.
//!
//! `write_hdf5.py` writes them with h5py. What datasets hold is tested in `hdf5_content.rs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::harness::mounted::Mounted;
use crate::harness::process::{arrayfs, run};
use crate::harness::python::Written;
use crate::harness::reads::{assert_content, names, walk, xattr};
use crate::harness::{scratch_directory, wait_until};

/// Numbers of four bytes that count from `start` on.
fn count(start: i32, n: i32) -> Vec<u8> {
    (start..start + n).flat_map(i32::to_le_bytes).collect()
}

fn arrays_json(container: &Path) -> Value {
    let text = std::fs::read(container.join("arrays.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Reasons by name, of what cannot be read.
fn unreadable(container: &Path) -> BTreeMap<String, String> {
    let described = arrays_json(container);
    let listed = described["unreadable"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pair = |member: &Value| (text(&member["name"]), text(&member["reason"]));
    listed.iter().map(pair).collect()
}

#[test]
fn groups_are_directories_also_empty_ones() {
    let written = Written::new("groups");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("groups.h5");
    assert_content(&file.join("a/b/c/deep"), &count(0, 10));
    assert_content(&file.join("a/beside"), &count(0, 5));
    assert_eq!(
        names(&file.join("a")),
        ["arrays.json", "b", "beside", "empty"]
    );
    assert_eq!(names(&file.join("a/empty")), ["arrays.json"]);
    assert!(file.join("views/a/b/c/deep.npy").is_file());
    assert_eq!(xattr(&file, "user.arrayfs.format").unwrap(), "hdf5");
    let verified = arrayfs([Path::new("verify"), &written.source()]);
    assert_eq!(verified.code(), Some(0), "{verified:?}");
}

#[test]
fn odd_names_are_escaped_and_lead_nowhere_else() {
    let written = Written::new("groups");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("groups.h5");
    let shown = [
        "with space",
        "größe 🦀",
        "100%25",
        "tilde%7E",
        "new%0Aline",
        "-rf *?",
        ".hidden",
        "%FF%FE",
    ];
    let root = names(&file);
    for (number, name) in (1..).zip(shown) {
        assert_content(&file.join("odd").join(name), &count(number, 3));
        assert!(
            root.iter().any(|n| n == name),
            "{name} is missing in {root:?}"
        );
    }
    assert_eq!(names(&file.join("odd")).len(), shown.len() + 2);
    // Only a container's own directory has names of its own, but for one.
    assert_content(&file.join("odd/views"), &count(100, 3));
    for reserved in ["views~", "arrays.json~", "error.txt~"] {
        let numbered = root.iter().filter(|name| name.starts_with(reserved));
        assert_eq!(numbered.count(), 1, "{reserved} in {root:?}");
    }
    let long = root.iter().find(|name| name.starts_with("nnn")).unwrap();
    assert!(long.starts_with(&format!("{}~", "n".repeat(200))), "{long}");
    assert!(arrays_json(&file)["arrays"].is_array());
}

#[test]
fn attributes_are_in_arrays_json() {
    let written = Written::new("attributes");
    let mounted = Mounted::new(written.source(), &[]);
    let described = arrays_json(&mounted.join("attributes.h5"));
    let expected = json!({
        "title": "größe", "count": 42, "ratio": 2.5, "list": [1, 2, 3], "words": ["one", "two"],
        "good": true,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(
            described["attributes"][name], *value,
            "{name} in {described}"
        );
    }
    assert_eq!(described["groups"]["group"]["kind"], "fixed");
    let array = &described["arrays"][0];
    assert_eq!(array["name"], "group/numbers");
    assert_eq!(array["attributes"], json!({ "unit": "m" }));
}

#[test]
fn a_second_way_to_a_group_is_a_link_and_one_to_a_dataset_a_file() {
    let written = Written::new("links");
    let mounted = Mounted::new(written.source(), &[]);
    let file = mounted.join("links.h5");
    for name in ["a/b/numbers", "z/hard", "z/soft", "z/through"] {
        assert!(
            file.join(name).symlink_metadata().unwrap().is_file(),
            "{name}"
        );
        assert_content(&file.join(name), &count(0, 10));
    }
    let places = [
        ("z/hard-group", "a/b"),
        ("z/soft-group", "a/b"),
        ("a/b/up", "a"),
        ("a/self", "a"),
        ("a/b/root", ""),
    ];
    for (link, group) in places {
        let link = file.join(link);
        assert!(
            link.symlink_metadata().unwrap().is_symlink(),
            "{}",
            link.display()
        );
        let (leads, expected) = (
            link.canonicalize().unwrap(),
            file.join(group).canonicalize(),
        );
        assert_eq!(leads, expected.unwrap(), "{}", link.display());
    }
    assert_content(
        &file.join("z/soft-group/up/self/b/root/z/hard"),
        &count(0, 10),
    );
    assert_eq!(arrays_json(&file)["links"]["z/hard-group"], "a/b");
}

#[test]
fn cycles_end_and_links_to_nothing_are_named() {
    let written = Written::new("links");
    let mounted = Mounted::new(written.source(), &[]);
    let found = run(Command::new("find").arg(mounted.path()))
        .success()
        .text();
    assert!(found.lines().count() < 50, "{found}");
    let file = mounted.join("links.h5");
    let unreadable = unreadable(&file);
    for (name, part) in [
        ("z/loop", "/z/pool"),
        ("z/pool", "/z/loop"),
        ("z/nowhere", "/no/such"),
    ] {
        let reason = unreadable.get(name).map_or("", String::as_str);
        assert!(reason.contains(part), "{name} in {unreadable:?}");
        assert!(!file.join(name).is_file());
    }
}

/// Tells of everything that is opened in a directory.
struct Watch(OwnedFd);

impl Watch {
    fn new(directory: &Path) -> Self {
        let watch = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        add_watch(&watch, directory, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
        Watch(watch)
    }

    fn has_seen_something(&self) -> bool {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.0, &mut space);
        let seen = reader.next().map(drop);
        assert!(matches!(seen, Ok(()) | Err(Errno::AGAIN)), "{seen:?}");
        seen.is_ok()
    }
}

#[test]
fn nothing_outside_of_a_file_is_opened() {
    let written = Written::new("outside");
    let elsewhere = written.directory.path().join("outside");
    let watch = Watch::new(&elsewhere);
    let mounted = Mounted::new(written.source(), &["views"]);
    let file = mounted.join("outside.h5");
    let unreadable = unreadable(&file);
    for (name, part) in [
        ("external-dataset", "secret.h5"),
        ("external-file", "../outside/secret.h5"),
        ("group/external", "secret.h5"),
        ("raw", "secret.bin"),
        ("virtual", "secret.h5"),
    ] {
        let reason = unreadable.get(name).map_or("", String::as_str);
        assert!(reason.contains(part), "{name} in {unreadable:?}");
        let read = std::fs::read(file.join(name)).expect_err(name);
        assert_eq!(read.raw_os_error(), Some(libc::EIO), "{name}");
    }
    assert_content(&file.join("sound"), &count(0, 10));
    assert_content(&file.join("group/sound"), &count(0, 10));
    let (files, failures) = walk(mounted.path());
    assert!(failures.is_empty(), "{failures:?}");
    assert!(
        files
            .iter()
            .filter(|file| std::fs::read(file).is_ok())
            .count()
            > 4
    );
    let verified = arrayfs([Path::new("verify"), &written.source()]).success();
    assert_eq!(
        (verified.text().lines().count(), &*verified.stderr),
        (6, "")
    );
    assert!(!watch.has_seen_something(), "something outside was opened");
    std::fs::read(elsewhere.join("secret.bin")).unwrap();
    assert!(watch.has_seen_something(), "the watch works");
}

/// A file that is changed under its readers: content `n` is the number n 50,000 times.
struct Changing {
    versions: Written,
    source: tempfile::TempDir,
    mounted: Mounted,
}

const ELEMENTS: usize = 50_000;

impl Changing {
    fn new() -> Self {
        let (versions, source) = (Written::new("versions"), scratch_directory());
        std::fs::copy(versions.source().join("0.h5"), source.path().join("x.h5")).unwrap();
        let mounted = Mounted::new(source.path(), &["cache=4M"]);
        Changing {
            versions,
            source,
            mounted,
        }
    }

    fn stored(&self) -> PathBuf {
        self.source.path().join("x.h5")
    }

    fn version(&self, n: usize) -> Vec<u8> {
        std::fs::read(self.versions.source().join(format!("{}.h5", n % 10))).unwrap()
    }

    fn replace(&self, n: usize) {
        let new = self.source.path().join("new");
        std::fs::write(&new, self.version(n)).unwrap();
        std::fs::rename(new, self.stored()).unwrap();
    }

    /// Until the clock of the file system has moved on: before, nobody could see the change.
    fn overwrite(&self, n: usize) {
        let changed = || self.stored().metadata().unwrap().modified().unwrap();
        let (before, version) = (changed(), self.version(n));
        wait_until("the time of change has moved on", || {
            std::fs::write(self.stored(), &version).unwrap();
            changed() != before
        });
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.mounted.join("x.h5/same"))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn content(n: usize) -> Vec<u8> {
    (n as u32 % 10).to_le_bytes().repeat(ELEMENTS)
}

#[test]
fn a_changed_file_shows_its_new_content_at_once() {
    let changing = Changing::new();
    for n in 1..25 {
        match n % 3 {
            0 => changing.overwrite(n),
            _ => changing.replace(n),
        }
        assert!(changing.read().unwrap() == content(n), "content {n}");
    }
    changing.mounted.assert_alive();
}

/// Whether a reader got one content; what else it may meet while the file is being written.
fn got_one(read: io::Result<Vec<u8>>, in_place: bool) -> bool {
    match read {
        Ok(bytes) => {
            let n = usize::from(bytes.first().copied().unwrap_or_default());
            assert!(
                bytes == content(n),
                "{} bytes of no one content",
                bytes.len()
            );
            true
        }
        Err(e) => {
            let errno = e.raw_os_error().unwrap();
            let fair: &[i32] = match in_place {
                true => &[libc::EIO, libc::ESTALE, libc::ENOENT, libc::ENOTDIR],
                false => &[libc::EIO, libc::ESTALE],
            };
            assert!(fair.contains(&errno), "{e}");
            false
        }
    }
}

#[test]
fn readers_of_a_changing_file_never_get_a_mixture() {
    for in_place in [false, true] {
        let changing = Changing::new();
        let (done, passes) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let got = got_one(changing.read(), in_place);
                        passes.fetch_add(usize::from(got), Ordering::Relaxed);
                    }
                });
            }
            for n in 1..40 {
                match in_place {
                    true => changing.overwrite(n),
                    false => changing.replace(n),
                }
            }
            let before = passes.load(Ordering::Relaxed);
            wait_until("the readers have read what is there", || {
                passes.load(Ordering::Relaxed) > before + 8
            });
            done.store(true, Ordering::Relaxed);
        });
        assert!(changing.read().unwrap() == content(39));
        changing.mounted.assert_alive();
    }
}
