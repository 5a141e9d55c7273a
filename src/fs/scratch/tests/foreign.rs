//! Stored files as other programs make them: chunks of any size, by any codec, with any digest,
//! with and without a table and metadata. What is done to them in a mount is done to a model, too.

use super::*;
use crate::codec::blosc::Filter;
use crate::codec::blosc::encode::{ChunkPlan, ChunkSettings, Compressor, Encoder};
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::layout::{self, FileHeader};

/// How a file is packed.
#[derive(Debug, Clone)]
pub(super) struct ForeignFile {
    chunk_size: u32,
    len: usize,
    checksum: Checksum,
    compressor: Compressor,
    level: u8,
    filter: Filter,
    typesize: u8,
    /// Entries of the table beyond those in use; none: without a table.
    spare: Option<u64>,
    metadata: ForeignMetadata,
    hard: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ForeignMetadata {
    None,
    Text,
    Array,
}

pub(super) fn foreign() -> impl Strategy<Value = ForeignFile> {
    let compressors = Compressor::ALL;
    let filters = [Filter::None, Filter::Shuffle, Filter::Bitshuffle];
    let metadata = [
        ForeignMetadata::None,
        ForeignMetadata::Text,
        ForeignMetadata::Array,
    ];
    let form = (
        prop_oneof![Just(8 * CHUNK), Just(CHUNK), Just(CHUNK / 2), 1..3 * CHUNK],
        prop_oneof![Just(0), 0..9 * CHUNK as usize],
        0u8..9,
        proptest::option::of(prop_oneof![Just(0u64), 1..30u64]),
        proptest::sample::select(metadata.to_vec()),
    );
    let codec = (
        proptest::sample::select(compressors.to_vec()),
        0u8..10,
        proptest::sample::select(filters.to_vec()),
        prop_oneof![Just(1), Just(8), 1..=255u8],
        any::<bool>(),
    );
    (form, codec).prop_map(|(form, codec)| {
        let (chunk_size, len, checksum, spare, metadata) = form;
        let (compressor, level, filter, typesize, hard) = codec;
        ForeignFile {
            // Such a table would be as long as the file.
            chunk_size: chunk_size.max(len as u32 / 400),
            len,
            checksum: Checksum::from_code(checksum).unwrap(),
            compressor,
            level,
            filter,
            typesize,
            spare,
            metadata,
            hard,
        }
    })
}

impl ForeignFile {
    pub(super) fn content(&self) -> Vec<u8> {
        bytes(if self.hard { 3 } else { 4 }, self.len)
    }

    /// As it is stored.
    pub(super) fn stored(&self) -> Vec<u8> {
        let content = self.content();
        // The programs cut the size of a single chunk to what there is.
        let size = (self.chunk_size as usize).min(content.len());
        let chunks: Vec<Vec<u8>> = match content.len() {
            0 => vec![self.encode(&[])],
            _ => content.chunks(size).map(|part| self.encode(part)).collect(),
        };
        let last = content.len() - (chunks.len() - 1) * size;
        let header = FileHeader {
            has_offsets: self.spare.is_some(),
            has_metadata: self.metadata != ForeignMetadata::None,
            checksum: self.checksum,
            typesize: self.typesize,
            chunk_size: Some(size as u32),
            last_chunk: Some(last as u32),
            nchunks: Some(chunks.len() as u64),
            max_app_chunks: self.spare.unwrap_or(0),
        };
        let mut out = header.bytes().to_vec();
        out.extend(self.metadata());
        if let Some(spare) = self.spare {
            let mut at = out.len() as u64 + 8 * (chunks.len() as u64 + spare);
            for chunk in &chunks {
                out.extend(at.to_le_bytes());
                at += chunk.len() as u64;
            }
            out.extend([0xff].repeat(8 * spare as usize));
        }
        out.extend(chunks.concat());
        out
    }

    fn encode(&self, plain: &[u8]) -> Vec<u8> {
        let mut settings = ChunkSettings::new(self.compressor, self.filter, self.typesize);
        settings.level = self.level;
        let plan = ChunkPlan::new(&settings, plain.len()).unwrap();
        let (mut out, mut scratch) = (vec![0; plan.most()], vec![0; plan.scratch_of(1)]);
        let len = Encoder::new()
            .chunk(&settings, plain, &mut out, &mut scratch, 1)
            .unwrap();
        out.truncate(len);
        let digest = self.checksum.digest(&out);
        out.extend(digest.as_bytes());
        out
    }

    fn metadata(&self) -> Vec<u8> {
        let text = match self.metadata {
            ForeignMetadata::None => return Vec::new(),
            ForeignMetadata::Text => r#"{"who":"somebody"}"#.to_owned(),
            ForeignMetadata::Array => format!(
                r#"{{"dtype":"|u1","shape":[{}],"order":"C","container":"numpy"}}"#,
                self.len
            ),
        };
        let (len, room) = (text.len() as u32, 10 * text.len() as u32);
        let mut out = b"JSON\0\0\0\0".to_vec();
        out.extend([0, Checksum::Adler32.code(), 0, 0]);
        for field in [len, room, len] {
            out.extend(field.to_le_bytes());
        }
        out.extend([0; 8]);
        out.extend(text.as_bytes());
        out.resize(out.len() + (room - len) as usize, 0);
        let digest = Checksum::Adler32.digest(text.as_bytes());
        out.extend(digest.as_bytes());
        out
    }
}

/// What the metadata of the stored file are now.
fn metadata_of(path: &Path) -> Option<bool> {
    let store = LocalStore::open(path, path).unwrap();
    let source = store.open(Path::new("x.blp")).unwrap();
    let head = layout::read(&*source, source.len()).unwrap();
    head.header.has_metadata.then_some(head.describes_array)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn files_of_other_programs_are_changed_like_those_of_the_mount(
        foreign in foreign(),
        rounds in proptest::collection::vec(steps(), 1..4),
    ) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x.blp"), foreign.stored()).unwrap();
        let mut model = foreign.content();
        let mut was_emptied = false;
        for steps in rounds {
            let on = mount(directory.path());
            prop_assert_eq!(&on.content("x").unwrap(), &model);
            let id = on.mount.store().stat(Path::new("x")).unwrap().id;
            let file = on.disk().open(Path::new("x"), id).unwrap();
            for step in &steps {
                was_emptied |= matches!(step, Step::Len(0));
                take(&on, &*file, &mut model, step);
                prop_assert_eq!(&on.content("x").unwrap(), &model);
            }
            drop(file);
            prop_assert!(on.mount.settle().failed.is_empty());
            on.mount.end().unwrap();
        }
        for found in content_read_only(directory.path()) {
            prop_assert_eq!(&found.unwrap(), &model);
        }
        let on = mount(directory.path());
        take(&on, &*on.create("other"), &mut Vec::new(), &Step::SettleAll);
        on.mount.end().unwrap();
        if foreign.metadata == ForeignMetadata::Text && !was_emptied {
            prop_assert_eq!(metadata_of(directory.path()), Some(false));
        }
        let still_describes = metadata_of(directory.path()) == Some(true);
        prop_assert!(!still_describes || model.len() == foreign.len);
    }
}

#[test]
fn what_is_written_anew_is_cut_as_the_mount_cuts() {
    let foreign = ForeignFile {
        chunk_size: 4 * CHUNK,
        len: 9 * CHUNK as usize + 5,
        checksum: Checksum::Sha256,
        compressor: Compressor::BloscLz,
        level: 7,
        filter: Filter::Shuffle,
        typesize: 8,
        spare: Some(30),
        metadata: ForeignMetadata::Array,
        hard: true,
    };
    let directory = tempfile::tempdir().unwrap();
    let stored = directory.path().join("x.blp");
    std::fs::write(&stored, foreign.stored()).unwrap();
    let on = mount(directory.path());
    let id = on.mount.store().stat(Path::new("x")).unwrap().id;
    let file = on.disk().open(Path::new("x"), id).unwrap();
    file.set_len(0, ROOT).unwrap();
    let mut model = bytes(5, 7 * CHUNK as usize + 9);
    for part in 0..8u64 {
        let at = part * u64::from(CHUNK);
        let end = model.len().min(at as usize + CHUNK as usize);
        let part = &model[at as usize..end];
        file.put(at, part, Putting::default(), ROOT).unwrap();
    }
    assert_eq!(on.content("x").unwrap(), model);
    on.flush(FlushExtent::All);
    assert_eq!(on.content("x").unwrap(), model);
    // It is longer, and a part of it other.
    model.extend(bytes(7, 3000));
    file.put(
        7 * u64::from(CHUNK) + 9,
        &bytes(7, 3000),
        Putting::default(),
        ROOT,
    )
    .unwrap();
    on.flush(FlushExtent::All);
    assert_eq!(on.content("x").unwrap(), model);
    let head = std::fs::read(&stored).unwrap();
    let header = FileHeader::parse(head.first_chunk().unwrap()).unwrap();
    assert_eq!(header.chunk_size, Some(CHUNK));
    assert!(!header.has_metadata);
}
