//! The limits of a worker: time for one request and memory.
//!
//! Time is processor time, so that a busy machine or a slow disk ends no worker. It grows with the
//! file, since an honest one holds at most so many objects in a mebibyte. A worker that computes
//! nothing and answers nothing is ended too, much later.

use std::time::Duration;

/// `ARRAYFS_HDF5_LIMITS="SECONDS,MEBIBYTES"` overrides time and memory for files of any size; a
/// third number is for how long an answer is waited for.
const VARIABLE: &str = "ARRAYFS_HDF5_LIMITS";

/// Processor time for the smallest file. libhdf5 describes some 30,000 datasets in a second.
const SECONDS_LEAST: u32 = 3;
/// What half a mebibyte adds: it has room for some 2,000 objects.
const SECONDS_PER_MEBIBYTE: f64 = 0.5;
const SECONDS_MOST: u32 = 60;
/// How many times longer an answer is waited for.
const PATIENCE: u32 = 10;

const MEBIBYTES: u64 = 1024;
/// The program itself needs some.
const MEBIBYTES_LEAST: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Processor time for one request; none: by the size of the file.
    pub(super) seconds: Option<u32>,
    /// Of address space.
    pub(super) mebibytes: u64,
    /// For how long an answer is waited for; none: [`PATIENCE`] times the processor time.
    pub(super) wait: Option<u32>,
}

/// What one request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowance {
    /// Processor time in seconds.
    pub(super) seconds: u32,
    /// Until the answer is there, in seconds.
    pub(super) wait: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            seconds: None,
            mebibytes: MEBIBYTES,
            wait: None,
        }
    }
}

impl Limits {
    /// The limits of this process's environment. A value that cannot be read is logged and ignored.
    pub(super) fn from_environment() -> Limits {
        let Some(value) = std::env::var_os(VARIABLE) else {
            return Limits::default();
        };
        value.to_str().and_then(Limits::parse).unwrap_or_else(|| {
            log::warn!("{VARIABLE} is not SECONDS,MEBIBYTES and is ignored");
            Limits::default()
        })
    }

    fn parse(value: &str) -> Option<Limits> {
        let numbers = value.split(',').map(|number| number.trim().parse().ok());
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        let (seconds, mebibytes, wait) = match numbers[..] {
            [seconds, mebibytes] => (seconds, mebibytes, None),
            [seconds, mebibytes, wait] => (seconds, mebibytes, Some(wait)),
            _ => return None,
        };
        let positive = |seconds: u64| u32::try_from(seconds).ok().filter(|s| *s > 0);
        Some(Limits {
            seconds: Some(positive(seconds)?),
            mebibytes: mebibytes.clamp(MEBIBYTES_LEAST, u64::MAX >> 20),
            wait: match wait {
                Some(wait) => Some(positive(wait)?),
                None => None,
            },
        })
    }

    /// For a request about a file of so many bytes.
    pub(super) fn allowance(&self, file: u64) -> Allowance {
        let grown = (file >> 20) as f64 * SECONDS_PER_MEBIBYTE;
        // Floats become integers without wrapping.
        let by_size = SECONDS_LEAST.saturating_add(grown as u32);
        let seconds = self.seconds.unwrap_or(by_size.min(SECONDS_MOST));
        let wait = self.wait.unwrap_or(seconds.saturating_mul(PATIENCE));
        Allowance { seconds, wait }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.mebibytes << 20
    }
}

impl Allowance {
    pub(super) fn processor_time(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }

    pub(super) fn waiting_time(&self) -> Duration {
        Duration::from_secs(self.wait.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_two_numbers_or_three() {
        let parsed = Limits::parse("3, 256").unwrap();
        assert_eq!(parsed.bytes(), 256 << 20);
        let allowed = |seconds, wait| Allowance { seconds, wait };
        assert_eq!(parsed.allowance(u64::MAX), allowed(3, 30));
        let parsed = Limits::parse("3,1,5").unwrap();
        assert_eq!(parsed.mebibytes, MEBIBYTES_LEAST);
        assert_eq!(parsed.allowance(0), allowed(3, 5));
        for bad in ["", "3", "0,256", "3,", "a,b", "3,256,1,1", "3,256,0"] {
            assert_eq!(Limits::parse(bad), None);
        }
    }

    #[test]
    fn a_large_file_may_take_longer_but_not_for_ever() {
        let seconds = |mebibytes: u64| Limits::default().allowance(mebibytes << 20).seconds;
        assert_eq!([0, 1, 10].map(seconds), [3, 3, 8]);
        assert_eq!([114, 1 << 20, u64::MAX >> 20].map(seconds), [60; 3]);
    }
}
