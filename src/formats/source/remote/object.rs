//! An object of a store as a [`Source`]: one version, read by ranges.
//!
//! What is expected is asked for at once, in pieces; what is fetched without that (structure, files
//! shown as they are) in steps that grow while they lie near each other, and small objects whole.
//! Every answer is compared with the version that was opened ([`super::version`]). A store that
//! keeps versions is asked for this one by its id, which the first answer has. Used by
//! [`super::store`], which gives the same object to all that open the same version.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::OnceCell;

use super::asking::{cached_name, is_timeout};
use super::body::Body;
use super::cached_file::{BLOCK, CachedName};
use super::client::runtime;
use super::piece::{AskedAs, ObjectPiece, PieceOwner};
use super::shared::Shared;
use super::steps::Steps;
use super::transport::{ObjectQuestion, Question, WHOLE_MOST};
use super::version::ObjectVersion;
use crate::error::{Error, Fault, Result};
use crate::memory::budget::Hold;
use crate::source::{Fetch, FileId, Source, SourceIdentity, Stat};
use crate::sync::Mutex;

/// Ranges with no more between them are asked for as one.
const GAP: u64 = 256 << 10;
/// Largest piece that is asked for at once.
const PIECE: u64 = 4 << 20;
/// What is read without memory for a piece is asked for in such parts.
const PART: u64 = 1 << 20;

pub(super) struct RemoteObject {
    me: Weak<RemoteObject>,
    pub(super) shared: Arc<Shared>,
    pub(super) key: String,
    /// In its store.
    path: PathBuf,
    pub(super) version: ObjectVersion,
    stat: Stat,
    /// In the cache on the disk.
    pub(super) cached_name: CachedName,
    /// The store has answered for it, as this process asks: what is on the disk may be read.
    pub(super) answered: OnceCell<()>,
    /// The version's id, once it is known.
    pub(super) id: Mutex<Option<String>>,
    /// Versions cannot be asked for by their ids.
    pub(super) id_is_refused: AtomicBool,
    /// It has been found to be another.
    has_changed: AtomicBool,
    pieces: Mutex<BTreeMap<u64, Arc<ObjectPiece>>>,
    steps: Mutex<Steps>,
}

/// Lands a piece in any case.
struct PieceLanding {
    object: Arc<RemoteObject>,
    piece: Arc<ObjectPiece>,
}

impl Drop for PieceLanding {
    fn drop(&mut self) {
        if !self.piece.has_landed() {
            let lost = Error::Bug("a request of a remote source came to no end".into());
            self.piece.land(Err(lost));
            self.object.remove(&self.piece);
        }
    }
}

impl RemoteObject {
    pub(super) fn new(
        shared: &Arc<Shared>,
        (key, path): (&str, &Path),
        (version, stat): (ObjectVersion, Stat),
    ) -> Arc<RemoteObject> {
        let cached_name = cached_name(&shared.transport.cloud.place(), key, &version);
        Arc::new_cyclic(|me| RemoteObject {
            cached_name,
            answered: OnceCell::new(),
            me: Weak::clone(me),
            shared: Arc::clone(shared),
            key: key.to_owned(),
            path: path.to_owned(),
            steps: Mutex::new(Steps::new(version.size)),
            version,
            stat,
            id: Mutex::default(),
            id_is_refused: AtomicBool::new(false),
            has_changed: AtomicBool::new(false),
            pieces: Mutex::default(),
        })
    }

    pub(super) fn version(&self) -> &ObjectVersion {
        &self.version
    }

    /// Whether an answer was of another version.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed.load(Ordering::Acquire)
    }

    pub(super) fn name(&self) -> String {
        let question = ObjectQuestion {
            key: &self.key,
            version: None,
            if_match: None,
            range: None,
        };
        self.shared.transport.name(&Question::Object(question))
    }

    pub(super) fn changed(&self) -> Error {
        self.has_changed.store(true, Ordering::Release);
        if let Some(directory) = self.path.parent() {
            let mut outdated = self.shared.outdated.lock();
            outdated.insert(directory.to_owned());
        }
        Error::Changed {
            path: self.name().into(),
        }
    }

    fn check(&self, offset: u64, len: usize) -> Result<Range<u64>> {
        let end = offset.checked_add(len as u64);
        match end.filter(|end| *end <= self.version.size) {
            Some(end) => Ok(offset..end),
            None => {
                let fault = Fault::new("bytes behind the end of the file");
                let fault = fault.bytes(offset..offset.saturating_add(len as u64));
                Err(fault.expected(self.version.size).file(&self.name()).into())
            }
        }
    }

    /// Asks for what is missing of ranges, which are in order and apart; nothing is waited for.
    fn order(&self, ranges: &[Range<u64>], asked_as: AskedAs) {
        for range in ranges {
            for missing in self.missing(&self.whole_blocks(range)) {
                // Even ones: a little at the end would be a request as well.
                let len = missing.end - missing.start;
                let step = len.div_ceil(len.div_ceil(PIECE).max(1)).max(1);
                let step = step.next_multiple_of(BLOCK);
                let mut at = missing.start;
                while at < missing.end {
                    let end = missing.end.min(at.saturating_add(step));
                    if !self.order_piece(at..end, asked_as) {
                        return;
                    }
                    at = end;
                }
            }
        }
    }

    /// What the cache on the disk keeps of a range.
    fn whole_blocks(&self, range: &Range<u64>) -> Range<u64> {
        match self.shared.disk {
            Some(_) => {
                let end = range.end.next_multiple_of(BLOCK).min(self.version.size);
                range.start - range.start % BLOCK..end
            }
            None => range.clone(),
        }
    }

    fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let pieces = self.pieces.lock();
        let (mut missing, mut at) = (Vec::new(), range.start);
        let before = pieces.range(..range.start).next_back();
        let within = pieces.range(range.clone());
        for (_, piece) in before.into_iter().chain(within) {
            if piece.range.start > at {
                missing.push(at..piece.range.start.min(range.end));
            }
            at = at.max(piece.range.end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }

    /// False if there is no memory for it.
    fn order_piece(&self, range: Range<u64>, asked_as: AskedAs) -> bool {
        let Some(hold) = self.shared.memory.reserve(range.end - range.start) else {
            return false;
        };
        let (Ok(runtime), Some(me)) = (runtime(), self.me.upgrade()) else {
            return false;
        };
        let piece = ObjectPiece::asked(range.clone(), asked_as);
        let mut pieces = self.pieces.lock();
        let before = pieces.range(..range.end).next_back();
        // Another thread may have asked for it meanwhile.
        if before.is_some_and(|(_, piece)| piece.range.end > range.start) {
            return true;
        }
        pieces.insert(range.start, Arc::clone(&piece));
        drop(pieces);
        let owner = Weak::clone(&self.me);
        self.shared.memory.add(owner, &piece);
        let landing = PieceLanding { object: me, piece };
        runtime.spawn(async move {
            let asked = landing.object.ask(range).await;
            landing.object.land(&landing.piece, asked, hold);
        });
        true
    }

    fn land(&self, piece: &Arc<ObjectPiece>, asked: Result<Arc<Body>>, hold: Hold) {
        if asked.is_err() {
            // Whoever asks again is not answered by this failure.
            self.remove(piece);
        }
        piece.land(asked.map(|bytes| (bytes, hold)));
    }

    fn remove(&self, piece: &Arc<ObjectPiece>) {
        let mut pieces = self.pieces.lock();
        let known = pieces.get(&piece.range.start);
        if known.is_some_and(|known| Arc::ptr_eq(known, piece)) {
            pieces.remove(&piece.range.start);
        }
    }

    fn piece_at(&self, at: u64) -> Option<Arc<ObjectPiece>> {
        let pieces = self.pieces.lock();
        let (_, piece) = pieces.range(..=at).next_back()?;
        (piece.range.end > at).then(|| Arc::clone(piece))
    }

    /// Fills `out` from pieces, and by requests of its own where there are none.
    fn fill(&self, mut at: u64, mut out: &mut [u8]) -> Result<()> {
        while !out.is_empty() {
            let piece = self.piece_at(at);
            let was_there = piece.as_ref().is_some_and(|piece| piece.has_landed());
            let copied = match &piece {
                Some(piece) => match piece.copy(at, out) {
                    // Who asked ahead may have failed alone, but has waited long enough.
                    Err(e) if piece.asked_as != AskedAs::Needed && !is_timeout(&e) => None,
                    copied => Some(copied?).filter(|n| *n > 0),
                },
                None => None,
            };
            if let Some(read) = piece.filter(|piece| piece.is_read()) {
                self.shared.memory.note_read(self.me.clone(), &read);
            }
            let n = match copied {
                Some(n) => n,
                None => self.fill_alone(at, out)?,
            };
            self.shared.served.add(n, was_there);
            at = at.saturating_add(n as u64);
            out = &mut out[n..];
        }
        Ok(())
    }

    fn fill_alone(&self, at: u64, out: &mut [u8]) -> Result<usize> {
        let end = at.saturating_add((out.len() as u64).min(PART));
        let me = self.me.upgrade();
        let me = me.ok_or_else(|| Error::Bug("an object that is read has gone".into()))?;
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        runtime()?.spawn(async move {
            // Who waits may have been ended.
            let _ = tell.send(me.ask(at..end).await);
        });
        let ended = |_| Error::Bug("a request of a remote source came to no end".into());
        let bytes = told.recv().map_err(ended)??;
        let n = bytes.len().min(out.len());
        out[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }

    /// Asks for what is about to be read and was not expected, and for what lies near it.
    fn widen(&self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let is_missing = !self.missing(range).is_empty();
        let wanted = match is_missing {
            true if self.version.size <= WHOLE_MOST => Some(0..self.version.size),
            _ => self.steps.lock().next(range, is_missing),
        };
        if let Some(wanted) = wanted {
            // A little more comes with it; what is much longer would be waited for.
            let comes_along = is_missing && wanted.end - wanted.start <= PART;
            if is_missing && !comes_along {
                self.order(std::slice::from_ref(range), AskedAs::Needed);
            }
            let asked_as = match comes_along {
                true => AskedAs::Needed,
                false => AskedAs::Near,
            };
            self.order(&[wanted], asked_as);
        }
    }
}

impl PieceOwner for RemoteObject {
    fn let_go(&self, piece: &Arc<ObjectPiece>) {
        self.remove(piece);
    }
}

impl Source for RemoteObject {
    fn len(&self) -> u64 {
        self.version.size
    }

    fn identity(&self) -> SourceIdentity {
        self.version.identity()
    }

    fn id(&self) -> FileId {
        self.stat.id
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.stat.clone())
    }

    fn is_far(&self) -> bool {
        true
    }

    fn kept(&self, what: &str) -> Option<Vec<u8>> {
        self.kept_finding(what)
    }

    fn keep(&self, what: &str, found: &[u8]) {
        self.keep_finding(what, found);
    }

    fn expect(&self, ranges: &[Range<u64>]) {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let range = range.start..range.end.min(self.version.size);
            match joined.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(GAP) => {
                    last.end = last.end.max(range.end);
                }
                _ if range.start < range.end => joined.push(range),
                _ => {}
            }
        }
        self.order(&joined, AskedAs::Expected);
    }

    fn fetch(&self, ranges: &mut [Fetch<'_>]) -> Result<()> {
        for range in &*ranges {
            let range = self.check(range.offset, range.buf.len())?;
            self.widen(&range);
        }
        for range in ranges {
            self.fill(range.offset, range.buf)?;
        }
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let left = self.version.size.saturating_sub(offset);
        let n = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        if n > 0 {
            self.fetch_one(offset, &mut buf[..n])?;
        }
        Ok(n)
    }
}
