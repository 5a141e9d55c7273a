//! LZF (filter 32000, h5py): literals of up to 32 bytes, and matches of up to 264 in the last 8
//! KiB.
//!
//! A control byte below 32 stands for as many literals and one more. Otherwise its top three bits
//! are the length of a match less 2, 7 going on in the next byte, and its low five the high bits of
//! the distance less 1, whose low byte comes last. The stream ends with its bytes.

use super::error::FilterError;
use crate::blosc::StreamError;
use crate::blosc::window::{Input, Window};

/// Decodes into the front of `out`; returns the number of bytes written.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let (mut input, mut window) = (Input::new(stored), Window::new(out));
    while !input.is_empty() {
        step(&mut input, &mut window)?;
    }
    Ok(window.written())
}

#[inline(always)]
fn step(input: &mut Input, window: &mut Window) -> Result<(), StreamError> {
    let control = usize::from(input.byte()?);
    if control < 32 {
        return window.literals(input, control + 1);
    }
    let mut len = control >> 5;
    if len == 7 {
        len += usize::from(input.byte()?);
    }
    let distance = ((control & 31) << 8 | usize::from(input.byte()?)) + 1;
    window.repeat(distance, len + 2)
}
