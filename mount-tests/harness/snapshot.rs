//! All that can be seen of a tree: names, kinds, modes, owners, links, contents, times, attributes.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot(BTreeMap<PathBuf, Entry>);

#[derive(Clone, PartialEq)]
struct Entry {
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    /// The first path of the same file.
    same_as: Option<PathBuf>,
    modified: Modified,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, PartialEq)]
enum Kind {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
    /// Devices and the like, by type and number.
    Other(u32, u64),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Modified {
    At(i64, i64),
    /// Set by the system, at some time.
    Lately,
}

/// 2001-09-09: tests set older times, the system newer ones.
const LATELY: i64 = 1_000_000_000;

impl Snapshot {
    /// Everything below a directory, and itself.
    pub fn of(root: &Path) -> io::Result<Self> {
        let mut entries = BTreeMap::new();
        let mut first_paths = HashMap::new();
        let mut ahead = vec![PathBuf::new()];
        while let Some(path) = ahead.pop() {
            let full = root.join(&path);
            let name = path.display().to_string();
            let metadata = named(&name, named("stat", full.symlink_metadata()))?;
            if metadata.is_dir() {
                for entry in named(&name, std::fs::read_dir(&full))? {
                    ahead.push(path.join(named(&name, entry)?.file_name()));
                }
            }
            let number = (metadata.dev(), metadata.ino());
            let entry = named(&name, entry(&full, &metadata))?;
            entries.insert(path, (number, entry));
        }
        // In the order of their names, not of the listing.
        let same = |(path, (number, mut entry)): (PathBuf, (_, Entry))| {
            let first = first_paths.entry(number).or_insert_with(|| path.clone());
            entry.same_as = (*first != path).then(|| first.clone());
            (path, entry)
        };
        Ok(Snapshot(entries.into_iter().map(same).collect()))
    }

    /// Times that the system set count as equal from now on.
    pub fn without_late_times(mut self) -> Self {
        for entry in self.0.values_mut() {
            if matches!(entry.modified, Modified::At(seconds, _) if seconds >= LATELY) {
                entry.modified = Modified::Lately;
            }
        }
        self
    }

    /// The root's own attributes do not count.
    pub fn without_root(mut self) -> Self {
        self.0.remove(Path::new(""));
        self
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    pub fn is_directory(&self, path: &Path) -> bool {
        self.0
            .get(path)
            .is_some_and(|entry| entry.kind == Kind::Directory)
    }

    pub fn is_file(&self, path: &Path) -> bool {
        self.0
            .get(path)
            .is_some_and(|entry| matches!(entry.kind, Kind::File(_)))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What differs, in words.
    pub fn difference(&self, other: &Snapshot) -> Option<String> {
        let paths = self.0.keys().chain(other.0.keys());
        let differs = |path: &&PathBuf| self.0.get(*path) != other.0.get(*path);
        let mut said: Vec<String> = paths
            .filter(differs)
            .map(|path| {
                let (one, two) = (self.0.get(path), other.0.get(path));
                let contents = where_contents_differ(one, two);
                format!("{}:\n    {one:?}\n    {two:?}{contents}", path.display())
            })
            .collect();
        said.dedup();
        said.truncate(8);
        (!said.is_empty()).then(|| said.join("\n"))
    }
}

fn entry(path: &Path, metadata: &Metadata) -> io::Result<Entry> {
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Link(named("readlink", std::fs::read_link(path))?),
        kind if kind.is_file() => Kind::File(content(path)?),
        kind => Kind::Other(metadata.mode() & libc::S_IFMT, rdev(kind, metadata)),
    };
    let xattrs = match kind {
        Kind::File(_) | Kind::Directory => named("xattrs", xattrs(path))?,
        _ => BTreeMap::new(),
    };
    Ok(Entry {
        kind,
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        links: metadata.nlink(),
        same_as: None,
        modified: Modified::At(metadata.mtime(), metadata.mtime_nsec()),
        xattrs,
    })
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut file = named("open", File::open(path))?;
    named("read", file.read_to_end(&mut content))?;
    Ok(content)
}

/// An error that says what failed.
fn named<T>(what: &str, done: io::Result<T>) -> io::Result<T> {
    done.map_err(|e| io::Error::other(format!("{what}: {e}")))
}

fn rdev(kind: std::fs::FileType, metadata: &Metadata) -> u64 {
    let device = kind.is_block_device() || kind.is_char_device();
    if device { metadata.rdev() } else { 0 }
}

/// Those of users; what the mount says of itself is not the source's.
fn xattrs(path: &Path) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut names = vec![0; 4096];
    let n = rustix::fs::llistxattr(path, &mut names[..])?;
    let is_user_s =
        |name: &&[u8]| name.starts_with(b"user.") && !name.starts_with(b"user.arrayfs.");
    let mut found = BTreeMap::new();
    for name in names[..n].split(|&b| b == 0).filter(is_user_s) {
        let mut value = vec![0; 4096];
        let text = std::ffi::OsStr::from_bytes(name);
        let n = rustix::fs::lgetxattr(path, text, &mut value[..])?;
        value.truncate(n);
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}

fn where_contents_differ(one: Option<&Entry>, two: Option<&Entry>) -> String {
    let (Some(Kind::File(one)), Some(Kind::File(two))) =
        (one.map(|e| &e.kind), two.map(|e| &e.kind))
    else {
        return String::new();
    };
    match one.iter().zip(two).position(|(a, b)| a != b) {
        Some(at) => format!(
            "\n    contents differ from byte {at}: {} {}",
            one[at], two[at]
        ),
        None => String::new(),
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Entry {
            mode, owner, links, ..
        } = self;
        match &self.kind {
            Kind::File(bytes) => write!(f, "file of {} bytes", bytes.len())?,
            Kind::Directory => write!(f, "directory")?,
            Kind::Link(target) => write!(f, "link to {}", target.display())?,
            Kind::Other(kind, rdev) => write!(f, "type {kind:o}, device {rdev:x}")?,
        }
        write!(f, ", mode {mode:o}, owner {owner:?}, {links} links")?;
        if let Some(first) = &self.same_as {
            write!(f, ", same as {}", first.display())?;
        }
        write!(f, ", {:?}", self.modified)?;
        for (name, value) in &self.xattrs {
            let name = String::from_utf8_lossy(name);
            write!(f, ", {name} of {} bytes", value.len())?;
        }
        Ok(())
    }
}

/// Two trees are the same, but for their roots and the times that the system set.
#[track_caller]
pub fn assert_same_tree(one: &Path, two: &Path) {
    let of = |root| {
        Snapshot::of(root)
            .unwrap()
            .without_root()
            .without_late_times()
    };
    if let Some(difference) = of(one).difference(&of(two)) {
        panic!("{} and {}: {difference}", one.display(), two.display());
    }
}

/// The same with every time.
#[track_caller]
pub fn assert_same_tree_and_times(one: &Path, two: &Path) {
    let of = |root| Snapshot::of(root).unwrap().without_root();
    if let Some(difference) = of(one).difference(&of(two)) {
        panic!("{} and {}: {difference}", one.display(), two.display());
    }
}
