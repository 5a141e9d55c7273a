//! The limits of what a record of a log may say: names that stay in the container, indices of what
//! there is, ranges that a file can have. Used by [`super`].

use std::path::{Component, Path};

use crate::error::{Fault, Result};
use crate::stage::staging::LARGEST_ARRAY;

/// A file of a container is the container, or lies in its directory.
pub(super) fn check_name(name: &str) -> Result<()> {
    let mut parts = Path::new(name).components();
    let stays = parts.all(|part| matches!(part, Component::Normal(_)));
    if stays && !name.contains(['\0', '/']) {
        return Ok(());
    }
    let fault = Fault::new("a file that is not one of the container's");
    Err(fault.found(name.escape_debug()).into())
}

pub(super) fn check_index(what: &str, index: u32, count: usize) -> Result<()> {
    match (index as usize) < count {
        true => Ok(()),
        false => {
            let fault = Fault::new(format!("{what} that is not there"));
            Err(fault
                .expected(format_args!("less than {count}"))
                .found(index)
                .into())
        }
    }
}

pub(super) fn check_len(len: u64) -> Result<()> {
    check_range(0, len)
}

pub(super) fn check_range(offset: u64, len: u64) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= LARGEST_ARRAY => Ok(()),
        _ => {
            let fault = Fault::new("a range that no file has");
            Err(fault.found(format_args!("{len} bytes at {offset}")).into())
        }
    }
}
