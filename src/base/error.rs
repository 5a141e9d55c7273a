//! What can go wrong, as data: every error carries where it happened and what was expected, so that
//! one log line, one line of `error.txt` and one line of `verify` say the same thing.
//!
//! Raised by `source`, `codec` users in `container`, and `tree`; turned into an errno and a log
//! level in one place, `kernel::errno`.

mod told;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub type Result<T> = std::result::Result<T, Error>;

/// An error of arrayfs. Cloneable: one failed decode is delivered to every reader that waits for
/// it.
#[derive(Debug, Clone)]
pub enum Error {
    /// The stored bytes break a rule of their format.
    Fault(Box<Fault>),
    /// The stored bytes may be as sound as any, but there is no way to show them.
    NotShown(Box<NotShown>),
    /// The system refused to read the source.
    Io {
        doing: String,
        cause: Arc<io::Error>,
    },
    /// The source changed after it was opened; what was read belongs to another version.
    Changed { path: PathBuf },
    /// No such entry.
    NotFound,
    /// A directory was expected.
    NotADirectory,
    /// A directory was found where bytes were expected.
    IsADirectory,
    /// The entry is not a symbolic link, or the operation makes no sense for it.
    Unsuitable,
    /// The mount is read-only, or what is to be changed is part of a container.
    ReadOnly,
    /// What was asked for cannot be stored; says why.
    Invalid(String),
    /// It follows from other arrays, and cannot be written; says from what.
    Computed(String),
    /// The handle was opened for reading alone.
    NotOpenForWriting,
    /// There is nothing behind the end of a file.
    BeyondTheEnd,
    /// No such extended attribute.
    NoAttribute,
    /// Extended attributes of this namespace are not offered.
    Unsupported,
    /// Nobody waits for it any more: it has been given up, and nothing has been changed.
    Unwanted,
    /// Our own mistake, not damage of the file.
    Bug(String),
}

/// One broken rule: what, where, expected, found.
#[derive(Debug, Clone, Default)]
pub struct Fault {
    pub container: Option<PathBuf>,
    pub array: Option<String>,
    /// Number of the block in its array, counted by the format (a chunk, for formats that have
    /// them).
    pub block: Option<u64>,
    /// The stored file inside a container that is a directory.
    pub file: Option<String>,
    /// Stored bytes concerned.
    pub bytes: Option<Range<u64>>,
    pub what: String,
    pub expected: Option<String>,
    pub found: Option<String>,
    /// It may be gone when it is tried again after this time: a process that failed may do better
    /// then.
    pub passing: Option<Duration>,
}

impl Fault {
    pub fn new(what: impl Into<String>) -> Self {
        Fault {
            what: what.into(),
            ..Fault::default()
        }
    }

    pub fn array(mut self, name: &str) -> Self {
        self.array.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Places a fault of a container that lies in a group of another.
    pub fn inside(mut self, group: &str) -> Self {
        if !group.is_empty() {
            self.array = Some(match self.array {
                Some(array) => format!("{group}/{array}"),
                None => group.to_owned(),
            });
        }
        self
    }

    pub fn block(mut self, block: u64) -> Self {
        self.block.get_or_insert(block);
        self
    }

    pub fn file(mut self, file: &str) -> Self {
        self.file.get_or_insert_with(|| file.to_owned());
        self
    }

    pub fn bytes(mut self, bytes: Range<u64>) -> Self {
        self.bytes.get_or_insert(bytes);
        self
    }

    pub fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    pub fn found(mut self, found: impl fmt::Display) -> Self {
        self.found = Some(found.to_string());
        self
    }

    pub fn passing(mut self, retry_after: Duration) -> Self {
        self.passing = Some(retry_after);
        self
    }

    pub fn container(mut self, path: &Path) -> Self {
        self.container.get_or_insert_with(|| path.to_owned());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(container) = &self.container {
            write!(f, "{}: ", container.display())?;
        }
        if let Some(array) = &self.array {
            write!(f, "{array}: ")?;
        }
        if let Some(block) = self.block {
            write!(f, "block {block}: ")?;
        }
        if let Some(file) = &self.file {
            write!(f, "{file}: ")?;
        }
        if let Some(bytes) = &self.bytes {
            write!(f, "bytes {}..{}: ", bytes.start, bytes.end)?;
        }
        write!(f, "{}", self.what)?;
        match (&self.expected, &self.found) {
            (Some(e), Some(found)) => write!(f, ": expected {e}, found {found}"),
            (Some(e), None) => write!(f, ": expected {e}"),
            (None, Some(found)) => write!(f, ": found {found}"),
            (None, None) => Ok(()),
        }
    }
}

/// What is whole and not shown: where, and why. No damage of the container.
#[derive(Debug, Clone)]
pub struct NotShown {
    pub container: Option<PathBuf>,
    pub array: Option<String>,
    /// "raw data in other files (x.raw); never opened"
    pub why: String,
}

impl NotShown {
    pub fn new(why: impl Into<String>) -> Self {
        NotShown {
            container: None,
            array: None,
            why: why.into(),
        }
    }
}

impl fmt::Display for NotShown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(container) = &self.container {
            write!(f, "{}: ", container.display())?;
        }
        if let Some(array) = &self.array {
            write!(f, "{array}: ")?;
        }
        f.write_str(&self.why)
    }
}

impl Error {
    pub fn io(doing: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Error::Io {
            doing: doing.into(),
            cause: Arc::new(cause.into()),
        }
    }

    /// Adds coordinates to a fault that does not have them yet; other errors pass unchanged.
    pub fn map_fault(self, add: impl FnOnce(Fault) -> Fault) -> Self {
        match self {
            Error::Fault(fault) => Error::Fault(Box::new(add(*fault))),
            other => other,
        }
    }

    /// The broken rule, if it is one.
    pub fn fault(self) -> Option<Fault> {
        match self {
            Error::Fault(fault) => Some(*fault),
            _ => None,
        }
    }

    /// Says of which array it speaks, if it does not yet, and in which group that array's container
    /// lies.
    pub fn of_array(self, group: &str, array: &str) -> Self {
        match self {
            Error::NotShown(mut not) => {
                let named = not.array.get_or_insert_with(|| array.to_owned());
                if !group.is_empty() {
                    *named = format!("{group}/{named}");
                }
                Error::NotShown(not)
            }
            other => other.map_fault(|fault| fault.array(array).inside(group)),
        }
    }

    /// Says of which container it speaks, if it does not yet.
    pub fn of_container(self, path: &Path) -> Self {
        match self {
            Error::NotShown(mut not) => {
                not.container.get_or_insert_with(|| path.to_owned());
                Error::NotShown(not)
            }
            // Other errors of the system name the file that they concern.
            Error::Io { doing, cause } if is_no_memory(&cause) => {
                let shown = path.display().to_string();
                let doing = match doing.starts_with(&shown) {
                    true => doing,
                    false => format!("{shown}: {doing}"),
                };
                Error::Io { doing, cause }
            }
            other => other.map_fault(|fault| fault.container(path)),
        }
    }

    /// As a line of the log, which names the container and what in it (or a file, and nothing),
    /// whatever the error says by itself.
    pub fn told_of(&self, container: &Path, within: &str) -> String {
        told::line(&self.to_string(), &container.to_string_lossy(), within)
    }

    /// The error of something that a container cannot do without: what is merely not shown is a
    /// fault there.
    pub fn needed(self) -> Self {
        match self {
            Error::NotShown(not) => {
                let what = format!("cannot be shown: {}", not.why);
                let fault = Fault {
                    container: not.container,
                    array: not.array,
                    ..Fault::new(what)
                };
                fault.into()
            }
            other => other,
        }
    }

    /// Whether there was no memory for it.
    pub fn is_no_memory(&self) -> bool {
        matches!(self, Error::Io { cause, .. } if is_no_memory(cause))
    }

    /// What was to be made is there.
    pub fn is_already_there(&self) -> bool {
        matches!(self, Error::Io { cause, .. } if cause.kind() == io::ErrorKind::AlreadyExists)
    }

    /// A directory has something in it.
    pub fn is_not_empty(&self) -> bool {
        self.is_one_of(&[libc::ENOTEMPTY, libc::EEXIST])
    }

    /// There is no room for it on the disk, or no more than its owner may have.
    pub fn is_no_room(&self) -> bool {
        self.is_one_of(&[libc::ENOSPC, libc::EDQUOT, libc::EFBIG])
    }

    /// The source's file system does not let it be made, now or ever.
    pub fn is_refusal(&self) -> bool {
        use libc::{EACCES, EEXIST, EINVAL, ENAMETOOLONG, ENOSYS, EOPNOTSUPP, EPERM};
        let codes = [
            EACCES,
            EEXIST,
            EINVAL,
            ENAMETOOLONG,
            ENOSYS,
            EOPNOTSUPP,
            EPERM,
        ];
        self.is_one_of(&codes)
    }

    fn is_one_of(&self, codes: &[i32]) -> bool {
        let code = match self {
            Error::Io { cause, .. } => cause.raw_os_error(),
            _ => None,
        };
        code.is_some_and(|code| codes.contains(&code))
    }

    /// There is no such extended attribute.
    pub fn is_no_data(&self) -> bool {
        matches!(self, Error::Io { cause, .. } if cause.raw_os_error() == Some(libc::ENODATA))
    }

    pub fn is_permission_denied(&self) -> bool {
        matches!(self, Error::Io { cause, .. } if cause.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Another program holds a lease on the file.
    pub fn is_would_block(&self) -> bool {
        matches!(self, Error::Io { cause, .. } if cause.kind() == io::ErrorKind::WouldBlock)
    }

    /// Nothing is there, or something else: the error of a path that has been moved.
    pub fn is_lost(&self) -> bool {
        self.is_not_found() || matches!(self, Error::Changed { .. })
    }

    pub fn is_not_found(&self) -> bool {
        match self {
            Error::NotFound => true,
            Error::Io { cause, .. } => cause.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

fn is_no_memory(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(libc::ENOMEM)
}

impl From<NotShown> for Error {
    fn from(not: NotShown) -> Self {
        Error::NotShown(Box::new(not))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Error::Fault(Box::new(fault))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Fault(fault) => fault.fmt(f),
            Error::NotShown(not) => write!(f, "not shown: {not}"),
            Error::Io { doing, cause } => write!(f, "{doing}: {}", plain(cause)),
            Error::Changed { path } => {
                write!(
                    f,
                    "{}: changed while it was being read; open it again",
                    path.display()
                )
            }
            Error::NotFound => f.write_str("no such file or directory"),
            Error::NotADirectory => f.write_str("not a directory"),
            Error::IsADirectory => f.write_str("is a directory"),
            Error::Unsuitable => f.write_str("not possible for this kind of file"),
            Error::ReadOnly => f.write_str("read-only"),
            Error::Invalid(why) | Error::Computed(why) => f.write_str(why),
            Error::NotOpenForWriting => f.write_str("not open for writing"),
            Error::BeyondTheEnd => f.write_str("beyond the end of the file"),
            Error::NoAttribute => f.write_str("no such extended attribute"),
            Error::Unsupported => f.write_str("not supported"),
            Error::Unwanted => f.write_str("nobody waits for it any more"),
            Error::Bug(what) => write!(f, "a bug of arrayfs, please report it: {what}"),
        }
    }
}

impl std::error::Error for Error {}

/// What the system says, without the number that the standard library adds.
pub fn plain(cause: &io::Error) -> String {
    without_numbers(&cause.to_string())
}

/// A message without the `(os error N)` of the standard library.
pub fn without_numbers(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_names_container_and_array_once() {
        let told = |within: &str, text: &str| {
            let e = Error::Invalid(text.to_owned());
            e.told_of(Path::new("/d/x.h5"), within)
        };
        let expected = "/d/x.h5: g/a: 5 rows do not fit";
        for text in [
            "5 rows do not fit",
            "g/a: 5 rows do not fit",
            "/d/x.h5: 5 rows do not fit",
            expected,
        ] {
            assert_eq!(told("g/a", text), expected);
        }
        assert_eq!(
            told("", "cannot read /d/x.h5: no"),
            "cannot read /d/x.h5: no"
        );
        assert_eq!(told("", "read-only"), "/d/x.h5: read-only");
    }

    #[test]
    fn a_fault_reads_as_a_sentence() {
        let fault = Fault::new("the index goes back")
            .file("val_idx")
            .bytes(8..16)
            .expected("at least 12")
            .found(4);
        let located =
            Error::from(fault).map_fault(|f| f.block(3).array("val").container(Path::new("m")));
        assert_eq!(
            located.to_string(),
            "m: val: block 3: val_idx: bytes 8..16: the index goes back: expected at least 12, found 4"
        );
    }

    #[test]
    fn what_is_not_shown_says_where_it_is() {
        let not = Error::from(NotShown::new("filter 9"));
        let located = not.of_array("g", "x").of_container(Path::new("f.h5"));
        assert_eq!(located.to_string(), "not shown: f.h5: g/x: filter 9");
    }

    #[test]
    fn what_is_needed_and_not_shown_is_a_fault() {
        let needed = Error::from(NotShown::new("filter 9")).of_array("g", "x");
        let needed = needed.needed();
        assert!(matches!(needed, Error::Fault(_)));
        assert_eq!(needed.to_string(), "g/x: cannot be shown: filter 9");
        assert!(matches!(Error::NotFound.needed(), Error::NotFound));
    }

    #[test]
    fn missing_memory_says_for_which_container() {
        let error = Error::io("tables", io::Error::from_raw_os_error(libc::ENOMEM));
        let located = error.of_container(Path::new("f.h5"));
        let again = located.of_container(Path::new("f.h5")).to_string();
        assert_eq!(again, "f.h5: tables: Cannot allocate memory");
    }

    #[test]
    fn system_errors_have_no_numbers() {
        let error = Error::io("cannot read x", io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(
            error.to_string(),
            "cannot read x: No such file or directory"
        );
        assert_eq!(without_numbers("a (os error 2); b (os error 17)"), "a; b");
    }
}
