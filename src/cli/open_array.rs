//! Opening one array, for the commands that read its bytes: `cat` and `show`.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::container::{self, FoundContainer};
use super::failure::Failure;
use super::no_such_array::{missing, without_arrays};
use crate::array::Info;
use crate::array::read::CachedArray;
use crate::cache::{ArrayIndex, BlockCache, VersionId};
use crate::container::inside::{Located, join};
use crate::container::stored::{ArrayDetails, StoredType};
use crate::container::{Attributes, Container, Preferences};
use crate::look::element::ElementType;
use crate::look::physical::PhysicalScale;

/// Arrays of a group that are named.
const NAMES_MOST: usize = 30;

/// An array, and what its container says of it.
pub(super) struct OpenedArray {
    pub(super) found: FoundContainer,
    pub(super) container: Arc<Container>,
    pub(super) array: Arc<CachedArray>,
    pub(super) info: Info,
    /// From the outermost container.
    pub(super) path: String,
    pub(super) details: ArrayDetails,
    pub(super) attributes: Attributes,
}

/// `name`: within what the path means, if that is not an array. `cache`: bytes for decoded blocks.
pub(super) fn open(
    path: &Path,
    preferences: Preferences,
    name: Option<&str>,
    cache: u64,
) -> Result<OpenedArray, Failure> {
    let found = container::find(path, preferences)?;
    let cache = BlockCache::new(cache);
    let opened = found.open(cache.budget())?;
    let name = join(&found.within, name.unwrap_or_default());
    let mut wanted = opened.resolve(&name);
    if wanted.is_empty() && opened.all_written().is_empty() {
        return Err(without_arrays(&found.shown(), &opened));
    }
    if wanted.is_empty() {
        wanted = only_array(&opened).ok_or_else(|| {
            Failure::usage(format!(
                "{} is a container: say which array, as 'arrayfs ls {}' shows them",
                path.display(),
                path.display()
            ))
        })?;
    }
    match of(&found, &opened, &cache, &wanted)? {
        Some(array) => Ok(array),
        None => {
            Err(group(&opened, &wanted)
                .unwrap_or_else(|| missing(&found.shown(), &opened, &wanted)))
        }
    }
}

/// The only array of a container.
fn only_array(container: &Arc<Container>) -> Option<String> {
    match &container.all_written()[..] {
        [only] => Some(only.path()),
        _ => None,
    }
}

/// What is said of a group, which is no array: those that are in it.
fn group(container: &Arc<Container>, path: &str) -> Option<Failure> {
    let is_within = |array: &String| {
        let rest = array.strip_prefix(path);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    let arrays = container.all_written();
    let mut within: Vec<String> = arrays.iter().map(Located::path).filter(is_within).collect();
    let more = within.len().saturating_sub(NAMES_MOST);
    within.truncate(NAMES_MOST);
    if more > 0 {
        within.push(format!("and {more} more"));
    }
    let is_group = !within.is_empty();
    is_group.then(|| {
        Failure::usage(format!(
            "{path} is a group; its arrays: {}",
            within.join(", ")
        ))
    })
}

/// The array of this path, if there is one.
fn of(
    found: &FoundContainer,
    container: &Arc<Container>,
    cache: &Arc<BlockCache>,
    path: &str,
) -> Result<Option<OpenedArray>, Failure> {
    let arrays = container.all_written();
    let mut numbered = arrays.iter().enumerate();
    let Some((index, located)) = numbered.find(|(_, located)| located.path() == path) else {
        return Ok(None);
    };
    let info = located.array.info().map_err(|e| located.locate(e))?;
    Ok(Some(OpenedArray {
        found: found.clone(),
        container: Arc::clone(container),
        array: cached(located, index, cache, found, &info),
        info,
        path: path.to_owned(),
        details: container.all_details().remove(path).unwrap_or_default(),
        attributes: container.all_described().remove(path).unwrap_or_default(),
    }))
}

/// An array behind a cache, in which it has this number.
pub(super) fn cached(
    located: &Located,
    index: usize,
    cache: &Arc<BlockCache>,
    found: &FoundContainer,
    info: &Info,
) -> Arc<CachedArray> {
    Arc::new(CachedArray {
        bytes: info.bytes,
        array: Arc::clone(&located.array),
        cache: Arc::clone(cache),
        version: VersionId(0),
        index: ArrayIndex(u32::try_from(index).unwrap_or(u32::MAX)),
        container: found.shown(),
        group: Arc::clone(&located.group),
        prefix: Arc::from([]),
        is_far: located.is_far,
    })
}

/// What an array's numbers mean, and which of them stand for none.
pub(super) fn scale_of(
    attributes: &Attributes,
    element: &ElementType,
    details: &ArrayDetails,
    container: &Container,
) -> PhysicalScale {
    // Where nothing is filled in, any value may be one that was written.
    let is_unfilled = details.fill.as_deref().is_some_and(Value::is_null);
    match container.follows_netcdf() && !is_unfilled {
        true => PhysicalScale::of_netcdf(attributes, element),
        false => PhysicalScale::of(attributes, element),
    }
}

/// The type of an array's elements, with the names that enumerations have; none for text.
pub(super) fn element_of(
    info: &Info,
    details: &ArrayDetails,
    container: &Arc<Container>,
) -> Option<ElementType> {
    let element = ElementType::of(&info.dtype)?;
    let Some(stored) = &details.stored_type else {
        return Some(element);
    };
    let all = std::cell::OnceCell::new();
    let committed = |name: &str| -> Option<StoredType> {
        let all = all.get_or_init(|| container.all_details());
        all.get(name.trim_matches('/'))?.stored_type.clone()
    };
    Some(element.with_names(stored, &committed))
}

impl OpenedArray {
    /// Another array of the same container.
    pub(super) fn beside(&self, path: &str) -> Option<OpenedArray> {
        of(&self.found, &self.container, &self.array.cache, path).ok()?
    }

    /// The type of its elements; none for text.
    pub(super) fn element(&self) -> Option<ElementType> {
        element_of(&self.info, &self.details, &self.container)
    }

    /// What its dimensions are called.
    pub(super) fn dims(&self) -> Vec<Option<String>> {
        let short = |path: &Option<String>| {
            let name = path.as_deref()?.rsplit('/').next()?;
            Some(name.to_owned())
        };
        self.details.dims.iter().map(short).collect()
    }
}
