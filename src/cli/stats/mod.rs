//! `arrayfs info --stats`: figures of all values of an array, or of every array of a container.
//!
//! Everything is decoded once, by all cores ([`count`]); sparse matrices also have figures of their
//! rows ([`sparse`]). ^C ends it at once: nothing is written but the result ([`told`]).

mod count;
mod sparse;
mod told;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use indicatif::ProgressBar;

use super::container::FoundContainer;
use super::failure::{CommandResult, Failure};
use super::open_array::{cached, element_of, scale_of};
use super::{container, output, progress};
use crate::array::Info;
use crate::cache::BlockCache;
use crate::container::inside::Located;
use crate::container::stored::{ArrayDetails, LayoutName};
use crate::container::{Attributes, Container, Preferences};
use crate::look::element::StructurePart;
use crate::look::figures::{ColumnFigures, ColumnSums, TextSums};
use crate::look::lines::each_text;
use crate::look::physical::PhysicalScale;
use count::ArrayCount;
use told::{ArrayStats, ContainerStats};

/// For decoded blocks: those that several cores work on at a time.
const CACHE: u64 = 512 << 20;

pub(super) fn run(path: &Path, preferences: Preferences, json: bool) -> CommandResult {
    let found = container::find(path, preferences)?;
    let cache = BlockCache::new(CACHE);
    let opened = found.open(cache.budget())?;
    let meant = found.meant(&opened)?;
    let all = opened.all_arrays();
    let is_meant = |located: &&Located| meant.has(&located.path());
    let count = all.iter().filter(is_meant).count();
    let bar = progress::of_bytes(true);
    let sizes = all
        .iter()
        .filter(is_meant)
        .filter_map(|located| located.array.info().ok());
    bar.set_length(sizes.fold(0u64, |sum, info| sum.saturating_add(info.bytes)));
    let look = ContainerLook {
        found: &found,
        opened: &opened,
        cache: &cache,
        bar: &bar,
        details: opened.all_details(),
        described: opened.all_described(),
    };
    let mut arrays = Vec::new();
    let mut failed = 0;
    for (index, located) in all.iter().enumerate() {
        if !meant.has(&located.path()) {
            continue;
        }
        match look.array(index, located) {
            Ok(stats) => arrays.push(stats),
            // The others may be sound.
            Err(failure) if count > 1 => {
                bar.suspend(|| output::complain(&failure.message));
                failed += 1;
            }
            Err(failure) => {
                bar.finish_and_clear();
                return Err(failure);
            }
        }
    }
    let matrices = sparse::matrices(&look, &all, &|path| meant.has(path))?;
    bar.finish_and_clear();
    let stats = ContainerStats { arrays, matrices };
    match json {
        true => stats.print_json(&found)?,
        false => stats.print(&found, count == 1)?,
    }
    if failed > 0 {
        return Err(Failure::silent());
    }
    Ok(())
}

/// A container whose arrays are counted.
struct ContainerLook<'a> {
    found: &'a FoundContainer,
    opened: &'a Arc<Container>,
    cache: &'a Arc<BlockCache>,
    bar: &'a ProgressBar,
    /// By the paths of arrays and groups: put together once, for there may be very many.
    details: BTreeMap<String, ArrayDetails>,
    described: BTreeMap<String, Attributes>,
}

impl ContainerLook<'_> {
    fn array(&self, index: usize, located: &Located) -> Result<ArrayStats, Failure> {
        let path = located.path();
        let located_error = |e| Failure::from(located.locate(e).of_container(&self.found.shown()));
        let info = located.array.info().map_err(located_error)?;
        let details = self.details.get(&path).cloned().unwrap_or_default();
        let attributes = self.described.get(&path).cloned().unwrap_or_default();
        let array = cached(located, index, self.cache, self.found, &info);
        let Some(element) = element_of(&info, &details, self.opened) else {
            let mut sums = TextSums::default();
            each_text(&array, &mut |_, line, len| {
                self.bar.inc(len.saturating_add(1));
                sums.add(line, len);
                true
            })?;
            let columns = vec![(String::new(), ColumnSums::Texts(sums).figures())];
            return Ok(stats(path, &info, &PhysicalScale::none(), columns));
        };
        let scale = scale_of(&attributes, &element, &details, self.opened);
        let counting = ArrayCount {
            array: &array,
            info: &info,
            chunks: &details.chunks,
            is_own: matches!(
                details.layout,
                Some(LayoutName::Chunked | LayoutName::Contiguous)
            ),
            columns: element.columns(),
            scale: &scale,
            bar: self.bar,
        };
        let sums = counting.run()?;
        let parts = counting.columns.iter().zip(sums);
        let told = |(part, sums): (&StructurePart, ColumnSums)| {
            (part.name.clone(), sums.figures().spelled(&part.element))
        };
        let columns = parts.map(told).collect();
        Ok(stats(path, &info, &scale, columns))
    }
}

fn stats(
    name: String,
    info: &Info,
    scale: &PhysicalScale,
    columns: Vec<(String, ColumnFigures)>,
) -> ArrayStats {
    ArrayStats {
        name,
        dtype: info.dtype.name().into_owned(),
        shape: info.shape.clone(),
        units: scale.units.clone().filter(|_| !scale.is_scaled()),
        packed: scale.is_scaled().then(|| scale.formula()),
        columns,
    }
}
