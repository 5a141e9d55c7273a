//! What goes over the socket between the daemon and its worker.
//!
//! Values are in postcard's encoding. A request has always [`REQUEST_BYTES`], with zeros behind the
//! value; the file's descriptor comes along, if it has one. The answer is its length (8 bytes,
//! little-endian like all numbers beside values) and the thing asked for, or a [`WorkerRefusal`].
//!
//! Before an answer the worker may ask for bytes of a file without a descriptor: [`PAGE_ASKED`] in
//! place of a length, then where they lie (8 bytes) and how many there are (4 bytes), at most
//! [`PAGE`]; it gets as many. An edit goes on with steps, each its length and an `EditStep`, and
//! each is answered like a request.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::container::hdf5::edit::EditStep;
use crate::container::hdf5::made::NewFileForm;
use crate::error::{Error, Fault, NotShown};

/// What the daemon wants to know about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkerTask {
    /// An `Index`.
    Index,
    /// The packed table of chunks of the dataset with this token, as [`RawBytes`].
    Chunks(u64),
    /// That steps of an edit are carried out.
    Edit,
    /// That a new file is made, step by step.
    Create(NewFileForm),
}

/// In place of the length of an answer: bytes of the file are asked for.
pub(crate) const PAGE_ASKED: u64 = u64::MAX;

/// Most bytes that are asked for at once.
pub(crate) const PAGE: u64 = 64 << 10;

/// Longest step, in bytes: a compact dataset is one, and an attribute of a new file.
pub(crate) const STEP_MOST: u64 = 128 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerRequest {
    pub(crate) wanted: WorkerTask,
    /// A worker whose daemon is gone would never be stopped otherwise.
    pub(crate) seconds: u32,
    /// Bytes of the file.
    pub(crate) len: u64,
}

/// What is answered: the thing, or why there is none.
pub(crate) type WorkerAnswer<T> = Result<T, WorkerRefusal>;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerRefusal {
    pub(crate) why: String,
    /// No damage: it is more than we hold.
    pub(crate) is_whole: bool,
}

impl WorkerRefusal {
    pub(crate) fn of_what_is_whole(why: String) -> WorkerRefusal {
        let is_whole = true;
        WorkerRefusal { why, is_whole }
    }
}

/// What libhdf5 complains of is damage.
impl From<String> for WorkerRefusal {
    fn from(why: String) -> WorkerRefusal {
        let is_whole = false;
        WorkerRefusal { why, is_whole }
    }
}

impl From<&str> for WorkerRefusal {
    fn from(why: &str) -> WorkerRefusal {
        why.to_owned().into()
    }
}

impl From<WorkerRefusal> for Error {
    fn from(refusal: WorkerRefusal) -> Error {
        match refusal.is_whole {
            true => NotShown::new(refusal.why).into(),
            false => Fault::new(refusal.why).into(),
        }
    }
}

/// RawBytes that are sent and received as a whole.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RawBytes<'a>(pub(crate) &'a [u8]);

impl Serialize for RawBytes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawBytes<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&[u8]>::deserialize(from).map(RawBytes)
    }
}

/// Any request has room in so many.
const REQUEST_BYTES: usize = 32;

/// Sends a request with the file that it is about, if that has a descriptor.
pub(super) fn send(
    to: impl AsFd,
    request: WorkerRequest,
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut bytes = [0; REQUEST_BYTES];
    postcard::to_slice(&(request, file.is_some()), &mut bytes).map_err(io::Error::other)?;
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut room);
    let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
    if !files.is_empty() {
        rights.push(SendAncillaryMessage::ScmRights(&files));
    }
    // It fits into the empty socket, so it is sent whole or not at all.
    let sent = sendmsg(
        to,
        &[IoSlice::new(&bytes)],
        &mut rights,
        SendFlags::NOSIGNAL,
    )?;
    if sent == bytes.len() {
        return Ok(());
    }
    Err(io::ErrorKind::WriteZero.into())
}

/// Waits for a request; none when the daemon is gone.
pub(crate) fn receive(from: impl AsFd) -> io::Result<Option<(WorkerRequest, Option<OwnedFd>)>> {
    let mut bytes = [0; REQUEST_BYTES];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = rustix::io::retry_on_intr(|| recvmsg(&from, &mut parts, &mut rights, flags))?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let file = rights.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    match postcard::take_from_bytes::<(WorkerRequest, bool)>(&bytes) {
        Ok(((request, comes_along), _))
            if received.bytes == REQUEST_BYTES && file.is_some() == comes_along =>
        {
            Ok(Some((request, file)))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// A step as it goes over the socket.
pub(super) fn encode_step(step: &EditStep) -> io::Result<Vec<u8>> {
    let encoded = postcard::to_stdvec(step).map_err(io::Error::other)?;
    let mut bytes = (encoded.len() as u64).to_le_bytes().to_vec();
    bytes.extend(encoded);
    Ok(bytes)
}

/// Waits for a step; none when the daemon has given the edit up.
pub(crate) fn receive_step(mut from: impl Read) -> io::Result<Option<EditStep>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(length);
    if length > STEP_MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut encoded = vec![0; length as usize];
    from.read_exact(&mut encoded)?;
    postcard::from_bytes(&encoded)
        .map(Some)
        .map_err(io::Error::other)
}

/// Asks for bytes of the file, as many as `out` has.
pub(crate) fn ask_page(mut socket: impl Read + Write, at: u64, out: &mut [u8]) -> io::Result<()> {
    let mut asked = PAGE_ASKED.to_le_bytes().to_vec();
    asked.extend(at.to_le_bytes());
    asked.extend((out.len() as u32).to_le_bytes());
    socket.write_all(&asked)?;
    socket.read_exact(out)
}

/// Sends an answer.
pub(crate) fn answer<T: Serialize>(mut to: impl Write, answer: &WorkerAnswer<T>) -> io::Result<()> {
    let encoded = postcard::to_stdvec(answer).map_err(io::Error::other)?;
    to.write_all(&(encoded.len() as u64).to_le_bytes())?;
    to.write_all(&encoded)?;
    to.flush()
}

/// Decodes an answer without its length; none if it is not one.
pub(super) fn decode<'a, T: Deserialize<'a>>(encoded: &'a [u8]) -> Option<WorkerAnswer<T>> {
    let (answer, rest) = postcard::take_from_bytes(encoded).ok()?;
    rest.is_empty().then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back_as_they_were() {
        let chunks = WorkerTask::Chunks(0x0123_4567_89ab_cdef);
        let create = WorkerTask::Create(NewFileForm {
            superblock: 2,
            is_ordered: true,
        });
        for wanted in [WorkerTask::Index, chunks, WorkerTask::Edit, create] {
            let request = WorkerRequest {
                wanted,
                seconds: u32::MAX,
                len: u64::MAX,
            };
            let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
            for file in [None, Some(theirs.as_fd())] {
                send(&ours, request, file).unwrap();
                let (found, with) = receive(&theirs).unwrap().unwrap();
                assert_eq!((found, with.is_some()), (request, file.is_some()));
            }
        }
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.write_all(&[9; REQUEST_BYTES]).unwrap();
        assert!(receive(&theirs).is_err());
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }

    #[test]
    fn an_answer_has_nothing_behind_it() {
        let mut sent = Vec::new();
        answer(&mut sent, &WorkerAnswer::Ok(7u64)).unwrap();
        assert_eq!(decode::<u64>(&sent[8..]), Some(Ok(7)));
        sent.push(0);
        assert_eq!(decode::<u64>(&sent[8..]), None);
        sent.clear();
        answer(&mut sent, &WorkerAnswer::Ok(RawBytes(b"abc"))).unwrap();
        assert_eq!(
            decode::<RawBytes<'_>>(&sent[8..]),
            Some(Ok(RawBytes(b"abc")))
        );
    }
}
