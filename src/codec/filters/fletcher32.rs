//! Fletcher-32 (filter 3): four bytes behind the data that must match it.
//!
//! The sums run over big-endian 16-bit words modulo 65535, an odd last byte being a high one.
//! Writers before HDF5 1.6.3 swapped the bytes of both halves on little-endian machines, so that
//! form is taken too.

use super::error::FilterError;

/// Bytes of the checksum.
pub(crate) const LEN: usize = 4;
/// Words that can be added up before the second sum could exceed 32 bits.
const RUN: usize = 360;

/// The data in front of the checksum, once that is found right.
pub(crate) fn check(stored: &[u8]) -> Result<&[u8], FilterError> {
    let (data, sum) = stored
        .split_last_chunk::<LEN>()
        .ok_or_else(FilterError::truncated)?;
    let (expected, found) = (checksum(data), u32::from_le_bytes(*sum));
    if found == expected || found == swap_halves(expected) {
        return Ok(data);
    }
    Err(FilterError::new("the checksum does not match")
        .expected(format_args!("{expected:#010x}"))
        .found(format_args!("{found:#010x}")))
}

/// Writes the data and its checksum to the front of `out`, which has [`LEN`] more bytes; returns
/// the number of bytes written.
pub(super) fn append(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let (place, rest) = out.split_at_mut_checked(data.len())?;
    place.copy_from_slice(data);
    *rest.first_chunk_mut()? = checksum(data).to_le_bytes();
    Some(data.len() + LEN)
}

fn checksum(data: &[u8]) -> u32 {
    let (words, odd) = data.as_chunks::<2>();
    let (mut first, mut second) = (0u32, 0u32);
    for run in words.chunks(RUN) {
        (first, second) = add(run, first, second);
    }
    if let [byte] = odd {
        (first, second) = add(&[[*byte, 0]], first, second);
    }
    fold(second) << 16 | fold(first)
}

/// Adds at most [`RUN`] words and reduces both sums to little more than 16 bits.
fn add(words: &[[u8; 2]], mut first: u32, mut second: u32) -> (u32, u32) {
    for word in words {
        first += u32::from(u16::from_be_bytes(*word));
        second += first;
    }
    (fold(first), fold(second))
}

/// One step of reduction modulo 65535.
fn fold(sum: u32) -> u32 {
    (sum & 0xffff) + (sum >> 16)
}

fn swap_halves(sum: u32) -> u32 {
    (sum & 0x00ff_00ff) << 8 | (sum >> 8 & 0x00ff_00ff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By definition, one word at a time; a sum is 65535 rather than 0, unless nothing was added.
    fn by_definition(data: &[u8]) -> u32 {
        let reduce = |sum: u64| {
            if sum > 0 {
                ((sum - 1) % 65535 + 1) as u32
            } else {
                0
            }
        };
        let (mut first, mut second) = (0u64, 0u64);
        for word in data.chunks(2) {
            first += u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0));
            second += u64::from(reduce(first));
        }
        reduce(second) << 16 | reduce(first)
    }

    #[test]
    fn a_chunk_of_h5py() {
        // create_dataset("d", data=numpy.arange(5, dtype="<u2"), chunks=(5,), fletcher32=True)
        let data = [0, 0, 1, 0, 2, 0, 3, 0, 4, 0];
        assert_eq!(checksum(&data), by_definition(&data));
        assert_eq!(checksum(&data), 0x1400_0a00);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_the_definition(data in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(checksum(&data), by_definition(&data));
        }

        #[test]
        fn either_byte_order_passes_and_no_other_sum(
            data in prop::collection::vec(any::<u8>(), 0..300),
            wrong in 1u32..,
        ) {
            let sum = checksum(&data);
            let with = |sum: u32| [&data[..], &sum.to_le_bytes()].concat();
            prop_assert!(check(&with(sum)).unwrap() == data);
            prop_assert!(check(&with(swap_halves(sum))).unwrap() == data);
            let other = sum ^ wrong;
            prop_assume!(other != swap_halves(sum));
            prop_assert!(check(&with(other)).is_err());
        }
    }
}
