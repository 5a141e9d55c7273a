//! A tree of objects, or one file of a web server, as a [`Store`].
//!
//! Listings say what entries are, so a directory costs one listing and its entries nothing; they
//! are believed for a time, and so is what they do not have. An object that turns out to be another
//! version has its directory listed anew. Where nothing may be listed, objects are asked for by
//! their keys. Used by the program, which opens it by a URL.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::future::Future;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use sha2::{Digest, Sha256};

use super::asking::is_timeout;
use super::client::runtime;
use super::directory::{RemoteDirectory, RemoteEntry, look_up};
use super::disk_cache::DiskCache;
use super::names::ends_as_containers_do;
use super::object::RemoteObject;
use super::piece::PieceMemory;
use super::settings::RemoteRoom;
use super::shared::{ServedBytes, Shared};
use super::transport::{ObjectQuestion, Question, Transport};
use super::url::SourceUrl;
use super::version::ObjectVersion;
use crate::error::{Error, Result};
use crate::source::{FarTraffic, Fetch, FileId, FileKind, Listed, Source, Stat, Store, Timestamp};
use crate::sync::Mutex;

/// Directories that are remembered.
const DIRECTORIES: usize = 1024;
/// Objects whose pieces are found by who opens them again.
const OBJECTS: usize = 4096;
/// Of the first bytes of a file so many are asked for: what follows is needed next.
const HEAD: u64 = 16 << 10;

/// A listing is gone on with if its first page is no older: what was moved meanwhile from one page
/// to another would be on neither.
const FRESH: Duration = Duration::from_secs(3);

pub struct RemoteStore {
    url: SourceUrl,
    shared: Arc<Shared>,
    ttl: Duration,
    directories: Mutex<LruCache<PathBuf, Arc<RemoteDirectory>>>,
    objects: Mutex<LruCache<(String, Timestamp, u64), Arc<RemoteObject>>>,
    /// Files that somebody has named, whatever they are called.
    named: Mutex<HashSet<PathBuf>>,
    owner: (u32, u32),
    since: Timestamp,
}

impl RemoteStore {
    pub(super) fn new(url: &SourceUrl, room: &RemoteRoom) -> Result<RemoteStore> {
        let transport = Transport::new(url, &room.settings)?;
        let (path, size) = (&room.settings.disk_cache, room.settings.disk_cache_size);
        let disk = path
            .as_ref()
            .map(|path| DiskCache::open(path, size))
            .transpose()?;
        Ok(RemoteStore {
            url: url.clone(),
            shared: Arc::new(Shared {
                transport,
                memory: PieceMemory::new(&room.budget),
                served: ServedBytes::default(),
                disk: disk.map(Arc::new),
                outdated: Mutex::default(),
            }),
            ttl: room.settings.metadata_ttl(),
            directories: Mutex::new(LruCache::new(at_least_one(DIRECTORIES))),
            objects: Mutex::new(LruCache::new(at_least_one(OBJECTS))),
            named: Mutex::default(),
            owner: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
            since: Timestamp::now(),
        })
    }

    /// Whether anything lies in it. Where nothing may be listed, an object may be read by who knows
    /// its name.
    pub(super) fn has_any(&self) -> Result<bool> {
        match self.directory(Path::new(""), false) {
            Ok(root) => Ok(!root.is_empty()),
            Err(e) if e.is_permission_denied() && !self.url.key.is_empty() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Whether a path is a directory, or an object, or nothing.
    fn entry(&self, path: &Path) -> Result<Option<RemoteEntry>> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(Some(RemoteEntry::Directory));
        };
        let Some(name) = name.to_str() else {
            return Ok(None);
        };
        let directory = match self.directory(above, false) {
            Ok(directory) => directory,
            Err(e) if e.is_permission_denied() => return self.head_of(path),
            Err(e) => return Err(e),
        };
        if let Some(known) = directory.entry(name) {
            return Ok(known);
        }
        match name.contains('~') {
            // What it is called depends upon all others.
            true => Ok(self.directory(above, true)?.entry(name).flatten()),
            false => {
                let (prefix, asked) = (self.prefix(above), name.to_owned());
                let found = self.wait(move |shared| async move {
                    look_up(&shared.transport, &prefix, &asked).await
                })?;
                directory.note(name, &found);
                Ok(found)
            }
        }
    }

    /// An object of which only its key is known.
    fn head_of(&self, path: &Path) -> Result<Option<RemoteEntry>> {
        let key = self.prefix(path);
        let key = key.trim_end_matches('/').to_owned();
        self.wait(move |shared| async move {
            match version_of(&shared.transport, &key).await {
                Ok(version) => Ok(Some(RemoteEntry::Object { key, version })),
                Err(e) if e.is_not_found() => Ok(None),
                Err(e) => Err(e),
            }
        })
    }

    /// The prefix of what lies in a directory.
    fn prefix(&self, directory: &Path) -> String {
        let mut prefix = self.url.key.clone();
        for name in directory.iter() {
            if !prefix.is_empty() {
                prefix.push('/');
            }
            prefix.push_str(&name.to_string_lossy());
        }
        if !prefix.is_empty() {
            prefix.push('/');
        }
        prefix
    }

    /// As it was listed, if that is to be believed; all of it, if that is wanted.
    fn directory(&self, path: &Path, is_whole: bool) -> Result<Arc<RemoteDirectory>> {
        let is_outdated = self.shared.outdated.lock().remove(path);
        let known = self.directories.lock().get(path).cloned();
        let known = known.filter(|known| !is_outdated && !known.is_older_than(self.ttl));
        let begun = known.clone().filter(|known| !known.is_older_than(FRESH));
        if let Some(known) = known.as_ref().filter(|it| it.is_whole() || !is_whole) {
            return Ok(Arc::clone(known));
        }
        let (prefix, is_web) = (self.prefix(path), self.url.is_web());
        let name = self.url.key.clone();
        let listed = self.wait(move |shared| async move {
            if is_web {
                let version = version_of(&shared.transport, &name).await?;
                return Ok(RemoteDirectory::of_one(&name, &name, version));
            }
            if let Some(begun) = begun
                && let Some(whole) = begun.go_on(&shared, &prefix).await?
            {
                return Ok(whole);
            }
            RemoteDirectory::ask(&shared, &prefix, is_whole).await
        });
        let listed = Arc::new(listed.inspect_err(|_| {
            if is_outdated {
                self.shared.outdated.lock().insert(path.to_owned());
            }
        })?);
        let mut directories = self.directories.lock();
        directories.put(path.to_owned(), Arc::clone(&listed));
        Ok(listed)
    }

    /// Runs work on the threads of remote sources, and waits for it.
    fn wait<T, F>(&self, work: impl FnOnce(Arc<Shared>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let work = work(Arc::clone(&self.shared));
        runtime()?.spawn(async move {
            let _ = tell.send(work.await);
        });
        let ended = |_| Error::Bug("a request of a remote source came to no end".into());
        told.recv().map_err(ended)?
    }

    fn stat_of(&self, path: &Path, entry: &RemoteEntry) -> Stat {
        let (kind, version) = match entry {
            RemoteEntry::Directory => (FileKind::Directory, None),
            RemoteEntry::Object { version, .. } => (FileKind::File, Some(version)),
        };
        let time = version.map_or(self.since, |version| version.modified);
        let size = version.map_or(0, |version| version.size);
        Stat {
            id: id_of(&self.url, path, version),
            mtime: time,
            uid: self.owner.0,
            gid: self.owner.1,
            atime: time,
            ctime: time,
            ..Stat::of_object(kind, size, version.map(ObjectVersion::tag))
        }
    }

    fn object(&self, path: &Path) -> Result<Arc<RemoteObject>> {
        let entry = self.entry(path)?.ok_or(Error::NotFound)?;
        let RemoteEntry::Object { key, version } = &entry else {
            return Err(Error::IsADirectory);
        };
        let mut objects = self.objects.lock();
        let name = (key.clone(), version.modified, version.size);
        if let Some(known) = objects.get(&name)
            && known.version() == version
            && !known.has_changed()
        {
            return Ok(Arc::clone(known));
        }
        let stat = self.stat_of(path, &entry);
        let object = RemoteObject::new(&self.shared, (key, path), (version.clone(), stat));
        objects.put(name, Arc::clone(&object));
        Ok(object)
    }
}

fn at_least_one(most: usize) -> NonZeroUsize {
    NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN)
}

/// Numbers that stand for a path, and of an object for the version: another one is another file, so
/// that the kernel keeps their bytes apart.
fn id_of(url: &SourceUrl, path: &Path, version: Option<&ObjectVersion>) -> FileId {
    let mut digest = Sha256::new();
    digest.update(url.shown().as_bytes());
    digest.update([0]);
    digest.update(path.as_os_str().as_bytes());
    if let Some(version) = version {
        digest.update([0]);
        digest.update(version.etag.as_deref().unwrap_or_default());
        digest.update(version.size.to_le_bytes());
        digest.update(version.modified.secs.to_le_bytes());
    }
    let digest = digest.finalize();
    let number = |at: usize| {
        let bytes = digest.iter().skip(at).take(8);
        bytes.fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    FileId {
        device: number(0),
        inode: number(8),
        birth: number(16),
    }
}

/// The first bytes of an object, which tell what it is.
fn head_of(object: &RemoteObject) -> Range<u64> {
    0..object.len().min(HEAD)
}

/// What an object is now.
async fn version_of(transport: &Transport, key: &str) -> Result<ObjectVersion> {
    let question = |range| {
        Question::Object(ObjectQuestion {
            key,
            version: None,
            if_match: None,
            range,
        })
    };
    let unknown = || {
        let cause = std::io::Error::from_raw_os_error(libc::EIO);
        let name = transport.name(&question(None));
        Error::io(
            format!("{name}: the server does not say how long it is"),
            cause,
        )
    };
    let headers = match transport.ask(&question(None)).await {
        Ok(answer) => answer.headers,
        Err(e) if e.is_not_found() || is_timeout(&e) => return Err(e),
        // Some servers, and URLs that are signed for reading, refuse to say it without a byte.
        Err(_) => transport.ask(&question(Some(0..1))).await?.headers,
    };
    ObjectVersion::answered(&headers).ok_or_else(unknown)
}

impl Store for RemoteStore {
    fn stat(&self, path: &Path) -> Result<Stat> {
        let entry = self.entry(path)?.ok_or(Error::NotFound)?;
        Ok(self.stat_of(path, &entry))
    }

    fn list(&self, path: &Path, each: &mut dyn FnMut(Listed<'_>)) -> Result<()> {
        let directory = self.directory(path, true)?;
        if directory.is_empty() && !path.as_os_str().is_empty() {
            return Err(match self.entry(path)? {
                Some(RemoteEntry::Object { .. }) => Error::NotADirectory,
                Some(RemoteEntry::Directory) => return Ok(()),
                None => Error::NotFound,
            });
        }
        for (name, entry) in directory.entries() {
            let stat = self.stat_of(&path.join(name), &entry);
            each(Listed {
                name: OsStr::new(name),
                kind: stat.kind,
                stat: Some(&stat),
            });
        }
        Ok(())
    }

    fn head(&self, path: &Path, buf: &mut [u8]) -> Result<usize> {
        let source = self.object(path)?;
        source.expect(&[head_of(&source)]);
        source.read(0, buf)
    }

    fn ends(&self, path: &Path, head: &mut [u8], tail: Fetch<'_>) -> Result<[usize; 2]> {
        let source = self.object(path)?;
        let end = |at: u64, len: usize| at..at.saturating_add(len as u64).min(source.len());
        source.expect(&[end(0, head.len()), end(tail.offset, tail.buf.len())]);
        Ok([source.read(0, head)?, source.read(tail.offset, tail.buf)?])
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        Ok(self.object(path)?)
    }

    fn is_far(&self) -> bool {
        true
    }

    fn traffic(&self) -> Option<FarTraffic> {
        Some(self.shared.traffic())
    }

    fn is_looked_into(&self, path: &Path) -> bool {
        ends_as_containers_do(path) || self.named.lock().contains(path)
    }

    fn knows_all_names(&self, directory: &Path) -> bool {
        let known = self.directory(directory, false);
        known.is_ok_and(|directory| directory.is_whole())
    }

    fn expect_heads(&self, paths: &mut dyn Iterator<Item = PathBuf>) {
        for path in paths {
            if let Ok(object) = self.object(&path) {
                object.expect(&[head_of(&object)]);
            }
        }
    }

    fn refresh(&self, path: &Path) {
        let mut directories = self.directories.lock();
        let known = directories.iter().map(|(known, _)| known.to_owned());
        let is_outdated = |known: &PathBuf| {
            known.starts_with(path) || path.parent().is_some_and(|above| known == above)
        };
        let outdated: Vec<PathBuf> = known.filter(is_outdated).collect();
        outdated
            .iter()
            .for_each(|known| drop(directories.pop(known)));
        drop(directories);
        self.named.lock().insert(path.to_owned());
    }

    fn display(&self, path: &Path) -> PathBuf {
        let shown = self.url.shown();
        match path.as_os_str().is_empty() || self.url.is_web() {
            true => shown.into(),
            false => format!("{shown}/{}", path.display()).into(),
        }
    }
}
