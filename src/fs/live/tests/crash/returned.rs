//! The removal of a log does not reach the disk, and the log is there again when the power has
//! gone, although its commit has come to its end. The next mount finds that out and applies
//! nothing; it commits something else in the same place, and then the power goes again.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::examine::examine;
use super::image::{Image, StoredFile, scratch};
use super::scenarios::{AGO, SCENARIOS, noise};
use super::session::{Session, tree_at};
use super::simulated::{Random, SimulatedDisk};
use super::subject::joined;
use super::{
    Run, SEED, datasets, judge, matrices, on_all_processors, one_in, run_seed, runs_of, states,
};
use crate::commit::Preference;
use crate::disk::recording::{Change, Sharing};
use crate::disk::{NewAttributes, NewTime};
use crate::sync::Mutex;
use crate::tree::driven::NOBODY;

/// What crashes leave behind the end of a session.
fn left_at_the_end(session: &Session) -> Vec<Image> {
    let mut disk = SimulatedDisk::new(&session.before);
    let changes = session.disk.changes();
    changes.iter().for_each(|change| disk.apply(change));
    let choices = disk.choices(&mut Random(1));
    let images: HashSet<Image> = choices.iter().map(|choice| disk.image(choice)).collect();
    images.into_iter().collect()
}

fn log_of(session: &Session) -> String {
    format!(".{}.arrayfs-stage", session.subject.first_file)
}

/// What is done by the next mount: other bytes where the commit before has written, and before and
/// behind.
fn write_again(session: &Session) {
    let file = session.open();
    let at = match session.subject.arrays {
        [_] => 290,
        _ => 0,
    };
    session.write(file, at, &[5; 72]);
    session.close(file);
}

/// Whether the files of the container are left alone as long as the log is there.
fn only_removes_the_log(changes: &[Change], log: &str) -> bool {
    let is_removal = |change: &Change| matches!(change, Change::Unlink(path) if path.as_os_str() == OsStr::new(log));
    let Some(removed) = changes.iter().position(is_removal) else {
        return false;
    };
    changes[..removed].iter().all(|change| match change {
        Change::Open(path, _) => path.as_os_str() == OsStr::new(log),
        Change::Unlink(path) => path.to_str().unwrap().ends_with(".arrayfs-new"),
        Change::Sync(..) | Change::SyncNamed(..) | Change::Put(..) => true,
        _ => false,
    })
}

fn check(run: &Run, way: Preference) -> (usize, Vec<String>) {
    let first = run.session(libc::EIO);
    (run.scenario.act)(&first);
    let (done, log) = (first.done.lock(), log_of(&first));
    assert!(done.errors.is_empty(), "{:?}", done.errors);
    let mut returned = left_at_the_end(&first);
    returned.retain(|image| image.files.contains_key(OsStr::new(&log)));
    assert!(!returned.is_empty(), "{}", run.name());
    let (mut tried, mut wrong) = (0, Vec::new());
    for image in returned {
        let second = Session::of_image(&image, run.subject, way);
        let (content, shown) = (done.content(&first.first), joined(&second.first));
        assert!(shown == content, "{}: not what was committed", run.name());
        let began = second.disk.changes();
        assert!(only_removes_the_log(&began, &log), "{began:?}");
        write_again(&second);
        let (changes, again) = (second.disk.changes(), second.done.lock());
        assert!(again.errors.is_empty(), "{:?}", again.errors);
        let mut states = states(&image, &changes, |at| again.bounds(at));
        run.sample(&mut states, (one_in(), run_seed()));
        let judged = on_all_processors(states.len(), |number| {
            let state = &states[number];
            let allowed = |bounds: &(usize, usize)| again.allowed(&second.first, *bounds);
            let allowed: Vec<_> = state.bounds.iter().map(allowed).collect();
            let recovered = examine(run.subject, &state.image, way)?;
            judge(&recovered, &allowed.iter().collect::<Vec<_>>(), &first)
        });
        tried += states.len();
        for (state, judged) in states.iter().zip(judged) {
            if let Err(e) = judged {
                wrong.push(format!("{e}: {}", state.describe(&image, &changes)));
            }
        }
    }
    (tried, wrong)
}

#[test]
fn a_log_that_comes_back_is_not_applied_over_what_came_later() {
    let of_file = runs_of(SCENARIOS).filter(|run| {
        ["one chunk", "synced, written, closed", "two commits"].contains(&run.scenario.name)
    });
    let of_several = runs_of(matrices::SCENARIOS_IN_PLACE).filter(|run| {
        ["in place: values and rows", "in place: times cannot be set"].contains(&run.scenario.name)
    });
    let in_place = |run: &Run| run.way == Preference::InPlace;
    let mut tried = 0;
    println!("the sample of {SEED}={}", run_seed());
    for run in of_file.chain(of_several).filter(in_place) {
        for way in [Preference::InPlace, Preference::Replace] {
            let (of_run, wrong) = check(&run, way);
            tried += of_run;
            println!(
                "{of_run:5} states, {:4} failures: {}, then {way:?}",
                wrong.len(),
                run.name()
            );
            assert!(
                wrong.is_empty(),
                "{} of {of_run}: {}",
                wrong.len(),
                wrong[0]
            );
        }
    }
    assert!(tried * one_in() > 1000, "{tried}");
}

#[test]
fn a_time_that_is_set_after_a_commit_outlives_its_log() {
    let session = Session::new("chunk-127.blp", Preference::InPlace, libc::EIO);
    let file = session.open();
    session.write(file, 304, &[7; 40]);
    session.close(file);
    let to = NewAttributes {
        mtime: Some(NewTime::At(AGO)),
        ..NewAttributes::default()
    };
    let set = session
        .tree
        .changes
        .set_attributes(file.0, None, None, &to, NOBODY);
    set.unwrap();
    let left = left_at_the_end(&session);
    for image in &left {
        let directory = scratch();
        image.store(directory.path());
        let tree = tree_at(directory.path(), Preference::InPlace, Some);
        session.subject.content(&tree).unwrap();
        let stat = std::fs::metadata(directory.path().join("x.blp")).unwrap();
        let time = (stat.mtime(), stat.mtime_nsec());
        assert_eq!(time, (AGO.secs, AGO.nanos.into()), "{:?}", image.names());
    }
}

/// A copy may have the file as it was before it grew, and the log as it was sealed: the bytes
/// behind the old end are in neither, so nothing is applied.
#[test]
fn a_seal_does_not_count_beside_a_file_that_has_not_grown() {
    let of = (&datasets::FILE, "earliest.h5");
    let session = Session::on(of, Preference::InPlace, libc::EIO, Sharing::Unknown);
    let path = session.directory.path().join(log_of(&session));
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    session.disk.watch(move |_| {
        if let Ok(log) = std::fs::read(&path) {
            *keep.lock() = log;
        }
        false
    });
    let file = session.open();
    session.write(file, session.first[0].len() as u64, &noise(240));
    session.close(file);
    let bytes = std::mem::take(&mut *kept.lock());
    let log = StoredFile {
        len: bytes.len() as u64,
        bytes,
        mode: 0o600,
        mtime: (AGO.secs, AGO.nanos),
    };
    let mut image = session.before.clone();
    image.files.insert(log_of(&session).into(), Arc::new(log));
    let directory = scratch();
    image.store(directory.path());
    for how in [|_| None, Some as fn(_) -> _] {
        let tree = tree_at(directory.path(), Preference::InPlace, how);
        let shown = session.subject.content(&tree).unwrap();
        assert!(shown == joined(&session.first), "something is applied");
    }
    let file = |image: &Image| image.files[OsStr::new("x.h5")].bytes.clone();
    assert_eq!(file(&Image::load(directory.path())), file(&session.before));
}
