//! Work done as another user, without any privilege.

use std::panic::resume_unwind;

/// A user of no system, with a group of the same number.
pub const OTHER: u32 = 65534;
/// Another one.
pub const THIRD: u32 = 65533;

/// Does `work` as this user and group, in a thread: the kernel knows users by thread.
pub fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
    as_member(user, user, work)
}

/// The same as a member of this group alone.
pub fn as_member<T: Send>(user: u32, group: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            become_member(user, group);
            work()
        });
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The C library would change every thread.
fn become_member(user: u32, group: u32) {
    let none = std::ptr::null::<libc::gid_t>();
    // SAFETY: sets numbers of this thread; no memory is given but an empty list.
    let failures = unsafe {
        [
            libc::syscall(libc::SYS_setgroups, 0, none),
            libc::syscall(libc::SYS_setresgid, group, group, group),
            libc::syscall(libc::SYS_setresuid, user, user, user),
        ]
    };
    assert_eq!(failures, [0; 3], "needs root");
}
