//! Examines a container that a crash has left: what a mount without writing shows, what recovery
//! makes of it, and whether that is sound.

use std::path::Path;
use std::sync::Arc;

use super::image::{Image, scratch};
use super::session::tree_at;
use super::subject::Subject;
use crate::array::uncached;
use crate::commit::Preference;
use crate::container::{Candidate, Preferences, recognise};
use crate::disk::recording::{Change, RecordingDisk};
use crate::memory::budget::Budget;
use crate::source::Store;
use crate::source::local::LocalStore;
use crate::tree::InUse;

/// What was found.
pub(super) struct Recovered {
    /// What the array holds, shown without writing, and after recovery.
    pub(super) read_only: Vec<u8>,
    pub(super) shown: Vec<u8>,
    /// What stays staged, and why.
    pub(super) stays: Vec<String>,
    /// What recovery did.
    pub(super) changes: Vec<Change>,
    pub(super) left: Image,
}

/// Puts the state into a directory, looks, recovers, and commits everything.
pub(super) fn examine(
    subject: &Subject,
    image: &Image,
    commit: Preference,
) -> Result<Recovered, String> {
    let directory = scratch();
    let at = directory.path();
    image.store(at);
    let tree = tree_at(at, commit, |_| None);
    let read_only = subject
        .content(&tree)
        .map_err(|e| format!("read only: {e}"))?;
    drop(tree);
    if Image::load(at) != *image {
        return Err("who only reads has written".into());
    }
    let mut recording = None;
    let tree = tree_at(at, commit, |disk| {
        let disk = Arc::new(RecordingDisk::new(disk));
        recording = Some(Arc::clone(&disk));
        Some(disk)
    });
    let shown = subject
        .content(&tree)
        .map_err(|e| format!("recovered: {e}"))?;
    let stays: Vec<String> = tree
        .containers()
        .commit_all(InUse::Ignored)
        .into_iter()
        .map(|(_, why)| why)
        .collect();
    let after = subject
        .content(&tree)
        .map_err(|e| format!("committed: {e}"))?;
    drop(tree);
    if after != shown {
        return Err("a commit has changed what is shown".into());
    }
    sound(subject, at, stays.is_empty().then_some(&shown))?;
    Ok(Recovered {
        read_only,
        shown,
        stays,
        changes: recording.unwrap().changes(),
        left: Image::load(at),
    })
}

/// The container by itself: every rule of the format, every block, and its content.
pub(super) fn sound(subject: &Subject, at: &Path, content: Option<&Vec<u8>>) -> Result<(), String> {
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(at, at).unwrap());
    let (path, budget) = (Path::new(subject.container), Budget::new(4 << 20));
    let candidate = Candidate::new(&*store, path, subject.kind, Preferences::default());
    let recognised = recognise(&candidate).map_err(|e| e.to_string())?;
    let recognised = recognised.ok_or("it is no container any more")?;
    let opened = recognised
        .open(&store, path, &budget)
        .map_err(|e| e.to_string())?;
    let opened = Arc::new(opened);
    let mut faults: Vec<String> = opened
        .all_faults()
        .iter()
        .map(ToString::to_string)
        .collect();
    for located in opened.all_arrays() {
        let array = &*located.array;
        let mut check = |piece| {
            if let Err(e) = uncached::check(array, piece, &budget, &mut |_| ()) {
                faults.push(e.to_string());
            }
        };
        array.survey(&mut check).map_err(|e| e.to_string())?;
        let told = array.verify(&mut |fault| faults.push(fault.to_string()));
        told.map_err(|e| e.to_string())?;
    }
    let tree = tree_at(at, Preference::Auto, |_| None);
    let stored = subject.content(&tree).map_err(|e| e.to_string())?;
    if content.is_some_and(|content| stored != *content) {
        faults.push("something else is stored".into());
    }
    for (_, check) in opened.all_checks() {
        let told = check.check(&budget, &mut |fault| faults.push(fault.to_string()));
        told.map_err(|e| e.to_string())?;
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(format!("not sound: {faults:?}")),
    }
}
