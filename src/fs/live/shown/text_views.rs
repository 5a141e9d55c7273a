//! `views/<array>.npy` of text: all values at one width, as NumPy has them.
//!
//! How wide they are is known when all of the text has been read once, so the size of such a view
//! is found out when it is first asked for and remembered with the version; nothing but a question
//! for that one view reads the text ([`TextViewer::is_unmeasured`]). The bytes are put together
//! when the view is opened, and are there, charged, as long as somebody has it open: at most
//! [`MOST`](crate::array::fixed_text::MOST). With staged changes a view is as the text was when it
//! was opened, like every text that follows from arrays. Text too large for this, or for the
//! memory that may be kept when its size is found out, is shown as its bytes, like any other array:
//! its size and what is opened agree. Used by `entry` and `restated`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::entry_table::{ArrayNumber, EntryIndex};
use super::open_container::OpenContainer;
use super::open_entry::{OpenContent, OpenEntry};
use super::restated::Restating;
use crate::array::fixed_text::{FixedText, TextDemand, TextForm, TextParts, ValueEnds};
use crate::array::read::{CachedArray, Tail};
use crate::array::{Array, Info, npy};
use crate::container::writable::ComputedBytes;
use crate::error::{Error, Fault, Result};
use crate::live::ground::Ground;
use crate::live::version::ContainerVersion;
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;
use crate::sync::Mutex;

/// Bytes of text that are read at once.
const STEP: u64 = 256 << 10;

/// What is remembered of a view, about, in bytes.
const REMEMBERED: u64 = 256;

/// Lengths of values that are charged at once.
const LENGTHS: usize = 64 << 10;

/// Of a version: how its texts are shown.
#[derive(Default)]
pub(crate) struct TextViews(Mutex<HashMap<ArrayNumber, KnownView>>);

struct KnownView {
    /// What of the text it says ([`edition_of`]).
    edition: u64,
    form: TextForm,
    /// If somebody has it open.
    made: Weak<MadeView>,
    /// Held by who puts the bytes together: others that open it meanwhile wait and share them.
    making: Arc<Mutex<()>>,
    _charge: Hold,
}

/// The bytes of a view.
pub(crate) struct MadeView {
    bytes: Vec<u8>,
    _charge: Hold,
}

impl MadeView {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A text with what tells its values apart.
struct ShownText<'a> {
    info: Info,
    parts: &'a dyn TextParts,
    /// Knows how long values are that have line feeds of their own.
    array: Option<&'a dyn Array>,
    budget: &'a Arc<Budget>,
}

/// What happens when more memory is needed than may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Refused,
    Taken,
}

/// An array that is read through the cache.
struct CachedText<'a>(&'a CachedArray);

/// A text that has been computed.
struct ComputedText<'a>(&'a [u8]);

impl TextParts for CachedText<'_> {
    fn each(&self, visit: &mut dyn FnMut(&[u8]) -> Result<TextDemand>) -> Result<()> {
        let CachedText(array) = self;
        let bytes = array.len_now();
        for at in (0..bytes).step_by(STEP as usize) {
            let len = STEP.min(bytes - at) as usize;
            let read = array.read(at, len, Tail::Whole, |part| visit(part?));
            if read? == TextDemand::Ends {
                break;
            }
        }
        Ok(())
    }
}

impl TextParts for ComputedText<'_> {
    fn each(&self, visit: &mut dyn FnMut(&[u8]) -> Result<TextDemand>) -> Result<()> {
        visit(self.0).map(drop)
    }
}

impl ShownText<'_> {
    fn form(&self) -> Result<TextForm> {
        if !TextForm::may_be_fixed(&self.info) {
            return Ok(TextForm::Bytes);
        }
        if let Some(form) = TextForm::of(&self.info, self.parts, &ValueEnds::Feeds)? {
            return Ok(form);
        }
        match self.lengths(Beyond::Refused) {
            Ok(Some((ends, _charge))) => {
                let form = TextForm::of(&self.info, self.parts, &ends)?;
                Ok(form.unwrap_or(TextForm::Bytes))
            }
            // Text that is staged is its lines.
            Ok(None) => TextForm::of_lines(self.parts),
            Err(e) if is_no_memory(&e) => Ok(TextForm::Bytes),
            Err(e) => Err(e),
        }
    }

    /// The form that a view can be opened in: its bytes, if those at one width could not be kept.
    fn kept_form(&self) -> Result<TextForm> {
        let form = self.form()?;
        if let TextForm::Fixed(fixed) = &form
            && self.budget.keep(view_bytes(fixed)).is_err()
        {
            let (needed, limit) = (
                view_bytes(fixed).div_ceil(1 << 20),
                self.budget.limit() >> 20,
            );
            log::warn!(
                "a text array is shown as its bytes: at one width it takes {needed} MiB, which \
                 cache={limit}M has no room for (cache={}M would do)",
                needed.saturating_mul(2).max(limit.saturating_mul(2))
            );
            return Ok(TextForm::Bytes);
        }
        Ok(form)
    }

    /// Room for what is needed to open a view. Its size has been told, so it is opened even if
    /// others have taken by now what might have been kept: then it is charged no more.
    fn hold_beyond(&self, bytes: u64) -> Hold {
        self.budget.keep(bytes).unwrap_or_else(|_| {
            let mebibytes = bytes.div_ceil(1 << 20);
            log::warn!("a view of text takes {mebibytes} MiB beyond the memory given by cache=");
            self.budget.keep_built(0)
        })
    }

    /// The lengths of all values; none if nobody knows them.
    fn lengths(&self, beyond: Beyond) -> Result<Option<(ValueEnds, Hold)>> {
        match self.lengths_by_array(beyond)? {
            None if self.is_one_value() => {
                let lengths = ValueEnds::Lengths(vec![self.only_length()?]);
                Ok(Some((lengths, self.budget.keep_built(0))))
            }
            known => Ok(known),
        }
    }

    /// Whether it has room for one value alone, which it is, then, whatever its lines.
    fn is_one_value(&self) -> bool {
        self.info.bytes > 0 && self.info.shape.iter().all(|dim| *dim == 1)
    }

    /// Bytes of the only value, without the line feed at its end.
    fn only_length(&self) -> Result<u32> {
        let (mut bytes, mut last) = (0u64, None);
        self.parts.each(&mut |part| {
            bytes = bytes.saturating_add(part.len() as u64);
            last = part.last().copied().or(last);
            Ok(TextDemand::GoesOn)
        })?;
        let len = bytes.saturating_sub(u64::from(last == Some(b'\n')));
        let too_long = |_| Fault::new("a string is too long").found(len).into();
        u32::try_from(len).map_err(too_long)
    }

    fn lengths_by_array(&self, beyond: Beyond) -> Result<Option<(ValueEnds, Hold)>> {
        let Some(array) = self.array else {
            return Ok(None);
        };
        let (mut lengths, mut charge) = (Vec::new(), self.budget.keep_built(0));
        let are_known = array.value_lengths(&mut |len| {
            if lengths.len() == lengths.capacity() {
                let more = lengths.len().max(LENGTHS);
                match charge.keep_more((more as u64).saturating_mul(4)) {
                    Err(e) if beyond == Beyond::Refused => return Err(e),
                    _ => {}
                }
                let reserved = lengths.try_reserve_exact(more);
                reserved.map_err(|_| crate::memory::no_memory("cannot show text"))?;
            }
            let too_long = || Fault::new("a string is too long").found(len);
            lengths.push(u32::try_from(len).map_err(|_| too_long())?);
            Ok(())
        })?;
        Ok(are_known.then_some((ValueEnds::Lengths(lengths), charge)))
    }

    /// The view of a text of this form.
    fn view(&self, form: &FixedText) -> Result<MadeView> {
        let header = npy::text_header(form);
        let len = view_bytes(form);
        let charge = self.hold_beyond(len);
        let mut bytes = fallible::zeros(len, "cannot open a view")?;
        let (before, values) = bytes.split_at_mut(header.len());
        before.copy_from_slice(&header);
        match form.lines_are_values {
            true => form.fill(self.parts, &ValueEnds::Feeds, values)?,
            false => {
                let unknown = || Error::Bug("text without lengths of its values".into());
                let (ends, _charge) = self.lengths(Beyond::Taken)?.ok_or_else(unknown)?;
                form.fill(self.parts, &ends, values)?;
            }
        }
        Ok(MadeView {
            bytes,
            _charge: charge,
        })
    }
}

/// Measures views of text, and puts their bytes together.
pub(crate) struct TextViewer {
    pub(crate) ground: Arc<Ground>,
    pub(crate) restating: Arc<Restating>,
}

impl TextViewer {
    /// Bytes of an entry that is a view of text; none if it is none, or shows its bytes. A text
    /// that is damaged has none, as it is with damaged arrays: opening it says why.
    pub(crate) fn size(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
        entry: EntryIndex,
    ) -> Result<Option<u64>> {
        let form = opened.text_viewed(entry).and_then(|viewed| match viewed {
            Some(number) => self.text_form(version, opened, number).map(Some),
            None => Ok(None),
        });
        match form {
            Ok(None | Some(TextForm::Bytes)) => Ok(None),
            Ok(Some(TextForm::Fixed(form))) => Ok(Some(view_bytes(&form))),
            Err(Error::Fault(_) | Error::NotShown(_)) => Ok(Some(0)),
            Err(e) => Err(e),
        }
    }

    /// Whether an entry is a view of text of which the size is not known yet.
    pub(crate) fn is_unmeasured(
        &self,
        version: &ContainerVersion,
        opened: &OpenContainer,
        entry: EntryIndex,
    ) -> bool {
        let Ok(Some(number)) = opened.text_viewed(entry) else {
            return false;
        };
        let may_be_fixed = |info| TextForm::may_be_fixed(&info);
        let edition = edition_of(version, opened, number);
        version.text_views.known(number, edition).is_none()
            && opened.info(number).is_ok_and(may_be_fixed)
    }

    /// Opens an entry that is a view of text; none if it is none, or shows its bytes.
    pub(crate) fn open(
        &self,
        version: &Arc<ContainerVersion>,
        opened: &Arc<OpenContainer>,
        entry: EntryIndex,
    ) -> Result<Option<OpenEntry>> {
        let Some(number) = opened.text_viewed(entry)? else {
            return Ok(None);
        };
        loop {
            let edition = edition_of(version, opened, number);
            match self.made_view(version, opened, number, edition) {
                // It is being written: its width may be another by now.
                Err(_) if edition != edition_of(version, opened, number) => {}
                made => {
                    let open = |view| {
                        let content = OpenContent::TextView(view);
                        OpenEntry::new(content, Arc::clone(opened))
                    };
                    return Ok(made?.map(open));
                }
            }
        }
    }

    /// The bytes of a text's view; none if it shows the text's own.
    fn made_view(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
        number: ArrayNumber,
        edition: u64,
    ) -> Result<Option<Arc<MadeView>>> {
        let TextForm::Fixed(form) = self.text_form(version, opened, number)? else {
            return Ok(None);
        };
        // Each that puts the bytes together by itself would take memory for them.
        let making = version.text_views.making(number, edition);
        let _alone = making.as_deref().map(Mutex::lock);
        if let Some(view) = version.text_views.made(number, edition) {
            return Ok(Some(view));
        }
        let view = self.with_text(version, opened, number, &|text| text.view(&form))?;
        let view = version
            .text_views
            .note_made(number, edition, Arc::new(view));
        Ok(Some(view))
    }

    fn text_form(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
        number: ArrayNumber,
    ) -> Result<TextForm> {
        let edition = edition_of(version, opened, number);
        if let Some(form) = version.text_views.known(number, edition) {
            return Ok(form);
        }
        let form = self.with_text(version, opened, number, &|text| text.kept_form())?;
        let charge = self.ground.budget().keep_built(REMEMBERED);
        version.text_views.note(number, edition, &form, charge);
        // Another thread may have found that it can be kept, or that it cannot, before.
        let known = version.text_views.known(number, edition);
        Ok(known.unwrap_or(form))
    }

    /// Runs `use_it` with a text as it is shown now.
    fn with_text<T>(
        &self,
        version: &ContainerVersion,
        opened: &Arc<OpenContainer>,
        number: ArrayNumber,
        use_it: &dyn Fn(&ShownText<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.ground.disk.is_none() || opened.writable().is_none() {
            let array = opened.cached_array(number, Arc::from([]), &self.ground.cache)?;
            return self.with_array(&array, use_it);
        }
        let writes = &version.writes;
        let computed = match writes.now() {
            Some(container) => {
                let computed = || container.computed(number, &self.ground.cache);
                writes.stored.while_it_stays(computed)?
            }
            None => None,
        };
        if let Some(ComputedBytes { bytes, hold: _hold }) = computed {
            let restated = self.restating.info(version, number)?;
            return use_it(&ShownText {
                info: restated.map_or_else(|| opened.info(number), Ok)?,
                parts: &ComputedText(&bytes),
                array: None,
                budget: self.ground.budget(),
            });
        }
        let shared = writes.share(number, opened, &self.ground.cache)?;
        loop {
            let (shown, used) = shared.read(|array, _unchanged| {
                let used = self.with_array(array, use_it);
                (Arc::clone(array), used)
            });
            match used {
                // A commit has put another file at the place of the old one.
                Err(Error::Changed { .. }) if shared.is_replaced(&shown) => {}
                used => return used.map_err(|e| shared.told(e)),
            }
        }
    }

    fn with_array<T>(
        &self,
        array: &CachedArray,
        use_it: &dyn Fn(&ShownText<'_>) -> Result<T>,
    ) -> Result<T> {
        let used = array.array.info().and_then(|info| {
            use_it(&ShownText {
                info,
                parts: &CachedText(array),
                array: Some(&*array.array),
                budget: self.ground.budget(),
            })
        });
        used.map_err(|e| array.locate(e))
    }
}

/// Bytes of a view, with its header.
fn view_bytes(form: &FixedText) -> u64 {
    let header = npy::text_header(form).len() as u64;
    form.bytes().saturating_add(header)
}

fn is_no_memory(e: &Error) -> bool {
    match e {
        Error::Io { cause, .. } => cause.raw_os_error() == Some(libc::ENOMEM),
        _ => false,
    }
}

/// Numbers the content of a text: 0 as long as nothing of this mount can have changed it.
fn edition_of(version: &ContainerVersion, opened: &OpenContainer, number: ArrayNumber) -> u64 {
    let Some(container) = version.writes.now() else {
        return 0;
    };
    let follows = !opened.permits(number) || opened.follows(number);
    match container.written(number) {
        None if !follows => 0,
        _ => version.writes.edition().saturating_add(1),
    }
}

impl TextViews {
    fn known(&self, number: ArrayNumber, edition: u64) -> Option<TextForm> {
        let views = self.0.lock();
        let view = views.get(&number).filter(|view| view.edition == edition);
        view.map(|view| view.form.clone())
    }

    fn note(&self, number: ArrayNumber, edition: u64, form: &TextForm, charge: Hold) {
        let mut views = self.0.lock();
        // Threads that measure the same text at the same time share what the first has noted.
        if views
            .get(&number)
            .is_some_and(|view| view.edition == edition)
        {
            return;
        }
        let view = KnownView {
            edition,
            form: form.clone(),
            made: Weak::new(),
            making: Arc::default(),
            _charge: charge,
        };
        let old = views.insert(number, view);
        drop(views);
        drop(old);
    }

    fn making(&self, number: ArrayNumber, edition: u64) -> Option<Arc<Mutex<()>>> {
        let views = self.0.lock();
        let view = views.get(&number).filter(|view| view.edition == edition)?;
        Some(Arc::clone(&view.making))
    }

    fn made(&self, number: ArrayNumber, edition: u64) -> Option<Arc<MadeView>> {
        let views = self.0.lock();
        let view = views.get(&number).filter(|view| view.edition == edition)?;
        view.made.upgrade()
    }

    /// The view that all are to share: another thread may have been faster.
    fn note_made(&self, number: ArrayNumber, edition: u64, made: Arc<MadeView>) -> Arc<MadeView> {
        let mut views = self.0.lock();
        let Some(view) = views
            .get_mut(&number)
            .filter(|view| view.edition == edition)
        else {
            return made;
        };
        match view.made.upgrade() {
            Some(first) => first,
            None => {
                view.made = Arc::downgrade(&made);
                made
            }
        }
    }
}
