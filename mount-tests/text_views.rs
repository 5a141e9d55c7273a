//! Views of text: what NumPy loads is what the formats' own libraries read, staged changes
//! included, and damage is EIO.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::io::Errno;

use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::python::script;
use crate::harness::reads::{names, xattr};
use crate::harness::scratch_directory;

fn python<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> String {
    script("text_views.py", arguments).success().text()
}

/// A file with a text of these values.
fn write_h5(path: &Path, values: &[&str]) {
    let values = values.iter().map(OsStr::new);
    python(
        [OsStr::new("h5"), path.as_os_str()]
            .into_iter()
            .chain(values),
    );
}

#[track_caller]
fn assert_loads(view: &Path, values: &[&str]) {
    let values = values.iter().map(OsStr::new);
    python(
        [OsStr::new("load"), view.as_os_str()]
            .into_iter()
            .chain(values),
    );
}

#[test]
fn numpy_loads_text_as_the_libraries_read_it() {
    let source = scratch_directory();
    python([OsStr::new("write"), source.path().as_os_str()]);
    for options in [&[][..], &["ro"], &["views"], &["ro,direct_io,cache=1M"]] {
        let mounted = Mounted::new(source.path(), options);
        let paths = [source.path().as_os_str(), mounted.path().as_os_str()];
        let said = python([OsStr::new("compare")].into_iter().chain(paths));
        let compared: usize = said.split_whitespace().next().unwrap().parse().unwrap();
        assert!(compared >= 14, "{options:?}: {said}");
    }
}

/// The sizes that a listing shows are those that are read.
#[test]
fn sizes_of_views_are_exact() {
    let source = scratch_directory();
    write_h5(&source.path().join("x.h5"), &["größe", "b"]);
    let mounted = Mounted::new(source.path(), &["ro"]);
    let views = mounted.join("x.h5/views");
    for name in names(&views).iter().filter(|name| name.ends_with(".npy")) {
        let path = views.join(name);
        let told = path.metadata().unwrap().len();
        assert_eq!(std::fs::read(&path).unwrap().len() as u64, told, "{name}");
    }
    let size = views.join("names.npy").metadata().unwrap().len();
    assert_eq!(size, 128 + 2 * 5 * 4);
    assert_eq!(
        xattr(&views.join("names.npy"), "user.arrayfs.dtype").unwrap(),
        "str"
    );
}

#[test]
fn a_view_has_what_is_staged_from_its_next_open_on() {
    let source = scratch_directory();
    write_h5(&source.path().join("x.h5"), &["a", "bc"]);
    let place = Place::over(source, &[]);
    let (names, view) = (place.join("x.h5/names"), place.join("x.h5/views/names.npy"));
    assert_loads(&view, &["a", "bc"]);
    let before = view.metadata().unwrap().len();
    let mut file = File::create(&names).unwrap();
    file.write_all("longer\nz\nümlaut\n".as_bytes()).unwrap();
    assert_loads(&view, &["longer", "z", "ümlaut"]);
    let staged = view.metadata().unwrap().len();
    assert_eq!(staged, before - 2 * 2 + 3 * 6 * 4);
    drop(file);
    assert_loads(&view, &["longer", "z", "ümlaut"]);
    std::fs::write(&names, "x\n\n").unwrap();
    assert_loads(&view, &["x", ""]);
}

#[test]
fn damaged_text_is_an_error_of_its_view_alone() {
    let source = scratch_directory();
    let path = source.path().join("x.h5");
    write_h5(&path, &["a distinct value", "another one"]);
    let mut bytes = std::fs::read(&path).unwrap();
    let heap = b"GCOL";
    let at = bytes.windows(4).position(|found| found == heap).unwrap();
    bytes[at..at + 4].copy_from_slice(b"XXXX");
    std::fs::write(&path, bytes).unwrap();
    let mounted = Mounted::new(source.path(), &["ro"]);
    let read = std::fs::read(mounted.join("x.h5/views/names.npy"));
    assert_eq!(
        read.unwrap_err().raw_os_error(),
        Some(Errno::IO.raw_os_error())
    );
    assert!(std::fs::read(mounted.join("x.h5/views/other.npy")).is_ok());
    names(&mounted.join("x.h5/views"));
    mounted.assert_alive();
}
