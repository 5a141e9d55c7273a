//! Target of fuzzers: what an interrupted conversion may have left. Used by `fuzzing`.

use std::ffi::OsStr;

use super::log::{HEAD, LeftLog};
use crate::fuzz_input::{FuzzInput, no_bug};
use crate::source::BytesSource;

/// A log of any records, of which the checksums are right, or of any bytes.
pub fn conversion(data: &[u8]) {
    let mut input = FuzzInput(data);
    let mut log = Vec::new();
    if input.u8() == 0 {
        log.extend_from_slice(input.bytes(data.len()));
    }
    while !input.is_empty() {
        let len = input.number::<2>() as usize;
        HEAD.append(&[input.bytes(len)], &mut log);
    }
    let len = log.len() as u64;
    let Some(left) = no_bug(LeftLog::read(&BytesSource::new(log))) else {
        return;
    };
    assert!(left.len <= len);
    for name in ["d.blp~", "d.blp"].map(OsStr::new) {
        let names = [
            left.log.stored_name(1, 2, name),
            left.log.plain_name(1, 2, name),
        ];
        let leads_out = |name: &&OsStr| name.as_encoded_bytes().contains(&b'/');
        assert!(!names.iter().flatten().any(leads_out));
    }
}
