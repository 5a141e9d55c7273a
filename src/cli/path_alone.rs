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
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let shown = path_text(path);
    let look = match (path.exists(), path.is_dir()) {
        (true, true) => format!(
            "'arrayfs ls -l {shown}' lists what lies in it, 'arrayfs mount {shown} MOUNTPOINT' \
             shows its arrays as files"
        ),
        (true, false) => format!(
            "'arrayfs info {shown}' says what it holds, 'arrayfs show {shown}/ARRAY' shows numbers"
        ),
        (false, _) if lies_in_file(path) => {
            format!("'arrayfs show {shown}' shows its numbers, 'arrayfs info {shown}' describes it")
        }
        (false, _) => return None,
    };
    Some(format!(
        "a command is expected before {shown}: {look}, and 'arrayfs --help' has the others"
    ))
}

/// As an array does, by the name that `arrayfs ls` gives it.
fn lies_in_file(path: &Path) -> bool {
    let mut above = path.ancestors().skip(1);
    above.any(|above| above.is_file())
}
