//! Target of fuzzers: words of the command line. Used by [`crate::fuzzing`].

use super::options::MountOptions;
use super::size;
use crate::fuzz_input::FuzzInput;
use crate::look::picture::PictureSize;
use crate::look::slice;

/// A word as a size, as mount options, as the size of a picture, and as a slice.
pub(crate) fn words(data: &[u8]) {
    let mut input = FuzzInput(data);
    let shape: Vec<u64> = (0..input.u8() % 5)
        .map(|_| u64::from(input.u32()))
        .collect();
    let Ok(word) = std::str::from_utf8(input.bytes(data.len())) else {
        return;
    };
    if let Ok(bytes) = size::parse(word) {
        assert!(!size::show(bytes).is_empty());
    }
    let _ = PictureSize::parse(word);
    let options: Vec<String> = word.split(',').map(str::to_owned).collect();
    let _ = MountOptions::parse(&options);
    let Ok(slices) = slice::parse(word, &shape, &[]) else {
        return;
    };
    for (slice, len) in slices.iter().zip(shape) {
        let ends = [0, slice.count.saturating_sub(1)].map(|n| slice.index(n));
        assert!(slice.count == 0 || ends.iter().all(|index| *index < len));
        let again = slice::parse(&slice.spelled(len), &[len], &[]);
        let again = again.expect("a slice that was spelled");
        assert_eq!(
            (again[0].count, again[0].is_single),
            (slice.count, slice.is_single)
        );
    }
}
