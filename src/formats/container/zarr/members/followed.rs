//! Symbolic links of a store that stay in the source, followed; those that lead out of it never.
//!
//! The source itself follows none, so each step of the way is asked for and taken here, and what
//! comes out is a path without links, which is opened as such: whatever is renamed meanwhile, none
//! is followed by accident. Used by [`super::directory`].

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::error::Result;
use crate::source::{FileKind, Store};

/// As many links as the kernel follows.
const LINKS_MOST: u32 = 40;

/// Where a path leads.
pub(super) enum LinkWay {
    /// A path without links.
    To(PathBuf),
    /// Nowhere: it has no end, or something on it is missing.
    Nowhere,
    /// Out of the source.
    Outside,
}

/// Follows the links of a path.
pub(super) fn follow(store: &dyn Store, path: &Path) -> Result<LinkWay> {
    let Some(posix) = store.as_posix() else {
        return Ok(LinkWay::To(path.to_owned()));
    };
    let mut rest: VecDeque<OsString> = path.iter().map(OsString::from).collect();
    let (mut done, mut links) = (PathBuf::new(), 0);
    while let Some(name) = rest.pop_front() {
        let at = done.join(&name);
        let kind = match store.stat(&at) {
            Ok(stat) => stat.kind,
            Err(e) if e.is_not_found() => return Ok(LinkWay::Nowhere),
            Err(e) => return Err(e),
        };
        if kind != FileKind::Symlink {
            done = at;
            continue;
        }
        links += 1;
        if links > LINKS_MOST {
            return Ok(LinkWay::Nowhere);
        }
        let target = PathBuf::from(posix.read_link(&at)?);
        let (mut steps, mut up) = (Vec::new(), done.clone());
        for component in target.components() {
            match component {
                Component::CurDir => {}
                // What lies behind a link may be above another place, so names wait their turn.
                Component::ParentDir if steps.is_empty() => {
                    if !up.pop() {
                        return Ok(LinkWay::Outside);
                    }
                }
                Component::ParentDir => {
                    // A name and its parent again: where the name is no link that is here.
                    match store.stat(&steps.iter().fold(up.clone(), |p, s: &OsString| p.join(s))) {
                        Ok(stat) if stat.kind == FileKind::Directory => drop(steps.pop()),
                        _ => return Ok(LinkWay::Nowhere),
                    }
                }
                Component::Normal(name) => steps.push(name.to_owned()),
                Component::RootDir | Component::Prefix(_) => return Ok(LinkWay::Outside),
            }
        }
        done = up;
        for step in steps.into_iter().rev() {
            rest.push_front(step);
        }
    }
    Ok(LinkWay::To(done))
}
