//! Keys of a directory as names, and which of them no path can have. Used by [`super::directory`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Longest name of a directory's entry, in bytes.
const LONGEST: usize = 255;

/// How names end of what is looked into, wherever it lies.
const ENDINGS: [&str; 15] = [
    "h5", "hdf5", "h5ad", "nc", "nc4", "cdf", "blp", "dbdf", "zarr", "zip", "loom", "mat", "hdf",
    "he5", "nxs",
];

/// Whether a file's name says that it is a container.
pub(super) fn ends_as_containers_do(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| {
        ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

/// The part of a key behind a prefix, if it can be a name.
pub(super) fn name_of<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    let name = key.strip_prefix(prefix)?;
    let is_name = !name.is_empty() && name != "." && name != "..";
    (is_name && name.len() <= LONGEST && !name.contains(['/', '\0'])).then_some(name)
}

/// What objects are called that are also prefixes: the directory has the name.
pub(super) fn beside_directories<T>(
    objects: &mut BTreeMap<String, T>,
    directories: &BTreeSet<String>,
) {
    let hidden = directories
        .iter()
        .filter(|name| objects.contains_key(*name));
    for name in hidden.cloned().collect::<Vec<_>>() {
        let Some(object) = objects.remove(&name) else {
            continue;
        };
        let mut numbered = (0u32..).map(|number| format!("{name}~{number}"));
        let free = numbered.find(|name| !objects.contains_key(name) && !directories.contains(name));
        if let Some(free) = free {
            objects.insert(free, object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_path_can_have_are_no_names() {
        assert_eq!(name_of("a/b c", "a/"), Some("b c"));
        for key in ["a/", "a/.", "a/..", "a//", "a/b/c", "b", "a/\0"] {
            assert_eq!(name_of(key, "a/"), None, "{key:?}");
        }
        assert_eq!(name_of(&"x".repeat(256), ""), None);
    }

    #[test]
    fn the_directory_wins_and_the_object_gets_a_number() {
        let mut objects: BTreeMap<_, _> = [("a", 1), ("a~0", 2), ("b", 3)]
            .map(|(name, object)| (name.to_owned(), object))
            .into();
        beside_directories(&mut objects, &["a".to_owned()].into());
        let names: Vec<_> = objects.into_iter().collect();
        let expected = [("a~0", 2), ("a~1", 1), ("b", 3)];
        assert_eq!(
            names,
            expected.map(|(name, object)| (name.to_owned(), object))
        );
    }
}
