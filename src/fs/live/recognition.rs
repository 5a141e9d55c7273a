//! What an entry of the source is recognised as.
//!
//! An entry that could not be looked into is never taken for an ordinary file. Used by
//! `tree::lookup` for look-ups, and by [`super::version`] for containers that have changed.

use std::path::Path;

use crate::container::{self, Candidate, Preferences, Recognised};
use crate::error::Result;
use crate::source::{FileKind, Stat, Store};

/// What looking into an entry of the source came to.
pub(crate) enum Recognition {
    Container(Recognised),
    Ordinary,
    /// It may not be read, or another program holds a lease on it: shown as it is, and asked again
    /// the next time.
    Unknown,
}

impl Recognition {
    pub(crate) fn known(self) -> Option<Recognised> {
        match self {
            Recognition::Container(recognised) => Some(recognised),
            Recognition::Ordinary | Recognition::Unknown => None,
        }
    }
}

pub(crate) fn recognise(
    store: &dyn Store,
    path: &Path,
    stat: &Stat,
    preferences: Preferences,
) -> Result<Recognition> {
    if stat.kind != FileKind::File && stat.kind != FileKind::Directory {
        return Ok(Recognition::Ordinary);
    }
    let candidate = Candidate::new(store, path, stat.kind, preferences);
    match container::recognise(&candidate) {
        Ok(Some(recognised)) => Ok(Recognition::Container(recognised)),
        Ok(None) => {
            tell_lookalike(&candidate);
            Ok(Recognition::Ordinary)
        }
        Err(e) if e.is_permission_denied() || e.is_would_block() => Ok(Recognition::Unknown),
        Err(e) => Err(e),
    }
}

/// Who mounts sees a file where a container is expected. One that is only being written is let be.
fn tell_lookalike(candidate: &Candidate<'_>) {
    if let Ok(Some(lookalike)) = container::lookalike(candidate)
        && lookalike.is_something_else
    {
        log::warn!("{}; it is shown as the file that it is", lookalike.fault);
    }
}
