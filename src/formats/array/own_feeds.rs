//! Line feeds that values of a text have of their own.
//!
//! A text is shown as a line for each value, so a value with line feeds is several lines, and who
//! copies the lines has lost where it ends. `arrays.json` tells how many each such value has. Only
//! an array that knows the lengths of its values can say that ([`Array::value_lengths`]). A text is
//! read from its first byte to its last for it, once, so who only looks at a container says how
//! much of it may be read ([`Array::own_feeds`]). Used by `container::hdf5`.

use std::sync::{Arc, OnceLock};

use super::uncached::PartReader;
use super::{Array, Info};
use crate::error::{Error, Fault, Result};
use crate::memory::budget::{Budget, Hold};
use crate::memory::fallible;
use crate::patience;

/// Shown bytes of a text that is looked into at most: of a longer one no copy can be made.
const MOST: u64 = 256 << 20;

/// Most values that are told of one text.
const VALUES_MOST: usize = 100_000;

/// Memory that each takes: in a list that may grow, and in the words of the `arrays.json` of its
/// container and of its group.
const EACH: u64 = 64;

/// Bytes that are read at once.
const STEP: u64 = 256 << 10;

/// After so many bytes it is asked whether who waits is still there.
const LOOKED_EACH: u64 = 64 << 20;

/// A value, and how many line feeds it has.
pub type OwnFeeds = (u64, u64);

/// What of a text is told, in the order of its values, with what it takes of the budget.
pub struct FoundFeeds {
    feeds: Arc<[OwnFeeds]>,
    _charge: Hold,
}

impl FoundFeeds {
    /// Of a text as it is; nothing of one that is too long, or has too many such values: its lines
    /// are more than its values then, and nobody says how many each has.
    pub fn of(array: &dyn Array, info: &Info, budget: &Arc<Budget>) -> Result<FoundFeeds> {
        let mut charge = budget.keep(0)?;
        let feeds = find(array, info, budget, &mut charge)?;
        Ok(FoundFeeds {
            feeds: feeds.into(),
            _charge: charge,
        })
    }

    /// Those of a text, found once; none if more than so many shown bytes had to be read to know.
    pub fn known(
        of: &OnceLock<FoundFeeds>,
        array: &dyn Array,
        most: u64,
        budget: &Arc<Budget>,
    ) -> Result<Option<Arc<[OwnFeeds]>>> {
        if let Some(known) = of.get() {
            return Ok(Some(known.feeds()));
        }
        let info = array.info()?;
        if info.bytes > most {
            return Ok(None);
        }
        let found = FoundFeeds::of(array, &info, budget)?;
        Ok(Some(of.get_or_init(|| found).feeds()))
    }

    pub fn feeds(&self) -> Arc<[OwnFeeds]> {
        Arc::clone(&self.feeds)
    }
}

fn find(
    array: &dyn Array,
    info: &Info,
    budget: &Arc<Budget>,
    charge: &mut Hold,
) -> Result<Vec<OwnFeeds>> {
    let product = info
        .shape
        .iter()
        .try_fold(1u64, |n, dim| n.checked_mul(*dim));
    let Some(values) = product.filter(|_| info.bytes <= MOST && info.bytes > 0) else {
        return Ok(Vec::new());
    };
    let mut reader = FeedReader {
        text: PartReader::new(array, info.bytes, STEP, |bytes| budget.keep(bytes))?,
        read: 0,
    };
    if reader.count(info.bytes)? == values {
        return Ok(Vec::new());
    }
    let (mut number, mut found, mut many) = (0, Vec::new(), false);
    reader.text.rewind();
    array.value_lengths(&mut |len| {
        let feeds = reader.count(len)?;
        // Its end.
        reader.count(1)?;
        many |= found.len() >= VALUES_MOST && feeds > 0;
        if feeds > 0 && !many {
            charge.keep_more(EACH)?;
            let doing = "cannot tell which values have line feeds";
            fallible::push(&mut found, (number, feeds), doing)?;
        }
        number += 1;
        Ok(())
    })?;
    found.truncate(if many { 0 } else { found.len() });
    Ok(found)
}

/// Counts line feeds from the first byte to the last.
struct FeedReader<'a> {
    text: PartReader<'a>,
    /// Since it was asked whether who waits is still there.
    read: u64,
}

impl FeedReader<'_> {
    /// Those among the next so many bytes.
    fn count(&mut self, mut bytes: u64) -> Result<u64> {
        let mut feeds = 0;
        while bytes > 0 {
            let part = self.text.ahead()?;
            let n = (part.len() as u64).min(bytes) as usize;
            if n == 0 {
                return Err(Fault::new("the values of a text are longer than the text").into());
            }
            feeds += memchr::memchr_iter(b'\n', &part[..n]).count() as u64;
            self.text.take(n);
            bytes -= n as u64;
            self.read += n as u64;
            if self.read >= LOOKED_EACH {
                self.read = 0;
                if patience::caller().has_gone() {
                    return Err(Error::Unwanted);
                }
            }
        }
        Ok(feeds)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::array::dtype::Dtype;
    use crate::array::{Order, Piece, direct_piece};

    /// Values of these lengths, which lie as they are shown.
    struct Values(Vec<u8>, Vec<u64>);

    impl Array for Values {
        fn name(&self) -> &str {
            "x"
        }

        fn info(&self) -> Result<Info> {
            Ok(Info {
                dtype: Dtype::Text,
                shape: vec![self.1.len() as u64],
                order: Order::C,
                bytes: self.0.len() as u64,
                stored_bytes: 0,
                blocks: 1,
                codec: "none".into(),
            })
        }

        fn value_lengths(&self, visit: &mut dyn FnMut(u64) -> Result<()>) -> Result<bool> {
            self.1.iter().try_for_each(|len| visit(*len))?;
            Ok(true)
        }

        fn pieces(&self, range: Range<u64>, out: &mut Vec<Piece>) -> Result<()> {
            direct_piece(range, out);
            Ok(())
        }

        fn read_direct(&self, at: u64, out: &mut [u8]) -> Result<()> {
            out.copy_from_slice(&self.0[at as usize..][..out.len()]);
            Ok(())
        }
    }

    fn of(values: &[&str]) -> Values {
        let text: String = values.iter().flat_map(|value| [value, "\n"]).collect();
        let lengths = values.iter().map(|value| value.len() as u64);
        Values(text.into(), lengths.collect())
    }

    fn found(values: &Values, budget: &Arc<Budget>) -> Result<FoundFeeds> {
        FoundFeeds::of(values, &values.info()?, budget)
    }

    #[test]
    fn values_with_line_feeds_are_found_and_charged() {
        let budget = Budget::new(8 << 20);
        let long = "line\n".repeat(100_000);
        let some = found(&of(&["a", "b\nc", &long, ""]), &budget).unwrap();
        assert_eq!(*some.feeds(), [(1, 1), (2, 100_000)]);
        assert_eq!(budget.kept(), 2 * EACH);
        drop(some);
        assert_eq!(budget.kept(), 0);
        assert!(found(&of(&["a", "b"]), &budget).unwrap().feeds().is_empty());
        let many = of(&vec!["\n"; VALUES_MOST + 1]);
        assert!(
            found(&many, &Budget::new(64 << 20))
                .unwrap()
                .feeds()
                .is_empty()
        );
        assert!(found(&many, &budget).is_err(), "no memory for that");
    }
}
