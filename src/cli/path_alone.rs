//! What to say when a path stands where a command is expected: whoever tries `arrayfs x.nc` first.
//!
//! Used by [`super::run`].

use std::ffi::OsString;
use std::path::Path;

use clap::error::ErrorKind;

use super::output::path_text;

/// The commands that look at what the first argument names, if it is a path and no command.
pub(super) fn advice(argv: &[OsString], error: &clap::Error) -> Option<String> {
    let path = Path::new(argv.get(1)?);
    if error.kind() != ErrorKind::InvalidSubcommand || !path.exists() {
        return None;
    }
    let shown = path_text(path);
    let look = match path.is_dir() {
        true => format!("'arrayfs ls -l {shown}' lists what lies in it"),
        false => format!("'arrayfs info {shown}' says what it holds"),
    };
    Some(format!(
        "a command is expected before {shown}: {look}, 'arrayfs mount {shown} MOUNTPOINT' shows its \
         arrays as files, and 'arrayfs --help' has the others"
    ))
}
