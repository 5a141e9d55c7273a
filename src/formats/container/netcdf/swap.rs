//! Byte order: from big-endian as stored to little-endian as shown, in place.
//!
//! Written so that the compiler makes vector code of it. Used by `read` and `describe`.

pub(super) use crate::array::byte_order::turn as elements;

/// Copies runs of `run` bytes, `stride` apart in `from`, behind each other. `from` ends with the
/// last run.
pub(super) fn gather(from: &[u8], stride: usize, run: usize, out: &mut [u8]) {
    macro_rules! each {
        ($size:literal) => {
            for (out, from) in out
                .as_chunks_mut::<$size>()
                .0
                .iter_mut()
                .zip(from.chunks(stride))
            {
                if let Some(run) = from.first_chunk() {
                    *out = *run;
                }
            }
        };
    }
    match run {
        1 => each!(1),
        2 => each!(2),
        4 => each!(4),
        8 => each!(8),
        _ => {
            for (out, from) in out.chunks_mut(run).zip(from.chunks(stride)) {
                out.copy_from_slice(&from[..run]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_turned_around() {
        for size in [1, 2, 4, 8] {
            let stored: Vec<u8> = (0..80).collect();
            let mut shown = stored.clone();
            elements(&mut shown, size);
            for (shown, stored) in shown.chunks(size).zip(stored.chunks(size)) {
                assert!(shown.iter().eq(stored.iter().rev()));
            }
        }
    }

    #[test]
    fn runs_are_gathered() {
        for run in [1, 2, 3, 4, 8, 12] {
            let stride = run + 5;
            let from: Vec<u8> = (0..(4 * stride + run) as u8).collect();
            let mut out = vec![0; 5 * run];
            gather(&from, stride, run, &mut out);
            for (number, out) in out.chunks(run).enumerate() {
                assert_eq!(out, &from[number * stride..][..run]);
            }
        }
    }
}
