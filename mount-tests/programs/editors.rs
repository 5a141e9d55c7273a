//! The ways in which editors save: over the file, or as a new one that takes its name.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::harness::place::{Place, scenarios};
use crate::harness::reads::assert_content;
use crate::harness::tools::{shell, tool};

scenarios![
    everywhere
    vim_saves_in_each_of_its_ways,
    sed_edits_in_place,
    a_file_is_replaced_as_careful_programs_do_it,
    a_pipeline_writes_and_appends,
];

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o640)).unwrap();
}

fn mode_and_links(path: &Path) -> (u32, u64) {
    let metadata = path.metadata().unwrap();
    (metadata.mode() & 0o7777, metadata.nlink())
}

fn vim_saves_in_each_of_its_ways(place: &Place) {
    let Some(vim) = tool("vim.tiny").or_else(|| tool("vim")) else {
        return;
    };
    for way in ["auto", "yes", "no", "auto backup", "yes writebackup fsync"] {
        let file = place.join("text");
        write(&file, "one and one\n");
        std::fs::hard_link(&file, place.join("other")).unwrap();
        let script = format!(
            "\"$1\" -es -u NONE -i NONE -N -c 'set backupcopy={way}' -c '%s/one/two/g' -c wq text"
        );
        for _ in 0..3 {
            write(&file, "one and one\n");
            shell(place.path(), &script, &[&vim]);
            for path in [&file, &place.stored("text")] {
                assert_content(path, b"two and two\n");
                assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o640, "{way}");
            }
        }
        if way.starts_with("yes") {
            assert_eq!(mode_and_links(&file), (0o640, 2));
            assert_content(&place.join("other"), b"two and two\n");
        }
        std::fs::remove_file(place.join("other")).unwrap();
        let left = shell(place.path(), "ls -A", &[]).text();
        let left: Vec<&str> = left.lines().filter(|name| *name != "text~").collect();
        assert_eq!(left, ["text"], "{way}");
    }
}

fn sed_edits_in_place(place: &Place) {
    let file = place.join("text");
    write(&file, "one\n");
    let script = "sed -i s/one/two/ text && sed -i.old s/two/three/ text && sed --follow-symlinks -i s/three/four/ link";
    std::os::unix::fs::symlink("text", place.join("link")).unwrap();
    shell(place.path(), script, &[]);
    for of in [Place::join, Place::stored] {
        assert_content(&of(place, Path::new("text").to_owned()), b"four\n");
        assert_content(&of(place, Path::new("text.old").to_owned()), b"two\n");
    }
    assert_eq!(mode_and_links(&file), (0o640, 1));
}

fn a_file_is_replaced_as_careful_programs_do_it(place: &Place) {
    let (file, new) = (place.join("file"), place.join("file.new"));
    write(&file, "version 0\n");
    for version in 1..50 {
        let text = format!("version {version}\n").repeat(version);
        std::fs::write(&new, &text).unwrap();
        std::fs::File::open(&new).unwrap().sync_all().unwrap();
        std::fs::rename(&new, &file).unwrap();
        std::fs::File::open(place.path())
            .unwrap()
            .sync_all()
            .unwrap();
        assert_content(&file, text.as_bytes());
        assert_content(&place.stored("file"), text.as_bytes());
    }
}

fn a_pipeline_writes_and_appends(place: &Place) {
    let script = "seq 1000 > numbers
        seq 1001 2000 >> numbers
        sort -rn -o numbers numbers
        head -n 3 numbers | tee three > four
        : > numbers
        cat three four >> numbers
        mkfifo pipe && { cat three > pipe & cat pipe > five; wait; }
        split -b 5 three part-
        cat part-* | cmp - three";
    shell(place.path(), script, &[]);
    let three = b"2000\n1999\n1998\n";
    assert_content(&place.join("five"), three);
    assert_content(&place.stored("numbers"), &three.repeat(2));
}
