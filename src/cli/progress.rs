//! How far a command is, on a terminal: a bar on standard error that goes when it is done. Where
//! nobody watches nothing is shown.
//!
//! Lines that are printed meanwhile go through [`ProgressBar::suspend`]. Used by the commands that
//! take long.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of bytes, of which the number is to be said. `may_show`: whether it may be shown at all.
pub(super) fn of_bytes(may_show: bool) -> ProgressBar {
    if !may_show || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(style);
    ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
