//! Going to the background, with the outcome reported to the process that started us.
//!
//! The process forks before it has any thread; the child serves, the parent waits for one message
//! through a pipe and exits with its outcome. So `arrayfs mount` returns when the mount is usable,
//! and its exit status can be trusted. A child that dies without a word is a failure.
//!
//! What the starter had open (a lock of its script, say) is not the daemon's to keep.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The descriptors above standard error that this process was started with.
#[derive(Default)]
pub struct Inherited(Vec<RawFd>);

impl Inherited {
    /// Finds them, and keeps them from every program that this process starts. Must be called
    /// before anything else is opened, while the process has one thread.
    pub fn find() -> Self {
        // Without /proc there is nothing to go by, and they stay.
        let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
        let listed: Vec<RawFd> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        // SAFETY: sets a flag of a descriptor; the one that listed them is closed, and an error.
        let inherited =
            |fd: &RawFd| unsafe { libc::fcntl(*fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
        Inherited(
            listed
                .into_iter()
                .filter(|fd| *fd > 2)
                .filter(inherited)
                .collect(),
        )
    }

    pub fn close(self) {
        for fd in self.0 {
            // SAFETY: it was there before anything of this process, which therefore does not use
            // it.
            unsafe { libc::close(fd) };
        }
    }
}

/// The child's end: reports the outcome to the parent.
pub struct Readiness {
    pipe: Option<File>,
}

pub enum ForkSide {
    /// Returned in the process that was started: the child's outcome.
    Parent(Result<(), String>),
    /// Returned in the new process.
    Child(Readiness),
}

/// Forks; the child lets go of what was inherited. Must be called while the process has one thread.
pub fn detach(inherited: Inherited) -> io::Result<ForkSide> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the process has a single thread here (documented above), so the child's copy of every
    // lock and of the allocator is consistent and it may go on like any process.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(read);
            inherited.close();
            rustix::process::setsid()?;
            Ok(ForkSide::Child(Readiness {
                pipe: Some(File::from(write)),
            }))
        }
        _ => {
            drop(write);
            Ok(ForkSide::Parent(outcome(read)))
        }
    }
}

/// Waits for the child's message: empty for success, else what went wrong.
fn outcome(pipe: OwnedFd) -> Result<(), String> {
    let mut message = String::new();
    match File::from(pipe).read_to_string(&mut message) {
        Ok(0) => Err("the daemon ended before the mount was usable".into()),
        Ok(_) if message == READY => Ok(()),
        Ok(_) => Err(message),
        Err(e) => Err(format!("the daemon's outcome cannot be read: {e}")),
    }
}

const READY: &str = "\n";

impl Readiness {
    /// For a process that stays in the foreground: no parent waits.
    pub fn nobody() -> Self {
        Readiness { pipe: None }
    }

    /// Whether the parent still waits, if there is one.
    pub fn is_awaited(&self) -> bool {
        let Some(pipe) = &self.pipe else {
            return true;
        };
        let mut pipe = [PollFd::new(pipe, PollFlags::OUT)];
        let polled = poll(&mut pipe, Some(&Timespec::default()));
        polled.is_err() || !pipe[0].revents().contains(PollFlags::ERR)
    }

    /// The mount is usable: releases the parent and the terminal.
    pub fn ready(mut self) -> io::Result<()> {
        super::log::leave_terminal();
        if let Some(mut pipe) = self.pipe.take() {
            let null = File::options().read(true).write(true).open("/dev/null")?;
            rustix::stdio::dup2_stdin(&null)?;
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(&null)?;
            std::env::set_current_dir("/")?;
            pipe.write_all(READY.as_bytes())?;
        }
        Ok(())
    }

    /// The mount failed: the parent prints this.
    pub fn failed(&mut self, message: &str) -> bool {
        match self.pipe.take() {
            Some(mut pipe) => pipe.write_all(message.as_bytes()).is_ok(),
            None => false,
        }
    }
}
