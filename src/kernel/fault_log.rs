//! One log line per fault: a bad block is read again and again, by the kernel's read-ahead and by
//! the application, but it is worth one line.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use log::Level;

use crate::error::Error;

/// Lines remembered; past that, memory is started over and a line may come twice.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(super) struct FaultLog {
    logged: Mutex<HashSet<String>>,
}

impl FaultLog {
    pub(super) fn log(&self, level: Level, error: &Error) {
        if self.is_news(&error.to_string()) {
            log::log!(level, "{error}");
        }
    }

    fn is_news(&self, line: &str) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= REMEMBERED {
            logged.clear();
        }
        logged.insert(line.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_news_once() {
        let log = FaultLog::default();
        assert!(log.is_news("a"));
        assert!(!log.is_news("a"));
        assert!(log.is_news("b"));
    }

    #[test]
    fn memory_is_bounded() {
        let log = FaultLog::default();
        for i in 0..3 * REMEMBERED {
            log.is_news(&i.to_string());
        }
        assert!(log.logged.lock().unwrap().len() <= REMEMBERED);
    }
}
