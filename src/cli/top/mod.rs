//! `arrayfs top`: the mounts live, in a terminal; or one frame as plain text.
//!
//! Looking costs a mount one question at each interval, for what its daemon counts anyway. Every
//! daemon is asked by a thread of its own ([`watching`]); answers, keys and signals come together
//! here, and after each of them the screen is drawn. Used by [`super`].

mod details;
mod figures;
mod screen;
mod table;
mod watching;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use crossterm::event::{self, Event};
use ratatui::DefaultTerminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::failure::{CommandResult, Failure};
use super::output::{self, path_text};
use super::which_mount::{WhichMount, no_mount, which_mount};
use crate::daemon::mount_table::{self, Mounted};
use crate::error::plain;
use screen::{TopScreen, Wish};
use table::{MountRow, TableShape};
use watching::WatchedMount;

/// Between looks, unless the user wants it otherwise.
const INTERVAL: Duration = Duration::from_secs(1);

/// Less would show nothing more.
const SHORTEST: f64 = 0.1;
const LONGEST: f64 = 3600.0;

/// What comes to pass.
enum Happening {
    Key(Event),
    /// The terminal has gone.
    Hangup,
    Signal(i32),
    Answered,
}

/// `interval`: in seconds.
pub(super) fn run(path: Option<&Path>, interval: Option<f64>, once: bool) -> CommandResult {
    let interval = match interval {
        None => INTERVAL,
        Some(seconds) if (SHORTEST..=LONGEST).contains(&seconds) => {
            Duration::from_secs_f64(seconds)
        }
        Some(_) => {
            return Err(Failure::usage(format!(
                "--interval is in seconds, from {SHORTEST} to {LONGEST}"
            )));
        }
    };
    let (sender, happenings) = unbounded();
    let mut mounts = Mounts::new(path, sender.clone())?;
    if once {
        return print_once(&mut mounts, &happenings, interval);
    }
    if !(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        return Err(Failure::new(
            "top needs a terminal; 'arrayfs top --once' prints what it would show",
        ));
    }
    let failed = |e: io::Error| Failure::new(format!("cannot use the terminal: {}", plain(&e)));
    receive_signals(sender.clone()).map_err(failed)?;
    // From here on a panic restores the terminal, too.
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = receive_keys(sender)
        .and_then(|()| watch(&mut terminal, &mut mounts, &happenings, interval));
    // A terminal that is gone cannot be restored. Whoever says so to a standard error that is the
    // same terminal panics, as dropping this would.
    let _ = terminal.show_cursor();
    std::mem::forget(terminal);
    let _ = ratatui::try_restore();
    match ended.map_err(failed)? {
        // As if the signal had not been caught.
        Some(signal) => signal_hook::low_level::emulate_default_handler(signal).map_err(failed),
        None => Ok(()),
    }
}

/// Shows the mounts until somebody wants an end; says the signal, if it was one.
fn watch(
    terminal: &mut DefaultTerminal,
    mounts: &mut Mounts,
    happenings: &Receiver<Happening>,
    interval: Duration,
) -> io::Result<Option<i32>> {
    let mut screen = TopScreen::new();
    let mut next = Instant::now();
    loop {
        if Instant::now() >= next {
            mounts.look()?;
            next = Instant::now() + interval;
        }
        let rows = mounts.rows(&screen);
        let details = mounts.details(&rows, screen.selected_of(&rows));
        terminal.draw(|frame| screen.draw(frame, &rows, &details))?;
        let mut first = happenings.recv_deadline(next).ok();
        while let Some(happening) = first.take() {
            match happening {
                Happening::Signal(signal) => return Ok(Some(signal)),
                Happening::Hangup => return Ok(Some(SIGHUP)),
                Happening::Answered => {}
                Happening::Key(event) => {
                    if screen.take(&event, &rows) == Wish::Quit {
                        return Ok(None);
                    }
                }
            }
            // All that has come by now is shown at once.
            first = happenings.try_recv().ok();
        }
    }
}

/// Prints the figures of one interval.
fn print_once(
    mounts: &mut Mounts,
    happenings: &Receiver<Happening>,
    interval: Duration,
) -> CommandResult {
    let failed = |e: io::Error| Failure::new(format!("cannot look at mounts: {}", plain(&e)));
    let screen = TopScreen::new();
    for time in [interval, Duration::ZERO] {
        mounts.look().map_err(failed)?;
        let until = Instant::now() + time;
        while mounts.take_answers() {
            // A daemon that does not answer is given up by the watch.
            let _ = happenings.recv_timeout(Duration::from_millis(100));
        }
        while Instant::now() < until {
            let _ = happenings.recv_deadline(until);
        }
    }
    let rows = mounts.rows(&screen);
    let shape = TableShape::with_room_for(&rows);
    output::print(|out| {
        if rows.is_empty() {
            return writeln!(out, "no arrayfs mounts");
        }
        writeln!(out, "{}", shape.header(screen.order).trim_end())?;
        for row in &rows {
            writeln!(out, "{}", shape.row(row).trim_end())?;
        }
        let slow = mounts.watched.iter().filter_map(|mount| {
            let lines = details::slowest(&mount.status()?.requests.slowest);
            (!lines.is_empty()).then(|| (path_text(&mount.mounted.mountpoint), lines))
        });
        for (at, lines) in slow {
            writeln!(out, "\n{at}: {}", lines.join("\n"))?;
        }
        Ok(())
    })
}

/// The mounts that are watched.
struct Mounts {
    /// One alone, if the user has named it.
    only: Option<PathBuf>,
    watched: Vec<WatchedMount>,
    sender: Sender<Happening>,
}

impl Mounts {
    fn new(path: Option<&Path>, sender: Sender<Happening>) -> Result<Mounts, Failure> {
        let only = match path {
            None => None,
            Some(path) => match which_mount(path)?.ok_or_else(|| no_mount(path))? {
                WhichMount::At(mounted) | WhichMount::In(mounted) => Some(mounted.mountpoint),
                WhichMount::Shown(mounts) => mounts.into_iter().next().map(|m| m.mountpoint),
            },
        };
        Ok(Mounts {
            only,
            watched: Vec::new(),
            sender,
        })
    }

    /// Asks all that there are now.
    fn look(&mut self) -> io::Result<()> {
        let mut mounts = mount_table::mounts()?;
        if let Some(only) = &self.only {
            mounts.retain(|mounted| mounted.mountpoint == *only);
        }
        self.watched
            .retain(|mount| mounts.iter().any(|mounted| mount.is_of(mounted)));
        let is_new = |mounted: &Mounted| !self.watched.iter().any(|mount| mount.is_of(mounted));
        let new: Vec<Mounted> = mounts.into_iter().filter(is_new).collect();
        for mounted in new {
            let sender = self.sender.clone();
            // The screen may have gone.
            let told = move || drop(sender.send(Happening::Answered));
            self.watched.push(WatchedMount::new(mounted, told)?);
        }
        self.watched.iter_mut().for_each(WatchedMount::ask);
        Ok(())
    }

    /// Takes the answers that have come; says whether some may come yet.
    fn take_answers(&mut self) -> bool {
        self.watched.iter_mut().for_each(WatchedMount::take);
        self.watched.iter().any(WatchedMount::is_awaited)
    }

    /// As they are shown.
    fn rows(&mut self, screen: &TopScreen) -> Vec<MountRow> {
        self.take_answers();
        let row = |mount: &WatchedMount| MountRow {
            mountpoint: path_text(&mount.mounted.mountpoint),
            figures: mount.figures(),
            trouble: mount.trouble().map(str::to_owned),
        };
        let mut rows: Vec<MountRow> = self.watched.iter().map(row).collect();
        screen.order.sort(&mut rows);
        rows
    }

    fn details(&self, rows: &[MountRow], selected: usize) -> Vec<String> {
        let Some(row) = rows.get(selected) else {
            return Vec::new();
        };
        let is_it = |mount: &&WatchedMount| path_text(&mount.mounted.mountpoint) == row.mountpoint;
        self.watched
            .iter()
            .find(is_it)
            .map_or_else(Vec::new, details::lines)
    }
}

/// Keys and changes of size arrive from now on.
fn receive_keys(sender: Sender<Happening>) -> io::Result<()> {
    let receive = move || {
        while let Ok(event) = event::read() {
            if sender.send(Happening::Key(event)).is_err() {
                return;
            }
        }
        let _ = sender.send(Happening::Hangup);
    };
    std::thread::Builder::new()
        .name("keys".into())
        .spawn(receive)?;
    Ok(())
}

fn receive_signals(sender: Sender<Happening>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGQUIT])?;
    let receive = move || {
        for signal in signals.forever() {
            if sender.send(Happening::Signal(signal)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(receive)?;
    Ok(())
}
