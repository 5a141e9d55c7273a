//! Limits of resources (`ulimit`) that a daemon inherits from the shell, the script or the service
//! that starts it. They were set for what that one does, not for what serves everybody.
//!
//! What is only limited for now is raised as far as this process may. What remains is told, where
//! it can hurt. Used by `mount`, before the process has a second thread.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::size;

/// Those that end a daemon, or fail its requests. Memory dumps stay as they were asked for.
const RAISED: [Resource; 6] = [
    Resource::Cpu,
    Resource::Fsize,
    Resource::Data,
    Resource::As,
    Resource::Nproc,
    // So that files of containers need not be closed and opened again.
    Resource::Nofile,
];

/// Raises what is limited for now to what may be had at most.
pub(super) fn raise() {
    for resource in RAISED {
        let limit = getrlimit(resource);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // It stays then, and what it may hurt is told of it.
        let _ = setrlimit(resource, raised);
    }
}

/// A sentence for each limit that is left and that a daemon may meet. Of processes and open files
/// every system has some limit, which it can live with.
pub(super) fn told(is_writable: bool) -> Vec<String> {
    let most = |resource| getrlimit(resource).maximum;
    let processor = most(Resource::Cpu).map(|seconds| {
        format!(
            "the limit of processor time is {seconds} s (ulimit -t): the daemon is killed when it has used that"
        )
    });
    let length = most(Resource::Fsize).filter(|_| is_writable).map(|bytes| {
        let most = size::show(bytes);
        format!(
            "the limit of the length of files is {most} (ulimit -f): what would make a file longer than that, \
             also the log of a container, is refused (File too large)"
        )
    });
    let memory = [(Resource::As, "ulimit -v"), (Resource::Data, "ulimit -d")].map(|(of, set_by)| {
        most(of).map(|bytes| {
            let most = size::show(bytes);
            format!(
                "the limit of memory is {most} ({set_by}): what does not fit is refused (Cannot allocate memory)"
            )
        })
    });
    let all = [processor, length].into_iter().chain(memory);
    all.flatten().collect()
}
