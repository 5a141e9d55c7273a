//! What mount options are set to, read and checked. An error says what was expected.
//!
//! Used by [`super`].

use std::process::{Command, Stdio};
use std::time::Duration;

use log::LevelFilter;

use super::super::size;
use crate::commit::Preference;
use crate::container::Dialect;
use crate::daemon::log::Destination;
use crate::memory::limit;

/// More ahead of every reader is a mistake.
const MOST_AHEAD: u64 = 1 << 30;

/// Of memory, in percent.
const MOST_SHARE: f64 = 90.0;

/// A size, or a share of the memory. More than there is cannot be meant.
pub(super) fn cache(value: &str) -> Result<u64, String> {
    let memory = limit::available();
    let bytes = match value.strip_suffix('%') {
        Some(share) => share_of(memory, share)?,
        None => size::parse(value)?,
    };
    match bytes {
        ..1048576 => Err("at least 1M is needed".into()),
        bytes if bytes > memory => {
            let memory = size::show(memory);
            Err(format!("that is more than the memory here, {memory}"))
        }
        bytes => Ok(bytes),
    }
}

fn share_of(memory: u64, share: &str) -> Result<u64, String> {
    match share.trim().parse::<f64>() {
        Ok(share) if share > 0.0 && share <= MOST_SHARE => {
            Ok((memory as f64 / 100.0 * share) as u64)
        }
        _ => Err(format!(
            "expected a share of the memory, up to {MOST_SHARE}%"
        )),
    }
}

pub(super) fn readahead(value: &str) -> Result<u64, String> {
    match size::parse(value)? {
        bytes @ ..=MOST_AHEAD => Ok(bytes),
        _ => Err("expected at most 1G".into()),
    }
}

pub(super) fn threads(value: &str) -> Result<usize, String> {
    match digits(value) {
        Some(n @ 1..=256) => Ok(n),
        _ => Err("expected a number from 1 to 256".into()),
    }
}

pub(super) fn milliseconds(value: &str) -> Result<Duration, String> {
    let number: u32 = value
        .parse()
        .map_err(|_| "expected milliseconds".to_owned())?;
    Ok(Duration::from_millis(number.into()))
}

pub(super) fn umask(value: &str) -> Result<u16, String> {
    let signed = value.starts_with('+');
    match u16::from_str_radix(value, 8) {
        Ok(bits) if bits <= 0o777 && !signed => Ok(bits),
        _ => Err("expected an octal number up to 777".into()),
    }
}

/// A number without a sign.
fn digits<T: std::str::FromStr>(value: &str) -> Option<T> {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| is_number)
}

/// A number, or the name of a user.
pub(super) fn user(value: &str) -> Result<u32, String> {
    number_or(value, "passwd", "user")
}

/// A number, or the name of a group.
pub(super) fn group(value: &str) -> Result<u32, String> {
    number_or(value, "group", "group")
}

/// `getent` asks where the system keeps its users, which may be a directory in the network; in a
/// static binary the C library cannot.
fn number_or(value: &str, database: &str, kind: &str) -> Result<u32, String> {
    // The largest number stands for nobody at all.
    if let Some(number) = digits(value).filter(|number| *number != u32::MAX) {
        return Ok(number);
    }
    // What a number would be that is too large, or negative, is no name.
    let is_name = value.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let line = is_name.then(|| entry(database, value)).flatten();
    let number = line.and_then(|line| line.split(':').nth(2)?.parse().ok());
    number.ok_or_else(|| format!("there is no such {kind}: expected a number or a name"))
}

fn entry(database: &str, name: &str) -> Option<String> {
    let asked = Command::new("getent")
        .args([database, name])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let text = match asked {
        Ok(output) => String::from_utf8(output.stdout).ok()?,
        Err(_) => std::fs::read_to_string(format!("/etc/{database}")).ok()?,
    };
    let of_name = |line: &&str| line.split(':').next() == Some(name);
    text.lines().find(of_name).map(str::to_owned)
}

/// The daemon leaves the directory that it was started in, so a file's path is made absolute.
pub(super) fn destination(value: &str) -> Result<Destination, String> {
    match value {
        "syslog" => Ok(Destination::System),
        path => std::path::absolute(path)
            .map(Destination::File)
            .map_err(|_| "expected a file or syslog".into()),
    }
}

pub(super) fn log_level(value: &str) -> Result<LevelFilter, String> {
    value
        .parse()
        .map_err(|_| "expected off, error, warn, info, debug or trace".into())
}

/// How DAPHNE files are to be read.
pub(super) fn dialect(value: &str) -> Result<Dialect, String> {
    match value {
        "auto" => Ok(Dialect::Auto),
        "spec" => Ok(Dialect::Spec),
        "daphne" => Ok(Dialect::Daphne),
        _ => Err("expected auto, spec or daphne".into()),
    }
}

/// How changes of arrays are to be committed.
pub(super) fn preference(value: &str) -> Result<Preference, String> {
    match value {
        "auto" => Ok(Preference::Auto),
        "replace" => Ok(Preference::Replace),
        "inplace" => Ok(Preference::InPlace),
        _ => Err("expected auto, replace or inplace".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_a_size_or_a_share_of_the_memory_there_is() {
        let memory = limit::available();
        assert_eq!(cache("1.5M"), Ok(3 << 19));
        assert_eq!(cache("10%"), Ok((memory as f64 / 100.0 * 10.0) as u64));
        for nonsense in [
            "0", "1K", "999T", "0%", "100%", "-5%", "ten%", "nan%", "%", "lots",
        ] {
            assert!(cache(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn numbers_have_no_sign() {
        assert_eq!((threads("4"), umask("022")), (Ok(4), Ok(0o22)));
        assert!(threads("+4").is_err() && umask("+22").is_err());
    }

    #[test]
    fn users_and_groups_have_names() {
        assert_eq!((user("root"), group("root")), (Ok(0), Ok(0)));
        assert_eq!(user("4294967294"), Ok(u32::MAX - 1));
        for nobody in [
            "",
            "-1",
            "+1",
            "4294967295",
            "4294967296",
            "no-such-user",
            "root:x",
            "--help",
        ] {
            assert!(user(nobody).is_err(), "{nobody}");
        }
    }
}
