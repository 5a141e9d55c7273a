//! Arrays that were named and are not there: what may have been meant, and why nothing is shown.
//!
//! Used by the commands that are given `CONTAINER/ARRAY`.

use std::path::Path;
use std::sync::Arc;

use super::failure::Failure;
use crate::container::Container;
use crate::container::inside::{Located, join};
use crate::error::Fault;
use crate::live::shown::entry_table::{ARRAYS_JSON, ERROR_TXT, VIEWS};

/// What follows from the arrays of a container, and is none, although a mount shows it: where to
/// look instead.
fn derived(path: &Path, name: &str) -> Option<String> {
    let shown = path.join(name);
    let shown = shown.display();
    let mut parts = name.split('/');
    let group: Vec<&str> = parts.by_ref().take_while(|part| *part != VIEWS).collect();
    let rest: Vec<&str> = parts.collect();
    if let Some(of) = rest.join("/").strip_suffix(".npy") {
        let array = path.join(group.join("/")).join(of);
        return Some(format!(
            "{shown} is a view of an array, and no array; that is {}",
            array.display()
        ));
    }
    let last = name.rsplit('/').next()?;
    let container = shown.to_string();
    let container = container.strip_suffix(last)?.trim_end_matches('/');
    let is_view = name.split('/').any(|part| part == VIEWS);
    match (is_view, last) {
        (true, _) => Some(format!(
            "{shown} belongs to the views of the arrays of {}, and is no array",
            path.display()
        )),
        (false, ARRAYS_JSON | ERROR_TXT | "metadata.json" | "binsparse.json" | "version") => {
            Some(format!(
                "{shown} follows from the container, and is no array; 'arrayfs info {container}' \
                 describes the container"
            ))
        }
        _ => None,
    }
}

/// Names listed when none of them was meant.
const MOST_NAMES: usize = 30;

/// Why there is no such array.
pub(super) fn missing(path: &Path, opened: &Arc<Container>, name: &str) -> Failure {
    let mut faults = opened.all_faults().into_iter();
    if let Some(fault) = faults.find(|fault| fault.array.as_deref() == Some(name)) {
        return Failure::new(fault);
    }
    let mut unreadable = opened.all_unreadable().into_iter();
    if let Some((group, member)) =
        unreadable.find(|(group, member)| join(group, &member.name) == name)
    {
        let error = member.error().of_array(&group, &member.name);
        return Failure::from(error.of_container(path));
    }
    if let Some(why) = derived(path, name) {
        return Failure::new(why);
    }
    let arrays = opened.all_arrays();
    if arrays.is_empty() {
        return without_arrays(path, opened);
    }
    let meant = nearest(name, &arrays);
    let meant = meant.map_or_else(String::new, |meant| format!("did you mean '{meant}'? "));
    let mut names: Vec<String> = arrays.iter().take(MOST_NAMES).map(Located::path).collect();
    if arrays.len() > MOST_NAMES {
        names.push(format!("and {} more", arrays.len() - MOST_NAMES));
    }
    let damaged = fault_of_all(opened);
    let damaged = damaged.map_or_else(String::new, |fault| format!(". It is damaged: {fault}"));
    Failure::new(format!(
        "{} has no array '{name}'; {meant}it has: {}{damaged}",
        path.display(),
        names.join(", ")
    ))
}

/// Why a container shows no array at all.
pub(super) fn without_arrays(path: &Path, opened: &Arc<Container>) -> Failure {
    match fault_of_all(opened) {
        Some(fault) => Failure::new(fault),
        None => Failure::new(format!("{} has no arrays", path.display())),
    }
}

/// What is wrong with a container or group, whatever the array.
fn fault_of_all(opened: &Arc<Container>) -> Option<Fault> {
    let mut faults = opened.all_faults().into_iter();
    faults.find(|fault| fault.array.is_none())
}

/// The array whose path, or own name, is the most like this.
fn nearest(name: &str, arrays: &[Located]) -> Option<String> {
    let paths = arrays.iter().map(Located::path);
    let distances = paths.map(|path| (distance(name, &path), path));
    let nearest = distances.min_by_key(|(distance, _)| *distance);
    let near = |distance: usize| distance <= (name.chars().count() / 3).clamp(1, 4);
    nearest.and_then(|(distance, path)| near(distance).then_some(path))
}

/// Letters that are to be changed; groups that were left out count as none.
fn distance(name: &str, path: &str) -> usize {
    let ends = path.rmatch_indices('/').map(|(at, _)| &path[at + 1..]);
    let ends = ends.chain([path]);
    let distances = ends.map(|end| strsim::damerau_levenshtein(name, end));
    distances.min().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_near_whatever_groups_are_left_out() {
        assert_eq!(distance("obs/n_count", "obs/n_counts"), 1);
        assert_eq!(distance("n_counts", "obs/n_counts"), 0);
        assert_eq!(distance("raw/n_cuonts", "a/raw/n_counts"), 1);
        assert!(distance("temperature", "obs/n_counts") > 4);
    }
}
