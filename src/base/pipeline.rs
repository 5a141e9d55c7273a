//! Work on several threads whose results are taken in order.
//!
//! Every thread has a space (buffers) of its own and works on every n-th job; a result lies in the
//! space until it has been taken. So memory is what the spaces take, and nothing overtakes
//! anything. Used by the formats' recipes for chunks, and by encoders for the blocks of a large
//! one.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope};

/// Runs `make` on the numbers below `jobs`, one thread for each of `spaces`, of which there is one
/// at least, and `take` on the results, in order, on this thread. The first error ends it.
pub fn in_order<S: Send, R: Send, E: Send>(
    mut spaces: Vec<S>,
    jobs: usize,
    make: impl Fn(&mut S, usize) -> Result<R, E> + Sync,
    mut take: impl FnMut(usize, &mut S, R) -> Result<(), E>,
) -> Result<(), E> {
    let mut own = spaces.swap_remove(0);
    std::thread::scope(|scope| {
        // As many as there can be, which a user may have limited.
        let others = spaces.into_iter().take(jobs.saturating_sub(1));
        let mut lanes: Vec<Lane<S, R, E>> = others
            .map_while(|space| start(scope, space, jobs, &make))
            .collect();
        if lanes.is_empty() {
            return (0..jobs).try_for_each(|job| {
                let made = make(&mut own, job)?;
                take(job, &mut own, made)
            });
        }
        lanes.extend(start(scope, own, jobs, &make));
        for (number, lane) in lanes.iter().enumerate() {
            let _ = lane.begin.send((number, lanes.len()));
        }
        for job in 0..jobs {
            let lane = &lanes[job % lanes.len()];
            // One that has panicked ends the scope with a panic.
            let Ok((mut space, result)) = lane.made.recv() else {
                break;
            };
            take(job, &mut space, result?)?;
            // A sender that has no more to do does not wait for it.
            let _ = lane.back.send(space);
        }
        Ok(())
    })
}

/// A thread, as who takes its results sees it.
struct Lane<S, R, E> {
    /// Which of how many it is.
    begin: SyncSender<(usize, usize)>,
    made: Receiver<(S, Result<R, E>)>,
    back: SyncSender<S>,
}

/// None if there can be no more threads.
fn start<'scope, S: Send + 'scope, R: Send + 'scope, E: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    space: S,
    jobs: usize,
    make: &'scope (impl Fn(&mut S, usize) -> Result<R, E> + Sync),
) -> Option<Lane<S, R, E>> {
    let (begin, begun) = sync_channel(1);
    let (give, made) = sync_channel(1);
    let (back, free) = sync_channel(1);
    let run = move || {
        if let Ok((lane, lanes)) = begun.recv() {
            work(space, (lane..jobs).step_by(lanes), make, &give, &free);
        }
    };
    let started = Builder::new().spawn_scoped(scope, run);
    started.is_ok().then_some(Lane { begin, made, back })
}

/// One thread's jobs. Ends early when its results are not taken any more.
fn work<S, R, E>(
    mut space: S,
    jobs: impl Iterator<Item = usize>,
    make: &impl Fn(&mut S, usize) -> Result<R, E>,
    give: &SyncSender<(S, Result<R, E>)>,
    free: &Receiver<S>,
) {
    for job in jobs {
        let result = make(&mut space, job);
        if give.send((space, result)).is_err() {
            return;
        }
        match free.recv() {
            Ok(freed) => space = freed,
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squares(threads: usize, jobs: usize) -> Vec<usize> {
        let mut taken = Vec::new();
        let make = |space: &mut usize, job: usize| {
            *space = job * job;
            Ok::<_, ()>(())
        };
        in_order(vec![0; threads], jobs, make, |job, space, ()| {
            assert_eq!(job, taken.len());
            taken.push(*space);
            Ok(())
        })
        .unwrap();
        taken
    }

    #[test]
    fn results_come_in_order() {
        for threads in 1..4 {
            for jobs in [0, 1, 2, 3, 50] {
                let expected: Vec<_> = (0..jobs).map(|job| job * job).collect();
                assert_eq!(squares(threads, jobs), expected);
            }
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        for fails_in_taking in [false, true] {
            let make = |_: &mut (), job: usize| match job {
                7 if !fails_in_taking => Err("made"),
                _ => Ok(()),
            };
            let mut taken = 0;
            let done = in_order(vec![(); 3], 100, make, |job, (), ()| {
                taken = job + 1;
                match job {
                    7 => Err("taken"),
                    _ => Ok(()),
                }
            });
            assert_eq!(done, Err(if fails_in_taking { "taken" } else { "made" }));
            assert_eq!(taken, if fails_in_taking { 8 } else { 7 });
        }
    }
}
