//! A tree of files in memory, each of a version that has a name, as objects have. Used by tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::BytesSource;
use crate::error::{Error, Result};
use crate::source::{FileKind, Listed, ObjectTag, Source, Stat, Store};

/// Directories are those above files.
pub struct MemoryStore {
    /// How messages call the root.
    shown: PathBuf,
    files: BTreeMap<PathBuf, StoredObject>,
    /// Counts versions.
    puts: u64,
    /// The sources that were opened, if they count what is asked for.
    #[cfg(test)]
    far: Option<crate::sync::Mutex<Vec<Arc<super::FarSource>>>>,
}

struct StoredObject {
    bytes: Arc<Vec<u8>>,
    tag: ObjectTag,
}

impl MemoryStore {
    pub fn new(shown: &Path) -> MemoryStore {
        MemoryStore {
            shown: shown.to_owned(),
            files: BTreeMap::new(),
            puts: 0,
            #[cfg(test)]
            far: None,
        }
    }

    /// This store far away.
    #[cfg(test)]
    pub(crate) fn far(self) -> MemoryStore {
        MemoryStore {
            far: Some(Default::default()),
            ..self
        }
    }

    /// The sources that were opened of one that is far away.
    #[cfg(test)]
    pub(crate) fn opened(&self) -> Vec<Arc<super::FarSource>> {
        let far = self.far.as_ref();
        far.map_or_else(Vec::new, |far| far.lock().clone())
    }

    /// A file, or another version of it.
    pub(crate) fn put(&mut self, path: &Path, bytes: Vec<u8>) {
        self.puts += 1;
        let object = StoredObject {
            bytes: Arc::new(bytes),
            tag: ObjectTag::of(&self.puts.to_le_bytes()),
        };
        self.files.insert(path.to_owned(), object);
    }

    fn object(&self, path: &Path) -> Result<&StoredObject> {
        self.files.get(path).ok_or(Error::NotFound)
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.below(path).next().is_some()
    }

    fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = (&'a Path, &'a StoredObject)> {
        let all = self.files.iter();
        all.filter_map(move |(file, object)| Some((file.strip_prefix(path).ok()?, object)))
            .filter(|(below, _)| !below.as_os_str().is_empty())
    }
}

impl StoredObject {
    fn stat(&self) -> Stat {
        Stat::of_object(FileKind::File, self.bytes.len() as u64, Some(self.tag))
    }
}

impl Store for MemoryStore {
    fn stat(&self, path: &Path) -> Result<Stat> {
        match self.object(path) {
            Ok(object) => Ok(object.stat()),
            Err(_) if self.is_directory(path) => Ok(Stat::of_object(FileKind::Directory, 0, None)),
            Err(missing) => Err(missing),
        }
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        if self.stat(path)?.kind != FileKind::Directory {
            return Err(Error::NotADirectory);
        }
        let mut directories: Vec<OsString> = Vec::new();
        for (below, object) in self.below(path) {
            let mut names = below.iter();
            match (names.next(), names.next()) {
                (Some(name), None) => each(Listed {
                    name,
                    kind: FileKind::File,
                    stat: Some(&object.stat()),
                }),
                (Some(name), _) if !directories.iter().any(|known| known == name) => {
                    directories.push(name.to_owned());
                    each(Listed::new(name, FileKind::Directory));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        self.open(path)?.read(0, buf)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let object = match self.object(path) {
            Err(_) if self.is_directory(path) => return Err(Error::IsADirectory),
            object => object?,
        };
        let bytes = BytesSource {
            bytes: Arc::clone(&object.bytes),
            tag: object.tag,
        };
        #[cfg(test)]
        if let Some(far) = &self.far {
            let source = Arc::new(super::FarSource::of(bytes, super::far::GAP));
            far.lock().push(Arc::clone(&source));
            return Ok(source);
        }
        Ok(Arc::new(bytes))
    }

    #[cfg(test)]
    fn is_far(&self) -> bool {
        self.far.is_some()
    }

    fn display(&self, path: &Path) -> PathBuf {
        match path.as_os_str().is_empty() {
            true => self.shown.clone(),
            false => self.shown.join(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn another_version_is_another_identity_and_names_are_listed_with_what_they_are() {
        let mut store = MemoryStore::new(Path::new("/shown"));
        store.put(Path::new("a/b"), vec![1; 3]);
        store.put(Path::new("a/c/d"), vec![]);
        let file = Path::new("a/b");
        let before = store.open(file).unwrap();
        assert_eq!(before.identity(), store.stat(file).unwrap().identity());
        store.put(file, vec![2; 3]);
        assert_ne!(before.identity(), store.stat(file).unwrap().identity());
        let mut listed = Vec::new();
        let shared: &dyn Store = &store;
        let mut each =
            |name: &OsStr, stat: &Stat| listed.push((name.to_owned(), stat.kind, stat.size));
        shared.list_stats(Path::new("a"), &mut each).unwrap();
        listed.sort();
        let expected = [("b", FileKind::File, 3), ("c", FileKind::Directory, 0)];
        assert_eq!(
            listed,
            expected.map(|(name, kind, size)| (name.into(), kind, size))
        );
        assert!(store.list(file, &mut |_| {}).is_err() && store.open(Path::new("a")).is_err());
        assert!(shared.posix().is_err());
    }
}
