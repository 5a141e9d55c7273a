//! Runs a test in many schedules of its threads. Used by the tests of that name in `cache`,
//! `memory::budget` and `stage`, which need the feature `schedules`.
//!
//! Half of the schedules are random; in the others a thread goes on until something stops it, but
//! for a few changes at random places, which finds what few changes bring about. A schedule that
//! fails is printed, and `shuttle::replay` repeats it.

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

/// Of each thread: ours read and write buffers.
const STACK: usize = 1 << 20;

/// `ARRAYFS_TEST_WHOLE` is for a night.
fn schedules(usual: usize) -> usize {
    match std::env::var_os("ARRAYFS_TEST_WHOLE") {
        Some(_) => 20 * usual,
        None => usual,
    }
}

/// Each of so many schedules runs the test from its beginning.
pub fn in_schedules(count: usize, test: impl Fn() + Send + Sync + Clone + 'static) {
    let half = schedules(count).div_ceil(2);
    run(RandomScheduler::new(half), test.clone());
    run(PctScheduler::new(3, half), test);
}

fn run(scheduler: impl Scheduler + 'static, test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK;
    Runner::new(scheduler, config).run(test);
}
