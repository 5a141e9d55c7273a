//! Whether the groups of a new file that have a Binsparse descriptor are what it says. Used by
//! [`super::objects`].

use std::collections::HashMap;
use std::sync::Arc;

use super::attributes::shown;
use super::dataset::{ByPath, count};
use crate::array::dtype::{Dtype, descr_of_name};
use crate::array::{Array, Info};
use crate::container::binsparse::{DESCRIPTOR, GivenMembers};
use crate::container::creation::{GivenContent, GivenDescription};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

/// What lies in groups, by the paths of these: name, and array.
type ByGroup<'a> = HashMap<&'a str, Vec<(&'a str, &'a Arc<dyn Array>)>>;

/// EINVAL with the first rule that a group breaks. One that is described as a Binsparse container
/// is a copy of one, and kept as it was: the rules that it breaks are returned.
pub(super) fn check(
    content: &GivenContent,
    description: &GivenDescription,
    by_path: &ByPath<'_>,
    budget: &Arc<Budget>,
) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    if content.descriptors.is_empty() {
        return Ok(broken);
    }
    let by_group = by_group(content);
    for (group, descriptor) in &content.descriptors {
        let mut members = GivenMembers::default();
        for (name, array) in by_group.get(&**group).into_iter().flatten() {
            members.add(name, info(array, by_path)?, array);
        }
        match members.check(descriptor, budget) {
            Err(Error::Invalid(why)) if description.has_sparse(group) => {
                broken.push(format!("{}: that its arrays fit {why}", shown(group)));
            }
            Err(Error::Invalid(why)) if !group.is_empty() => {
                return Err(Error::Invalid(format!("{group}: {why}")));
            }
            checked => checked?,
        }
    }
    Ok(broken)
}

/// All members of groups, also by links.
fn by_group(content: &GivenContent) -> ByGroup<'_> {
    let by_name: HashMap<&str, &Arc<dyn Array>> = content
        .arrays
        .iter()
        .map(|array| (array.name(), array))
        .collect();
    let links = content.links.iter();
    let links = links.filter_map(|(link, to)| Some((&**link, *by_name.get(&**to)?)));
    let mut by_group = ByGroup::new();
    for (path, array) in by_name
        .iter()
        .map(|(path, array)| (*path, *array))
        .chain(links)
    {
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name != DESCRIPTOR {
            by_group.entry(group).or_default().push((name, array));
        }
    }
    by_group
}

/// As the file is going to show it.
fn info(array: &Arc<dyn Array>, by_path: &ByPath<'_>) -> Result<Info> {
    let given = array.info()?;
    let Some(said) = by_path.get(array.name()) else {
        return Ok(given);
    };
    let itemsize = given.bytes.checked_div(count(&said.shape)).unwrap_or(0);
    let dtype = match &*said.dtype {
        "str" => Dtype::Text,
        named => Dtype::numpy(descr_of_name(named), itemsize),
    };
    Ok(Info {
        dtype,
        shape: said.shape.clone(),
        order: said.order.into(),
        ..given
    })
}
