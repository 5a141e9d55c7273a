//! Work done as another user, without any privilege.

use std::panic::resume_unwind;

/// A user of no system, with a group of the same number.
pub const OTHER: u32 = 65534;
/// Another one.
pub const THIRD: u32 = 65533;

/// Does `work` as this user and the group of the same number, in a thread: the kernel knows users
/// by thread.
pub fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
    as_user_in_groups(user, &[user], work)
}

/// The same in these groups, of which the first one is that of new files.
pub fn as_user_in_groups<T: Send>(user: u32, groups: &[u32], work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            become_user(user, groups);
            work()
        });
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The C library would change every thread.
fn become_user(user: u32, groups: &[u32]) {
    let first = groups[0];
    // SAFETY: sets numbers of this thread; the list is read to its length.
    let failures = unsafe {
        [
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()),
            libc::syscall(libc::SYS_setresgid, first, first, first),
            libc::syscall(libc::SYS_setresuid, user, user, user),
        ]
    };
    assert_eq!(failures, [0; 3], "needs root");
}
