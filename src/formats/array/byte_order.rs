//! Byte order: elements turned around, from big-endian as stored to little-endian as shown, and
//! back.
//!
//! Pure, and written so that the compiler makes vector code of it. Used by `container::netcdf` and
//! `stage`.

/// Turns every element around; `bytes` holds whole elements of 1, 2, 4 or 8 bytes.
pub fn turn(bytes: &mut [u8], size: usize) {
    macro_rules! each {
        ($of:ty) => {
            for element in bytes.as_chunks_mut().0 {
                *element = <$of>::from_be_bytes(*element).to_le_bytes();
            }
        };
    }
    match size {
        2 => each!(u16),
        4 => each!(u32),
        8 => each!(u64),
        _ => {}
    }
}

/// The same on the way to another place of that length.
pub fn turn_to(from: &[u8], to: &mut [u8], size: usize) {
    macro_rules! each {
        ($of:ty, $size:literal) => {{
            let (from, to) = (from.as_chunks::<$size>().0, to.as_chunks_mut::<$size>().0);
            for (to, from) in to.iter_mut().zip(from) {
                *to = <$of>::from_be_bytes(*from).to_le_bytes();
            }
        }};
    }
    match size {
        2 => each!(u16, 2),
        4 => each!(u32, 4),
        8 => each!(u64, 8),
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_turn_the_same_and_back() {
        let first: Vec<u8> = (0..80).collect();
        for size in [1, 2, 4, 8] {
            let (mut turned, mut to) = (first.clone(), vec![0; 80]);
            turn(&mut turned, size);
            turn_to(&first, &mut to, size);
            assert_eq!(turned, to);
            assert_eq!(turned[..size], (0..size as u8).rev().collect::<Vec<_>>());
            turn(&mut turned, size);
            assert_eq!(turned, first);
        }
    }
}
