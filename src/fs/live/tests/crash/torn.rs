//! The power goes during a commit of several files, and another process changes the container
//! before the recovery: it is whole all the same, as it was before the commit or as it was to be
//! after it.

use std::ffi::OsStr;
use std::sync::Arc;

use super::examine::sound;
use super::image::{Image, StoredFile, scratch};
use super::matrices::{SCENARIOS, SEVERAL};
use super::session::{Session, tree_at};
use super::subject::joined;
use super::{Run, on_all_processors, runs_of, states};

const NOT_REPLACED: &str = "row_names";

fn touched(file: &Arc<StoredFile>) -> Arc<StoredFile> {
    let (secs, nanos) = file.mtime;
    Arc::new(StoredFile {
        mtime: (secs + 1, nanos),
        ..(**file).clone()
    })
}

/// What another process may do: write to a file that the commit leaves alone, to one that it
/// replaces, and, by a descriptor from before, to an old one whose name a new one has already.
fn disturbed(image: &Image, before: &Image) -> Vec<Image> {
    let mut all = Vec::new();
    let mut touch = |name: &OsStr| {
        let mut one = image.clone();
        let file = touched(&one.files[name]);
        one.files.insert(name.to_owned(), file);
        all.push(one);
    };
    touch(OsStr::new(NOT_REPLACED));
    for (name, old) in &before.files {
        let hidden = format!(".{}.arrayfs-new", name.to_str().unwrap());
        let is_out = image.files.get(OsStr::new(&hidden));
        if is_out.is_some_and(|out| out.bytes == old.bytes && out.mtime == old.mtime) {
            touch(OsStr::new(&hidden));
        }
    }
    all
}

/// What is shown, and what has been left when it is recovered once more.
fn recovered(run: &Run, image: &Image) -> Result<Vec<u8>, String> {
    let directory = scratch();
    image.store(directory.path());
    let content = || {
        let tree = tree_at(directory.path(), run.way, Some);
        run.subject.content(&tree).map_err(|e| e.to_string())
    };
    let (shown, again) = (content()?, content()?);
    if shown != again {
        return Err("something else is shown the next time".into());
    }
    sound(run.subject, directory.path(), None)?;
    Ok(shown)
}

fn check(run: &Run) -> (usize, Vec<String>) {
    let session: Arc<Session> = run.session(libc::EIO);
    (run.scenario.act)(&session);
    let changes = session.disk.changes();
    let done = session.done.lock();
    assert!(done.errors.is_empty(), "{:?}", done.errors);
    let whole = [joined(&session.first), done.content(&session.first)];
    let states = states(&session.before, &changes, |at| done.bounds(at));
    let images = states.iter().flat_map(|state| {
        let disturbed = disturbed(&state.image, &session.before);
        disturbed.into_iter().map(move |image| (state, image))
    });
    let images: Vec<_> = images.collect();
    let judged = on_all_processors(images.len(), |number| {
        let (state, image) = &images[number];
        let why = match recovered(run, image) {
            Ok(shown) if whole.contains(&shown) => return None,
            Ok(_) => "a mixture is shown".to_owned(),
            Err(e) => e,
        };
        Some(format!(
            "{why}: {}",
            state.describe(&session.before, &changes)
        ))
    });
    (images.len(), judged.into_iter().flatten().collect())
}

#[test]
fn what_others_change_during_a_commit_leaves_no_mixture() {
    let runs = runs_of(SCENARIOS).filter(|run| run.scenario.name == SEVERAL);
    let mut states = 0;
    for run in runs {
        let (of_run, wrong) = check(&run);
        states += of_run;
        let first = wrong.first();
        assert!(first.is_none(), "{} of {of_run}: {first:?}", wrong.len());
    }
    assert!(states > 200, "{states}");
}
