//! Sources that are named by URLs: the one place where the program opens them.
//!
//! What is said of them beside the URL, by the command line or by the mount that a path lies in,
//! holds for all that the command opens. Used by [`super::container`], for the mount and for every
//! command.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::container::Root;
use super::failure::Failure;
use crate::daemon::arguments;
use crate::error::Error;
use crate::memory::budget::Budget;
use crate::source::remote::{self, RemoteRoom, RemoteSettings, SourceUrl, is_url};
use crate::source::{FileKind, Listed};
use crate::sync::Mutex;

static SETTINGS: Mutex<Option<RemoteSettings>> = Mutex::new(None);
/// URLs that were given, some with what nobody is to see, by the paths that stand for them.
static GIVEN: Mutex<Vec<(PathBuf, SourceUrl)>> = Mutex::new(Vec::new());

/// Longest URL.
const LONGEST: u64 = 64 << 10;

/// Notes what is said of them.
pub(super) fn remember(settings: RemoteSettings) {
    *SETTINGS.lock() = Some(settings);
}

fn settings() -> RemoteSettings {
    SETTINGS.lock().clone().unwrap_or_default()
}

/// What was given for a path, with the URL that is not to be seen in its place.
pub(super) fn given(path: &Path, settings: &RemoteSettings) -> Result<PathBuf, Failure> {
    let mut text = String::new();
    let read = match &settings.url_file {
        Some(file) => {
            let opened = std::fs::File::open(file);
            opened.and_then(|file| file.take(LONGEST).read_to_string(&mut text))
        }
        None if path == Path::new("-") => {
            let input = std::io::stdin().lock();
            input.take(LONGEST).read_to_string(&mut text)
        }
        None => return kept(path.to_owned(), settings),
    };
    let from = settings.url_file.as_ref();
    let from = from.map_or("standard input".into(), |file| file.display().to_string());
    read.map_err(|e| Failure::new(format!("no URL can be read from {from}: {e}")))?;
    let url = PathBuf::from(text.trim());
    match is_url(&url) {
        true => kept(url, settings),
        false => Err(Failure::new(format!("{from} has no URL in it"))),
    }
}

/// The URL that a path is; none if it is none.
pub(super) fn url(path: &Path) -> Option<Result<SourceUrl, Failure>> {
    let known = GIVEN.lock();
    if let Some((_, url)) = known.iter().find(|(given, _)| given == path) {
        return Some(Ok(url.clone()));
    }
    drop(known);
    let parsed = SourceUrl::parse(path, settings().account.as_deref())?;
    Some(parsed.map_err(Failure::new))
}

/// An error if a command that takes paths alone was given a URL.
pub(super) fn refuse(path: &Path) -> Result<(), Failure> {
    let Some(parsed) = SourceUrl::parse(path, None) else {
        return Ok(());
    };
    let shown = parsed.map_or_else(|bad| bad.to_string(), |url| url.shown());
    Err(Failure::new(format!(
        "{shown}: this command takes paths; URLs are for mount, ls, info, show, cat and verify"
    )))
}

/// The path by which a URL goes from here on: nothing in it is secret.
fn kept(path: PathBuf, settings: &RemoteSettings) -> Result<PathBuf, Failure> {
    let Some(parsed) = SourceUrl::parse(&path, settings.account.as_deref()) else {
        return Ok(path);
    };
    let url = parsed.map_err(Failure::new)?;
    let shown = PathBuf::from(url.shown());
    let (given, seen) = (path.as_os_str().as_bytes(), shown.as_os_str().as_bytes());
    if url.has_secrets()
        && let Err(e) = arguments::replace(given, seen)
    {
        log::debug!("the command line shows the URL as it was given: {e}");
    }
    let mut known = GIVEN.lock();
    if let Some((given, _)) = known.iter().find(|(_, known)| *known == url) {
        return Ok(given.clone());
    }
    // What tells two apart may be what nobody is to see.
    let is_free = |path: &PathBuf| known.iter().all(|(given, _)| given != path);
    let numbered = (2u32..).map(|number| PathBuf::from(format!("{}#{number}", url.shown())));
    let path = std::iter::once(shown).chain(numbered).find(is_free);
    let path = path.unwrap_or_default();
    known.push((path.clone(), url));
    Ok(path)
}

fn room(budget: &Arc<Budget>) -> RemoteRoom {
    RemoteRoom {
        settings: settings(),
        budget: Arc::clone(budget),
    }
}

/// What is said of an error of this source.
pub(super) fn failed(url: &SourceUrl) -> impl Fn(Error) -> Failure {
    move |e| Failure::new(told(url, &e.to_string()))
}

/// An error of a store names what it is about, or nothing.
fn told(url: &SourceUrl, error: &str) -> String {
    let shown = url.shown();
    match error.contains("://") {
        true => error.to_owned(),
        false => format!("{shown}: {error}"),
    }
}

/// All of a bucket, and the place in it.
pub(super) fn in_bucket(url: &SourceUrl, budget: &Arc<Budget>) -> Result<Root, Failure> {
    let (root, path) = url.root();
    Ok(Root {
        store: remote::open(&root, &room(budget)).map_err(failed(url))?,
        disk: None,
        path,
    })
}

/// Who is typing waits no longer.
const TYPING: Duration = Duration::from_secs(3);

/// Names in a directory of a store, those of directories with a slash; none if it is no directory.
pub(super) fn names_below(directory: &str) -> Option<Vec<String>> {
    let url = url(Path::new(directory))?
        .ok()
        .filter(|url| !url.is_web())?;
    remember(RemoteSettings {
        timeout: Some(TYPING),
        ..settings()
    });
    let root = in_bucket(&url, &Budget::by_default()).ok()?;
    let mut names = Vec::new();
    let mut each = |listed: Listed<'_>| {
        let slash = if listed.kind == FileKind::Directory {
            "/"
        } else {
            ""
        };
        names.push(format!("{}{slash}", listed.name.to_string_lossy()));
    };
    root.store.list(&root.path, &mut each).ok()?;
    Some(names)
}

/// What is to be mounted: below a prefix, or one object.
pub(super) fn root(url: &SourceUrl, budget: &Arc<Budget>) -> Result<Root, Failure> {
    if !url.is_web() {
        let looked = remote::look_at(url, &room(budget));
        let (store, has_any) = looked.map_err(failed(url))?;
        if has_any || url.key.is_empty() {
            let path = PathBuf::new();
            return Ok(Root {
                store,
                disk: None,
                path,
            });
        }
    }
    let whole = in_bucket(url, budget)?;
    whole.store.refresh(&whole.path);
    whole.store.stat(&whole.path).map_err(failed(url))?;
    Ok(whole)
}
