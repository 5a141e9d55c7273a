//! A log that was found beside a container, and has not been recovered. Used by all of `live`.

use crate::error::Error;
use crate::sync::Mutex;

/// Of a version of a container.
#[derive(Default)]
pub(crate) struct UnrecoveredLogs(Mutex<LogFound>);

#[derive(Default)]
struct LogFound {
    unrecovered: Option<Unrecovered>,
    /// Something is staged in a log that the container is read through.
    is_read_through: bool,
}

/// A log beside a container that has not been recovered.
#[derive(Clone)]
pub(crate) struct Unrecovered {
    pub(crate) why: Error,
    pub(crate) log: UnrecoveredLog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnrecoveredLog {
    /// It may be the container's, which is read through it, and not written before it is recovered.
    Pending,
    /// Of the version before, which was changed while this mount had something staged of it:
    /// nothing new is staged beside that.
    Held,
    /// Of another version of the container.
    Old,
    /// Another process's.
    Foreign,
}

impl UnrecoveredLogs {
    pub(crate) fn unrecovered(&self) -> Option<Unrecovered> {
        self.0.lock().unrecovered.clone()
    }

    /// One that is the container's, or was.
    pub(crate) fn own(&self) -> Option<Unrecovered> {
        let unrecovered = self.unrecovered();
        unrecovered.filter(|found| found.log != UnrecoveredLog::Foreign)
    }

    pub(crate) fn note_unrecovered(&self, unrecovered: Unrecovered) {
        self.0.lock().unrecovered = Some(unrecovered);
    }

    /// The container has been opened as its log shows it.
    pub(crate) fn note_read_through(&self, is_staged: bool) {
        self.0.lock().is_read_through = is_staged;
    }

    pub(crate) fn is_read_through(&self) -> bool {
        self.0.lock().is_read_through
    }

    /// Whether nothing can be staged before a log is recovered.
    pub(crate) fn keeps_out(&self) -> bool {
        let log = self.kind();
        matches!(log, Some(UnrecoveredLog::Pending | UnrecoveredLog::Held))
    }

    /// Whether recovery is to be tried again.
    pub(crate) fn is_pending(&self) -> bool {
        self.kind() == Some(UnrecoveredLog::Pending)
    }

    fn kind(&self) -> Option<UnrecoveredLog> {
        let found = self.0.lock();
        found
            .unrecovered
            .as_ref()
            .map(|unrecovered| unrecovered.log)
    }

    /// The log that was in the way has gone.
    pub(crate) fn forget_unrecovered(&self) {
        *self.0.lock() = LogFound::default();
    }
}
