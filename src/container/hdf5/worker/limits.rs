//! What a worker may take: time for one request and memory.

use std::time::Duration;

/// `ARRAYFS_HDF5_LIMITS="SECONDS,MEBIBYTES"` overrides both limits.
const VARIABLE: &str = "ARRAYFS_HDF5_LIMITS";

const SECONDS: u32 = 20;
const MEBIBYTES: u64 = 1024;
/// The program itself needs some.
const MEBIBYTES_LEAST: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// For one request.
    pub(super) seconds: u32,
    /// Of address space.
    pub(super) mebibytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            seconds: SECONDS,
            mebibytes: MEBIBYTES,
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
        let (seconds, mebibytes) = value.split_once(',')?;
        let seconds = seconds.trim().parse().ok().filter(|s| *s > 0)?;
        let mebibytes: u64 = mebibytes.trim().parse().ok()?;
        Some(Limits {
            seconds,
            mebibytes: mebibytes.clamp(MEBIBYTES_LEAST, u64::MAX >> 20),
        })
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_secs(u64::from(self.seconds))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.mebibytes << 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_two_numbers() {
        let parsed = Limits::parse("3, 256").unwrap();
        assert_eq!((parsed.seconds, parsed.bytes()), (3, 256 << 20));
        assert_eq!(Limits::parse("3,1").unwrap().mebibytes, MEBIBYTES_LEAST);
        for bad in ["", "3", "0,256", "3,", "a,b", "3,256,1"] {
            assert_eq!(Limits::parse(bad), None);
        }
    }
}
