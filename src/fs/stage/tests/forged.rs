//! Logs that are cut, flipped, or not to be believed.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::sample::{self, Container, read_log};
use crate::error::Error;
use crate::records::put_next_version;
use crate::stage::WrittenArray;

const ARRAY: WrittenArray = WrittenArray(0);

/// Bytes of the record that says what was synced.
const SYNCED: usize = 32 + 8;

/// A log, and what the array was after each of its syncs.
fn logged() -> (Container, Vec<u8>, Vec<Vec<u8>>) {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    let mut shown = container.arrays[0].clone();
    let mut states = vec![shown.clone()];
    for step in 0..6u8 {
        let at = u64::from(step) * 40;
        stage.write(ARRAY, at, &[step + 1; 60]).unwrap();
        sample::write(&mut shown, at, &[step + 1; 60]);
        if step == 3 {
            stage.set_len(ARRAY, 100).unwrap();
            shown.resize(100, 0);
        }
        stage.sync().unwrap();
        states.push(shown.clone());
    }
    let end = stage.logged().unwrap().1 as usize;
    drop(stage);
    let mut log = std::fs::read(container.log_path()).unwrap();
    assert!(log.len() > end && log[end..].iter().all(|&byte| byte == 0));
    // Zeros of a page are as good as many.
    log.truncate(end + 128);
    (container, log, states)
}

impl Container {
    /// What is shown through a log, or why it is not believed.
    fn shown_with(&self, log: &[u8]) -> Result<Vec<u8>, Error> {
        std::fs::write(self.log_path(), log).unwrap();
        let found = read_log(&self.spot().of())?;
        // One that names no array yet lies over none.
        let found = found.filter(|found| !found.arrays().is_empty());
        Ok(self.read(0, &found.map_or(Vec::new(), |found| found.layers())))
    }
}

/// A truncation and what was written before and after it lie in records of their own, so there are
/// states between syncs.
fn is_one_of(shown: &[u8], states: &[Vec<u8>]) -> bool {
    let last_two = &states[4];
    states.iter().any(|state| state == shown)
        || shown == &states[3][..100]
        || shown == &last_two[..]
}

#[test]
fn a_log_cut_anywhere_is_what_it_was_before() {
    let (container, log, states) = logged();
    let mut last = 0;
    for len in 0..=log.len() {
        let shown = container.shown_with(&log[..len]).unwrap();
        assert!(is_one_of(&shown, &states), "{len}");
        let at = states
            .iter()
            .position(|state| *state == shown)
            .unwrap_or(last);
        assert!(at >= last, "never less with more of the log");
        last = at;
    }
    assert_eq!(last, states.len() - 1);
}

/// Where nothing was lost, all is vouched for but the record that says so last.
#[test]
fn a_flipped_bit_is_noticed() {
    let (container, log, states) = logged();
    let noticed = flipped_bits(&container, &log, &states);
    assert!(noticed > 500);
    // Nor does a log of one sync begin with nothing.
    let begin = Container::new();
    let stage = begin.stage(1 << 20);
    stage.write(ARRAY, 0, b"x").unwrap();
    stage.sync().unwrap();
    drop(stage);
    let mut log = std::fs::read(begin.log_path()).unwrap();
    log[40] ^= 1;
    assert!(begin.shown_with(&log).is_err());
}

fn flipped_bits(container: &Container, log: &[u8], states: &[Vec<u8>]) -> usize {
    let mut noticed = 0;
    for at in 0..log.len() {
        let mut flipped = log.to_vec();
        flipped[at] ^= 1 << (at % 8);
        match container.shown_with(&flipped) {
            Err(e) => {
                let fault = e.fault().expect("a fault");
                assert!(fault.bytes.is_some() && fault.expected.is_some(), "{fault}");
                noticed += 1;
            }
            Ok(shown) => assert!(shown == states[6] && at >= log.len() - 128 - SYNCED, "{at}"),
        }
    }
    noticed
}

/// The bytes that were synced last, where a power loss took the record that says so.
#[test]
fn without_the_last_record_the_last_sync_may_be_a_torn_end() {
    let (container, mut log, states) = logged();
    let end = log.len() - 128 - SYNCED;
    log[end..].fill(0);
    assert!(container.shown_with(&log).unwrap() == states[6]);
    log[end - 8] ^= 1;
    assert!(container.shown_with(&log).unwrap() == states[5]);
}

#[test]
fn who_goes_on_behind_a_torn_end_is_not_mixed_with_what_lay_there() {
    let (container, log, states) = logged();
    // Extents of 60 bytes, each synced. The last one but one is torn, so the last one lies behind
    // as it was.
    let record = 32 + 24 + 64 + SYNCED;
    let mut torn = log.clone();
    let at = log.len() - 128 - 2 * record + 60;
    torn[at] ^= 1;
    assert!(container.shown_with(&torn).is_err(), "it was on the disk");
    // No later record vouches for it.
    let last = log.len() - 128 - record;
    torn[last - SYNCED..].fill(0);
    assert!(container.shown_with(&torn).unwrap() == states[4]);
    std::fs::write(container.log_path(), &torn[..last]).unwrap();
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    let memory = container.memory(1 << 20);
    let stage = crate::stage::Stage::recover(std::sync::Arc::new(container.spot()), &found, memory)
        .unwrap();
    stage.write(ARRAY, 160, &[5; 60]).unwrap();
    stage.sync().unwrap();
    drop(stage);
    // The same bytes at the same place, and the old last record behind them.
    let mut mixed = std::fs::read(container.log_path()).unwrap();
    mixed.truncate(last);
    mixed.extend_from_slice(&log[last..]);
    assert!(container.shown_with(&mixed).unwrap() == states[5]);
}

#[test]
fn a_log_is_believed_only_from_the_owner_alone() {
    let (container, log, _) = logged();
    let path = container.log_path();
    let refused = |what: &str| {
        let error = read_log(&container.spot().of())
            .err()
            .expect(what)
            .to_string();
        assert!(
            error.contains(what) && error.contains("arrayfs-stage"),
            "{error}"
        );
    };
    for mode in [0o644, 0o400, 0o4600] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        refused("mode");
    }
    std::fs::remove_file(&path).unwrap();
    symlink("elsewhere", &path).unwrap();
    refused("kind");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused("kind");
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, &log).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let mut spot = container.spot();
    spot.owner.uid += 1;
    assert!(
        read_log(&spot.of())
            .err()
            .unwrap()
            .to_string()
            .contains("owner")
    );
    let mut spot = container.spot();
    spot.container = "d.blp".into();
    std::fs::rename(&path, path.with_file_name(".d.blp.arrayfs-stage")).unwrap();
    assert!(
        read_log(&spot.of())
            .err()
            .unwrap()
            .to_string()
            .contains("another container's")
    );
}

/// It may be as good as any: it stays where it is, and is neither gone on with nor cut.
#[test]
fn a_log_of_another_version_is_refused_and_kept() {
    let (container, mut log, _) = logged();
    put_next_version(&mut log);
    let refused = container.shown_with(&log).unwrap_err();
    assert!(refused.to_string().contains("version 2"), "{refused}");
    let stage = container.stage(1 << 20);
    stage.write(ARRAY, 0, b"x").unwrap();
    stage.sync().unwrap();
    assert_eq!(stage.logged().unwrap().0, ".c.blp.arrayfs-stage-2");
    assert!(std::fs::read(container.log_path()).unwrap() == log);
}

#[test]
fn one_writes_a_log() {
    let container = Container::new();
    let stage = container.stage(1 << 20);
    stage.write(ARRAY, 0, b"x").unwrap();
    stage.sync().unwrap();
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    let memory = container.memory(1 << 20);
    let again = crate::stage::Stage::recover(
        std::sync::Arc::new(container.spot()),
        &found,
        memory.clone(),
    );
    assert!(again.err().unwrap().to_string().contains("another process"));
    let other = container.stage(1 << 20);
    other.write(ARRAY, 0, b"y").unwrap();
    // That one stays as it is: what others stage goes to another.
    other.sync().unwrap();
    assert_eq!(other.logged().unwrap().0, ".c.blp.arrayfs-stage-2");
    let still = read_log(&container.spot().of()).unwrap().unwrap();
    assert!(!still.is_clean());
    // A reader that still has the old layers is in no one's way.
    let shown = stage.layers();
    drop((stage, other));
    let place = std::sync::Arc::new(container.spot());
    let again = crate::stage::Stage::recover(place, &found, memory).unwrap();
    assert!(container.read(0, &shown) == container.read(0, &again.layers()));
}
