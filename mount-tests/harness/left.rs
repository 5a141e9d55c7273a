//! Mounts that a test program leaves when it is killed (`timeout`, Ctrl-C), for then nothing of it
//! is dropped.
//!
//! A process in a group of its own, which a signal to the program's group does not reach, waits for
//! the program's end and unmounts what is left. It outlives the program, so nothing in it can wait
//! for the process. Used by [`super::mounted`].

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Reads mountpoints, a line each, until nobody writes any more.
const UNMOUNT: &str = r#"
all='|'
while IFS= read -r path; do all="$all$path|"; done
while read -r _ _ _ _ path _; do
    case $all in *"|$path|"*) umount -l "$path" || fusermount3 -uz "$path" ;; esac
done </proc/self/mountinfo"#;

/// Sees to it that a mount does not outlive the test program.
pub fn unmount_at_the_end(mountpoint: &Path) {
    static OUTLIVING: OnceLock<Mutex<Child>> = OnceLock::new();
    let outliving = OUTLIVING.get_or_init(|| {
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", UNMOUNT]).process_group(0);
        let shell = shell.stdout(Stdio::null()).stderr(Stdio::null());
        Mutex::new(shell.stdin(Stdio::piped()).spawn().unwrap())
    });
    let line = [mountpoint.as_os_str().as_bytes(), b"\n"].concat();
    let mut outliving = outliving.lock().unwrap_or_else(PoisonError::into_inner);
    let mountpoints = outliving.stdin.as_mut().expect("it is piped");
    mountpoints.write_all(&line).unwrap();
}
