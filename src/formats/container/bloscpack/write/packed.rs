//! Bytes of a file packed as a user wants it: what `blpk c` does, and the metadata of a NumPy array
//! where its type is said.
//!
//! A file of less than a chunk keeps the chunk size that was asked for, where the real program cuts
//! it to what there is: both read it, and what is appended to it fills its chunk. One without any
//! bytes has a spare place more than a new container into which nothing has been put yet: it is no
//! such one. Used by the command that packs a file.

use std::sync::Arc;

use serde_json::Value;

use super::layout::SPARE_EACH;
use super::new_file::FileSettings;
use crate::array::Order;
use crate::codec::blosc::Filter;
use crate::codec::blosc::encode::{ChunkSettings, Compressor};
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::header::MAX_CHUNK_SIZE;
use crate::container::bloscpack::metadata::numpy::Numpy;
use crate::container::creation::RawArray;
use crate::container::writable::Recipe;
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::source::Source;

/// The largest chunk that there can be.
pub const LARGEST_CHUNK: u32 = MAX_CHUNK_SIZE.cast_unsigned();

/// How a file is packed.
#[derive(Debug, Clone)]
pub struct PackSettings {
    pub compressor: Compressor,
    pub filter: Filter,
    /// 0 (as it is) to 9.
    pub level: u8,
    /// Bytes of an element, at least 1.
    pub typesize: u8,
    /// Plain bytes of every chunk but the last, 1 to [`LARGEST_CHUNK`].
    pub chunk_size: u32,
    pub checksum: Checksum,
    /// What the file says of its bytes: those of a NumPy array.
    pub metadata: Option<Value>,
}

impl Default for PackSettings {
    /// Those of the real program.
    fn default() -> PackSettings {
        let usual = FileSettings::usual();
        PackSettings {
            compressor: usual.chunks.compressor,
            filter: usual.chunks.filter,
            level: usual.chunks.level,
            typesize: usual.chunks.typesize,
            chunk_size: usual.chunk_size,
            checksum: usual.checksum,
            metadata: None,
        }
    }
}

impl PackSettings {
    /// For a NumPy array of this type, in as many bytes: of one dimension, if no shape is said.
    /// Chunks hold whole elements, as NumPy's readers want them.
    pub fn of_array(self, dtype: &str, shape: Option<Vec<u64>>, bytes: u64) -> Result<Self> {
        let refuse = |why: String| Err(Error::Invalid(why));
        let named = |name: &str| Numpy::named(name, vec![0], Order::C);
        // As NumPy takes it, whose own order goes without saying.
        let native = format!("<{}", dtype.trim_start_matches('='));
        let Some(mut numpy) = named(dtype).or_else(|| named(&native)) else {
            return refuse(format!("'{dtype}' is no type of NumPy that is known"));
        };
        let Some(itemsize) = numpy.dtype.itemsize().filter(|size| *size > 0) else {
            return refuse(format!("elements of type '{dtype}' have no fixed size"));
        };
        numpy.shape = shape.unwrap_or_else(|| vec![bytes / itemsize]);
        match numpy.bytes() {
            Some(size) if size == bytes => {}
            size => {
                let size = size.map_or("too many".into(), |size| size.to_string());
                return refuse(format!(
                    "type and shape make {size} bytes, the file has {bytes}"
                ));
            }
        }
        let Ok(typesize) = u8::try_from(itemsize) else {
            return refuse(format!(
                "elements have {itemsize} bytes, a Bloscpack file holds those of up to 255"
            ));
        };
        let chunk_size = self.chunk_size - self.chunk_size % u32::from(typesize);
        if chunk_size == 0 {
            return refuse(format!(
                "a chunk of {} bytes holds no element of {itemsize}",
                self.chunk_size
            ));
        }
        Ok(PackSettings {
            typesize,
            chunk_size,
            metadata: Some(numpy.metadata()),
            ..self
        })
    }

    fn of_file(&self, bytes: u64) -> FileSettings {
        let chunks = ChunkSettings {
            level: self.level,
            ..ChunkSettings::new(self.compressor, self.filter, self.typesize)
        };
        FileSettings {
            chunks,
            chunk_size: self.chunk_size,
            checksum: self.checksum,
            metadata: self.metadata.clone(),
            spare_each: SPARE_EACH + u64::from(bytes == 0),
            bytes: Some(bytes),
        }
    }
}

/// Tells the Bloscpack file that holds the bytes of a file.
pub fn pack(
    settings: &PackSettings,
    file: Arc<dyn Source>,
    budget: &Arc<Budget>,
    write: &mut dyn Recipe,
) -> Result<()> {
    let bytes = file.len();
    if bytes > super::MOST {
        return Err(Error::Invalid("the file is too large to be packed".into()));
    }
    let data = Arc::new(RawArray::new(super::new_file::ARRAY, file));
    let told = settings.of_file(bytes).tell(data, bytes, budget, write);
    told.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::uncached::read_all;
    use crate::codec::blosc::encode::{ChunkPlan, Encoder};
    use crate::container::Container;
    use crate::container::bloscpack::{Bloscpack, open};
    use crate::container::creation::{RecipeInMemory, empty_container};
    use crate::source::BytesSource;

    fn told(settings: &PackSettings, plain: &[u8]) -> Vec<u8> {
        let mut told = RecipeInMemory::default();
        let source = Arc::new(BytesSource::new(plain.to_vec()));
        pack(settings, source, &Budget::by_default(), &mut told).unwrap();
        told.0.into_values().next().unwrap()
    }

    fn packed(settings: &PackSettings, plain: &[u8]) -> Container {
        let source = Arc::new(BytesSource::new(told(settings, plain)));
        open("bloscpack", (source, false), &Budget::by_default()).unwrap()
    }

    /// A chunk as the encoder alone makes it.
    fn encoded(settings: ChunkSettings, plain: &[u8]) -> Vec<u8> {
        let plan = ChunkPlan::new(&settings, plain.len()).unwrap();
        let (mut out, mut scratch) = (vec![0; plan.most()], vec![0; plan.scratch_of(1)]);
        let len = Encoder::new().chunk(&settings, plain, &mut out, &mut scratch, 1);
        out.truncate(len.unwrap());
        out
    }

    #[test]
    fn chunks_are_encoded_at_their_level() {
        let plain = plain(1 << 20);
        for compressor in [Compressor::BloscLz, Compressor::Lz4, Compressor::Zstd] {
            for level in [0, 1, 2, 5, 9] {
                let settings = PackSettings {
                    compressor,
                    level,
                    ..PackSettings::default()
                };
                let usual = ChunkSettings::new(compressor, Filter::Shuffle, 8);
                let expected = encoded(ChunkSettings { level, ..usual }, &plain);
                let found = told(&settings, &plain);
                let chunk = &found[found.len() - 4 - expected.len()..found.len() - 4];
                assert!(chunk == expected, "{compressor:?} at level {level}");
            }
        }
    }

    fn plain(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 8 % 251) as u8).collect()
    }

    #[test]
    fn every_setting_is_in_the_file() {
        let compressors = Compressor::ALL;
        let filters = [Filter::None, Filter::Shuffle, Filter::Bitshuffle];
        for (number, compressor) in compressors.into_iter().enumerate() {
            let settings = PackSettings {
                compressor,
                filter: filters[number % 3],
                level: number as u8 + 1,
                typesize: 1 + number as u8,
                chunk_size: 70_000,
                checksum: Checksum::from_code(number as u8).unwrap(),
                ..PackSettings::default()
            };
            let plain = plain(200_001);
            let container = packed(&settings, &plain);
            assert!(container.faults.is_empty(), "{:?}", container.faults);
            let said = &container.attributes;
            assert_eq!(said["chunk_size"], 70_000);
            assert_eq!(
                (&said["nchunks"], &said["last_chunk"]),
                (&3.into(), &60_001.into())
            );
            assert_eq!(said["typesize"], settings.typesize);
            assert_eq!(said["checksum"], settings.checksum.name());
            assert_eq!(said["codec"], compressor.codec().name());
            let data = container.array("data").unwrap();
            assert_eq!(read_all(&**data).unwrap(), plain);
        }
    }

    #[test]
    fn an_array_has_its_type_and_whole_elements_in_chunks() {
        let settings = PackSettings {
            chunk_size: 1000,
            ..PackSettings::default()
        };
        let plain = plain(12 * 500);
        let of_array = settings.clone().of_array("S3", Some(vec![40, 50]), 6000);
        let container = packed(&of_array.unwrap(), &plain);
        let info = container.array("data").unwrap().info().unwrap();
        assert_eq!(
            (&*info.dtype.name(), &info.shape[..]),
            ("|S3", &[40, 50][..])
        );
        assert_eq!(container.attributes["chunk_size"], 999);
        assert_eq!(container.attributes["typesize"], 3);
        let flat = settings.clone().of_array("f8", None, 6000).unwrap();
        let container = packed(&flat, &plain);
        let info = container.array("data").unwrap().info().unwrap();
        assert_eq!(
            (&*info.dtype.name(), &info.shape[..]),
            ("float64", &[750][..])
        );
    }

    #[test]
    fn types_that_do_not_fit_are_refused() {
        let refused = |dtype: &str, shape: Option<&[u64]>, chunk_size, bytes| {
            let settings = PackSettings {
                chunk_size,
                ..PackSettings::default()
            };
            let refused = settings.of_array(dtype, shape.map(<[u64]>::to_vec), bytes);
            refused.unwrap_err().to_string()
        };
        assert!(refused("float65", None, 1000, 8).contains("no type of NumPy"));
        assert!(refused("<f8", None, 1000, 12).contains("make 8 bytes, the file has 12"));
        assert!(refused("<f8", Some(&[2]), 1000, 8).contains("make 16 bytes"));
        assert!(refused("<f8", Some(&[u64::MAX, 9]), 1000, 8).contains("too many bytes"));
        assert!(refused("<f8", None, 7, 8).contains("holds no element"));
        assert!(refused("S300", None, 1000, 600).contains("up to 255"));
    }

    #[test]
    fn nothing_is_a_file_that_can_be_appended_to_and_no_new_container() {
        let usual = PackSettings::default();
        let container = packed(&usual, &[]);
        assert!(container.faults.is_empty() && container.writable.is_some());
        assert_eq!(container.attributes["chunk_size"], 1 << 20);
        assert_eq!(container.attributes["max_app_chunks"], 11);
        let new = empty_container(&Bloscpack, &Budget::by_default()).unwrap();
        assert!(new.into_values().next() != Some(told(&usual, &[])));
    }
}
