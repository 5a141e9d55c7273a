//! Edits whose workers do what none should: seats, time, and how they end.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::container::hdf5::edit::{EditReply, EditStep, StoredChunk};

/// A pool that lives on, as that of the process does.
fn lasting(script: &str, limits: Limits) -> &'static WorkerPool {
    Box::leak(Box::new(scripted(script, limits)))
}

/// The request that begins an edit, of which the script is told nothing.
const BEGINS: &str = "head -c 21 >/dev/null\n";

/// Waits for the smallest of steps, [`nothing_to_do`].
const STEP: &str = "head -c 10 >/dev/null\n";

/// Answers a step: it is done.
const DONE: &str = r"printf '\002\0\0\0\0\0\0\0\0\0' >&0
";

fn nothing_to_do() -> EditStep {
    EditStep::Room(Vec::new())
}

fn begin<'a>(
    pool: &'static WorkerPool,
    file: (&'a BytesSource, &'a Arc<Budget>),
) -> EditSession<'a> {
    EditSession::of(pool, Wanted::Edit, (file.0, file.1)).unwrap()
}

/// Openings take none of the seats of edits, nor edits those of openings.
#[test]
fn an_edit_keeps_no_opening_waiting_and_the_next_edit() {
    let pool = lasting(TELLS_ITS_NUMBER, LIMITS);
    let (null, budget) = (nothing(), Budget::new(1 << 30));
    let first = begin(pool, (&null, &budget));
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let next = scope.spawn(|| {
            let _next = begin(pool, (&null, &budget));
            has_ended.load(Ordering::SeqCst)
        });
        // The pool has one worker for openings, and one for edits.
        for _ in 0..3 {
            ask::<String>(pool, Wanted::Index, &null).unwrap();
        }
        has_ended.store(true, Ordering::SeqCst);
        drop(first);
        assert!(next.join().unwrap(), "two edits at once have one seat");
    });
}

/// The seat of an edit that failed is free, too.
#[test]
fn a_worker_that_dies_ends_its_edit_and_keeps_no_seat() {
    for answered in 0..4 {
        let script = [
            BEGINS,
            &[STEP, DONE].concat().repeat(answered),
            STEP,
            "exit 3",
        ]
        .concat();
        let pool = lasting(&script, LIMITS);
        let (null, budget) = (nothing(), Budget::new(1 << 30));
        for _ in 0..2 {
            let mut edit = begin(pool, (&null, &budget));
            for _ in 0..answered {
                assert_eq!(edit.step(&nothing_to_do()).unwrap(), EditReply::Done);
            }
            let died = edit.step(&nothing_to_do()).unwrap_err().to_string();
            assert_eq!(died, "the HDF5 worker ended with status 3 on this file");
            let after = edit.step(&nothing_to_do()).unwrap_err();
            assert!(matches!(after, Error::Bug(_)), "{after}");
        }
        assert_eq!(budget.used(), 0);
    }
}

/// What the library refuses is told, and the worker is not asked again.
#[test]
fn a_refusal_ends_an_edit() {
    let refuses = r"printf '\005\0\0\0\0\0\0\0\001\002no\0' >&0
read wait";
    let pool = lasting(&[BEGINS, STEP, refuses].concat(), LIMITS);
    let (null, budget) = (nothing(), Budget::new(1 << 30));
    let mut edit = begin(pool, (&null, &budget));
    assert_eq!(edit.step(&nothing_to_do()).unwrap_err().to_string(), "no");
    let after = edit.step(&nothing_to_do()).unwrap_err();
    assert!(matches!(after, Error::Bug(_)), "{after}");
}

/// The daemon encodes as long as it has to.
#[test]
fn what_the_daemon_does_between_steps_takes_no_time_of_an_edit() {
    let limits = Limits {
        seconds: Some(60),
        wait: Some(1),
        ..LIMITS
    };
    let script = [BEGINS, &[STEP, DONE].concat().repeat(2), "exec sleep 1000"].concat();
    let (pool, null, budget) = (lasting(&script, limits), nothing(), Budget::new(1 << 30));
    let mut edit = begin(pool, (&null, &budget));
    edit.step(&nothing_to_do()).unwrap();
    // As long as an answer is waited for, and a little longer.
    let silent = message("exec sleep 1000", limits);
    assert_eq!(edit.step(&nothing_to_do()).unwrap(), EditReply::Done);
    let late = edit.step(&nothing_to_do()).unwrap_err().to_string();
    assert_eq!(
        late,
        "the HDF5 worker gave no answer about this file in 1 s"
    );
    assert_eq!(silent, late);
}

/// Ten thousand chunks add a second of processor time.
#[test]
fn an_edit_may_take_longer_the_more_chunks_it_has() {
    const CHUNKS: u64 = 10_000;
    let limits = Limits {
        seconds: Some(1),
        wait: Some(600),
        ..LIMITS
    };
    let chunk = |number| StoredChunk {
        number,
        len: 1,
        mask: 0,
        remask: false,
    };
    let step = EditStep::Chunks {
        token: 1,
        chunks: (0..CHUNKS).map(chunk).collect(),
    };
    let len = wire::encode_step(&step).unwrap().len();
    // Computes for one and a half seconds, in hundredths.
    let computes = "while read -r line </proc/$$/stat; set -- $line
        [ $((${14} + ${15})) -lt 150 ]; do :; done\n";
    let all = format!("head -c {len} >/dev/null\n");
    let script = [BEGINS, &all, computes, DONE, "while :; do :; done"].concat();
    let (pool, null, budget) = (lasting(&script, limits), nothing(), Budget::new(1 << 30));
    let mut edit = begin(pool, (&null, &budget));
    assert_eq!(edit.step(&step).unwrap(), EditReply::Done);
    let late = edit.step(&nothing_to_do()).unwrap_err().to_string();
    let what = "the HDF5 library took longer than 1 s of processor time on this file";
    assert_eq!(late, what);
}

/// An answer that is none, and one to something else.
#[test]
fn what_is_no_answer_to_the_last_step_is_a_fault() {
    let answers = [
        (r"printf '\003\0\0\0\0\0\0\0abc' >&0", "cannot be read"),
        (r"printf '\002\0\0\0\0\0\0\0\0\0' >&0", "something else"),
        (r"printf '\0\0\0\0\001\0\0\0' >&0", "announces"),
    ];
    for (answer, what) in answers {
        // The last step is a byte behind its length.
        let script = [BEGINS, "head -c 9 >/dev/null\n", answer, "\nread wait"].concat();
        let pool = lasting(&script, LIMITS);
        let (null, budget) = (nothing(), Budget::new(1 << 30));
        let refused = begin(pool, (&null, &budget)).finish().unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
        assert_eq!(budget.used(), 0);
    }
}
