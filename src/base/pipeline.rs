//! Work on several threads whose results are taken in order.
//!
//! Every thread has a space (buffers) of its own and works on every n-th job; a result lies in the
//! space until it has been taken. So memory is what the spaces take, and nothing overtakes
//! anything. Used by the formats' recipes for chunks, and by encoders for the blocks of a large
//! one.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Runs `make` on the numbers below `jobs`, one thread for each of `spaces`, of which there is one
/// at least, and `take` on the results, in order, on this thread. The first error ends it.
pub fn in_order<S: Send, R: Send, E: Send>(
    mut spaces: Vec<S>,
    jobs: usize,
    make: impl Fn(&mut S, usize) -> Result<R, E> + Sync,
    mut take: impl FnMut(usize, &mut S, R) -> Result<(), E>,
) -> Result<(), E> {
    if jobs < 2 || spaces.len() < 2 {
        let space = &mut spaces[0];
        return (0..jobs).try_for_each(|job| {
            let made = make(space, job)?;
            take(job, space, made)
        });
    }
    let stride = spaces.len();
    std::thread::scope(|scope| {
        let mut lanes = Vec::new();
        for (first, space) in spaces.into_iter().enumerate() {
            let (give, made) = sync_channel(1);
            let (back, free) = sync_channel(1);
            let make = &make;
            scope.spawn(move || work(space, (first..jobs).step_by(stride), make, &give, &free));
            lanes.push((made, back));
        }
        for job in 0..jobs {
            let (made, back) = &lanes[job % stride];
            // One that has panicked ends the scope with a panic.
            let Ok((mut space, result)) = made.recv() else {
                break;
            };
            take(job, &mut space, result?)?;
            // A sender that has no more to do does not wait for it.
            let _ = back.send(space);
        }
        Ok(())
    })
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
