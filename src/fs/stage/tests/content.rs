//! Arrays that come later than the log, and those that get another content as a whole.

use std::sync::Arc;

use super::sample::{Container, read_log};
use crate::stage::{LoggedArray, Stage, WrittenArray, to_nobody};

const FIRST: WrittenArray = WrittenArray(0);

/// What the recovery finds of an array.
fn recovered(container: &Container, array: usize) -> Vec<u8> {
    let found = read_log(&container.spot().of()).unwrap();
    let layers = found.map_or(Vec::new(), |found| found.layers());
    container.read(array, &layers)
}

/// Something was staged and synced, and is frozen; then the array begins to get another content.
fn begun(container: &Container) -> Arc<Stage> {
    let stage = container.stage(1 << 20);
    stage.write(FIRST, 0, b"staged before").unwrap();
    stage.sync().unwrap();
    stage.freeze_all(&mut to_nobody).unwrap();
    let alone = stage.alone();
    stage.begin_content(&alone, FIRST).unwrap();
    drop(alone);
    stage.set_len(FIRST, 0).unwrap();
    stage.write(FIRST, 0, b"another").unwrap();
    stage
}

fn give_up(stage: &Stage) {
    use crate::stage::slab::Lender;
    while stage.give_up() {}
}

#[test]
fn content_of_which_the_log_has_a_part_is_not_there_after_a_crash() {
    let container = Container::new();
    let stage = begun(&container);
    give_up(&stage);
    stage.write(FIRST, 7, b" content").unwrap();
    let before = recovered(&container, 0);
    assert_eq!(before.len(), container.arrays[0].len());
    assert!(before.starts_with(b"staged before"));
    // What is written to the others counts.
    stage.write(WrittenArray(1), 0, b"meanwhile").unwrap();
    give_up(&stage);
    assert!(recovered(&container, 1).starts_with(b"meanwhile"));
    assert!(recovered(&container, 0).starts_with(b"staged before"));
    stage.unfreeze(&mut to_nobody).unwrap();
    assert!(recovered(&container, 0).starts_with(b"staged before"));
    stage.sync().unwrap();
    assert_eq!(recovered(&container, 0), b"another content");
    assert_eq!(container.read(0, &stage.layers()), b"another content");
}

#[test]
fn content_that_is_taken_back_leaves_what_was_staged() {
    let container = Container::new();
    let stage = begun(&container);
    give_up(&stage);
    stage.take_back_content(FIRST).unwrap();
    stage.unfreeze(&mut to_nobody).unwrap();
    stage.write(FIRST, 3, b"!").unwrap();
    stage.sync().unwrap();
    let found = recovered(&container, 0);
    assert!(found.starts_with(b"sta!ed before"));
    assert_eq!(found.len(), container.arrays[0].len());
}

/// A stage that goes on after a crash goes on with what was there before.
#[test]
fn what_is_written_after_a_crash_lies_over_what_was_kept() {
    let container = Container::new();
    let stage = begun(&container);
    give_up(&stage);
    drop(stage);
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    let memory = container.memory(1 << 20);
    let stage = Stage::recover(Arc::new(container.spot()), &found, memory).unwrap();
    stage.write(FIRST, 3, b"!").unwrap();
    stage.sync().unwrap();
    assert!(recovered(&container, 0).starts_with(b"sta!ed before"));
}

#[test]
fn what_comes_above_content_that_was_committed_counts() {
    let mut container = Container::new();
    let stage = begun(&container);
    stage.unfreeze(&mut to_nobody).unwrap();
    give_up(&stage);
    stage.freeze(&mut to_nobody).unwrap();
    stage.write(FIRST, 0, b"A").unwrap();
    stage.sync_log().unwrap();
    give_up(&stage);
    container.arrays[0] = b"another".to_vec();
    let lens = container.lens();
    let committed = stage.committed(
        &stage.alone(),
        container.base.clone(),
        &lens,
        &mut to_nobody,
    );
    committed.unwrap();
    assert_eq!(recovered(&container, 0), b"Another");
}

#[test]
fn an_array_that_comes_when_there_is_a_log_is_found_in_it() {
    let mut container = Container::new();
    let stage = container.stage(1 << 20);
    stage.write(FIRST, 0, b"one").unwrap();
    stage.sync().unwrap();
    stage.freeze(&mut to_nobody).unwrap();
    container.arrays.push(vec![9; 40]);
    let late = stage
        .add_array(LoggedArray {
            path: "late".to_owned(),
            len: 40,
            dtype: "uint8".to_owned(),
        })
        .unwrap();
    assert_eq!(late, WrittenArray(2));
    stage.write(late, 38, b"late").unwrap();
    stage.sync().unwrap();
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    assert_eq!(
        found.arrays().last().unwrap(),
        &LoggedArray {
            path: "late".to_owned(),
            len: 40,
            dtype: "uint8".to_owned()
        }
    );
    assert!(recovered(&container, 2).ends_with(b"\x09late"));
    assert!(recovered(&container, 0).starts_with(b"one"));
    container.arrays[0][..3].copy_from_slice(b"one");
    let lens = container.lens();
    let committed = stage.committed(
        &stage.alone(),
        container.base.clone(),
        &lens,
        &mut to_nobody,
    );
    committed.unwrap();
    assert!(recovered(&container, 2).ends_with(b"\x09late"));
}

/// What the layer below has of the array is logged when memory is short, behind the new content's
/// beginning, and is no part of it.
#[test]
fn what_was_staged_before_survives_content_that_comes_to_nothing() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    stage.write(FIRST, 0, b"staged before").unwrap();
    stage.freeze_all(&mut to_nobody).unwrap();
    stage.begin_content(&stage.alone(), FIRST).unwrap();
    stage.set_len(FIRST, 0).unwrap();
    stage.write(FIRST, 0, b"another").unwrap();
    give_up(&stage);
    stage.take_back_content(FIRST).unwrap();
    stage.unfreeze(&mut to_nobody).unwrap();
    stage.sync().unwrap();
    assert!(
        container
            .read(0, &stage.layers())
            .starts_with(b"staged before")
    );
    assert!(recovered(&container, 0).starts_with(b"staged before"));
}

/// The log of a commit that could not be carried out in full is all that makes the container whole.
#[test]
fn a_seal_is_not_cut_off() {
    use crate::disk::failing::{FailingDisk, Failure};
    use crate::stage::log::{CommitRecord, SealedFile};
    let mut container = Container::new();
    let failure = Failure::new(libc::ENOSPC);
    container.disk = Arc::new(FailingDisk {
        disk: Arc::clone(&container.disk),
        failure: Arc::clone(&failure),
    });
    let stage = container.stage(1 << 20);
    stage.write(FIRST, 0, b"staged").unwrap();
    let layer = stage.freeze(&mut to_nobody).unwrap().number();
    let length = CommitRecord::RedoLength { file: 0, len: 77 };
    stage.append(&length).unwrap();
    let files = vec![SealedFile {
        file: 0,
        name: String::new(),
        mtime: None,
        untouched: 3,
        samples: Vec::new(),
    }];
    stage
        .append(&CommitRecord::Sealed { layer, files })
        .unwrap();
    stage.sync_log().unwrap();
    stage.stay_sealed();
    stage.unfreeze(&mut to_nobody).unwrap();
    failure.die_at(1);
    stage.sync().unwrap_err();
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    assert_eq!(found.sealed().len(), 1);
}
