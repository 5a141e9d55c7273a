//! What lies in a folder does not import what its `mod.rs` defines: a reader goes down, and meets
//! nothing that leads up again.

use std::path::{Path, PathBuf};

use super::{SourceFile, sources};

const FOLDERS: [&str; 11] = [
    "src/cli",
    "src/formats/container/hdf5",
    "src/fs/commit",
    "src/fs/kernel",
    "src/fs/live",
    "src/fs/scratch",
    "src/fs/stage",
    "src/fs/tree",
    "src/fs/tree/inode",
    "src/fs/tree/writing",
    "src/look",
];

#[test]
fn files_import_no_definition_of_their_folder() {
    for folder in FOLDERS {
        let files = sources(folder);
        let up: Vec<PathBuf> = files
            .iter()
            .filter(|file| imports_from_above(file, Path::new(folder)))
            .map(|file| file.path.clone())
            .collect();
        assert!(up.is_empty(), "{folder}: {up:?}");
    }
}

/// Whether a file of a folder imports a type or a constant that it finds in the folder itself.
fn imports_from_above(file: &SourceFile, folder: &Path) -> bool {
    let within = file.path.strip_prefix(folder).unwrap();
    let is_test = within
        .iter()
        .any(|part| part == "tests" || part == "tests.rs");
    if within == Path::new("mod.rs") || is_test {
        return false;
    }
    let is_folder = within.file_name().is_some_and(|name| name == "mod.rs");
    let depth = within.components().count() - usize::from(is_folder);
    let code = file.code();
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let above = ["super::".repeat(depth), format!("{}::", module_of(folder))];
    let from_above = |path: &String| {
        let begins = format!("use {path}");
        let uses = code.split(&begins).skip(1);
        let names = uses.flat_map(|rest| names_at_once(rest.split(';').next().unwrap()));
        names.filter(|name| is_definition(name)).count() > 0
    };
    above.iter().any(from_above)
}

/// As code names it: `crate::commit`.
fn module_of(folder: &Path) -> String {
    let parts = folder.iter().map(|part| part.to_str().unwrap());
    let inside: Vec<&str> = parts.skip(1).collect();
    let inside = match inside[0] {
        "fs" | "formats" => &inside[1..],
        _ => &inside[..],
    };
    format!("crate::{}", inside.join("::"))
}

/// The names of an import that lead to no deeper module: of `{A, b, c::D}` the first two.
fn names_at_once(used: &str) -> Vec<String> {
    let (mut depth, mut names) = (0, vec![String::new()]);
    for letter in used.trim().trim_start_matches('{').chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(String::new()),
            _ if depth == 0 => names.last_mut().unwrap().push(letter),
            _ => {}
        }
    }
    let names = names.iter().map(|name| name.trim().to_owned());
    names.filter(|name| !name.contains("::")).collect()
}

fn is_definition(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
}

#[test]
fn imports_from_above_are_recognised() {
    let file = |path: &str, text: &str| SourceFile {
        path: path.into(),
        text: text.into(),
    };
    let folder = Path::new("src/fs/commit");
    let up = |path, text| imports_from_above(&file(path, text), folder);
    assert!(up("src/fs/commit/a.rs", "use super::Commit;"));
    assert!(up("src/fs/commit/a.rs", "use super::{b::C, Commit};"));
    assert!(up("src/fs/commit/a/b.rs", "use super::super::Commit;"));
    assert!(up(
        "src/fs/commit/a/b.rs",
        "use crate::commit::{Commit, b};"
    ));
    assert!(!up(
        "src/fs/commit/a.rs",
        "use super::b::{C, D};\nuse super::c;"
    ));
    assert!(!up("src/fs/commit/a/b.rs", "use super::Commit;"));
    assert!(!up("src/fs/commit/mod.rs", "use super::Commit;"));
    assert!(!up("src/fs/commit/tests.rs", "use super::Commit;"));
}
