//! The command line of this process as others see it, in /proc and by ps(1).
//!
//! Used by the command line, where a part of it is nobody else's business.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// Where in /proc/PID/stat it stands where the arguments begin, behind the name in parentheses.
const ARG_START: usize = 45;

/// Puts other words, as many of them as fit, in the place of one argument, wherever it stands.
pub(crate) fn replace(argument: &[u8], by: &[u8]) -> io::Result<()> {
    if argument.is_empty() {
        return Ok(());
    }
    let all = std::fs::read("/proc/self/cmdline")?;
    let start = arguments_start(&std::fs::read_to_string("/proc/self/stat")?);
    let start = start.ok_or(io::ErrorKind::InvalidData)?;
    // What the standard library says of arguments it copies from there whenever it is asked.
    let memory: File = OpenOptions::new().write(true).open("/proc/self/mem")?;
    let mut other = by.to_vec();
    other.resize(argument.len(), b' ');
    let places = (0..all.len()).filter(|&at| all[at..].starts_with(argument));
    for at in places {
        memory.write_all_at(&other, start.saturating_add(at as u64))?;
    }
    Ok(())
}

fn arguments_start(stat: &str) -> Option<u64> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(ARG_START)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_begin_where_the_system_says() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let start = arguments_start(&stat).unwrap();
        let memory = File::open("/proc/self/mem").unwrap();
        let all = std::fs::read("/proc/self/cmdline").unwrap();
        let mut found = vec![0; all.len()];
        memory.read_exact_at(&mut found, start).unwrap();
        assert_eq!(found, all);
        assert_eq!(arguments_start("1 (a) b) S 2"), None);
        assert!(replace(b"", b"longer").is_ok());
    }
}
