//! A directory of a store: what a prefix has below it, as it was listed.
//!
//! Believed for a time. Of a large one, in which only some names are looked up, no more is asked
//! for than its first page and those names. Used by [`super::store`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::cloud::{PAGE, PageOf};
use super::listing::{self, ListedPage};
use super::names;
use super::shared::Shared;
use super::transport::{Question, Transport};
use super::version::ObjectVersion;
use crate::error::{Error, Result};
use crate::memory::budget::Hold;
use crate::sync::Mutex;

/// Names that were looked up are remembered, as many of a directory.
const LOOKED_UP: usize = 10_000;

/// A server takes no longer to refuse.
const REFUSING: Duration = Duration::from_secs(1);

/// Pages in a row that have no names, at most.
const EMPTY_MOST: u32 = 1000;

/// Bytes that a name takes beside itself.
const PER_NAME: usize = 200;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RemoteEntry {
    Directory,
    Object { key: String, version: ObjectVersion },
}

/// What was found below a prefix.
pub(super) struct RemoteDirectory {
    objects: BTreeMap<String, RemoteEntry>,
    directories: BTreeSet<String>,
    /// The only page, if there is more behind its last name.
    begun: Option<ListedPage>,
    /// The last of the names that are known, as keys are ordered, if there are more.
    last: String,
    /// Names behind it that were looked up.
    looked_up: Mutex<BTreeMap<String, Option<RemoteEntry>>>,
    since: Instant,
    /// For its names.
    charge: Option<Hold>,
}

impl RemoteDirectory {
    /// Asks for all of it, or for its first page alone.
    pub(super) async fn ask(
        shared: &Shared,
        prefix: &str,
        is_whole: bool,
    ) -> Result<RemoteDirectory> {
        let charge = shared.memory.budget().keep(0)?;
        let mut found = RemoteDirectory {
            charge: Some(charge),
            ..RemoteDirectory::empty()
        };
        let first = page_of(&shared.transport, prefix, None).await?;
        found.charge(bytes_of(&first))?;
        match first.next.is_some() && !is_whole {
            true => {
                // It is kept as it came, too.
                found.charge(bytes_of(&first))?;
                found.begin(prefix, first);
            }
            false => found.finish(shared, prefix, first, 0).await?,
        }
        Ok(found)
    }

    /// All of it, from its first page on; none if what leads to the next one is of no use any more.
    pub(super) async fn go_on(
        &self,
        shared: &Shared,
        prefix: &str,
    ) -> Result<Option<RemoteDirectory>> {
        let charge = shared.memory.budget().keep(0)?;
        let mut whole = RemoteDirectory {
            since: self.since,
            charge: Some(charge),
            ..RemoteDirectory::empty()
        };
        let first = self.begun.clone().unwrap_or_default();
        let asked = Instant::now();
        let second = match page_of(&shared.transport, prefix, first.next.as_deref()).await {
            // What is refused is refused at once; for all else there has been time enough.
            Err(_) if asked.elapsed() < REFUSING => return Ok(None),
            second => second?,
        };
        whole.charge(bytes_of(&first).saturating_add(bytes_of(&second)))?;
        let left_out = whole.take(prefix, first);
        whole.finish(shared, prefix, second, left_out).await?;
        Ok(Some(whole))
    }

    fn charge(&mut self, bytes: u64) -> Result<()> {
        let kept = self.charge.as_mut().map(|charge| charge.keep_more(bytes));
        kept.unwrap_or(Ok(()))
    }

    fn begin(&mut self, prefix: &str, first: ListedPage) {
        self.take(prefix, first.clone());
        self.last = self.last_name();
        self.begun = Some(first);
        names::beside_directories(&mut self.objects, &self.directories);
    }

    /// Takes a page, and asks for all behind it; keys of those before it were left out.
    async fn finish(
        &mut self,
        shared: &Shared,
        prefix: &str,
        mut page: ListedPage,
        mut left_out: u64,
    ) -> Result<()> {
        let (transport, mut empty) = (&shared.transport, 0);
        loop {
            let (next, before) = (page.next.take(), self.count());
            left_out += self.take(prefix, page);
            // Pages without names are sent by some stores, but not for ever.
            empty = if self.count() > before { 0 } else { empty + 1 };
            let Some(token) = next else { break };
            page = page_of(transport, prefix, Some(&token)).await?;
            if page.next.as_ref() == Some(&token) || empty > EMPTY_MOST {
                let name = transport.name(&question(prefix, None));
                let cause = std::io::Error::from_raw_os_error(libc::EIO);
                return Err(Error::io(format!("{name}: comes to no end"), cause));
            }
            self.charge(bytes_of(&page))?;
        }
        if left_out > 0 {
            let name = transport.name(&question(prefix, None));
            log::warn!("{name}: {left_out} keys are left out, which no path can have");
        }
        names::beside_directories(&mut self.objects, &self.directories);
        Ok(())
    }

    pub(super) fn empty() -> RemoteDirectory {
        RemoteDirectory {
            objects: BTreeMap::new(),
            directories: BTreeSet::new(),
            begun: None,
            last: String::new(),
            looked_up: Mutex::default(),
            since: Instant::now(),
            charge: None,
        }
    }

    /// With this one entry.
    pub(super) fn of_one(name: &str, key: &str, version: ObjectVersion) -> RemoteDirectory {
        let mut one = RemoteDirectory::empty();
        let key = key.to_owned();
        one.objects
            .insert(name.to_owned(), RemoteEntry::Object { key, version });
        one
    }

    /// Says how many keys it left out.
    fn take(&mut self, prefix: &str, page: ListedPage) -> u64 {
        let mut left_out = 0;
        for object in page.objects {
            match names::name_of(&object.key, prefix) {
                Some(name) => {
                    let version = ObjectVersion::listed(&object);
                    let (name, key) = (name.to_owned(), object.key);
                    self.objects
                        .insert(name, RemoteEntry::Object { key, version });
                }
                // What stands for a directory that is to be there although nothing is in it.
                None if object.key == prefix => {}
                None => left_out += 1,
            }
        }
        for directory in page.prefixes {
            let name = directory.strip_suffix('/').unwrap_or(&directory);
            match names::name_of(name, prefix) {
                Some(name) => drop(self.directories.insert(name.to_owned())),
                None => left_out += 1,
            }
        }
        left_out
    }

    pub(super) fn is_whole(&self) -> bool {
        self.begun.is_none()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.directories.is_empty()
    }

    pub(super) fn is_older_than(&self, most: Duration) -> bool {
        self.since.elapsed() > most
    }

    /// None: it is not known whether it is there.
    pub(super) fn entry(&self, name: &str) -> Option<Option<RemoteEntry>> {
        if self.directories.contains(name) {
            return Some(Some(RemoteEntry::Directory));
        }
        // Whatever has the name as a prefix lies before the last name.
        let is_known = self.is_whole() || format!("{name}/") <= self.last;
        match is_known {
            true => Some(self.objects.get(name).cloned()),
            false => self.looked_up.lock().get(name).cloned(),
        }
    }

    /// What a look-up has found.
    pub(super) fn note(&self, name: &str, found: &Option<RemoteEntry>) {
        let mut looked_up = self.looked_up.lock();
        if looked_up.len() < LOOKED_UP {
            looked_up.insert(name.to_owned(), found.clone());
        }
    }

    fn count(&self) -> usize {
        self.objects.len() + self.directories.len()
    }

    fn last_name(&self) -> String {
        let object = self.objects.keys().next_back().cloned();
        let directory = self.directories.iter().next_back();
        object
            .max(directory.map(|name| format!("{name}/")))
            .unwrap_or_default()
    }

    /// In the order of names, directories first.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, RemoteEntry)> {
        let directories = self.directories.iter();
        let directories = directories.map(|name| (name.as_str(), RemoteEntry::Directory));
        let objects = self.objects.iter();
        directories.chain(objects.map(|(name, entry)| (name.as_str(), entry.clone())))
    }
}

fn question<'a>(prefix: &'a str, token: Option<&'a str>) -> Question<'a> {
    Question::Page(PageOf {
        prefix,
        token,
        most: PAGE,
    })
}

async fn page_of(transport: &Transport, prefix: &str, token: Option<&str>) -> Result<ListedPage> {
    let question = question(prefix, token);
    let answer = transport.ask(&question).await?;
    let page = listing::parse(&answer.body);
    page.map_err(|e| e.of_container(transport.name(&question).as_ref()))
}

/// About what the names of a page take, and what is known of them.
fn bytes_of(page: &ListedPage) -> u64 {
    let objects = page
        .objects
        .iter()
        .map(|object| 2 * object.key.len() + PER_NAME);
    let prefixes = page.prefixes.iter().map(|prefix| prefix.len() + PER_NAME);
    objects.chain(prefixes).map(|bytes| bytes as u64).sum()
}

/// Looks a single name up: what has it as a key, or as a part of keys.
pub(super) async fn look_up(
    transport: &Transport,
    prefix: &str,
    name: &str,
) -> Result<Option<RemoteEntry>> {
    let key = format!("{prefix}{name}");
    let below = format!("{key}/");
    let page = page_of(transport, &key, None).await?;
    let mut is_directory = page.prefixes.contains(&below);
    if !is_directory && page.next.is_some() {
        let question = Question::Page(PageOf {
            prefix: &below,
            token: None,
            most: 1,
        });
        let answer = transport.ask(&question).await?;
        let page = listing::parse(&answer.body)?;
        is_directory = !page.objects.is_empty() || !page.prefixes.is_empty();
    }
    if is_directory {
        return Ok(Some(RemoteEntry::Directory));
    }
    let object = page.objects.into_iter().find(|object| object.key == key);
    Ok(object.map(|object| RemoteEntry::Object {
        version: ObjectVersion::listed(&object),
        key: object.key,
    }))
}
