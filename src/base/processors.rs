//! How many processors there are for this process. Assumes that this does not change while it runs.
//! Used wherever work is shared out to threads.

use std::sync::OnceLock;

/// How many threads can run at once: at least one. The system is asked once, for that takes as long
/// as writing a small file.
pub fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
