//! Logs that are written anew: they stay short, and say what they said.

use super::sample::{self, Container, read_log};
use crate::stage::{Stage, WrittenArray, to_nobody};

const ARRAY: WrittenArray = WrittenArray(0);
const OTHER: WrittenArray = WrittenArray(1);

/// More than what of a log may be void.
const LONG: u64 = 200 << 10;

fn log_len(container: &Container) -> u64 {
    std::fs::metadata(container.log_path()).unwrap().len()
}

/// What is shown through the stage, and through what a crash now would leave of it.
fn shown(container: &Container, stage: &Stage, array: WrittenArray) -> Vec<u8> {
    let shown = container.read(array.0 as usize, &stage.layers());
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    let logged = container.read(array.0 as usize, &found.layers());
    assert!(shown == logged, "the log says something else");
    shown
}

/// Writes the same again and again, and syncs each time.
fn overwrite(container: &Container, stage: &Stage, rounds: u8) -> Vec<u8> {
    let mut expected = container.arrays[0].clone();
    for round in 0..rounds {
        let bytes = vec![round; 10_000];
        stage.write(ARRAY, 100, &bytes).unwrap();
        sample::write(&mut expected, 100, &bytes);
        stage.sync().unwrap();
    }
    expected
}

#[test]
fn what_was_written_over_does_not_make_a_log_longer() {
    for budget in [1 << 20, 0] {
        let container = Container::new();
        let stage = container.stage(budget);
        stage.write(OTHER, 7, &[3; 20]).unwrap();
        stage.set_len(OTHER, 15).unwrap();
        stage.set_len(OTHER, 90).unwrap();
        stage.write_zeros(OTHER, 2..5).unwrap();
        let expected = overwrite(&container, &stage, 60);
        assert!(log_len(&container) < LONG, "{}", log_len(&container));
        assert!(shown(&container, &stage, ARRAY) == expected);
        let mut other = container.arrays[1].clone();
        other[2..5].fill(0);
        other[7..15].fill(3);
        other.truncate(15);
        other.resize(90, 0);
        assert!(shown(&container, &stage, OTHER) == other);
    }
}

#[test]
fn a_log_written_anew_is_gone_on_with() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    let mut expected = overwrite(&container, &stage, 60);
    drop(stage);
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    let stage = Stage::recover(
        std::sync::Arc::new(container.spot()),
        &found,
        container.memory(1 << 20),
    )
    .unwrap();
    stage.write(ARRAY, 5, &[200; 9]).unwrap();
    sample::write(&mut expected, 5, &[200; 9]);
    stage.sync().unwrap();
    assert!(shown(&container, &stage, ARRAY) == expected);
    stage.throw_away().unwrap();
    assert!(!container.log_path().exists());
}

/// The longest log that was not too long before says nothing of a stage that has less.
#[test]
fn what_was_cut_off_or_zeroed_does_not_keep_a_log_long() {
    let cut = |stage: &Stage| stage.set_len(ARRAY, 100).unwrap();
    let zero = |stage: &Stage| stage.write_zeros(ARRAY, 0..1 << 20).unwrap();
    for shrink in [&cut as &dyn Fn(&Stage), &zero] {
        let container = Container::new();
        let stage = container.stage(2 << 20);
        for round in 0..2 {
            stage.write(ARRAY, 0, &vec![round; 500_000]).unwrap();
            stage.sync().unwrap();
        }
        assert!(log_len(&container) > 900_000);
        shrink(&stage);
        stage.sync().unwrap();
        assert!(log_len(&container) < LONG, "{}", log_len(&container));
        shown(&container, &stage, ARRAY);
    }
}

/// A commit reads what it has put into the log.
#[test]
fn a_log_stays_as_it_is_while_a_commit_is_under_way() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    stage.write(ARRAY, 0, &[1; 50]).unwrap();
    stage.freeze(&mut to_nobody).unwrap();
    let mut put = None;
    stage
        .append_redo(0, 0, &[9; 40], &mut |_, logged| put = Some(logged))
        .unwrap();
    overwrite(&container, &stage, 60);
    assert!(log_len(&container) > LONG);
    let mut redo = [0; 40];
    stage.read_logged(put.unwrap().start, &mut redo).unwrap();
    assert_eq!(redo, [9; 40]);
    stage.unfreeze(&mut to_nobody).unwrap();
    stage.sync().unwrap();
    assert!(log_len(&container) < LONG);
}

/// Readers have the layers, and the old log, in their hands.
#[test]
fn whoever_reads_meanwhile_reads_on() {
    let container = Container::new();
    let stage = container.stage(0);
    let expected = overwrite(&container, &stage, 2);
    let layers = stage.layers();
    overwrite(&container, &stage, 60);
    assert!(log_len(&container) < LONG);
    let now = container.read(0, &layers);
    assert!(now.len() == expected.len() && now == container.read(0, &stage.layers()));
}
