//! A stage in many schedules of those who write, read, sync and commit. Run with the feature
//! `schedules`.

use std::sync::Arc;

use shuttle::thread;

use super::tests::sample::{Container, write};
use super::to_nobody;
use super::written_array::WrittenArray;
use crate::sync::schedules::in_schedules;

const ARRAY: WrittenArray = WrittenArray(0);

/// Two writers with places of their own, a reader, and a thread that has layers frozen, laid over
/// one another again, logged and given back.
#[test]
fn nothing_is_lost_between_layers() {
    in_schedules(300, || {
        let container = Arc::new(Container::new());
        let stage = container.stage(64 << 10);
        let writers = (0..2u64).map(|own| {
            let stage = Arc::clone(&stage);
            thread::spawn(move || {
                for step in 0..6u64 {
                    let at = (step * 5 % 6) * 40 + own * 20;
                    stage.write(ARRAY, at, &[own as u8 + 1; 20]).unwrap();
                }
            })
        });
        let mut threads: Vec<_> = writers.collect();
        let commits = Arc::clone(&stage);
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                if let Some(frozen) = commits.freeze(&mut to_nobody) {
                    // What is being committed does not change meanwhile.
                    let held = || {
                        let mut bytes = [0; 240];
                        frozen.read(ARRAY, 0, &mut bytes).unwrap();
                        bytes
                    };
                    let before = held();
                    thread::yield_now();
                    assert!(held() == before, "a frozen layer has changed");
                    commits.unfreeze(&mut to_nobody).unwrap();
                }
                commits.sync().unwrap();
                drop(commits.memory.budget().reserve(48 << 10));
            }
        }));
        let (reads, below) = (Arc::clone(&stage), container.arrays[0].clone());
        threads.push(thread::spawn(move || {
            for _ in 0..3 {
                for layer in reads.layers() {
                    let mut bytes = [0; 240];
                    layer.read(ARRAY, 0, &mut bytes).unwrap();
                    for (at, byte) in bytes.iter().enumerate() {
                        let own = at as u8 / 20 % 2 + 1;
                        // Not staged in this layer, or whose it is: never another's.
                        assert!([0, own, below[at]].contains(byte), "{at}: {byte}");
                    }
                }
            }
        }));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let mut expected = container.arrays[0].clone();
        for at in (0..240u64).step_by(20) {
            write(&mut expected, at, &[(at / 20 % 2) as u8 + 1; 20]);
        }
        assert_eq!(container.read(0, &stage.layers()), expected);
    });
}

/// A cut and writes behind it, beside a sync: each write lies before the cut or after it.
#[test]
fn a_cut_has_its_place_among_writes() {
    in_schedules(300, || {
        let container = Arc::new(Container::new());
        let stage = container.stage(64 << 10);
        let cuts = Arc::clone(&stage);
        let cut = thread::spawn(move || cuts.set_len(ARRAY, 100).unwrap());
        let writes = Arc::clone(&stage);
        let written = thread::spawn(move || writes.write(ARRAY, 200, &[9; 10]).unwrap());
        let syncs = Arc::clone(&stage);
        let synced = thread::spawn(move || syncs.sync().unwrap());
        cut.join().unwrap();
        written.join().unwrap();
        synced.join().unwrap();
        let layers = stage.layers();
        let shown = container.read(0, &layers);
        let mut after = container.arrays[0][..100].to_vec();
        let cut_last = after.clone();
        after.resize(210, 0);
        after[200..].fill(9);
        assert!(shown == cut_last || shown == after, "{} bytes", shown.len());
        stage.sync().unwrap();
        assert_eq!(container.read(0, &stage.layers()), shown);
    });
}
