//! What the log was told: a message that comes again is counted, and told again only now and then,
//! so that one broken disk or block does not fill it. The latest warnings are shown by `status`.
//!
//! Messages are the same if they read the same: they name what they are about. Pure but for the
//! clock, which is given. Used by [`super`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use log::Level;

/// Messages that are remembered; past that, the one that was met longest ago is not.
const REMEMBERED: usize = 1024;

/// Most letters by which one is known, and shown.
const LONGEST: usize = 1000;

/// After so long one that comes again is told again; then it is longer each time, up to the most.
const FIRST_REST: Duration = Duration::from_secs(10 * 60);
const LONGEST_REST: Duration = Duration::from_secs(24 * 3600);

#[derive(Default)]
pub(super) struct ToldMessages {
    messages: HashMap<String, ToldMessage>,
}

struct ToldMessage {
    level: Level,
    times: u64,
    /// When it came last, for people.
    last: Timestamp,
    met: Instant,
    told: Instant,
    /// So often since it was told.
    untold: u64,
    rest: Duration,
}

/// A line for the log.
pub(super) type LogLine = (Level, String);

/// A warning, as `status` shows it.
#[derive(Debug, Clone)]
pub struct Warning {
    pub level: Level,
    pub text: String,
    pub times: u64,
    pub last: Timestamp,
}

impl ToldMessages {
    /// A message has come: the lines that the log is to have now.
    pub(super) fn note(&mut self, level: Level, text: &str, now: Instant) -> Vec<LogLine> {
        let known = beginning(text);
        if let Some(message) = self.messages.get_mut(known) {
            return message.came_again(known, now).into_iter().collect();
        }
        let mut lines: Vec<LogLine> = self.make_room().into_iter().collect();
        lines.push((level, text.to_owned()));
        let message = ToldMessage {
            level,
            times: 1,
            last: Timestamp::now(),
            met: now,
            told: now,
            untold: 0,
            rest: FIRST_REST,
        };
        self.messages.insert(known.to_owned(), message);
        lines
    }

    /// Forgets one if there are too many; what was counted of it is told.
    fn make_room(&mut self) -> Option<LogLine> {
        if self.messages.len() < REMEMBERED {
            return None;
        }
        let oldest = self.messages.iter().min_by_key(|(_, message)| message.met);
        let text = oldest?.0.clone();
        let message = self.messages.remove(&text)?;
        message.counted(&text)
    }

    /// Everything that was counted and not told, at the end.
    pub(super) fn untold(&mut self) -> Vec<LogLine> {
        let mut all: Vec<_> = self.messages.iter_mut().collect();
        all.sort_by_key(|(_, message)| message.met);
        let lines = all.into_iter().filter_map(|(text, message)| {
            let line = message.counted(text);
            message.untold = 0;
            line
        });
        lines.collect()
    }

    /// The latest warnings, the last one at the end.
    pub(super) fn warnings(&self, most: usize) -> Vec<Warning> {
        let all = self.messages.iter();
        let mut warnings: Vec<_> = all
            .filter(|(_, message)| message.level <= Level::Warn)
            .collect();
        warnings.sort_by_key(|(_, message)| message.met);
        let latest = warnings.split_off(warnings.len().saturating_sub(most));
        let shown = latest.into_iter().map(|(text, message)| Warning {
            level: message.level,
            text: text.clone(),
            times: message.times,
            last: message.last,
        });
        shown.collect()
    }
}

/// By which a message is known.
fn beginning(text: &str) -> &str {
    let mut ends = (0..=LONGEST.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or(text)
}

impl ToldMessage {
    fn came_again(&mut self, text: &str, now: Instant) -> Option<LogLine> {
        self.times = self.times.saturating_add(1);
        self.untold = self.untold.saturating_add(1);
        (self.last, self.met) = (Timestamp::now(), now);
        if now.saturating_duration_since(self.told) < self.rest {
            return None;
        }
        let line = self.counted(text);
        (self.told, self.untold) = (now, 0);
        self.rest = self.rest.saturating_mul(6).min(LONGEST_REST);
        line
    }

    fn counted(&self, text: &str) -> Option<LogLine> {
        let times = match self.untold {
            0 => return None,
            1 => "once more".to_owned(),
            n => format!("{n} times more"),
        };
        Some((self.level, format!("{text} ({times})")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: Vec<LogLine>) -> Vec<String> {
        lines.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn what_comes_again_is_told_once_and_counted() {
        let (mut told, start) = (ToldMessages::default(), Instant::now());
        let mut note = |text: &str, after: u64| {
            texts(told.note(Level::Error, text, start + Duration::from_secs(after)))
        };
        assert_eq!(note("x: full", 0), ["x: full"]);
        for second in 1..500 {
            assert!(note("x: full", second).is_empty());
        }
        assert_eq!(note("y: full", 500), ["y: full"]);
        assert_eq!(note("x: full", 601), ["x: full (500 times more)"]);
        assert!(note("x: full", 1300).is_empty());
        assert_eq!(note("x: full", 4300), ["x: full (2 times more)"]);
        assert!(note("x: full", 4301).is_empty());
        assert_eq!(texts(told.untold()), ["x: full (once more)"]);
        assert!(told.untold().is_empty());
    }

    #[test]
    fn the_latest_warnings_are_known() {
        let (mut told, now) = (ToldMessages::default(), Instant::now());
        for n in 0..20 {
            told.note(
                Level::Warn,
                &format!("warning {n}"),
                now + Duration::from_secs(n),
            );
        }
        let later = now + Duration::from_secs(30);
        told.note(Level::Info, "mounted", later);
        told.note(Level::Warn, "warning 3", later);
        let warnings = told.warnings(3);
        let shown: Vec<_> = warnings.iter().map(|w| (&*w.text, w.times)).collect();
        assert_eq!(
            shown,
            [("warning 18", 1), ("warning 19", 1), ("warning 3", 2)]
        );
    }

    #[test]
    fn memory_is_bounded_and_nothing_counted_is_lost() {
        let (mut told, start) = (ToldMessages::default(), Instant::now());
        told.note(Level::Error, "first", start);
        told.note(Level::Error, "first", start);
        let mut lines = Vec::new();
        for n in 0..2 * REMEMBERED as u64 {
            let text = format!("{n} {}", "ü".repeat(LONGEST));
            lines.extend(texts(told.note(
                Level::Error,
                &text,
                start + Duration::from_secs(n + 1),
            )));
        }
        assert!(told.messages.len() <= REMEMBERED);
        assert!(told.messages.keys().all(|text| text.len() <= LONGEST));
        assert!(lines.contains(&"first (once more)".to_owned()));
    }
}
