//! What new containers could not keep of their descriptions, for the end of the mount.
//!
//! The log has all of it; here are the first lines, as many as a message can have. Used by
//! [`super::pack`], and by the status that `arrayfs umount` asks for.

use crate::sync::{Mutex, MutexGuard};

/// Most bytes of the lines: the status is an attribute, and has more to say.
const MOST: usize = 8 << 10;

#[derive(Default)]
pub(crate) struct NotKept(Mutex<NamedLosses>);

/// Lines, and how many there are beside them.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedLosses {
    pub(crate) told: Vec<String>,
    pub(crate) more: u64,
}

impl NotKept {
    pub(super) fn note(&self, line: String) {
        let mut lines = self.lock();
        let bytes: usize = lines.told.iter().map(String::len).sum();
        match bytes.saturating_add(line.len()) <= MOST {
            true => lines.told.push(line),
            false => lines.more += 1,
        }
    }

    pub(crate) fn lines(&self) -> NamedLosses {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, NamedLosses> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_told_as_fits() {
        let not_kept = NotKept::default();
        not_kept.note("x".repeat(2 * MOST));
        (0..MOST).for_each(|n| not_kept.note(format!("line {n}")));
        let lines = not_kept.lines();
        assert_eq!(lines.told.len() as u64 + lines.more, MOST as u64 + 1);
        assert!(lines.told.concat().len() <= MOST && lines.told.len() > 100);
    }
}
