//! One codec stream to its plain bytes, with the library contexts that are kept between streams.

use super::error::StreamError;
use super::header::Codec;
use super::{blosclz, lz4};
use libdeflater::{DecompressionError, Decompressor as Deflate};
use zstd::bulk::Decompressor as Zstd;

/// Zstandard copies the last bytes of a block one by one unless it has this much room behind them
/// (its `WILDCOPY_OVERLENGTH`, 32, and some).
pub(super) const SLACK: usize = 64;

/// Contexts of the codecs that need one, made when first used.
#[derive(Default)]
pub(super) struct Codecs {
    deflate: Option<Deflate>,
    snappy: snap::raw::Decoder,
    zstd: Option<Zstd<'static>>,
}

impl Codecs {
    /// Decodes `stored` into the first `len` bytes of `room`, of which it must make exactly that
    /// many. Those behind, and all on failure, hold rubbish.
    pub(super) fn decode_into_room(
        &mut self,
        codec: Codec,
        stored: &[u8],
        room: &mut [u8],
        len: usize,
    ) -> Result<(), StreamError> {
        match codec {
            Codec::Zstd => exact(self.zstd(stored, room)?, len),
            _ => self.decode(codec, stored, &mut room[..len]),
        }
    }

    /// Decodes `stored` into exactly `plain`. On failure `plain` holds rubbish.
    pub(super) fn decode(
        &mut self,
        codec: Codec,
        stored: &[u8],
        plain: &mut [u8],
    ) -> Result<(), StreamError> {
        match codec {
            Codec::BloscLz => blosclz::decode(stored, plain),
            Codec::Lz4 => lz4::decode(stored, plain),
            Codec::Snappy => exact(self.snappy(stored, plain)?, plain.len()),
            Codec::Zlib => exact(self.zlib(stored, plain)?, plain.len()),
            Codec::Zstd => exact(self.zstd(stored, plain)?, plain.len()),
        }
    }

    fn snappy(&mut self, stored: &[u8], plain: &mut [u8]) -> Result<usize, StreamError> {
        let found = snap::raw::decompress_len(stored).map_err(|_| StreamError::Refused)?;
        exact(found, plain.len())?;
        self.snappy
            .decompress(stored, plain)
            .map_err(|_| StreamError::Refused)
    }

    fn zlib(&mut self, stored: &[u8], plain: &mut [u8]) -> Result<usize, StreamError> {
        let context = self.deflate.get_or_insert_with(Deflate::new);
        context
            .zlib_decompress(stored, plain)
            .map_err(|error| match error {
                DecompressionError::BadData => StreamError::Refused,
                DecompressionError::InsufficientSpace => StreamError::TooLong {
                    expected: plain.len(),
                },
            })
    }

    fn zstd(&mut self, stored: &[u8], plain: &mut [u8]) -> Result<usize, StreamError> {
        let context = match &mut self.zstd {
            Some(context) => context,
            none => none.insert(Zstd::new().map_err(|_| StreamError::NoContext)?),
        };
        context
            .decompress_to_buffer(stored, plain)
            .map_err(|_| StreamError::Refused)
    }
}

fn exact(found: usize, expected: usize) -> Result<(), StreamError> {
    match found.cmp(&expected) {
        std::cmp::Ordering::Less => Err(StreamError::TooShort { found, expected }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(StreamError::TooLong { expected }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blosc::tests::CODECS;
    use crate::blosc::tests::encoder::{byte_runs, compress, mutate};
    use proptest::prelude::*;

    #[test]
    fn length_must_be_exact() {
        let plain = [7; 1000];
        for &codec in CODECS {
            let stored = compress(codec, &plain);
            let mut codecs = Codecs::default();
            assert_eq!(
                codecs.decode(codec, &stored, &mut [0; 1000]),
                Ok(()),
                "{codec:?}"
            );
            assert!(
                codecs.decode(codec, &stored, &mut [0; 1001]).is_err(),
                "{codec:?}"
            );
            assert!(
                codecs.decode(codec, &stored, &mut [0; 999]).is_err(),
                "{codec:?}"
            );
            assert!(
                codecs.decode(codec, &[], &mut [0; 999]).is_err(),
                "{codec:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn codecs_recover_from_damage(plain in byte_runs(600), edits in mutate(), room in 0usize..700) {
            let mut codecs = Codecs::default();
            for &codec in CODECS {
                let stored = compress(codec, &plain);
                let _ = codecs.decode(codec, &edits.apply(stored.clone()), &mut vec![0; room]);
                let mut out = vec![0; plain.len()];
                prop_assert_eq!(codecs.decode(codec, &stored, &mut out), Ok(()));
                prop_assert_eq!(&out, &plain);
            }
        }
    }
}
