//! What standard output is: how wide and tall a terminal, and which colours it has.
//!
//! Used by the commands that fit what they print to it.

use std::io::IsTerminal;

use rustix::termios::tcgetwinsize;

use crate::look::terminal::TerminalColours;

/// Where there is no terminal, and nothing is said.
const WIDTH: usize = 80;
const HEIGHT: usize = 24;

/// Standard output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    /// Columns that were found out or told; none if it is a file or a pipe.
    pub(super) told_width: Option<usize>,
    pub(super) is_terminal: bool,
    pub(super) height: usize,
    pub(super) colours: TerminalColours,
}

impl Screen {
    /// Asks the terminal, and the environment: `COLUMNS`, `LINES`, `TERM`, `COLORTERM`, `NO_COLOR`,
    /// `CLICOLOR_FORCE`.
    pub(super) fn find() -> Screen {
        let out = std::io::stdout();
        let is_terminal = out.is_terminal();
        let size = tcgetwinsize(&out).ok().filter(|size| size.ws_col > 0);
        let told = |name: &str| {
            let text = std::env::var(name).ok()?;
            text.trim().parse().ok().filter(|n| (1..10_000).contains(n))
        };
        let height = size
            .map(|size| usize::from(size.ws_row))
            .filter(|rows| *rows > 0);
        Screen {
            told_width: size
                .map(|size| usize::from(size.ws_col))
                .or(told("COLUMNS"))
                .or(is_terminal.then_some(WIDTH)),
            is_terminal,
            height: height.or(told("LINES")).unwrap_or(HEIGHT),
            colours: colours(),
        }
    }

    /// Columns, whatever it is.
    pub(super) fn width(&self) -> usize {
        self.told_width.unwrap_or(WIDTH)
    }
}

fn colours() -> TerminalColours {
    let choice = anstream::AutoStream::choice(&std::io::stdout());
    if choice == anstream::ColorChoice::Never {
        return TerminalColours::None;
    }
    let says = |name: &str, words: &[&str]| {
        let value = std::env::var(name).unwrap_or_default();
        words.iter().any(|word| value.contains(word))
    };
    if says("COLORTERM", &["truecolor", "24bit"]) {
        return TerminalColours::All;
    }
    match says("TERM", &["256color", "kitty", "alacritty", "foot"]) {
        true => TerminalColours::Table,
        false => TerminalColours::None,
    }
}
