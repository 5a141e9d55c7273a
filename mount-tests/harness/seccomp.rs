//! A system without `openat2`: a kernel before 5.6, a sandbox that does not know the call.
//!
//! Used by the mounted tests for a daemon, and by the unit tests of `source::local` for one thread.

use std::io;

/// The same number on every architecture, as all system calls of that time and later.
const OPENAT2: u32 = 437;

/// From now on the kernel answers this thread, and what it starts, that there is no `openat2`.
/// Cannot be taken back. Allocates nothing, so it may be called between fork and exec.
pub(crate) fn forget_openat2() -> io::Result<()> {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut filter = [
        // The number of the call is the first field of what a filter sees.
        step(load, 0, 0),
        step(equal, 1, OPENAT2),
        step(answer, 0, missing),
        step(answer, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: sets a flag of this thread.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program and its filter live until the kernel has copied them.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
