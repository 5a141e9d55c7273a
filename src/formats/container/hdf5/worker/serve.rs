//! The worker's side: reads requests from the socket on standard input and answers them with
//! libhdf5.
//!
//! Run as `arrayfs hdf5-worker` by the daemon (see [`super::pool`]), never by users. One request at
//! a time. A file is read by the descriptor that came with the request, or by asking for its bytes;
//! this process may open nothing at all, so no external link, external storage, virtual dataset or
//! plugin is ever opened, whatever the file or the library makes of it. A failure of the library is
//! an answer; a crash is the end of this process, which the daemon survives. After a failure in an
//! edit nothing more is asked of the library: this process ends.

use std::fs::File as Socket;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::process::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use super::served_file::{AskedBytes, OpenedBytes};
use super::wire::{self, RawBytes, WorkerAnswer, WorkerRefusal, WorkerRequest, WorkerTask};
use crate::container::hdf5::edit::{EditReply, EditStep};
use crate::container::hdf5::library::{self, FileBytes, FileEdit, LibraryFile};

/// What `pgrep` and `top` show; at most 15 bytes.
const NAME: &str = "arrayfs-hdf5";

/// Serves until the daemon closes the socket.
pub fn run() -> ExitCode {
    // Not called like a daemon: a signal to daemons by name is not meant for it. Without /proc it
    // is "exe".
    let _ = std::fs::write("/proc/self/comm", NAME);
    ignore_hangup();
    match library::start()
        .map_err(io::Error::other)
        .and_then(|()| serve())
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// SIGHUP makes daemons open their log anew. The worker has none, and ends with its socket.
fn ignore_hangup() {
    // SAFETY: no handler is installed, the signal is only ignored.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
}

fn serve() -> io::Result<()> {
    let mut socket = Socket::from(io::stdin().as_fd().try_clone_to_owned()?);
    loop {
        let Some((request, file)) = wire::receive(&socket)? else {
            return Ok(());
        };
        alarm(request.seconds);
        match respond(&mut socket, request, file) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => return Ok(()),
            other => other?,
        }
        alarm(0);
        if library::has_stand_ins() {
            return Ok(());
        }
    }
}

fn respond(socket: &mut Socket, request: WorkerRequest, file: Option<OwnedFd>) -> io::Result<()> {
    let bytes: Box<dyn FileBytes> = match file {
        Some(fd) => Box::new(OpenedBytes::new(fd, request.len)),
        None => Box::new(AskedBytes::new(socket.try_clone()?, request.len)),
    };
    match request.wanted {
        WorkerTask::Index => send(socket, &confined(bytes, |file| Ok(file.index()?))),
        WorkerTask::Chunks(token) => {
            let packed = confined(bytes, |file| file.chunks(token));
            send(
                socket,
                &packed
                    .as_deref()
                    .map(RawBytes)
                    .map_err(WorkerRefusal::clone),
            )
        }
        WorkerTask::Edit => edit(socket, request.seconds, || FileEdit::open(bytes)),
        WorkerTask::Create(form) => edit(socket, request.seconds, || FileEdit::create(bytes, form)),
    }
}

/// Carries out steps until the last one, or a failure. The file is opened when the first of them is
/// here: bytes of it may have to be asked for, and then the daemon must be waiting for an answer.
fn edit(
    socket: &mut Socket,
    seconds: u32,
    open: impl FnOnce() -> Result<FileEdit, String>,
) -> io::Result<()> {
    let closed = Closed::new().map_err(|refusal| io::Error::other(refusal.why))?;
    let mut step = next_step(socket, seconds)?;
    let mut edit = match open() {
        Ok(edit) => edit,
        Err(why) => give_up(socket, why),
    };
    while step != EditStep::Finish {
        match edit.step(step) {
            Ok(reply) => send(socket, &Ok(reply))?,
            Err(why) => give_up(socket, why),
        }
        step = next_step(socket, seconds)?;
    }
    match edit.finish() {
        Ok(finished) => {
            drop(closed);
            send(socket, &Ok(EditReply::Finished(finished)))
        }
        Err(why) => give_up(socket, why),
    }
}

/// The daemon may take its time between two steps.
fn next_step(socket: &mut Socket, seconds: u32) -> io::Result<EditStep> {
    alarm(0);
    let step = wire::receive_step(socket)?;
    alarm(seconds);
    step.map_or_else(|| end_at_once(), Ok)
}

/// Says why, and ends this process.
fn give_up(socket: &mut Socket, why: String) -> ! {
    // Without an answer the daemon sees the end.
    let _ = send::<EditReply>(socket, &Err(why.into()));
    end_at_once();
}

/// Ends this process without closing a file: the library would crash on some damaged ones.
fn end_at_once() -> ! {
    // SAFETY: ends this process, and runs nothing that was registered for its end.
    unsafe { libc::_exit(1) }
}

fn send<T: Serialize>(socket: &mut Socket, answer: &WorkerAnswer<T>) -> io::Result<()> {
    wire::answer(socket, answer)
}

/// Opens a file and does something with it while nothing can be opened.
fn confined<T>(
    bytes: Box<dyn FileBytes>,
    act: impl FnOnce(&LibraryFile) -> WorkerAnswer<T>,
) -> WorkerAnswer<T> {
    let _closed = Closed::new()?;
    act(&LibraryFile::open(bytes)?)
}

/// While it lives, no descriptor can be opened: not by mistake, not by the library.
struct Closed;

impl Closed {
    fn new() -> WorkerAnswer<Closed> {
        openable(Some(0))?;
        Ok(Closed)
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        // Without descriptors the next request is refused, so a failure here is noticed there.
        let _ = openable(getrlimit(Resource::Nofile).maximum);
    }
}

fn openable(most: Option<u64>) -> WorkerAnswer<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = most;
    setrlimit(Resource::Nofile, limit)
        .map_err(|e| format!("the worker cannot limit what it opens: {e}").into())
}

/// Ends this process after so many seconds; 0: not any more. The daemon is stricter, but if it is
/// gone while the library runs in circles, nothing else would.
fn alarm(seconds: u32) {
    // SAFETY: sets a timer of this process, whose signal has its default effect.
    unsafe { libc::alarm(seconds) };
}
