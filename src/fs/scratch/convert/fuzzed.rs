//! Target of fuzzers: what an interrupted conversion may have left. Used by `fuzzing`.

use std::ffi::OsStr;

use super::log::LeftLog;
use crate::fuzz_input::FuzzInput;

/// A log of any records, of which the checksums are right, or of any bytes.
pub fn conversion(data: &[u8]) {
    let mut input = FuzzInput(data);
    let mut log = Vec::new();
    if input.u8() == 0 {
        log.extend_from_slice(input.bytes(data.len()));
    }
    while !input.is_empty() {
        let len = input.number::<2>() as usize;
        let record = input.bytes(len);
        log.extend((record.len() as u32).to_le_bytes());
        log.extend(crc32fast::hash(record).to_le_bytes());
        log.extend_from_slice(record);
    }
    let left = LeftLog::parse(&log);
    assert!(left.len <= log.len() as u64);
    for name in ["d.blp~", "d.blp"].map(OsStr::new) {
        let names = [
            left.log.stored_name(1, 2, name),
            left.log.plain_name(1, 2, name),
        ];
        let leads_out = |name: &&OsStr| name.as_encoded_bytes().contains(&b'/');
        assert!(!names.iter().flatten().any(leads_out));
    }
}
