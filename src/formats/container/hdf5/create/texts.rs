//! Lines of text as strings of variable length: read once to count them, once to hand them over.
//!
//! Text of one value is that value. Where values have line feeds of their own, the description says
//! how many each has (`line_feeds`); without that nobody could tell which line is which. Used by
//! [`super::objects`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::dataset::count;
use super::maker::{IfRefused, Maker};
use crate::array::Array;
use crate::array::uncached::PartReader;
use crate::container::creation::GivenArray;
use crate::container::hdf5::made::{MadeDataset, MakeStep};
use crate::container::hdf5::text_lines::{self, Line, MOST, TextBatch, TextValues};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

/// How lines make up values.
struct LinesOfValues {
    values: TextValues,
    /// Line feeds of values that have some of their own, by their numbers.
    feeds: BTreeMap<u64, u64>,
    budget: Arc<Budget>,
}

/// Hands the lines over to their dataset, which has been made. What lies behind the last line feed
/// is one, too.
pub(super) fn put(
    array: &Arc<dyn Array>,
    described: Option<&GivenArray>,
    dataset: &MadeDataset,
    maker: &mut Maker<'_>,
) -> Result<()> {
    let (name, bytes) = (array.name(), array.info()?.bytes);
    // A sparse file may claim any size, and would be read to its end.
    if bytes > MOST {
        let mebibytes = MOST >> 20;
        let why = format!("{name}: more than {mebibytes} MiB of text in lines of any length");
        return Err(Error::Invalid(why));
    }
    let budget = Arc::clone(maker.budget());
    let elements = count(dataset.dims.as_deref().unwrap_or(&[0]));
    let split = LinesOfValues::of(array, described, elements, &budget)?;
    let mut send = |runs, texts: Vec<u8>| {
        let bytes = texts.len();
        let path = dataset.path.clone();
        let step = MakeStep::Texts { path, runs, texts };
        maker.add(step, (name.to_owned(), IfRefused::Ends), bytes)
    };
    let mut batch = TextBatch::new(name, &mut send);
    let mut reader = text_lines::reader(&**array, bytes, &budget)?;
    let mut line = Line::new(&budget)?;
    for number in 0..elements {
        if split.next(number, &mut reader, &mut line)? {
            batch.put(number, &line)?;
        }
    }
    batch.end()
}

impl LinesOfValues {
    fn of(
        array: &Arc<dyn Array>,
        described: Option<&GivenArray>,
        elements: u64,
        budget: &Arc<Budget>,
    ) -> Result<LinesOfValues> {
        let (name, bytes) = (array.name(), array.info()?.bytes);
        let values = match elements {
            1 => TextValues::One,
            _ => TextValues::Lines,
        };
        let found = values.count(&**array, bytes, budget)?;
        let feeds = match found == elements {
            true => BTreeMap::new(),
            false => told_feeds(described, elements),
        };
        let own = feeds
            .values()
            .fold(0u64, |n, feeds| n.saturating_add(*feeds));
        if found != elements.saturating_add(own) {
            let why = format!("{name} has {found} lines for {elements} texts");
            return Err(Error::Invalid(why));
        }
        Ok(LinesOfValues {
            values,
            feeds,
            budget: Arc::clone(budget),
        })
    }

    /// Puts the value of this number into `line`; says whether there is one.
    fn next(&self, number: u64, reader: &mut PartReader<'_>, line: &mut Line) -> Result<bool> {
        let some = self.values.read(reader, line)?;
        let feeds = self.feeds.get(&number).copied().unwrap_or(0);
        let mut more = None;
        for _ in 0..feeds {
            let next = match &mut more {
                Some(next) => next,
                none => none.insert(Line::new(&self.budget)?),
            };
            next.read(reader)?;
            line.join(next)?;
        }
        Ok(some)
    }
}

/// The values with line feeds of their own that a description tells of.
fn told_feeds(described: Option<&GivenArray>, elements: u64) -> BTreeMap<u64, u64> {
    let told = described.and_then(|array| array.more.get("line_feeds")?.as_array());
    let pair = |told: &Value| Some((told[0].as_u64()?, told[1].as_u64()?));
    let told = told.into_iter().flatten().filter_map(pair);
    told.filter(|(number, _)| *number < elements).collect()
}
