//! `arrayfs append`: the bytes of a file behind those of a Bloscpack file, all of them or none.
//!
//! Outside of mounts it is a commit like that of a mount: the last chunk, whose digest is checked,
//! is filled up, spare entries of the offsets section are used, a NumPy array grows by rows, and a
//! crash leaves the old file or the new one. What a daemon serves for writing is its own: there the
//! array is written through the mount.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failure::{CommandResult, Failure};
use super::given_path::real;
use super::in_mount::InMount;
use super::unpack::{find, open};
use super::{output, plain_input};
use crate::array::{Array, uncached};
use crate::container::bloscpack::Bloscpack;
use crate::container::{Format, Preferences};
use crate::daemon::source_lock::{self, Refusal, SourceLock};
use crate::error::{Error, plain};
use crate::live::unmounted;
use crate::memory::budget::Budget;
use crate::source::Source;

/// Bytes that are written to a mount at once.
const STEP: usize = 1 << 20;

/// The array's name in a mount.
const ARRAY: &str = "data";

/// What a container has in a mount.
const DESCRIPTION: &str = "arrays.json";

pub(super) fn run(path: &Path, more: &Path, preferences: Preferences) -> CommandResult {
    let more = plain_input::open(more)?;
    let place = InMount::written_at(path)?.filter(|place| !place.is_in_scratch());
    match place {
        Some(place) if place.mounted.writable => to_mounted(path, &place, &*more),
        Some(_) => Err(Failure::new(format!(
            "{} lies in a mount that is read-only; append to it in the mount's source",
            path.display()
        ))),
        None => to_file(path, more, preferences),
    }
}

fn to_file(path: &Path, more: Arc<dyn Source>, preferences: Preferences) -> CommandResult {
    let found = find(path, preferences, "appended to")?;
    let shown = found.shown();
    let _lock = lock(&shown)?;
    let budget = Budget::by_default();
    let (opened, located) = open(&found, &budget)?;
    if opened.writable.is_none() {
        return Err(Failure::new(format!(
            "{}: its header does not say how long it is; 'arrayfs unpack' it, and 'pack' it anew",
            shown.display()
        )));
    }
    let checked = check_last_block(&*located.array, &budget);
    checked.map_err(|e| located.locate(e).of_container(&shown))?;
    if more.len() == 0 {
        return Ok(());
    }
    drop((opened, located));
    let (store, disk, path) = (Arc::clone(&found.store), found.disk()?, &found.path);
    let done = unmounted::append(store, disk, path, &found.recognised, (0, more));
    done.map_err(|e| match e {
        Error::Invalid(why) => Failure::new(format!("{}: {why}", shown.display())),
        other => other.of_container(&shown).into(),
    })
}

/// What is appended to damaged bytes would give them a digest that is right. The chunk that they
/// are in may be rewritten, and its own is looked at here also where it is not.
fn check_last_block(array: &dyn Array, budget: &Arc<Budget>) -> crate::error::Result<()> {
    let bytes = array.info()?.bytes;
    let mut last = Vec::new();
    if let Some(before) = bytes.checked_sub(1) {
        array.pieces(before..bytes, &mut last)?;
    }
    let mut last = last.into_iter();
    last.try_for_each(|piece| uncached::check(array, piece, budget, &mut |_| ()))
}

/// No daemon begins to write to the directory meanwhile.
fn lock(shown: &Path) -> Result<SourceLock, Failure> {
    let failed = |why: String| Failure::new(format!("{}: {why}", shown.display()));
    let path = real(shown).map_err(|e| failed(plain(&e)))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let locked = source_lock::acquire_shared(directory, &output::path_text(directory));
    locked.map_err(|refusal| match refusal {
        Refusal::Held(rival) => failed(rival.to_string()),
        Refusal::Failed(e) => failed(plain(&e)),
    })
}

fn to_mounted(path: &Path, place: &InMount, more: &dyn Source) -> CommandResult {
    let failed = |e: io::Error| Failure::new(format!("{}: {}", path.display(), plain(&e)));
    let container = shown_container(path, place)?;
    let array = File::options()
        .read(true)
        .write(true)
        .open(container.join(ARRAY))
        .map_err(failed)?;
    let len = array.metadata().map_err(failed)?.len();
    // Whether the array can have such a length is told at once.
    let grown = array.set_len(len.saturating_add(more.len()));
    grown.and_then(|()| array.set_len(len)).map_err(|e| {
        let why = "(a NumPy array grows by whole rows)";
        Failure::new(format!("{}: {} {why}", path.display(), plain(&e)))
    })?;
    let written = write_behind(&array, len, more);
    if let Err(failure) = written {
        array.set_len(len).map_err(failed)?;
        return Err(failure);
    }
    drop(array);
    // Its close commits; what comes of that is told by the directory.
    let directory = File::open(&container).map_err(failed)?;
    directory.sync_all().map_err(failed)
}

fn write_behind(array: &File, len: u64, more: &dyn Source) -> CommandResult {
    let mut step = vec![0; STEP];
    let mut at = 0;
    while at < more.len() {
        let n = STEP.min(usize::try_from(more.len() - at).unwrap_or(STEP));
        more.fetch_one(at, &mut step[..n])?;
        let written = array.write_all_at(&step[..n], len.saturating_add(at));
        written.map_err(|e| Failure::new(format!("cannot append: {}", plain(&e))))?;
        at += n as u64;
    }
    let synced = array.sync_all();
    synced.map_err(|e| Failure::new(format!("cannot append: {}", plain(&e))))
}

/// The directory that a mount shows of the Bloscpack file which a path means.
fn shown_container(path: &Path, place: &InMount) -> Result<PathBuf, Failure> {
    let refuse = |why: &str| Err(Failure::new(format!("{}: {why}", path.display())));
    let Some(mut shown) = place.in_mount(path) else {
        return refuse("it cannot be found in its mount");
    };
    let is_array = shown.is_file() && shown.file_name().is_some_and(|name| name == ARRAY);
    if is_array && let Some(above) = shown.parent() {
        shown = above.to_owned();
    }
    let Ok(description) = std::fs::read(shown.join(DESCRIPTION)) else {
        return refuse(
            "it is not shown as a container in its mount; 'arrayfs refresh' has it looked into",
        );
    };
    let description = serde_json::from_slice::<serde_json::Value>(&description);
    match description.is_ok_and(|description| description["format"] == Bloscpack.name()) {
        true => Ok(shown),
        false => refuse("it is no Bloscpack file"),
    }
}
