//! Lines of text as strings of variable length: read once to count them, once to hand them over.
//! Used by [`super::objects`].

use std::sync::Arc;

use super::dataset::count;
use super::maker::{IfRefused, Maker};
use crate::array::Array;
use crate::container::hdf5::made::{MadeDataset, MakeStep};
use crate::container::hdf5::text_lines::{self, Line, LineReader, MOST, TextBatch};
use crate::error::{Error, Result};

/// Hands the lines over to their dataset, which has been made. What lies behind the last line feed
/// is one, too.
pub(super) fn put(
    array: &Arc<dyn Array>,
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
    let (elements, lines) = (
        count(dataset.dims.as_deref().unwrap_or(&[0])),
        text_lines::count(&**array, bytes, &budget)?,
    );
    if elements != lines {
        let why = format!("{name} has {lines} lines for {elements} texts");
        return Err(Error::Invalid(why));
    }
    let mut send = |runs, texts: Vec<u8>| {
        let bytes = texts.len();
        let path = dataset.path.clone();
        let step = MakeStep::Texts { path, runs, texts };
        maker.add(step, (name.to_owned(), IfRefused::Ends), bytes)
    };
    let mut batch = TextBatch::new(name, &mut send);
    let mut reader = LineReader::new(&**array, bytes, &budget)?;
    let mut line = Line::new(&budget)?;
    for number in 0..lines {
        if reader.next(&mut line)? {
            batch.put(number, &line)?;
        }
    }
    batch.end()
}
