//! Which values of a container's texts have line feeds of their own, as far as the texts may be
//! read for it.
//!
//! That takes as long as reading all text of the container, so only who reads the description waits
//! for it ([`TextsToRead::All`]). Used by [`super`].

use std::cell::Cell;
use std::sync::Arc;

use crate::array::Info;
use crate::array::dtype::Dtype;
use crate::array::own_feeds::OwnFeeds;
use crate::container::inside::Located;
use crate::error::{Error, Result};

/// Shown bytes of texts in a container of which a few are read.
const FEW: u64 = 16 << 20;

/// What of the texts may be read to tell which values have line feeds of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextsToRead {
    All,
    /// The first ones, up to [`FEW`] bytes in all: for those who look at many containers, or only
    /// ask how long a description is.
    Few,
}

/// What has been told of a container.
#[derive(Debug, Clone)]
pub struct ToldText<T> {
    pub text: T,
    /// Nothing is left out for want of reading texts.
    pub is_whole: bool,
}

impl<T> ToldText<T> {
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> ToldText<U> {
        ToldText {
            text: map(self.text),
            is_whole: self.is_whole,
        }
    }
}

/// What is told of an array beside what is said of it: how it is shown, and which of its values
/// have line feeds.
pub(super) type ToldArray = (Info, Arc<[OwnFeeds]>);

/// The texts of a container, one after the other.
pub(super) struct TextsLookedInto {
    /// Bytes that may still be read.
    left: Cell<u64>,
    is_whole: Cell<bool>,
}

impl TextsLookedInto {
    pub(super) fn new(read: TextsToRead) -> Self {
        let left = match read {
            TextsToRead::All => u64::MAX,
            TextsToRead::Few => FEW,
        };
        TextsLookedInto {
            left: Cell::new(left),
            is_whole: Cell::new(true),
        }
    }

    /// As it is stored. What is damaged has no line feeds to tell of; what cannot be read now may
    /// have.
    pub(super) fn told_of(&self, located: &Located) -> Result<ToldArray> {
        let info = located.array.info()?;
        let feeds = match info.dtype {
            Dtype::Text => match located.array.own_feeds(self.left.get()) {
                Err(Error::Fault(_) | Error::NotShown(_)) => Some(Arc::default()),
                feeds => feeds?,
            },
            _ => return Ok((info, Arc::default())),
        };
        self.left.set(self.left.get().saturating_sub(info.bytes));
        self.is_whole.set(self.is_whole.get() && feeds.is_some());
        Ok((info, feeds.unwrap_or_default()))
    }
    /// Of all that was told of it is known which values have line feeds.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.get()
    }
}
