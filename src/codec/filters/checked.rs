//! One filter of a pipeline: its client values checked, its decoder chosen, its sizes bounded.

use super::bitshuffle::Bitshuffle;
use super::error::{FilterError, Unsupported};
use super::nbit::Nbit;
use super::scale_offset::ScaleOffset;
use super::szip::Szip;
use super::tools::Tools;
use super::{FilterDescription, blosc, blosc2, fletcher32, libraries, lz4, lzf, shuffle};
use crate::error::NotShown;
use crate::memory::room;

/// Zstandard fills a block of 128 KiB with four bytes.
pub(crate) const ZSTD_RATIO: u64 = (128 << 10) / 4;
/// Deflate copies 258 bytes with two bits.
pub(crate) const DEFLATE_RATIO: u64 = 1032;
/// LZF copies 264 bytes with three.
const LZF_RATIO: u64 = 264 / 3;
pub(crate) const LZ4_RATIO: u64 = 255;
/// Bzip2 puts 45.9 million equal bytes into a block of some 40.
pub(crate) const BZIP2_RATIO: u64 = 1 << 21;

/// A filter, ready to decode.
#[derive(Debug, Clone)]
pub(super) enum CheckedFilter {
    Deflate,
    Shuffle {
        width: usize,
    },
    Fletcher32,
    Szip(Szip),
    Nbit(Nbit),
    ScaleOffset(ScaleOffset),
    Bzip2,
    Lzf,
    Blosc,
    Lz4,
    Bitshuffle(Bitshuffle),
    Zstd,
    Blosc2,
    /// Without a decoder, or with client values that it cannot have: of use where every chunk skips
    /// it.
    Unusable(Unsupported),
}

/// Whether libhdf5, or who brings the filter, gives chunks to a filter with these client values.
/// Where it does not, every chunk skips the filter, and one that did not would be refused by it:
/// the values of a second shuffle are never set, for one, as the first is found by its number.
pub(super) fn is_applied(filter: &FilterDescription) -> bool {
    let values = &*filter.values;
    match filter.id {
        1 => matches!(values, [0..=9]),
        2 => matches!(values, [width] if *width != 0),
        4 => values.len() == 4,
        5 => values
            .first()
            .is_some_and(|&count| count as usize == values.len()),
        6 => values.len() == 20,
        32008 => values.len() >= 3 && values[2] != 0,
        _ => true,
    }
}

impl CheckedFilter {
    pub(super) fn new(filter: &FilterDescription) -> Self {
        Self::usable(filter).unwrap_or_else(Self::Unusable)
    }

    fn usable(filter: &FilterDescription) -> Result<Self, Unsupported> {
        Ok(match filter.id {
            1 => Self::Deflate,
            2 => Self::Shuffle {
                width: shuffle_width(filter)?,
            },
            3 => Self::Fletcher32,
            4 => Self::Szip(Szip::new(filter)?),
            5 => Self::Nbit(Nbit::new(filter)?),
            6 => Self::ScaleOffset(ScaleOffset::new(filter)?),
            307 => Self::Bzip2,
            32000 => Self::Lzf,
            32001 => Self::Blosc,
            32004 => Self::Lz4,
            32008 => Self::Bitshuffle(Bitshuffle::new(filter)?),
            32015 => Self::Zstd,
            32026 => Self::Blosc2,
            id => return Err(Unsupported::unknown(id, "there is no decoder for it")),
        })
    }

    /// Why it cannot be undone, if it cannot.
    pub(super) fn unusable(&self) -> Option<&Unsupported> {
        match self {
            Self::Unusable(why) => Some(why),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Deflate => "gzip",
            Self::Shuffle { .. } => "shuffle",
            Self::Fletcher32 => "fletcher32",
            Self::Szip(_) => "szip",
            Self::Nbit(_) => "nbit",
            Self::ScaleOffset(_) => "scaleoffset",
            Self::Bzip2 => "bzip2",
            Self::Lzf => "lzf",
            Self::Blosc => "blosc",
            Self::Lz4 => "lz4",
            Self::Bitshuffle(filter) => filter.name(),
            Self::Zstd => "zstd",
            Self::Blosc2 => "blosc2",
            Self::Unusable(why) => why.name().unwrap_or("unknown"),
        }
    }

    /// The decoded bytes, where they are stored as they are; otherwise [`CheckedFilter::decode`] is
    /// needed.
    pub(super) fn view<'a>(&self, stored: &'a [u8]) -> Result<Option<&'a [u8]>, FilterError> {
        match self {
            Self::Fletcher32 => fletcher32::check(stored).map(Some),
            _ if self.is_view() => Ok(Some(stored)),
            _ => Ok(None),
        }
    }

    /// Whether [`CheckedFilter::view`] is all there is to do.
    pub(super) fn is_view(&self) -> bool {
        match self {
            Self::Fletcher32 | Self::Shuffle { width: 1 } => true,
            Self::Nbit(filter) => filter.keeps_bytes(),
            Self::ScaleOffset(filter) => filter.keeps_bytes(),
            _ => false,
        }
    }

    /// Decodes into the front of `out`; returns the number of bytes written. More is an error.
    /// Takes [`CheckedFilter::scratch`] of memory at most.
    pub(super) fn decode(
        &self,
        mut tools: Tools<'_>,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<usize, FilterError> {
        match self {
            Self::Deflate => libraries::deflate(tools.contexts, stored, out),
            Self::Zstd => libraries::zstd(tools.contexts, stored, out),
            Self::Bzip2 => libraries::bzip2(stored, out),
            Self::Lzf => lzf::decode(stored, out),
            Self::Lz4 => lz4::decode(stored, out),
            Self::Blosc => blosc::decode(&mut tools, stored, out),
            Self::Blosc2 => blosc2::decode(&mut tools, stored, out),
            Self::Bitshuffle(filter) => filter.decode(&mut tools, stored, out),
            Self::Szip(filter) => filter.decode(&mut tools, stored, out),
            Self::Nbit(filter) => filter.decode(stored, out),
            Self::ScaleOffset(filter) => filter.decode(stored, out),
            Self::Shuffle { width } => shuffle::decode(*width, stored, out),
            Self::Fletcher32 => copy(fletcher32::check(stored)?, out),
            Self::Unusable(why) => Err(refused(why)),
        }
    }

    /// The most that the filter makes of `plain` bytes.
    ///
    /// No writer keeps a chunk that grew by much: HDF5 stores it without the filter.
    pub(super) fn most_stored(&self, plain: usize) -> usize {
        let grown = |by: usize| plain.saturating_add(by);
        match self {
            Self::Fletcher32 => grown(fletcher32::LEN),
            Self::Shuffle { .. } => plain,
            Self::Bitshuffle(filter) if filter.keeps_size() => plain,
            _ if self.is_view() => plain,
            _ => grown(plain / 4 + (64 << 10)),
        }
    }

    /// The most that `stored` bytes can decode to.
    pub(super) fn most(&self, stored: u64) -> u64 {
        let times = |ratio: u64| stored.saturating_mul(ratio);
        match self {
            Self::Deflate => times(DEFLATE_RATIO),
            Self::Lzf => times(LZF_RATIO),
            Self::Lz4 => times(LZ4_RATIO),
            Self::Bzip2 => times(BZIP2_RATIO),
            Self::Blosc | Self::Zstd => times(ZSTD_RATIO),
            Self::Bitshuffle(filter) => times(filter.ratio()),
            Self::Szip(_) => times(Szip::RATIO),
            Self::Nbit(filter) => filter.most(stored),
            Self::ScaleOffset(filter) if !filter.keeps_bytes() => filter.most(),
            Self::Blosc2 => u64::MAX,
            Self::Shuffle { .. } | Self::ScaleOffset(_) | Self::Unusable(_) => stored,
            Self::Fletcher32 => stored.saturating_sub(fletcher32::LEN as u64),
        }
    }

    /// Memory beside input and output to decode to at most `plain` bytes.
    pub(super) fn scratch(&self, plain: usize) -> u64 {
        match self {
            Self::Blosc => blosc::scratch(plain),
            Self::Blosc2 => blosc2::scratch(plain),
            Self::Bitshuffle(filter) => filter.scratch(plain),
            Self::Szip(filter) => filter.scratch(plain),
            Self::Bzip2 => room(libraries::BZIP2),
            _ => 0,
        }
    }
}

fn refused(why: &Unsupported) -> FilterError {
    match why.is_unknown {
        true => FilterError::Failed(NotShown::new(why.to_string()).into()),
        false => FilterError::new(why.reason.clone()),
    }
}

fn shuffle_width(filter: &FilterDescription) -> Result<usize, Unsupported> {
    match filter.values.first() {
        None => Err(Unsupported::new(
            filter.id,
            "the size of its elements is missing",
        )),
        Some(0) => Err(Unsupported::new(filter.id, "elements of 0 bytes")),
        Some(width) => Ok(*width as usize),
    }
}

fn copy(plain: &[u8], out: &mut [u8]) -> Result<usize, FilterError> {
    let most = out.len();
    let out = out.get_mut(..plain.len());
    let out = out.ok_or_else(|| FilterError::too_long(most).found(plain.len()))?;
    out.copy_from_slice(plain);
    Ok(plain.len())
}

#[cfg(test)]
mod tests {
    use super::super::{NAMES, Pipeline, has_decoder};
    use super::*;

    fn described(id: u32) -> FilterDescription {
        let values = match id {
            1 => vec![6],
            2 => vec![8],
            4 => vec![0, 8, 8, 8],
            // As many as it says, and chunks that are stored as they are.
            5 => vec![3, 1, 8],
            6 => [&[2, 0, 8, 0, 8][..], &[0; 15]].concat(),
            // The last one is the code within bitshuffle: LZ4.
            _ => vec![8, 8, 8, 8, 2],
        };
        FilterDescription { id, values }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn every_filter_with_a_decoder_has_a_name_in_the_list() {
        let decoded = (0..40_000).filter(|id| has_decoder(&described(*id)));
        assert_eq!(decoded.count(), NAMES.len());
        for id in [1, 2, 3, 307, 32000, 32001, 32004, 32015, 32026] {
            let pipeline = Pipeline::new(&[described(id)], 64).unwrap();
            assert!(NAMES.contains(&&pipeline.name()[..]), "{id}");
        }
    }

    #[test]
    fn filters_of_the_library_are_applied_with_values_that_it_takes() {
        for id in [1, 2, 4, 5, 6, 32008] {
            let sound = described(id);
            assert!(is_applied(&sound), "{id}");
            for values in [&[][..], &sound.values[..sound.values.len() - 1]] {
                let values = values[..values.len().min(2)].to_vec();
                assert!(!is_applied(&FilterDescription { id, values }), "{id}");
            }
        }
        let with = |id, values: &[u32]| {
            let values = values.to_vec();
            is_applied(&FilterDescription { id, values })
        };
        assert!(!with(1, &[10]) && !with(1, &[6, 6]) && !with(2, &[0]) && !with(2, &[4, 4]));
        assert!(!with(5, &[4, 0, 8]) && !with(32008, &[0, 2, 0]));
        assert!(
            [3, 307, 32001, 32004, 32015]
                .iter()
                .all(|id| with(*id, &[]))
        );
    }
}
