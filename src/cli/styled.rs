//! Results with styles: on a terminal that has colours, names are bold, labels dim and faults red.
//!
//! Whether they are shown is decided by `anstream`: not into a file or a pipe, nor where `NO_COLOR`
//! or `CLICOLOR=0` says so, but everywhere with `CLICOLOR_FORCE`. Used by the commands that show
//! much at once.

use std::fmt;
use std::io::{self, StdoutLock, Write};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};

use super::failure::CommandResult;
use super::output;
use crate::look::value::is_obeyed;

/// Of an array, a container.
pub(super) const NAME: Style = Style::new().bold();
/// Of what is said of it.
pub(super) const LABEL: Style = Style::new().dimmed();
pub(super) const FAULT: Style = AnsiColor::Red.on_default();

/// Standard output, which leaves out styles where they are not wanted.
pub(super) type StyledOutput = AutoStream<StdoutLock<'static>>;

/// A text with a style around it.
pub(super) struct Styled<T>(pub(super) Style, pub(super) T);

impl<T: fmt::Display> fmt::Display for Styled<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Styled(style, text) = self;
        write!(out, "{style}{text}{style:#}")
    }
}

/// Writes a result to standard output, to the end.
pub(super) fn print(write: impl FnOnce(&mut StyledOutput) -> io::Result<()>) -> CommandResult {
    let mut out = AutoStream::auto(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) => output::failed(e).map_or(Ok(()), Err),
    }
}

/// What a file says, on one line and without anything that a terminal would obey; a line that
/// nobody reads to its end is cut.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let mut short = String::new();
    for (number, c) in text.chars().enumerate() {
        match c {
            _ if number == most => {
                short.push_str("...");
                break;
            }
            c if is_obeyed(c) => short.extend(c.escape_unicode()),
            c => short.push(c),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_is_short_and_harmless() {
        assert_eq!(shortened("größe", 5), "größe");
        assert_eq!(shortened("größe", 4), "größ...");
        assert_eq!(shortened("a\u{1b}[31m\n", 99), "a\\u{1b}[31m\\u{a}");
    }

    #[test]
    fn a_style_ends_behind_its_text() {
        let text = Styled(NAME, "x").to_string();
        assert!(text.starts_with("\u{1b}[1m") && text.ends_with("\u{1b}[0m"));
    }
}
