//! A dataset that can be written: which lengths it may get, and how its changes reach the file.
//!
//! Lengths change by whole slices of the first dimension, of chunked datasets alone, up to what the
//! dataset's space allows. Shown bytes are little-endian and packed; stored ones are as the element
//! says. Used by [`super`].

use std::sync::Arc;

use super::chunks::ChunkedPlace;
use super::edit_recipe::EditRecipe;
use super::values;
use crate::array::dtype::Dtype;
use crate::array::grid::product;
use crate::array::stored_run::StoredRun;
use crate::array::{Array, Info};
use crate::container::hdf5::dataset::DatasetArray;
use crate::container::hdf5::edit::EditStep;
use crate::container::hdf5::element::Element;
use crate::container::hdf5::index::{DatasetEntry, StorageLayout, UNLIMITED};
use crate::container::writable::{Amount, ChangedArray};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::fallible;
use crate::source::switched::SwitchedSource;

/// libhdf5 looks at every chunk of the grid that is cut off, stored or not.
const CUT_MOST: u64 = 10_000_000;

#[derive(Clone)]
pub(crate) struct WrittenDataset {
    pub(super) array: Arc<DatasetArray>,
    /// What the array is read through, if the dataset can live on through commits.
    pub(super) own: Option<Arc<SwitchedSource>>,
    pub(super) token: u64,
    pub(super) dims: Vec<u64>,
    pub(super) element: Element,
    /// As it is stored; none for zeros.
    pub(super) fill: Option<Vec<u8>>,
    pub(super) place: WrittenPlace,
    /// Its length may change, as far as its place lets it: no descriptor says how long it is.
    is_free: bool,
    /// As shown, and those of a slice: of one place along the first dimension.
    pub(super) bytes: u64,
    slice: u64,
}

#[derive(Clone)]
pub(super) enum WrittenPlace {
    /// None: it has no place yet.
    Contiguous {
        address: Option<u64>,
    },
    Compact,
    Chunked(Arc<ChunkedPlace>),
}

impl WrittenDataset {
    /// None for what is not written: values elsewhere or of no known layout.
    pub(crate) fn of(
        array: &Arc<DatasetArray>,
        dataset: &DatasetEntry,
        is_free: bool,
    ) -> Option<WrittenDataset> {
        let element = Element::of(&dataset.element).ok()?;
        let dims = dataset.dims.clone()?;
        let bytes = product(&dims, element.shown)?;
        let place = match &dataset.layout {
            StorageLayout::Contiguous { address } => WrittenPlace::Contiguous {
                address: address.filter(|_| dataset.stored_bytes > 0),
            },
            StorageLayout::Compact(_) => WrittenPlace::Compact,
            StorageLayout::Chunked { .. } => {
                WrittenPlace::Chunked(Arc::new(ChunkedPlace::of(dataset, &element)?))
            }
            StorageLayout::Texts(..)
            | StorageLayout::External(_)
            | StorageLayout::Virtual(_)
            | StorageLayout::Unknown(_) => return None,
        };
        let fill = dataset.fill.as_deref();
        let fill = fill.filter(|fill| fill.iter().any(|&byte| byte != 0));
        let fill = fill.map(|fill| fallible::copy(fill, "cannot hold a fill value"));
        Some(WrittenDataset {
            array: Arc::clone(array),
            own: None,
            token: dataset.token,
            slice: product(dims.get(1..).unwrap_or_default(), element.shown)?,
            dims,
            fill: fill.transpose().ok()?,
            place,
            is_free,
            bytes,
            element,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.array.name()
    }

    /// Whether no descriptor says how long it is that stays as it is.
    pub(crate) fn is_free(&self) -> bool {
        self.is_free
    }

    /// This dataset, which has its length for good if that `is_kept`.
    pub(crate) fn kept_if(self, is_kept: bool) -> WrittenDataset {
        let is_free = self.is_free && !is_kept;
        WrittenDataset { is_free, ..self }
    }

    /// This dataset, whose array is read through a source of its own, if there is one.
    pub(crate) fn read_through(self, own: Option<Arc<SwitchedSource>>) -> WrittenDataset {
        WrittenDataset { own, ..self }
    }

    /// This dataset with other values, which are this array.
    pub(super) fn of_array(&self, array: Arc<DatasetArray>) -> WrittenDataset {
        WrittenDataset {
            array,
            ..self.clone()
        }
    }

    /// Most bytes that it may have.
    fn most(&self) -> u64 {
        match &self.place {
            WrittenPlace::Chunked(place) if place.first_most == UNLIMITED => i64::MAX as u64,
            WrittenPlace::Chunked(place) if !self.dims.is_empty() => {
                let most = place.first_most.saturating_mul(self.slice);
                most.clamp(self.bytes, i64::MAX as u64)
            }
            _ => self.bytes,
        }
    }

    /// Whether its length may change at all.
    fn has_lengths(&self) -> bool {
        let has_slices = self.slice > 0 && !self.dims.is_empty();
        self.is_free && matches!(self.place, WrittenPlace::Chunked(_)) && has_slices
    }

    /// Refuses bytes behind what it may have.
    pub(super) fn reaches(&self, end: u64) -> Result<()> {
        let most = if self.has_lengths() {
            self.most()
        } else {
            self.bytes
        };
        match end > most {
            true => Err(Error::Invalid(format!(
                "{} has at most {most} bytes",
                self.name()
            ))),
            false => Ok(()),
        }
    }

    /// Whether it may get this length, on the way to another one or not.
    pub(super) fn takes_length(&self, len: u64) -> Result<()> {
        self.reaches(len)?;
        if len == 0 || len == self.bytes {
            return Ok(());
        }
        let name = self.name();
        if !self.has_lengths() {
            let why = format!("{name} has {} bytes for good", self.bytes);
            return Err(Error::Invalid(why));
        }
        if let WrittenPlace::Chunked(place) = &self.place
            && place.cut_chunks(self, self.dims_at(len)) > CUT_MOST
        {
            let why = format!("{name}: more than {CUT_MOST} chunks of the grid would be cut off");
            return Err(Error::Invalid(why));
        }
        Ok(())
    }

    /// Its dimensions at a length.
    pub(super) fn dims_at(&self, len: u64) -> Vec<u64> {
        let mut dims = self.dims.clone();
        if let (true, Some(first)) = (self.has_lengths(), dims.first_mut()) {
            *first = len / self.slice;
        }
        dims
    }

    /// Why it cannot be stored at this length.
    pub(super) fn objection(&self, len: u64) -> Option<String> {
        let (name, bytes) = (self.name(), self.bytes);
        if !self.has_lengths() {
            return (len != bytes).then(|| format!("{name} has {len} of its {bytes} bytes"));
        }
        if !len.is_multiple_of(self.slice) {
            let why = format!("{name} ends within a slice of {} bytes", self.slice);
            return Some(why);
        }
        let WrittenPlace::Chunked(place) = &self.place else {
            return None;
        };
        let cut = place.cut_chunks(self, self.dims_at(len));
        (cut > CUT_MOST).then(|| format!("{name}: {cut} chunks of the grid would be cut off"))
    }

    pub(super) fn info(&self, len: u64) -> Result<Info> {
        let stored = self.array.info()?;
        if len == stored.bytes {
            return Ok(stored);
        }
        if self.objection(len).is_none() {
            let shape = [&self.dims_at(len)[..], &self.element.dims].concat();
            return Ok(Info {
                shape,
                bytes: len,
                ..stored
            });
        }
        // Shown as bytes, until it has whole slices again.
        Ok(Info {
            dtype: Dtype::U8,
            shape: vec![len],
            bytes: len,
            ..stored
        })
    }

    pub(super) fn add_amount(&self, change: &ChangedArray, amount: &mut Amount) -> Result<()> {
        match &self.place {
            WrittenPlace::Chunked(place) => place.add_amount(self, change, amount),
            WrittenPlace::Contiguous { address } => {
                values::add_amount(self, address.is_some(), change, amount);
                Ok(())
            }
            WrittenPlace::Compact => {
                values::add_amount(self, true, change, amount);
                Ok(())
            }
        }
    }

    /// Has the dataset get the dimensions of a length.
    pub(super) fn set_extent(&self, len: u64, recipe: &mut EditRecipe<'_, '_>) -> Result<()> {
        let dims = self.dims_at(len);
        if dims == self.dims {
            return Ok(());
        }
        if let WrittenPlace::Chunked(place) = &self.place {
            place.free_cut(self, &dims, recipe)?;
        }
        let token = self.token;
        recipe.step(&EditStep::Extent { token, dims }).map(|_| ())
    }

    /// Puts what has changed into the file.
    pub(super) fn put(
        &self,
        change: &ChangedArray,
        budget: &Arc<Budget>,
        recipe: &mut EditRecipe<'_, '_>,
    ) -> Result<()> {
        match &self.place {
            WrittenPlace::Contiguous { address } => {
                values::put_contiguous(self, *address, change, (budget, recipe))
            }
            WrittenPlace::Compact => values::put_compact(self, change, (budget, recipe)),
            WrittenPlace::Chunked(place) => place.put(self, change, (budget, recipe)),
        }
    }

    /// Where it lies, if it lies in one piece as it is shown.
    pub(super) fn run(&self) -> Option<StoredRun> {
        let WrittenPlace::Contiguous { address } = self.place else {
            return None;
        };
        let is_same = self.element.cast.is_same() && !self.element.refuses();
        Some(StoredRun {
            begin: address.filter(|_| is_same)?,
            len: self.bytes,
            turned: 1,
        })
    }

    /// Why chunks that change skip their filters, if they do.
    pub(super) fn unfiltered(&self) -> Option<&str> {
        match &self.place {
            WrittenPlace::Chunked(place) => place.unfiltered(),
            _ => None,
        }
    }

    /// Whether every shown element is one stored element, and can be stored.
    pub(super) fn is_lossless(&self) -> bool {
        self.element.cast.is_lossless() && !self.element.refuses()
    }

    /// Makes stored elements of shown ones, over what was stored. `at`: where they are shown. Where
    /// nobody wrote something else, what is stored keeps every bit, and may be what nobody can
    /// write.
    pub(super) fn store(&self, at: u64, shown: &[u8], stored: &mut [u8]) -> Result<()> {
        let refused = |element: u64| {
            let (name, element) = (self.name(), at / self.element.shown + element);
            Error::Invalid(format!(
                "{name}: element {element} is none that the dataset can hold"
            ))
        };
        if self.is_lossless() {
            return self.element.store(shown, stored).map_err(refused);
        }
        let (to, from) = (self.element.shown as usize, self.element.stored as usize);
        let mut before = fallible::zeros(to as u64, "cannot store elements")?;
        let pairs = shown.chunks_exact(to).zip(stored.chunks_exact_mut(from));
        for (number, (shown, stored)) in (0..).zip(pairs) {
            self.element.cast.run(stored, &mut before);
            if before != shown {
                let done = self.element.store(shown, stored);
                done.map_err(|_| refused(number))?;
            }
        }
        Ok(())
    }

    /// An element as it is shown where nothing was written; none: zeros.
    pub(super) fn shown_fill(&self) -> Option<Vec<u8>> {
        let fill = self.fill.as_ref()?;
        let mut shown = vec![0; usize::try_from(self.element.shown).ok()?];
        self.element.cast.run(fill, &mut shown);
        Some(shown)
    }

    /// An element as it is stored where nothing was written.
    pub(super) fn put_fill(&self, out: &mut [u8]) {
        match &self.fill {
            None => out.fill(0),
            Some(fill) => {
                for (byte, fill) in out.iter_mut().zip(fill.iter().cycle()) {
                    *byte = *fill;
                }
            }
        }
    }
}
