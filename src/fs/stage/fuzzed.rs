//! Target of fuzzers: logs of any records, of which the checksums are right, and of any bytes. Used
//! by `fuzzing`.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::log::{FoundLog, LogOf, LogState, fold, log_names};
use super::written_array::WrittenArray;
use crate::fuzz_input::{FuzzInput, no_bug};
use crate::records::{BYTES, RecordHead};
use crate::source::BytesSource;
use crate::source::memory::MemoryStore;

const CONTAINER: &str = "x.blp";

/// A log, read and shown through.
pub fn log(data: &[u8]) {
    let mut input = FuzzInput(data);
    let log = match input.u8() {
        0 => input.bytes(data.len()).to_vec(),
        _ => records(&mut input),
    };
    let store = MemoryStore::new(Path::new(""));
    let name = log_names(OsStr::new(CONTAINER)).next().expect("a name");
    let of = LogOf {
        store: &store,
        directory: Path::new(""),
        container: OsStr::new(CONTAINER),
        owner: 0,
    };
    if let Some(FoundLog::Held(state)) = no_bug(fold(
        Arc::new(BytesSource::new(log)),
        (&of, &name),
        u64::MAX,
    )) {
        show(&state);
    }
}

/// Kind, sequence and bytes of each record.
fn records(input: &mut FuzzInput<'_>) -> Vec<u8> {
    let mut log = Vec::new();
    let mut sequence = 1;
    while !input.is_empty() {
        let kind = input.u8();
        sequence += match kind >> 4 {
            0 => 1,
            1 => 1 << 32,
            2 => input.number::<8>() >> 8,
            _ => 1,
        };
        let len = input.number::<2>() as usize;
        let kind = match kind & 15 {
            bytes @ (2 | 3) => BYTES | bytes,
            small => small,
        };
        let head = RecordHead {
            kind,
            sequence,
            synced: 0,
        };
        head.append(&[input.bytes(len)], &mut log);
    }
    log
}

/// All that a mount and the command `stage` ask of it.
fn show(state: &LogState) {
    let layers = state.layers();
    let _ = (state.staged_bytes(), state.is_begun(), state.is_clean());
    for file in state.sealed() {
        let _ = (state.file_length(file), state.patches_of(file).len());
    }
    for (number, _) in (0..).zip(state.arrays()) {
        let array = WrittenArray(number);
        for layer in &layers {
            let _ = (layer.len(array), layer.visible(array));
            for range in layer.changed(array) {
                let most = range.end.min(range.start.saturating_add(4096));
                let mut bytes = vec![0; most.saturating_sub(range.start) as usize];
                no_bug(layer.read(array, range.start, &mut bytes));
            }
        }
    }
}
