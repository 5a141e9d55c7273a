//! Directories in a new container that hold the arrays of a BPCells container: they are told by a
//! `version` of BPCells beside such arrays, or by an `arrays.json` of their own.
//!
//! Whoever asks reads the files: of them only these two are looked at, and only if the names are
//! right. Used by `live::creation`, and by formats that have such groups.

use std::collections::{BTreeSet, HashSet};

use super::content::GivenContent;
use super::description::GivenDescription;
use crate::array::Array;
use crate::container::bpcells::{self, version};
use crate::error::Result;

/// The text that says how the arrays beside it are stored.
pub const VERSION: &str = "version";

/// As much of it as is looked at.
pub const VERSION_HEAD: usize = version::MOST;

/// As much of an `arrays.json` is looked at: that of a BPCells container is shorter.
pub const LONGEST_OF_DIRECTORY: usize = 64 << 10;

/// Whether an array of BPCells has this name.
pub fn is_packed_array(name: &str) -> bool {
    name != VERSION && bpcells::write::is_array(name)
}

/// Whether a `version` that begins so is one of BPCells.
pub fn is_packed_version(head: &[u8]) -> bool {
    version::is_known(head)
}

/// Whether an `arrays.json` is that of a BPCells container.
pub fn describes_packed(text: &[u8]) -> bool {
    GivenDescription::parse(text).is_ok_and(|given| given.is_packed())
}

/// Directory and name of a shown path.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Directory and name of a shown path that is one of a part of BPCells containers.
pub fn packed_member(path: &str) -> Option<(&str, &str)> {
    let (directory, name) = split(path);
    (name == VERSION || is_packed_array(name)).then_some((directory, name))
}

impl GivenContent {
    /// The directories that are to be BPCells containers in groups, by their paths.
    pub fn packed_directories(&self) -> Result<BTreeSet<&str>> {
        let mut paths = BTreeSet::new();
        let inner = self.inner.iter().filter(|(_, own)| own.is_packed());
        paths.extend(inner.map(|(path, _)| &**path));
        let description = self.description.as_ref();
        if let Some(description) = description {
            let inner = description.containers.keys().map(|path| &**path);
            let all = inner.chain([""]);
            paths.extend(all.filter(|path| description.has_packed(path)));
        }
        let arrays = description
            .iter()
            .flat_map(|description| &description.arrays);
        let described: HashSet<&str> = arrays.map(|array| &*array.name).collect();
        let members = self
            .arrays
            .iter()
            .filter_map(|array| packed_member(array.name()));
        let arrays = members.filter(|(_, name)| *name != VERSION);
        let arrays: HashSet<&str> = arrays.map(|(directory, _)| directory).collect();
        for array in &self.arrays {
            let (directory, name) = split(array.name());
            // A text of this name may be an array like any other.
            let is_version = name == VERSION && !described.contains(array.name());
            if is_version && arrays.contains(directory) && is_known(&**array)? {
                paths.insert(directory);
            }
        }
        paths.retain(|path| !self.descriptors.contains_key(*path));
        Ok(paths)
    }
}

fn is_known(version: &dyn Array) -> Result<bool> {
    let mut head = [0; VERSION_HEAD];
    let len = version.info()?.bytes.min(VERSION_HEAD as u64) as usize;
    let head = &mut head[..len];
    version.read_direct(0, head)?;
    Ok(is_packed_version(head))
}

impl GivenDescription {
    /// Whether it is that of a BPCells container.
    pub fn is_packed(&self) -> bool {
        self.format.as_deref() == Some(bpcells::NAME)
    }

    /// Whether a directory in it is said to be a BPCells container; its own is empty.
    pub fn has_packed(&self, path: &str) -> bool {
        match path {
            "" => self.is_packed(),
            path => self
                .containers
                .get(path)
                .is_some_and(|of| of == bpcells::NAME),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::creation::RawArray;
    use crate::source::BytesSource;
    use std::sync::Arc;

    fn found(arrays: &[(&str, &str)], description: &str) -> Vec<String> {
        let raw = |(name, text): &(&str, &str)| {
            let source = Arc::new(BytesSource::new(text.as_bytes().to_vec()));
            Arc::new(RawArray::new(name, source)) as Arc<dyn Array>
        };
        let description = GivenDescription::parse(description.as_bytes()).unwrap();
        let arrays = arrays.iter().map(raw).collect();
        let given = GivenContent::of_arrays(arrays, Some(description));
        let found = given.packed_directories().unwrap();
        found.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_version_beside_arrays_makes_a_container() {
        let nothing = r#"{"arrays": []}"#;
        let version = "packed-uint-matrix-v2\n";
        let both = [("a/g/val", "x"), ("a/g/version", version)];
        assert_eq!(found(&both, nothing), ["a/g"]);
        assert_eq!(
            found(&[("idxptr", ""), ("version", version)], nothing),
            [""]
        );
        for none in [
            [("g/data", "x"), ("g/version", version)],
            [("val", "x"), ("g/version", version)],
            [("g/val", "x"), ("g/version", "1.2.3\n")],
            [("g/val", "x"), ("g/version", "packed-uint-matrix-v2\nmore")],
            [("g/val", "x"), ("g/other", version)],
        ] {
            assert!(found(&none, nothing).is_empty(), "{none:?}");
        }
        let dataset = r#"{"arrays": [{"name": "a/g/version", "dtype": "str", "shape": [1]}]}"#;
        assert!(found(&both, dataset).is_empty());
        let said = r#"{"arrays": [], "containers": {"m": "bpcells", "b": "binsparse"}}"#;
        assert_eq!(found(&[], said), ["m"]);
        assert_eq!(found(&[], r#"{"format": "bpcells", "arrays": []}"#), [""]);
    }
}
