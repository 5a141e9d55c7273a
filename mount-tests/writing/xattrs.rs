//! Extended attributes of ordinary files and directories: those of users, no others.

use std::fs::File;

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::harness::is_root;
use crate::harness::place::{Place, scenarios};

scenarios![
    everywhere
    attributes_of_users_come_and_go,
    an_attribute_is_made_or_replaced_as_asked,
    attributes_follow_the_file,
];

fn value(path: &std::path::Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 4096];
    let n = getxattr(path, name, &mut value[..])?;
    value.truncate(n);
    Ok(value)
}

fn names(path: &std::path::Path) -> Vec<String> {
    let mut names = vec![0; 4096];
    let n = listxattr(path, &mut names[..]).unwrap();
    let names = names[..n]
        .split(|&b| b == 0)
        .filter(|name| !name.is_empty());
    let mut names: Vec<String> = names
        .map(|name| String::from_utf8(name.to_vec()).unwrap())
        .filter(|name| name.starts_with("user.") && !name.starts_with("user.arrayfs."))
        .collect();
    names.sort();
    names
}

fn attributes_of_users_come_and_go(place: &Place) {
    File::create(place.join("file")).unwrap();
    std::fs::create_dir(place.join("directory")).unwrap();
    let flags = XattrFlags::empty();
    for entry in ["file", "directory"] {
        let (path, stored) = (place.join(entry), place.stored(entry));
        assert_eq!(value(&path, "user.none"), Err(Errno::NODATA));
        assert_eq!(removexattr(&path, "user.none"), Err(Errno::NODATA));
        for (name, content) in [
            ("user.empty", &b""[..]),
            ("user.text", b"value"),
            ("user.größe", &[0, 255, 0, 10]),
            ("user.long", &[7; 2000]),
        ] {
            setxattr(&path, name, content, flags).unwrap();
            assert_eq!(value(&path, name).unwrap(), content, "{name}");
            assert_eq!(value(&stored, name).unwrap(), content, "{name}");
        }
        let mut expected = ["user.empty", "user.größe", "user.long", "user.text"];
        assert_eq!(names(&path), expected);
        assert_eq!(
            getxattr(&path, "user.long", &mut [0; 10][..]),
            Err(Errno::RANGE)
        );
        assert_eq!(listxattr(&path, &mut [0; 5][..]), Err(Errno::RANGE));
        removexattr(&path, "user.text").unwrap();
        assert_eq!(value(&path, "user.text"), Err(Errno::NODATA));
        assert_eq!(value(&stored, "user.text"), Err(Errno::NODATA));
        expected[3] = "";
        assert_eq!(names(&path), expected[..3]);
    }
}

fn an_attribute_is_made_or_replaced_as_asked(place: &Place) {
    let path = place.join("file");
    File::create(&path).unwrap();
    let (make, replace) = (XattrFlags::CREATE, XattrFlags::REPLACE);
    assert_eq!(setxattr(&path, "user.x", b"1", replace), Err(Errno::NODATA));
    setxattr(&path, "user.x", b"1", make).unwrap();
    assert_eq!(setxattr(&path, "user.x", b"2", make), Err(Errno::EXIST));
    assert_eq!(value(&path, "user.x").unwrap(), b"1");
    setxattr(&path, "user.x", b"2", replace).unwrap();
    assert_eq!(value(&path, "user.x").unwrap(), b"2");
    assert_eq!(
        setxattr(&path, "nonsense", b"", make),
        Err(Errno::OPNOTSUPP)
    );
}

fn attributes_follow_the_file(place: &Place) {
    File::create(place.join("file")).unwrap();
    setxattr(place.join("file"), "user.x", b"1", XattrFlags::empty()).unwrap();
    std::fs::hard_link(place.join("file"), place.join("link")).unwrap();
    std::fs::rename(place.join("file"), place.join("moved")).unwrap();
    setxattr(place.join("link"), "user.y", b"2", XattrFlags::empty()).unwrap();
    for name in ["moved", "link"] {
        assert_eq!(names(&place.join(name)), ["user.x", "user.y"], "{name}");
    }
    std::os::unix::fs::symlink("moved", place.join("soft")).unwrap();
    assert_eq!(value(&place.join("soft"), "user.y").unwrap(), b"2");
    let set = rustix::fs::lsetxattr(place.join("soft"), "user.z", b"", XattrFlags::empty());
    assert_eq!(set, Err(Errno::PERM));
}

/// Access control lists are: `acl` tests them.
#[test]
fn attributes_of_the_system_are_not_offered() {
    if !is_root("attributes of the system") {
        return;
    }
    let place = Place::mounted(&[]);
    File::create(place.join("file")).unwrap();
    for name in ["trusted.x", "security.x"] {
        let path = place.join("file");
        let set = setxattr(&path, name, b"1", XattrFlags::empty());
        assert_eq!(set, Err(Errno::OPNOTSUPP), "{name}");
        assert_eq!(
            getxattr(&path, name, &mut [0; 9][..]),
            Err(Errno::OPNOTSUPP),
            "{name}"
        );
        assert_eq!(removexattr(&path, name), Err(Errno::OPNOTSUPP), "{name}");
    }
    assert!(names(&place.stored("file")).is_empty());
}
