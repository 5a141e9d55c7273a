//! One worker process: started, limited, asked, ended.
//!
//! It is the program itself, by default, or whatever `ARRAYFS_HDF5_WORKER` names. It has the socket
//! as its standard input and no other descriptor of the daemon's: all close on exec, those that the
//! daemon was started with too. The daemon sets its limits from outside, so they hold for any
//! program. It leads a process group of its own, out of reach of Ctrl-C, and ends when the socket
//! does.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, getrlimit, pidfd_open, prlimit};

use super::limits::{Allowance, Limits};
use super::nodes_ahead::pages_below;
use super::wire::{self, PAGE, PAGE_ASKED, WorkerRequest};
use crate::error::Error;
use crate::memory::budget::{Budget, Hold};
use crate::memory::no_memory;
use crate::source::{Source, on_descriptor};

/// Names another program to do the worker's work: a path, or a name to be found in `PATH`.
const VARIABLE: &str = "ARRAYFS_HDF5_WORKER";
/// The command of this program that serves.
const COMMAND: &str = "hdf5-worker";

/// This program, even if its file has been replaced meanwhile.
const OWN: &str = "/proc/self/exe";

/// Longest answer in bytes.
const ANSWER_MOST: u64 = 256 << 20;
/// Requests after which a worker is replaced, against slow leaks.
const REQUESTS_MOST: u32 = 10_000;
/// Address space above which a worker is replaced after a request, as a part of its limit.
const TIRED_PART: u64 = 2;
/// How often its processor time is looked at, at most.
const LOOK_LEAST: Duration = Duration::from_millis(20);
/// How long a worker that has closed the socket may take to end.
const PARTING: Duration = Duration::from_millis(500);

/// What is run.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) program: OsString,
    pub(super) arguments: Vec<OsString>,
}

impl Program {
    pub(super) fn from_environment() -> Program {
        Program {
            program: std::env::var_os(VARIABLE).unwrap_or_else(|| OWN.into()),
            arguments: arguments(),
        }
    }
}

fn arguments() -> Vec<OsString> {
    match HAS_COMMAND.load(Relaxed) {
        true => vec![COMMAND.into()],
        false => SERVING_TEST.map(OsString::from).to_vec(),
    }
}

/// Whether the program of this process is arrayfs.
static HAS_COMMAND: AtomicBool = AtomicBool::new(false);

/// Tests are programs of their own, one of which serves: it has this name in each crate.
pub(super) const SERVING_TEST: [&str; 3] = ["--ignored", "--exact", "serves_hdf5"];

/// The program of this process knows the command [`COMMAND`]: workers are started by that.
pub fn start_by_command() {
    HAS_COMMAND.store(true, Relaxed);
}

/// When a request has taken too much.
#[derive(Clone, Copy)]
pub(super) struct WorkerEnd {
    /// Processor time of the worker since its start.
    pub(super) busy: Duration,
    pub(super) waited: Instant,
}

/// Workers that ended in the middle of something, or had to be ended.
static DEATHS: AtomicU64 = AtomicU64::new(0);

pub(super) fn note_death() {
    DEATHS.fetch_add(1, Relaxed);
}

/// How many workers of this process have died so.
pub fn deaths() -> u64 {
    DEATHS.load(Relaxed)
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// The worker is gone, with its status, if there is one.
    Ended(Option<ExitStatus>),
    /// It took more processor time than it may.
    Late,
    /// It computes nothing and does not answer.
    Silent,
    /// It announced an answer of so many bytes.
    TooLong(u64),
    /// There is no memory for its answer, or the file cannot be read.
    Refused(Error),
}

/// What a worker answered, without its length.
pub(super) struct EncodedAnswer {
    pub(super) bytes: Vec<u8>,
    pub(super) hold: Hold,
}

pub(super) struct Worker {
    child: Child,
    socket: OwnedFd,
    limits: Limits,
    served: u32,
}

impl Worker {
    pub(super) fn start(run: &Program, limits: Limits) -> io::Result<Worker> {
        let cloexec = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, cloexec, None)?;
        let mut command = Command::new(&run.program);
        command
            .args(&run.arguments)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0);
        if run.program == OWN {
            // What `ps` shows.
            command.arg0("arrayfs");
        }
        quieten(&mut command);
        let child = command.spawn()?;
        // The command holds the worker's end; as long as it is open here, no end would be noticed.
        drop(command);
        let worker = Worker {
            child,
            socket: ours,
            limits,
            served: 0,
        };
        worker.limit()?;
        Ok(worker)
    }

    fn limit(&self) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        // Sanitizers take terabytes of addresses (scripts/checkers.sh).
        let addresses = match cfg!(sanitized) {
            true => u64::MAX,
            false => self.limits.bytes(),
        };
        let limits = [
            (Resource::As, addresses),
            (Resource::Core, 0),
            (Resource::Fsize, 0),
        ];
        for (resource, most) in limits {
            // What this process may have itself may be less.
            let most = getrlimit(resource)
                .maximum
                .map_or(most, |ours| ours.min(most));
            let both = Rlimit {
                current: Some(most),
                maximum: Some(most),
            };
            prlimit(Some(pid), resource, both)?;
        }
        Ok(())
    }

    /// When what is asked now has taken too much.
    pub(super) fn end(&self, allowance: Allowance) -> WorkerEnd {
        WorkerEnd {
            busy: self.busy() + allowance.processor_time(),
            waited: Instant::now() + allowance.waiting_time(),
        }
    }

    /// Sends a request about a file.
    pub(super) fn send(&mut self, request: WorkerRequest, file: &dyn Source) -> Result<(), Failed> {
        self.served += 1;
        let sent = on_descriptor(file, |fd| wire::send(&self.socket, request, Some(fd)));
        let sent = match sent {
            Err(Error::Unsupported) => wire::send(&self.socket, request, None),
            sent => sent.map_err(Failed::Refused)?,
        };
        sent.map_err(|_| self.ended())
    }

    /// Sends what belongs to a request.
    pub(super) fn send_more(&mut self, bytes: &[u8], end: WorkerEnd) -> Result<(), Failed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let deadline = Instant::now() + LOOK_LEAST;
            if !ready(
                self.socket.as_fd(),
                PollFlags::OUT,
                deadline.min(end.waited),
            ) {
                self.check_time(end)?;
                continue;
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.socket, rest, flags) {
                Ok(n) => rest = &rest[n..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(self.ended()),
            }
        }
        Ok(())
    }

    /// Waits for the answer to what was sent, which is charged to the budget; meanwhile the worker
    /// is given the bytes of the file that it asks for.
    pub(super) fn answer(
        &mut self,
        file: &dyn Source,
        mut end: WorkerEnd,
        budget: &Arc<Budget>,
    ) -> Result<EncodedAnswer, Failed> {
        loop {
            let mut length = [0; 8];
            self.fill(&mut length, end)?;
            let length = u64::from_le_bytes(length);
            if length == PAGE_ASKED {
                // That the file is far away is not the worker's fault.
                let asked = Instant::now();
                self.send_page(file, end)?;
                end.waited += asked.elapsed();
                continue;
            }
            if length > ANSWER_MOST {
                return Err(Failed::TooLong(length));
            }
            let hold = budget.keep(length).map_err(Failed::Refused)?;
            let bytes = self.collect(length as usize, end)?;
            return Ok(EncodedAnswer { bytes, hold });
        }
    }

    /// Bytes of a file that has no descriptor.
    fn send_page(&mut self, file: &dyn Source, end: WorkerEnd) -> Result<(), Failed> {
        let (mut at, mut len) = ([0; 8], [0; 4]);
        self.fill(&mut at, end)?;
        self.fill(&mut len, end)?;
        let (at, len) = (u64::from_le_bytes(at), u32::from_le_bytes(len));
        if u64::from(len) > PAGE {
            return Err(Failed::TooLong(len.into()));
        }
        let mut page = vec![0; len as usize];
        file.fetch_one(at, &mut page).map_err(Failed::Refused)?;
        if file.is_far() {
            file.expect(&pages_below(&page, file.len()));
        }
        self.send_more(&page, end)
    }

    /// Memory is taken as the answer arrives, not as it is announced.
    fn collect(&mut self, length: usize, end: WorkerEnd) -> Result<Vec<u8>, Failed> {
        const STEP: usize = 1 << 20;
        let mut answer = Vec::new();
        while answer.len() < length {
            let start = answer.len();
            let step = STEP.min(length - start);
            let refused = |_| Failed::Refused(no_memory("no memory for the structure of a file"));
            answer.try_reserve(step).map_err(refused)?;
            answer.resize(start + step, 0);
            self.fill(&mut answer[start..], end)?;
        }
        Ok(answer)
    }

    fn fill(&mut self, mut buf: &mut [u8], end: WorkerEnd) -> Result<(), Failed> {
        while !buf.is_empty() {
            self.await_bytes(end)?;
            match recv(&self.socket, &mut *buf, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(self.ended()),
                Ok((n, _)) => buf = &mut buf[n..],
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(self.ended()),
            }
        }
        Ok(())
    }

    /// Waits until there is something to read, or the end of the worker.
    fn await_bytes(&self, end: WorkerEnd) -> Result<(), Failed> {
        loop {
            // Processor time passes no faster than time.
            let left = end.busy.saturating_sub(self.busy());
            let look = Instant::now() + left.max(LOOK_LEAST);
            if readable(self.socket.as_fd(), look.min(end.waited)) {
                return Ok(());
            }
            self.check_time(end)?;
        }
    }

    fn check_time(&self, end: WorkerEnd) -> Result<(), Failed> {
        if self.busy() >= end.busy {
            return Err(Failed::Late);
        }
        match Instant::now() >= end.waited {
            true => Err(Failed::Silent),
            false => Ok(()),
        }
    }

    /// Processor time that it has taken since it was started; none if that cannot be read.
    fn busy(&self) -> Duration {
        let mut clock: libc::clockid_t = 0;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let child = Pid::from_child(&self.child).as_raw_nonzero().get();
        // SAFETY: asks for a number about a process, into one of ours.
        let found = unsafe { libc::clock_getcpuclockid(child, &mut clock) };
        // SAFETY: the clock is that of the process, or of none, which is an error.
        if found != 0 || unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
            return Duration::ZERO;
        }
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    /// How it ended, now that the socket is closed; a worker that lives on without it is killed.
    fn ended(&mut self) -> Failed {
        note_death();
        let gone = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
            .is_ok_and(|pid| readable(pid.as_fd(), Instant::now() + PARTING));
        match self.child.try_wait() {
            Ok(status) if gone => Failed::Ended(status),
            _ => Failed::Ended(None),
        }
    }

    /// Whether it waits for a request: it has not ended, and says nothing that it was not asked.
    pub(super) fn is_waiting(&self) -> bool {
        !readable(self.socket.as_fd(), Instant::now())
    }

    /// Whether it should be replaced before the next request.
    pub(super) fn is_tired(&self) -> bool {
        self.served >= REQUESTS_MOST || self.address_space() > self.limits.bytes() / TIRED_PART
    }

    /// RawBytes of address space it holds, as the kernel counts them for its limit; 0 if unknown.
    fn address_space(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let kibibytes = status.ok().and_then(|status| {
            let size = status
                .lines()
                .find_map(|line| line.strip_prefix("VmSize:"))?;
            size.trim().strip_suffix(" kB")?.parse().ok()
        });
        kibibytes.map_or(0, |n: u64| n.saturating_mul(1024))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only for a process that has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names the socket of who has started the daemon (systemd), which is the daemon's alone.
const SUPERVISOR: &str = "NOTIFY_SOCKET";

/// The library takes plugins, drivers, prefixes of file names and locking from its environment.
/// What reads files of strangers gets no credentials.
const KEPT_FROM: [&[u8]; 5] = [b"HDF5_", b"AWS_", b"GOOGLE_", b"AZURE_", b"MSI_"];

fn quieten(command: &mut Command) {
    command.env_remove(SUPERVISOR);
    for (name, _) in std::env::vars_os() {
        let is_kept = |start: &&[u8]| name.as_encoded_bytes().starts_with(start);
        if KEPT_FROM.iter().any(is_kept) {
            command.env_remove(name);
        }
    }
    command.env("HDF5_PLUGIN_PRELOAD", "::");
    command.env("HDF5_USE_FILE_LOCKING", "FALSE");
}

/// Waits until there is something to read, or the end; false if there is neither in time.
fn readable(fd: BorrowedFd<'_>, deadline: Instant) -> bool {
    ready(fd, PollFlags::IN, deadline)
}

fn ready(fd: BorrowedFd<'_>, what: PollFlags, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else {
            return false;
        };
        let mut fds = [PollFd::new(&fd, what)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
