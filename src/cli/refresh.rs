//! `arrayfs refresh`: has what was written through a mount looked into again.

use std::path::Path;

use super::failure::{CommandResult, Failure};
use super::in_mount::InMount;
use crate::tree::xattr::REFRESH;

pub(super) fn run(path: &Path) -> CommandResult {
    match InMount::written_at(path)? {
        Some(place) => place.ask(REFRESH),
        None => Err(Failure::new(format!(
            "{} lies in no arrayfs mount, and in the source of none that writes; \
             'arrayfs status' lists the mounts there are",
            path.display()
        ))),
    }
}
