//! Programs run to their end, with what they said; one that does not end in time is killed.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::PATIENCE;

/// The program under test.
pub const ARRAYFS: &str = env!("CARGO_BIN_EXE_arrayfs");

const STATE: &str = "XDG_STATE_HOME";

/// A program that has ended.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The output, if it ended well.
    pub fn success(self) -> Self {
        assert_eq!(self.code(), Some(0), "{self:?}");
        self
    }

    /// Ended with this status and a message that says all of `parts`.
    pub fn failed_saying(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code(), Some(code), "{self:?}");
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "'{part}' is missing in: {}",
                self.stderr
            );
        }
    }
}

/// Runs `arrayfs` with these arguments.
pub fn arrayfs<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ran {
    run(Command::new(ARRAYFS).args(arguments))
}

/// Puts a copy of a program where everybody may start it (not below root's home). Another process
/// writes it: while one that this process starts elsewhere has inherited a file that is being
/// written, nobody can run that file.
pub fn install(program: &Path, to: &Path) {
    let mut copy = Command::new("install");
    run(copy.args(["-m", "755"]).args([program, to])).success();
}

/// The same with a script.
pub fn install_script(text: &str, to: &Path) {
    let written = to.with_extension("text");
    std::fs::write(&written, text).expect("the script");
    install(&written, to);
}

/// Held shared by a test that starts a program, until it is started.
static STARTING: RwLock<()> = RwLock::new(());

/// As long as this lives no test starts a program. For tests that open an array for writing and
/// look at what is stored before they close it: a program that another test starts has a copy of
/// every open file, for a moment, and its end of it is a close, which commits. To be taken before
/// the file is opened. The test that holds it starts no program either.
pub fn nobody_starts() -> RwLockWriteGuard<'static, ()> {
    STARTING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program; all of them are started here.
pub fn start(command: &mut Command) -> std::io::Result<Child> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Runs a program until it has ended and both its outputs are closed.
pub fn run(command: &mut Command) -> Ran {
    let piped = command.env("LC_ALL", "C").stdin(Stdio::null());
    // Where daemons log that find no system log.
    if piped.get_envs().all(|(name, _)| name != STATE) {
        piped.env(STATE, env!("CARGO_TARGET_TMPDIR"));
    }
    let mut child = start(piped.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    let stdout = drain(child.stdout.take().unwrap());
    let stderr = drain(child.stderr.take().unwrap());
    let status = wait_for_end(&mut child);
    let closed = |output: Receiver<Vec<u8>>| {
        output
            .recv_timeout(PATIENCE)
            .expect("somebody keeps the output open after the end")
    };
    let (stdout, stderr) = (closed(stdout), closed(stderr));
    Ran {
        status,
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

fn drain(mut output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut all = Vec::new();
        // A broken pipe ends the output as well.
        let _ = output.read_to_end(&mut all);
        let _ = sender.send(all);
    });
    receiver
}

/// Waits for a child; one that takes too long is killed, and the test fails.
pub fn wait_for_end(child: &mut Child) -> ExitStatus {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: 0,
        };
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("process {} did not end in time", child.id());
            }
            Ok(_) => return child.wait().unwrap(),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("waiting for process {}: {e}", child.id()),
        }
    }
}

pub fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// Whether a process is there no more, or only as an entry that nobody has collected.
pub fn has_ended(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => matches!(
            stat.rsplit(") ").next().map(|rest| rest.as_bytes()[0]),
            Some(b'Z' | b'X')
        ),
        Err(_) => true,
    }
}

/// A figure of `/proc/PID/status` that is given in kB, as bytes.
pub fn memory_figure(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Descriptors that a process holds open.
pub fn open_descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .count()
}

/// The processes that run libhdf5 for a daemon.
pub fn workers(daemon: u32) -> Vec<u32> {
    // The guardian is a child, too.
    let is_worker = |pid: &u32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments
            .split(|byte| *byte == 0)
            .any(|argument| argument == b"hdf5-worker")
    };
    children(daemon).into_iter().filter(is_worker).collect()
}

/// Processes that a process has started and not collected.
fn children(of: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{of}/task")) else {
        return Vec::new();
    };
    let list = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).ok();
    let lists: Vec<String> = tasks.filter_map(|task| list(task.ok()?)).collect();
    let numbers = lists.iter().flat_map(|list| list.split_whitespace());
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// A link to the program under another name, in `directory`.
pub fn link_to_arrayfs(directory: &Path, name: &str) -> std::path::PathBuf {
    let link = directory.join(name);
    std::os::unix::fs::symlink(ARRAYFS, &link).unwrap();
    link
}
