//! `views` is in no listing unless `-o views` asks for that, and is there all the same.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::harness::mounted::Mounted;
use crate::harness::place::Place;
use crate::harness::process::arrayfs;
use crate::harness::reads::{assert_content, names, walk, xattr};
use crate::harness::writers::{Bloscpack, Matrix, npy};
use crate::harness::{golden, scratch_directory, tools};

/// Those that lie in a directory called `views`.
fn views_among(found: &[PathBuf]) -> Vec<&PathBuf> {
    let is_view = |path: &&PathBuf| path.components().any(|part| part.as_os_str() == "views");
    found.iter().filter(is_view).collect()
}

/// Whether `find` comes across anything that lies in `views`.
fn finds_views(directory: &Path) -> bool {
    let (found, errors) = walk(directory);
    assert!(errors.is_empty(), "{errors:?}");
    !views_among(&found).is_empty()
}

fn is_in_hdf5(path: &Path) -> bool {
    let parts = path.components();
    parts.into_iter().any(|part| {
        Path::new(part.as_os_str())
            .extension()
            .is_some_and(|e| e == "h5")
    })
}

#[test]
fn views_are_listed_only_if_they_are_to_be() {
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), b"12345678");
    Matrix::random(1, 100).write_packed(&source.path().join("matrix"));
    let listed = Mounted::new(source.path(), &["views"]);
    assert_eq!(
        names(&listed.join("x.blp")),
        ["arrays.json", "data", "views"]
    );
    assert!(finds_views(listed.path()));
    assert_eq!(listed.status()["views_listed"], true);
    let said = arrayfs([Path::new("status"), listed.path()]).success();
    assert!(said.text().contains("views   listed"), "{said:?}");
    drop(listed);
    for options in [&[][..], &["ro"], &["views", "noviews"]] {
        let mounted = Mounted::new(source.path(), options);
        assert_eq!(names(&mounted.join("x.blp")), ["arrays.json", "data"]);
        assert!(!finds_views(mounted.path()));
        let expected = npy("|u1", 8, b"12345678");
        assert_content(&mounted.join("x.blp/views/data.npy"), &expected);
        // Who has entered it sees what is there.
        assert_eq!(names(&mounted.join("x.blp/views")), ["data.npy", "stored"]);
        assert_eq!(names(&mounted.join("x.blp")), ["arrays.json", "data"]);
        assert!(mounted.join("matrix/views/val.npy").exists());
        assert_eq!(mounted.status()["views_listed"], false);
    }
}

#[test]
fn views_that_are_not_listed_cannot_be_removed() {
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), b"12345678");
    for (options, is_kept) in [(&["rw"][..], true), (&["rw", "views"], false)] {
        let mounted = Mounted::new(source.path(), options);
        let views = mounted.join("x.blp/views");
        let removed = std::fs::remove_file(views.join("stored"));
        assert_eq!(removed.is_err(), is_kept, "{removed:?}");
        let removed = std::fs::remove_dir_all(&views);
        assert_eq!(removed.is_err(), is_kept, "{removed:?}");
        assert_eq!(views.join("stored").exists(), is_kept);
    }
    let mounted = Mounted::new(source.path(), &["rw"]);
    std::fs::remove_dir_all(mounted.join("x.blp")).unwrap();
    assert!(!source.path().join("x.blp").exists());
}

#[test]
fn views_of_containers_in_groups_are_not_listed_either() {
    let mounted = Mounted::new(golden("bpcells/sources"), &["ro"]);
    let (found, _) = walk(mounted.path());
    let found: Vec<_> = found.into_iter().filter(|path| is_in_hdf5(path)).collect();
    assert_eq!(views_among(&found), Vec::<&PathBuf>::new());
    let described = found.iter().filter(|path| path.ends_with("arrays.json"));
    let described = described.map(|path| path.parent().unwrap());
    let inner = described.filter(|path| xattr(path, "user.arrayfs.format").is_ok());
    let mut deep = 0;
    for inner in inner {
        let views = inner.join("views");
        assert!(views.is_dir(), "{}", views.display());
        deep += usize::from(inner.components().count() > mounted.path().components().count() + 1);
    }
    assert!(deep > 0, "no container in a group");
}

/// What a program copies into a new container is no views then; and what is emptied is removed.
#[test]
fn containers_are_copied_and_removed() {
    for options in [&[][..], &["views"]] {
        copied_and_removed(options);
    }
}

fn copied_and_removed(options: &[&str]) {
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), b"12345678");
    let place = Place::over(source, options);
    let copied = tools::shell(place.path(), "cp -r x.blp y.blp", &[]);
    copied.success();
    place.wait_packed("y.blp");
    assert!(place.stored("y.blp").is_file());
    assert_content(&place.join("y.blp/data"), b"12345678");
    assert_content(
        &place.join("y.blp/views/data.npy"),
        &npy("|u1", 8, b"12345678"),
    );
    let mut expected = vec!["arrays.json", "data"];
    expected.extend(options);
    assert_eq!(names(&place.join("y.blp")), expected);
    tools::shell(place.path(), "rm -r x.blp", &[]).success();
    assert!(!place.stored("x.blp").exists());
    File::open(place.path()).unwrap().sync_all().unwrap();
}

#[test]
fn help_and_info_name_them() {
    let help = arrayfs(["mount", "--help"]).success();
    assert!(help.text().contains("--views"), "{}", help.text());
    let source = scratch_directory();
    Bloscpack::default().write(&source.path().join("x.blp"), b"12345678");
    let told = arrayfs([Path::new("info"), &source.path().join("x.blp")]).success();
    let lines: Vec<_> = told.text().lines().map(str::to_owned).collect();
    let views = "in a mount also: views/NAME.npy of each array, views/stored";
    assert!(lines.iter().any(|line| line.trim() == views), "{lines:?}");
}
