//! Blosc2 (filter 32026).

use super::error::FilterError;
use super::tools::Tools;

pub(super) fn decode(_: &mut Tools, _: &[u8], _: &mut [u8]) -> Result<usize, FilterError> {
    Err(FilterError::new("not yet"))
}
