//! New containers: `mkdir x.blp`, filled by programs that make files and by those that copy
//! directories, and what the source holds then.

mod left;

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{assert_stored, container, hidden, written_by_dd};
use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::python::script;
use crate::harness::reads::{assert_content, xattr};
use crate::harness::seeded::Seeded;
use crate::harness::small_disk::SmallDisk;
use crate::harness::tools::{shell, tools};
use crate::harness::users::{OTHER, as_user};
use crate::harness::{golden, is_root, scratch_directory, wait_until};

/// New containers are packed when somebody syncs them: a slow machine does not do it in between.
fn place() -> Place {
    Place::mounted(&["settle=600000"])
}

fn errno<T>(done: io::Result<T>) -> Option<i32> {
    done.err().and_then(|e| e.raw_os_error())
}

/// A container, and the bytes that it must hold.
type Expected = (PathBuf, Vec<u8>);

/// What the real library prints of containers that hold these bytes.
fn told(command: &str, expected: &[Expected]) -> String {
    let directory = scratch_directory();
    let mut arguments = vec![PathBuf::from(command)];
    for (number, (container, bytes)) in expected.iter().enumerate() {
        let raw = directory.path().join(number.to_string());
        std::fs::write(&raw, bytes).unwrap();
        arguments.extend([container.clone(), raw]);
    }
    script("oracle_bloscpack.py", arguments).success().text()
}

/// The real library reads these bytes out of the container.
fn assert_unpacks(container: &Path, expected: &[u8]) {
    told("plain", &[(container.to_owned(), expected.to_vec())]);
}

/// dtype, shape and order, as the real library reads them; the elements are these bytes.
pub(super) fn numpy(container: &Path, expected: &[u8]) -> String {
    told("array", &[(container.to_owned(), expected.to_vec())])
}

fn sync(directory: &Path) {
    File::open(directory).unwrap().sync_all().unwrap();
}

/// It is new no more. Nobody waits for quiet: it is packed when its directory is synced.
fn wait_packed(place: &Place, name: &str) {
    wait_until(&format!("{name} is packed"), || {
        let _not_yet = File::open(place.join(name)).and_then(|directory| directory.sync_all());
        hidden(&place.stored(name)) == 0
    });
}

#[test]
fn it_is_an_empty_file_at_once_and_waits_for_its_array() {
    let mut place = Place::mounted(&["settle=1"]);
    shell(place.path(), "mkdir -m 750 x.blp", &[]);
    let stored = place.stored("x.blp");
    assert_eq!(stored.metadata().unwrap().mode(), 0o100640);
    assert_eq!(place.join("x.blp").metadata().unwrap().mode(), 0o40750);
    let again = std::fs::create_dir(place.join("x.blp"));
    assert_eq!(errno(again), Some(libc::EEXIST));
    for put in ["", "arrays.json"] {
        if !put.is_empty() {
            std::fs::write(place.join("x.blp").join(put), DOUBLES).unwrap();
        }
        place.mount_again();
        assert_unpacks(&stored, b"");
        let shown = std::fs::read_dir(place.join("x.blp")).unwrap();
        let shown: Vec<_> = shown.map(|entry| entry.unwrap().file_name()).collect();
        assert!(shown.iter().all(|name| name == put), "{shown:?}");
    }
    std::fs::write(place.join("x.blp/data"), [1; 48]).unwrap();
    wait_packed(&place, "x.blp");
    assert_eq!(numpy(&stored, &[1; 48]), "[\"float64\", [2, 3], \"C\"]\n");
}

const DOUBLES: &str = r#"{"arrays": [{"name": "data", "dtype": "<f8", "shape": [2, 3]}]}"#;

/// As long as nobody has it open: that is all there is to do for a program that writes an array.
#[test]
fn it_is_packed_when_nobody_uses_it_any_more() {
    let place = Place::mounted(&["settle=50"]);
    std::fs::create_dir(place.join("x.blp")).unwrap();
    std::fs::write(place.join("x.blp/data"), "some bytes").unwrap();
    wait_until("it is packed", || hidden(&place.stored("x.blp")) == 0);
    assert_stored(&place.stored("x.blp"), b"some bytes");
}

#[test]
fn programs_fill_it_as_they_write_files() {
    let place = place();
    let plain = Seeded::new(1).rising(3_000_000);
    std::fs::write(place.stored("raw"), &plain).unwrap();
    let fill = "mkdir a.blp b.blp c.blp d.blp; cp raw a.blp/data; dd if=raw of=b.blp/data bs=100k status=none
        cat raw > c.blp/data; cp raw d.blp/temporary; mv d.blp/temporary d.blp/data";
    shell(place.path(), fill, &[]);
    std::fs::create_dir(place.join("x.blp")).unwrap();
    let path = place.join("x.blp/data");
    let arguments = [OsStr::new("memmap"), OsStr::new("w+"), path.as_os_str()];
    let arguments = arguments.into_iter().chain(["7", "200000"].map(OsStr::new));
    script("oracle_bloscpack.py", arguments).success();
    let numbers: Vec<u8> = (7..200_007u64).flat_map(u64::to_le_bytes).collect();
    assert_content(&path, &numbers);
    for (name, expected) in ["a", "b", "c", "d"]
        .map(|name| (name, &plain))
        .iter()
        .chain([&("x", &numbers)])
    {
        let stored = place.stored(format!("{name}.blp"));
        wait_packed(&place, &format!("{name}.blp"));
        assert_content(&place.join(format!("{name}.blp/data")), expected);
        assert_stored(&stored, expected);
        assert_unpacks(&stored, expected);
        assert!(
            stored.metadata().unwrap().len() < expected.len() as u64 / 2,
            "it is packed"
        );
    }
}

/// Containers of the corpus: NumPy arrays of several dimensions and orders, bytes with metadata of
/// their own.
const COPIED: [&str; 9] = [
    "np-3d",
    "np-2d-F",
    "np-struct",
    "np-0",
    "np-be-f8",
    "codec-zstd",
    "codec-lz4-",
    "meta-list",
    "meta-unicode",
];

fn copied() -> Vec<String> {
    let names = std::fs::read_dir(golden("bloscpack/sources")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let wanted = |name: &String| COPIED.iter().any(|wanted| name.starts_with(wanted));
    let names: Vec<String> = names.filter(wanted).collect();
    assert!(names.len() >= 3, "{names:?}");
    names
}

/// What `arrays.json` says of the array, but for what goes by how well it is packed.
fn described(container: &Path) -> serde_json::Value {
    let text = std::fs::read(container.join("arrays.json")).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let array = &said["arrays"][0];
    let of_array = ["dtype", "shape", "order", "bytes", "codec"].map(|name| array[name].clone());
    serde_json::json!([
        of_array,
        said["attributes"]["metadata"],
        said["attributes"]["checksum"]
    ])
}

fn copy_with(command: &str) {
    let place = place();
    let names = copied();
    std::fs::create_dir(place.stored("from")).unwrap();
    for name in &names {
        let from = golden("bloscpack/sources").join(name);
        std::fs::copy(from, place.stored("from").join(name)).unwrap();
    }
    shell(place.path(), command, &[]);
    let (mut arrays, mut others) = ([Vec::new(), Vec::new()], Vec::new());
    for name in &names {
        wait_packed(&place, &format!("to/{name}"));
        let (from, to) = (place.join("from").join(name), place.join("to").join(name));
        let plain = std::fs::read(from.join("data")).unwrap();
        assert_content(&to.join("data"), &plain);
        assert_eq!(described(&to), described(&from), "{name}");
        let stored = ["from", "to"].map(|below| place.stored(below).join(name));
        match name.starts_with("np") {
            true => {
                let pairs = arrays.iter_mut().zip(stored);
                pairs.for_each(|(of, stored)| of.push((stored, plain.clone())));
            }
            false => others.push((place.stored("to").join(name), plain)),
        }
        if command.contains("-a") {
            let (from, to) = (from.metadata().unwrap(), to.metadata().unwrap());
            assert_eq!(
                (to.mode(), to.mtime(), to.mtime_nsec()),
                (from.mode(), from.mtime(), from.mtime_nsec())
            );
        }
    }
    arrayfs([Path::new("verify"), &place.stored("to")]).success();
    let [from, to] = arrays.map(|of| told("array", &of));
    assert_eq!(to, from);
    told("plain", &others);
}

#[test]
fn cp_copies_containers() {
    copy_with("mkdir to; for name in from/*; do cp -r $name to; done");
}

#[test]
fn cp_copies_a_tree_of_containers_with_modes_and_times() {
    copy_with("chmod 640 from/np*; touch -d 2001-02-03 from/*; cp -a from to");
}

#[test]
fn rsync_copies_containers() {
    if tools(&["rsync"]) {
        copy_with("chmod 640 from/np*; mkdir to; for name in from/*; do rsync -a $name to; done");
        copy_with("rsync -a from/ to; rsync -a --checksum --itemize-changes from/ to");
    }
}

/// But for what says how well an array is packed, which is the mount's to write.
#[test]
fn rsync_has_nothing_to_do_once_they_are_packed() {
    if !tools(&["rsync"]) {
        return;
    }
    let place = place();
    std::fs::create_dir(place.stored("from")).unwrap();
    for name in copied() {
        let from = golden("bloscpack/sources").join(&name);
        std::fs::copy(from, place.stored("from").join(name)).unwrap();
    }
    shell(place.path(), "rsync -a from/ to", &[]);
    copied()
        .iter()
        .for_each(|name| wait_packed(&place, &format!("to/{name}")));
    let again = "rsync -aO --checksum --exclude=arrays.json --exclude=metadata.json \
                 --exclude=views --itemize-changes from/ to >said 2>&1";
    shell(place.path(), again, &[]);
    assert_content(&place.join("said"), b"");
}

#[test]
fn a_copied_description_that_is_not_understood_is_refused_when_it_is_closed() {
    let place = place();
    std::fs::create_dir(place.join("x.blp")).unwrap();
    let description = place.join("x.blp/arrays.json");
    for bad in [
        &b"{}"[..],
        b"what",
        br#"{"format": "bpcells", "arrays": []}"#,
    ] {
        File::create(&description).unwrap();
        written_by_dd(&description, 0, bad).failed_saying(1, &["Invalid argument"]);
    }
    // It is still a file.
    std::fs::write(
        &description,
        r#"{"arrays": [{"name": "data", "dtype": "<f8", "shape": [7]}]}"#,
    )
    .unwrap();
    std::fs::write(place.join("x.blp/data"), [1; 48]).unwrap();
    let sync = || File::open(place.join("x.blp")).unwrap().sync_all();
    wait_until("it does not fit", || errno(sync()) == Some(libc::EINVAL));
    let state = xattr(&place.join("x.blp"), "user.arrayfs.state").unwrap();
    assert!(state.contains("56 bytes, data has 48"), "{state}");
    assert_unpacks(&place.stored("x.blp"), b"");
    std::fs::write(&description, DOUBLES).unwrap();
    wait_packed(&place, "x.blp");
    assert_eq!(
        numpy(&place.stored("x.blp"), &[1; 48]),
        "[\"float64\", [2, 3], \"C\"]\n"
    );
}

#[test]
fn what_is_no_part_of_a_container_lies_beside_its_arrays() {
    let place = place();
    std::fs::create_dir(place.join("x.blp")).unwrap();
    std::fs::write(place.join("x.blp/data"), "data").unwrap();
    std::fs::write(place.join("x.blp/notes"), "notes").unwrap();
    std::fs::write(place.join("x.blp/.rc"), "dot").unwrap();
    sync(&place.join("x.blp"));
    let (mounted, source) = place.into_parts();
    drop(mounted);
    assert_unpacks(&source.path().join("x.blp"), b"data");
    let place = Place::over(source, &[]);
    assert_content(&place.join("x.blp/notes"), b"notes");
    assert_content(&place.join("x.blp/.rc"), b"dot");
    shell(place.path(), "mv x.blp/notes .; rm x.blp/.rc", &[]);
    assert_eq!(hidden(&place.stored("x.blp")), 0);
    assert_stored(&place.stored("x.blp"), b"data");
}

#[test]
fn what_cannot_lie_beside_its_arrays_is_not_lost() {
    let place = place();
    std::fs::create_dir_all(place.join("x.blp/notes")).unwrap();
    std::fs::write(place.join("x.blp/data"), "data").unwrap();
    std::fs::write(place.join("x.blp/notes/one"), "notes").unwrap();
    let refused = File::open(place.join("x.blp")).unwrap().sync_all();
    assert_eq!(errno(refused), Some(libc::EINVAL));
    let (mounted, source) = place.into_parts();
    drop(mounted);
    let container = source.path().join("x.blp");
    let stage = |what: &str| arrayfs([OsStr::new("stage"), what.as_ref(), container.as_os_str()]);
    let listed = stage("ls").success().text();
    assert!(listed.contains("new, not packed yet"), "{listed}");
    stage("commit").failed_saying(1, &["notes cannot be a part"]);
    let place = Place::over(source, &[]);
    assert_content(&place.join("x.blp/notes/one"), b"notes");
    shell(place.path(), "mv x.blp/notes .", &[]);
    wait_packed(&place, "x.blp");
    assert_stored(&place.stored("x.blp"), b"data");
}

#[test]
fn syncing_its_directory_packs_it() {
    let place = place();
    std::fs::create_dir(place.join("x.blp")).unwrap();
    let inode = place.join("x.blp").metadata().unwrap().ino();
    std::fs::write(place.join("x.blp/data"), "packed").unwrap();
    sync(&place.join("x.blp"));
    assert_eq!(hidden(&place.stored("x.blp")), 0);
    assert_unpacks(&place.stored("x.blp"), b"packed");
    assert_eq!(place.join("x.blp").metadata().unwrap().ino(), inode);
    assert_content(&place.join("x.blp/data"), b"packed");
    assert!(place.join("x.blp/views/data.npy").exists());
    // A program that stands there stays there.
    std::fs::create_dir(place.join("y.blp")).unwrap();
    let script = "printf inside > data; sync .; cat data; test -e views/data.npy";
    let told = shell(&place.join("y.blp"), script, &[]);
    assert_eq!(told.text(), "inside");
    assert_stored(&place.stored("y.blp"), b"inside");
}

#[test]
fn a_file_that_is_open_keeps_it_new() {
    let place = place();
    std::fs::create_dir(place.join("x.blp")).unwrap();
    let file = File::create(place.join("x.blp/data")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    sync(&place.join("x.blp"));
    file.write_all_at(b"later", 5).unwrap();
    assert_unpacks(&place.stored("x.blp"), b"");
    assert_eq!(
        xattr(&place.join("x.blp"), "user.arrayfs.state").unwrap(),
        "staged: it is new"
    );
    drop(file);
    wait_packed(&place, "x.blp");
    assert_stored(&place.stored("x.blp"), b"firstlater");
}

#[test]
fn it_is_renamed_as_it_is() {
    let place = place();
    container(&place, "old.blp", b"old");
    let script =
        "mkdir x.blp; printf new > x.blp/data; mv x.blp y.blp; test ! -e x.blp; cat y.blp/data
        mkdir d x.blp; mv x.blp d; printf more > d/x.blp/data; mv d/x.blp z.blp
        mkdir e e/x.blp; printf a > e/x.blp/data; mv e f; printf b >> f/x.blp/data";
    assert_eq!(shell(place.path(), script, &[]).text(), "new");
    for (name, expected) in [("y.blp", "new"), ("z.blp", "more"), ("f/x.blp", "ab")] {
        wait_packed(&place, name);
        assert_stored(&place.stored(name), expected.as_bytes());
    }
    // In the place of another one it is what it will be, or as empty as it is.
    shell(
        place.path(),
        "mkdir x.blp; printf newer > x.blp/data; mv -T x.blp old.blp; mkdir x.blp; mv -T y.blp x.blp
        mkdir n.blp; mv -T n.blp z.blp; ls z.blp",
        &[],
    );
    assert_stored(&place.stored("old.blp"), b"newer");
    assert_stored(&place.stored("x.blp"), b"new");
    assert!(
        std::fs::read_dir(place.join("z.blp"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn an_open_file_goes_along_when_it_is_renamed() {
    let place = place();
    std::fs::create_dir(place.join("x.blp")).unwrap();
    let file = File::create(place.join("x.blp/data")).unwrap();
    file.write_all_at(b"first", 0).unwrap();
    std::fs::rename(place.join("x.blp"), place.join("y.blp")).unwrap();
    file.write_all_at(b"later", 5).unwrap();
    drop(file);
    wait_packed(&place, "y.blp");
    assert_stored(&place.stored("y.blp"), b"firstlater");
}

#[test]
fn it_is_removed_as_a_directory() {
    let place = place();
    let script = "mkdir x.blp; rmdir x.blp; mkdir x.blp; printf a > x.blp/data; ! rmdir x.blp 2> /dev/null; rm -r x.blp
        mkdir x.blp; printf a > x.blp/data; mkdir x.blp/views; printf b > x.blp/views/v; rm -r x.blp";
    shell(place.path(), script, &[]);
    assert_eq!(std::fs::read_dir(place.source()).unwrap().count(), 0);
}

#[test]
fn in_other_containers_and_where_nothing_is_written_there_are_none() {
    let place = place();
    container(&place, "x.blp", b"there");
    assert_eq!(
        errno(std::fs::create_dir(place.join("x.blp/y.blp"))),
        Some(libc::EPERM)
    );
    let hidden = place.join(".x.blp.arrayfs-drafts");
    assert_eq!(errno(std::fs::create_dir(hidden)), Some(libc::EPERM));
    // Other names are those of directories.
    for name in ["y.x", "y.blp.bak", ".bpcells", ".blp", ".h5"] {
        std::fs::create_dir(place.join(name)).unwrap();
        assert!(place.stored(name).is_dir());
    }
    let source = scratch_directory();
    let mounted = Mounted::new(source.path(), &["ro"]);
    assert_eq!(
        errno(std::fs::create_dir(mounted.join("x.blp"))),
        Some(libc::EROFS)
    );
}

#[test]
fn it_is_of_who_makes_it() {
    if !is_root("another user") {
        return;
    }
    let place = place();
    let path = place.join("x.blp");
    as_user(OTHER, || {
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("data"), "his").unwrap();
        std::fs::set_permissions(path.join("data"), Permissions::from_mode(0o600)).unwrap();
    });
    wait_packed(&place, "x.blp");
    let stored = place.stored("x.blp").metadata().unwrap();
    assert_eq!(
        (stored.uid(), stored.gid(), stored.mode()),
        (OTHER, OTHER, 0o100600)
    );
    assert_stored(&place.stored("x.blp"), b"his");
}

#[test]
fn a_full_disk_costs_nothing_of_what_was_put_into_it() {
    if !is_root("a small file system") {
        return;
    }
    let mut disk = SmallDisk::new("size=8m,mode=777", Some(&["rw"]));
    std::fs::create_dir(disk.join("x.blp")).unwrap();
    let noise = Seeded::new(2).noise(5 << 20);
    std::fs::write(disk.join("x.blp/data"), &noise).unwrap();
    let packed = File::open(disk.join("x.blp")).unwrap().sync_all();
    assert_eq!(errno(packed), Some(libc::ENOSPC));
    let mut filler = File::create(disk.stored("filler")).unwrap();
    while filler.write(&[1; 4096]).is_ok_and(|n| n > 0) {}
    assert_eq!(
        errno(std::fs::create_dir(disk.join("y.blp"))),
        Some(libc::ENOSPC)
    );
    assert!(!disk.stored("y.blp").exists());
    assert_content(&disk.join("x.blp/data"), &noise);
    rustix::mount::mount_remount(
        disk.stored(""),
        rustix::mount::MountFlags::empty(),
        "size=32m",
    )
    .unwrap();
    disk.unmount();
    assert_stored(&disk.stored("x.blp"), &noise);
}
