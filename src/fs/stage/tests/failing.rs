//! Whatever call of the disk fails, what was acknowledged by a sync is not lost, and the stage goes
//! on.

use std::sync::Arc;

use super::sample::{self, Container, read_log};
use crate::disk::failing::{FailingDisk, Failure};
use crate::stage::{WrittenArray, to_nobody};

const ARRAY: WrittenArray = WrittenArray(0);

/// A sync that failed may have done a part: a truncation, or some of the writes.
fn is_between(found: &[u8], states: [&[u8]; 3]) -> bool {
    let has = |at: usize, byte: &u8| states.iter().any(|state| state.get(at) == Some(byte));
    let mut bytes = found.iter().enumerate();
    bytes.all(|(at, byte)| *byte == 0 || has(at, byte))
}

/// Writes of different sizes, truncations, syncs, and a commit that fails and one that does not.
fn exercise(code: i32, call: usize, budget: u64) -> bool {
    let mut container = Container::new();
    let failure = Failure::new(code);
    container.disk = Arc::new(FailingDisk {
        disk: Arc::clone(&container.disk),
        failure: Arc::clone(&failure),
    });
    let stage = container.stage(budget);
    let mut shown = container.arrays[0].clone();
    let mut synced = shown.clone();
    failure.arm(call);
    let mut told = 0;
    for step in 0..12u64 {
        let bytes = vec![step as u8 + 1; 90 * step as usize + 1];
        match stage.write(ARRAY, step * 70, &bytes) {
            Ok(n) => sample::write(&mut shown, step * 70, &bytes[..n]),
            Err(_) => told += 1,
        }
        let written = shown.clone();
        match step {
            3 => {
                stage.set_len(ARRAY, 150).unwrap();
                shown.resize(150, 0);
            }
            6 => drop(stage.freeze(&mut to_nobody)),
            8 => told += usize::from(stage.unfreeze(&mut to_nobody).is_err()),
            _ => {}
        }
        assert!(
            container.read(0, &stage.layers()) == shown,
            "call {call}, step {step}"
        );
        let failed = stage.sync().is_err();
        told += usize::from(failed);
        let found = read_log(&container.spot().of()).unwrap();
        let found = found.map_or(Vec::new(), |found| found.layers());
        let on_disk = container.read(0, &found);
        match failed {
            false => synced = shown.clone(),
            true => assert!(
                is_between(&on_disk, [&synced, &written, &shown]),
                "call {call}, step {step}"
            ),
        }
        assert!(failed || on_disk == shown, "call {call}, step {step}");
    }
    let happened = !failure.is_armed();
    failure.arm(0);
    // Whatever happened before, a sync that can be done is done.
    stage.sync().unwrap();
    let found = read_log(&container.spot().of()).unwrap().unwrap();
    assert!(container.read(0, &found.layers()) == shown);
    assert!(told <= 1, "one failure is told once");
    happened
}

#[test]
fn what_a_sync_acknowledged_is_there_whatever_fails() {
    for code in [libc::EIO, libc::ENOSPC] {
        for budget in [1 << 20, 8 << 10, 1 << 10] {
            let happened = (1..)
                .take_while(|&call| exercise(code, call, budget))
                .count();
            assert!(happened > 20, "{happened} calls");
        }
    }
}

#[test]
fn a_log_that_cannot_be_made_is_told_and_made_later() {
    let mut container = Container::new();
    let failure = Failure::new(libc::ENOSPC);
    container.disk = Arc::new(FailingDisk {
        disk: Arc::clone(&container.disk),
        failure: Arc::clone(&failure),
    });
    let stage = container.stage(1 << 20);
    stage.write(ARRAY, 0, b"abc").unwrap();
    for call in 1..=2 {
        failure.arm(call);
        assert!(stage.sync().is_err());
        assert!(!container.log_path().exists(), "nothing half made is left");
    }
    stage.sync().unwrap();
    assert!(container.log_path().exists());
}

/// The commit has happened, even if its record could not be appended to the log; the next append
/// makes up for it.
#[test]
fn a_commit_that_the_log_could_not_be_told_of_is_told_later() {
    // The third one says what is on the disk, which is as well left out.
    for call in 1..=3 {
        let mut container = Container::new();
        let failure = Failure::new(libc::EIO);
        container.disk = Arc::new(FailingDisk {
            disk: Arc::clone(&container.disk),
            failure: Arc::clone(&failure),
        });
        let stage = container.stage(1 << 20);
        stage.write(ARRAY, 0, b"below").unwrap();
        stage.sync().unwrap();
        container.arrays[0] = container.read(0, &stage.layers());
        stage.freeze(&mut to_nobody).unwrap();
        stage.write(ARRAY, 1, b"above").unwrap();
        stage.sync().unwrap();
        let shown = container.read(0, &stage.layers());
        container.base.files[0].size = 99;
        failure.arm(call);
        let told = stage.committed(
            &stage.alone(),
            container.base.clone(),
            &container.lens(),
            &mut to_nobody,
        );
        let told = told.and_then(|()| stage.sync_log());
        assert_eq!(told.is_err(), call < 3);
        failure.arm(0);
        stage.sync().unwrap();
        let found = read_log(&container.spot().of()).unwrap().unwrap();
        assert_eq!(found.base(), &container.base);
        assert!(container.read(0, &found.layers()) == shown);
    }
}
