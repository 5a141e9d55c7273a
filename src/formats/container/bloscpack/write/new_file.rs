//! New Bloscpack files: of raw bytes, and of what an `arrays.json` says of them.
//!
//! A new file is told as a changed one is: it begins as a file without any bytes, put together in
//! memory, with the header and metadata, and told how the chunks are to be encoded. By default they
//! are encoded as `blpk c` does. Used by [`crate::container::creation`], and by
//! [`super::packed`].

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::BloscpackFile;
use super::layout::{DEFAULT_CHUNK, FileLayout, SPARE_EACH};
use super::recipe::Plan;
use super::retype::{new_section, retyped};
use crate::array::Array;
use crate::codec::blosc::Filter;
use crate::codec::blosc::encode::{ChunkPlan, ChunkSettings, Compressor, EncodeError, Encoder};
use crate::codec::checksum::Checksum;
use crate::container::Preferences;
use crate::container::bloscpack::Bloscpack;
use crate::container::bloscpack::chunks::{ChunkFinder, ChunkSizes};
use crate::container::bloscpack::header::{self, FileHeader, MAX_CHUNK_SIZE};
use crate::container::bloscpack::metadata::numpy::Numpy;
use crate::container::bloscpack::read::PackedBytes;
use crate::container::bloscpack::sections::Sections;
use crate::container::chunked_write::BatchCounts;
use crate::container::creation::{
    Creation, GivenArray, GivenContent, GivenDescription, GivenType, RawArray,
};
use crate::container::inside::ContainerNumber;
use crate::container::writable::{ChangedArray, CommitWay, MemberNumber, Recipe};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::range_set::RangeSet;
use crate::source::BytesSource;

pub(super) const ARRAY: &str = "data";

/// What the attributes in `arrays.json` can say.
const SETTINGS: [&str; 5] = ["checksum", "chunk_size", "nchunks", "typesize", "metadata"];

/// Bytes of an element by default, as the real program takes them.
const TYPESIZE: u8 = 8;

/// A file of more than so many chunks has none that are smaller: where each lies would take more
/// than what is in it.
const SMALL_CHUNK: u64 = 4 << 10;
const MOST_SMALL: u64 = 1 << 16;

impl Creation for Bloscpack {
    fn has_array(&self, path: &str) -> bool {
        path == ARRAY
    }

    fn is_bytes_untyped(&self, path: &str) -> bool {
        self.has_array(path)
    }

    fn accepts(&self, description: &GivenDescription) -> Result<()> {
        FileSettings::described(description)?;
        check_attributes(description)?;
        description.check_keys("a Bloscpack file", &[], None)
    }

    fn typed(
        &self,
        description: Option<GivenDescription>,
        _path: &str,
        to: &GivenType,
        bytes: u64,
    ) -> Result<GivenDescription> {
        let mut described = match description {
            Some(described) => described,
            None => GivenDescription::of_bytes(ARRAY, bytes),
        };
        let [array] = &mut described.arrays[..] else {
            return Err(Error::Invalid(
                "arrays.json: a Bloscpack file has one array".into(),
            ));
        };
        let now = Numpy::named(&array.dtype, array.shape.clone(), array.order.into());
        let now =
            now.ok_or_else(|| Error::Invalid("arrays.json: the dtype is not known".into()))?;
        let new = retyped(&now, to, bytes)?;
        (array.dtype, array.shape) = (new.dtype.name().into_owned(), new.shape);
        Ok(described)
    }

    fn recipe(
        &self,
        content: &GivenContent,
        _preferences: Preferences,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<Vec<String>> {
        let settings = match &content.description {
            Some(description) => FileSettings::described(description)?,
            None => FileSettings::usual(),
        };
        let data = content.arrays.iter().find(|array| array.name() == ARRAY);
        let nothing =
            || Arc::new(RawArray::new(ARRAY, Arc::new(BytesSource::new(Vec::new())))) as _;
        let data = data.map_or_else(nothing, Arc::clone);
        let len = data.info()?.bytes;
        match settings.bytes {
            Some(bytes) if bytes != len => Err(Error::Invalid(format!(
                "arrays.json describes {bytes} bytes, {ARRAY} has {len}"
            ))),
            _ => settings.tell(data, len, budget, write).map(|_| Vec::new()),
        }
    }
}

/// How a file is to be written.
pub(super) struct FileSettings {
    pub(super) chunks: ChunkSettings,
    pub(super) chunk_size: u32,
    pub(super) checksum: Checksum,
    pub(super) metadata: Option<Value>,
    /// Spare entries for each chunk in the offsets section.
    pub(super) spare_each: u64,
    /// How many there have to be, if it was said.
    pub(super) bytes: Option<u64>,
}

impl FileSettings {
    pub(super) fn usual() -> FileSettings {
        FileSettings {
            chunks: ChunkSettings::new(Compressor::BloscLz, Filter::Shuffle, TYPESIZE),
            chunk_size: whole_chunk(TYPESIZE),
            checksum: Checksum::Adler32,
            metadata: None,
            spare_each: SPARE_EACH,
            bytes: None,
        }
    }

    /// The settings of a container that is copied, from its `arrays.json`.
    fn described(given: &GivenDescription) -> Result<FileSettings> {
        let refuse = |why: &str| Error::Invalid(format!("arrays.json: {why}"));
        if given
            .format
            .as_ref()
            .is_some_and(|name| name != "bloscpack")
        {
            return Err(refuse("it describes a container of another format"));
        }
        let [array] = &given.arrays[..] else {
            return Err(refuse("a Bloscpack file has one array"));
        };
        let numpy = Numpy::named(&array.dtype, array.shape.clone(), array.order.into());
        let numpy = numpy.filter(|_| array.name == ARRAY);
        let numpy = numpy.ok_or_else(|| refuse("the array or its dtype is not known"))?;
        let bytes = numpy.bytes().filter(|bytes| *bytes <= super::MOST);
        let bytes = bytes.ok_or_else(|| refuse("the shape is too large"))?;
        let number = |name: &str| given.attributes.get(name).and_then(Value::as_u64);
        let typesize = match numpy.is_bytes() {
            true => number("typesize").unwrap_or(TYPESIZE.into()),
            false => numpy.dtype.itemsize().unwrap_or(1),
        };
        let typesize = u8::try_from(typesize).ok().filter(|size| *size > 0);
        let typesize = typesize.unwrap_or(1);
        let chunk_size = number("chunk_size").and_then(|size| i32::try_from(size).ok());
        let chunk_size = chunk_size.filter(|size| (1..=MAX_CHUNK_SIZE).contains(size));
        // That of a file with one chunk was cut to what there was.
        let chunk_size = chunk_size.filter(|_| number("nchunks").is_none_or(|n| n > 1));
        if chunk_size.is_some_and(|size| {
            let size = u64::from(size.cast_unsigned());
            size < SMALL_CHUNK && bytes.div_ceil(size) > MOST_SMALL
        }) {
            return Err(refuse("the chunks are too small for so many bytes"));
        }
        let checksum = given.attributes.get("checksum").and_then(Value::as_str);
        let checksum = match checksum {
            None => Checksum::Adler32,
            Some(name) => Checksum::named(name)
                .ok_or_else(|| refuse(&format!("there is no checksum {name}")))?,
        };
        Ok(FileSettings {
            chunks: chunk_settings(array, typesize).ok_or_else(|| {
                let codec = array.codec.as_deref().unwrap_or_default();
                refuse(&format!(
                    "there is no codec {codec}; one is 'blosc zstd shuffle'"
                ))
            })?,
            chunk_size: chunk_size.map_or(whole_chunk(typesize), i32::cast_unsigned),
            checksum,
            metadata: metadata_of(given, &numpy, bytes),
            spare_each: SPARE_EACH,
            bytes: Some(bytes),
        })
    }

    pub(super) fn tell(
        &self,
        data: Arc<dyn Array>,
        len: u64,
        budget: &Arc<Budget>,
        write: &mut dyn Recipe,
    ) -> Result<BatchCounts> {
        let empty = self.empty_file()?;
        let file = BloscpackFile::in_memory(&empty, &self.chunks, budget)?;
        let (old, chunk_size) = (file.layout(), u64::from(self.chunk_size));
        let chunks = len.div_ceil(chunk_size).max(1);
        let new = FileLayout {
            last: len - (chunks - 1) * chunk_size,
            chunks,
            spare: chunks.saturating_mul(self.spare_each),
            ..old
        };
        let changed = ChangedArray {
            container: ContainerNumber::OUTERMOST,
            shown: data,
            len,
            ranges: Vec::new(),
            visible: 0,
            done_before: None,
        };
        let plan = Plan {
            file: &file,
            changed: &changed,
            old,
            new: new.placed(true, file.after_metadata),
            dirty: RangeSet::from(0..chunks),
            metadata: None,
            way: CommitWay::Replaced,
        };
        plan.tell(
            budget,
            &mut FromMemory {
                empty: &empty.bytes,
                write,
            },
        )
    }

    /// A file of one chunk of nothing, to which as many bytes can be appended as to one of many
    /// chunks.
    fn empty_file(&self) -> Result<EmptyFile> {
        let metadata = match &self.metadata {
            Some(value) => new_section(value)?,
            None => Vec::new(),
        };
        let header = FileHeader {
            has_offsets: true,
            has_metadata: !metadata.is_empty(),
            checksum: self.checksum,
            typesize: self.chunks.typesize,
            chunk_size: Some(self.chunk_size),
            last_chunk: Some(0),
            nchunks: Some(1),
            max_app_chunks: self.spare_each,
        };
        let after_metadata = (header::LEN + metadata.len()) as u64;
        let layout = FileLayout::of(&header, after_metadata);
        let chunk = chunk_of_nothing(&self.chunks).map_err(super::encode::failed)?;
        let mut bytes = [&header.bytes(), &metadata[..]].concat();
        bytes.extend_from_slice(&layout.first.to_le_bytes());
        bytes.resize(layout.first as usize, 0xff);
        bytes.extend_from_slice(&chunk);
        bytes.extend_from_slice(self.checksum.digest(&chunk).as_bytes());
        Ok(EmptyFile {
            bytes,
            header,
            after_metadata,
        })
    }
}

struct EmptyFile {
    bytes: Vec<u8>,
    header: FileHeader,
    after_metadata: u64,
}

impl BloscpackFile {
    fn in_memory(
        empty: &EmptyFile,
        settings: &ChunkSettings,
        budget: &Arc<Budget>,
    ) -> Result<BloscpackFile> {
        let source = Arc::new(BytesSource::new(empty.bytes.clone()));
        let len = empty.bytes.len() as u64;
        let sections = Sections::new(&empty.header, empty.after_metadata, len)?;
        let sizes = ChunkSizes::Even {
            chunk_size: u64::from(empty.header.chunk_size.unwrap_or(0)),
            last: 0,
            chunks: 1,
        };
        let (chunks, _) =
            ChunkFinder::new(Arc::clone(&source) as _, sections, Some(sizes), budget)?;
        Ok(BloscpackFile {
            data: Arc::new(PackedBytes::new(
                (source, false),
                chunks,
                empty.header.checksum,
            )?),
            header: empty.header.clone(),
            after_metadata: empty.after_metadata,
            // What the metadata say fits what will be there, not what there is.
            is_numpy: false,
            text: None,
            retyped: None,
            encoded_as: Some(*settings),
        })
    }
}

/// What is copied from the empty file are new bytes of the other one.
struct FromMemory<'a> {
    empty: &'a [u8],
    write: &'a mut dyn Recipe,
}

impl Recipe for FromMemory<'_> {
    fn copy(&mut self, file: MemberNumber, from: Range<u64>, to: u64) -> Result<()> {
        let bytes = self.empty.get(from.start as usize..from.end as usize);
        let bytes =
            bytes.ok_or_else(|| Error::Bug("a new file is shorter than its parts".into()))?;
        self.write.put(file, to, bytes)
    }

    fn put(&mut self, file: MemberNumber, at: u64, bytes: &[u8]) -> Result<()> {
        self.write.put(file, at, bytes)
    }

    fn set_len(&mut self, file: MemberNumber, len: u64) -> Result<()> {
        self.write.set_len(file, len)
    }
}

/// Attributes written by hand are settings that there are.
fn check_attributes(description: &GivenDescription) -> Result<()> {
    let by_hand = !description.arrays.iter().any(GivenArray::is_told);
    let mut names = description.attributes.keys();
    match names.find(|name| by_hand && !SETTINGS.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => Err(Error::Invalid(format!(
            "arrays.json: a Bloscpack file has no attribute {other}; it has {}",
            SETTINGS.join(", ")
        ))),
    }
}

/// The usual chunk, of whole elements.
fn whole_chunk(typesize: u8) -> u32 {
    let size = DEFAULT_CHUNK as u32;
    size - size % u32::from(typesize.max(1))
}

fn chunk_of_nothing(settings: &ChunkSettings) -> std::result::Result<Vec<u8>, EncodeError> {
    let plan = ChunkPlan::new(settings, 0)?;
    let (mut out, mut scratch) = (vec![0; plan.most()], vec![0; plan.scratch_of(1)]);
    let len = Encoder::lend(|encoder| encoder.chunk(settings, &[], &mut out, &mut scratch, 1))?;
    out.truncate(len);
    Ok(out)
}

/// `blosc lz4 shuffle`: as far as that says, the rest by default.
fn chunk_settings(array: &GivenArray, typesize: u8) -> Option<ChunkSettings> {
    let mut words = array.codec.as_deref().unwrap_or("blosc").split(' ');
    let (format, codec, filter) = (words.next()?, words.next(), words.next());
    let compressor = match codec {
        None | Some("blosclz") => Compressor::BloscLz,
        Some("lz4") => Compressor::Lz4,
        Some("lz4hc") => Compressor::Lz4Hc,
        Some("snappy") => Compressor::Snappy,
        Some("zlib") => Compressor::Zlib,
        Some("zstd") => Compressor::Zstd,
        Some(_) => return None,
    };
    let filter = match (codec, filter) {
        (None, _) | (_, Some("shuffle")) => Filter::Shuffle,
        (_, Some("bitshuffle")) => Filter::Bitshuffle,
        (_, None) => Filter::None,
        _ => return None,
    };
    (format == "blosc").then(|| ChunkSettings::new(compressor, filter, typesize))
}

/// The metadata that the described container has, if they are of the array that is described.
fn metadata_of(given: &GivenDescription, numpy: &Numpy, bytes: u64) -> Option<Value> {
    let said = given.attributes.get("metadata");
    let of_numpy = said.and_then(|said| Numpy::from_metadata(said, bytes));
    match of_numpy {
        Some(Ok(found)) if found == *numpy => said.cloned(),
        Some(Err(_)) | None if numpy.is_bytes() => said.cloned(),
        _ if numpy.is_bytes() => None,
        _ => Some(numpy.metadata()),
    }
}

#[cfg(test)]
mod tests;
