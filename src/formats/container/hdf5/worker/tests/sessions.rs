//! Edits whose workers do what none should: seats, time, and how they end.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::process::Failed;
use super::*;
use crate::container::hdf5::edit::{EditReply, EditStep, FinishedEdit, StoredChunk};

/// A pool that lives on, as that of the process does.
fn lasting(script: &str, limits: Limits) -> &'static WorkerPool {
    Box::leak(Box::new(scripted(script, limits)))
}

/// The request that begins an edit, of which the script is told nothing.
const BEGINS: &str = "head -c 32 >/dev/null\n";

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
    EditSession::of(pool, WorkerTask::Edit, (file.0, file.1)).unwrap()
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
            ask::<String>(pool, WorkerTask::Index, &null).unwrap();
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

/// What a worker answers to the last step, as a shell prints it.
fn finished(is_last: bool) -> String {
    let answer: wire::WorkerAnswer<EditReply> = Ok(EditReply::Finished(FinishedEdit {
        patches: Vec::new(),
        end: 1,
        indices: Vec::new(),
        is_last,
    }));
    let bytes = postcard::to_stdvec(&answer).unwrap();
    let all = (bytes.len() as u64).to_le_bytes().into_iter().chain(bytes);
    let octal: String = all.map(|byte| format!(r"\{byte:03o}")).collect();
    format!("printf '{octal}' >&0\n")
}

/// Carries out edits without any step.
fn edit_again_and_again(pool: &'static WorkerPool, times: usize) {
    let (null, budget) = (nothing(), Budget::new(1 << 30));
    for _ in 0..times {
        assert_eq!(begin(pool, (&null, &budget)).finish().unwrap().end, 1);
    }
}

/// Waits for the last step: a byte behind its length.
const LAST_STEP: &str = "head -c 9 >/dev/null\n";

/// It lives for a while with its socket open, and answers nothing any more.
#[test]
fn a_worker_that_ends_with_an_edit_is_lent_to_no_other() {
    let script = [BEGINS, LAST_STEP, &finished(true), "exec sleep 1000"].concat();
    edit_again_and_again(lasting(&script, LIMITS), 3);
}

/// It has taken what it was asked, and is gone.
#[test]
fn an_edit_that_got_a_dead_worker_asks_another() {
    let edit = [BEGINS, LAST_STEP, &finished(false)].concat();
    for end in [BEGINS, &[BEGINS, LAST_STEP].concat()] {
        let script = [&edit, end, "exit 3"].concat();
        edit_again_and_again(lasting(&script, LIMITS), 3);
    }
}

/// The second worker that is started lives.
#[test]
fn a_worker_that_has_ended_is_not_lent() {
    let directory = tempfile::tempdir().unwrap();
    let first = directory.path().join("first");
    let script = format!("mkdir '{}' && exit 3; exec sleep 1000", first.display());
    let (pool, null) = (lasting(&script, LIMITS), nothing());
    let mut worker = pool.take_worker().unwrap();
    let end = worker.end(pool.allowance(&null));
    let answer = worker.answer(&null, end, &Budget::new(1 << 30));
    assert!(matches!(answer, Err(Failed::Ended(_))));
    pool.give_back(worker);
    assert!(pool.take_worker().unwrap().is_waiting());
    assert!(first.exists());
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
        let script = [BEGINS, LAST_STEP, answer, "\nread wait"].concat();
        let pool = lasting(&script, LIMITS);
        let (null, budget) = (nothing(), Budget::new(1 << 30));
        let refused = begin(pool, (&null, &budget)).finish().unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
        assert_eq!(budget.used(), 0);
    }
}
