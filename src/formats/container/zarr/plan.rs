//! How the chunks of an array are decoded: through how many shards, by which codecs.
//!
//! Codecs of version 3 may transpose, put chunks into shards, and these into others; what is done
//! to elements one by one before that is the same as done within the innermost chunks, so it is
//! done there. Pure. Used by the documents of arrays.

mod shard;

use serde_json::Value;

use super::codecs::{KnownCodec, codec};
use super::document::{DocumentRefusal, configuration, named};
use super::element::{Kind, ZarrElement};
use crate::array::grid::{CHUNK_MOST, product};
use crate::codec::numcodecs::{
    ByteTurn, Chain, ChunkCodec, Length, NumberRun, NumberType, NumpyNumber, Reorder,
};

/// Bytes of an entry of a shard's index: where a chunk begins, and how long it is.
pub(super) const ENTRY: usize = 16;

/// Most bytes of the index of a shard.
const INDEX_MOST: u64 = 256 << 20;

/// Longest text of a chunk, decoded.
pub(super) const TEXT_MOST: usize = 256 << 20;

/// Deepest nesting of shards.
const DEEPEST: usize = 8;

pub(super) struct DecodePlan {
    /// The outermost first.
    pub(super) shards: Vec<ShardLevel>,
    /// Elements of an innermost chunk along each dimension.
    pub(super) chunk: Vec<u64>,
    pub(super) chain: Chain,
    /// Which dimension each one is where chunks are stored; of texts, which the chain leaves so.
    pub(super) order: Vec<usize>,
    /// What `codec` says of it.
    pub(super) name: String,
}

/// Chunks that lie in one, with their index.
pub(super) struct ShardLevel {
    /// Elements of it along each dimension.
    pub(super) chunk: Vec<u64>,
    /// Chunks in it along each dimension, and which dimension each one is in the index.
    pub(super) counts: Vec<u64>,
    pub(super) order: Vec<usize>,
    pub(super) entries: u64,
    pub(super) index: Chain,
    pub(super) index_bytes: u64,
    pub(super) is_index_at_end: bool,
    /// What is done to the shard as a whole.
    pub(super) around: Chain,
}

impl DecodePlan {
    pub(super) fn outer_chunk(&self) -> &[u64] {
        self.shards
            .first()
            .map_or(&self.chunk, |level| &level.chunk)
    }

    /// Of version 2.
    pub(super) fn of_version_2(
        chunk: Vec<u64>,
        element: &ZarrElement,
        is_fortran: bool,
        (filters, compressor): (&[Value], Option<&Value>),
    ) -> Result<DecodePlan, DocumentRefusal> {
        let mut order: Vec<usize> = (0..chunk.len()).collect();
        if is_fortran {
            order.reverse();
        }
        let mut draft = PlanDraft::new(&chunk, element)?;
        if element.kind != Kind::Text {
            draft
                .codecs
                .extend(element.turn(None).map(ChunkCodec::ByteTurn));
            draft.reorder(&order);
        }
        let mut has_texts = false;
        for codec in filters.iter().chain(compressor) {
            let id = codec.get("id").and_then(Value::as_str);
            let broken = || DocumentRefusal::fault("a codec has no id").found(codec);
            match id.ok_or_else(broken)? {
                "vlen-utf8" | "vlen-bytes" if element.kind == Kind::Text && !has_texts => {
                    has_texts = true;
                    draft.names.push("vlen".to_owned());
                }
                name => draft.add(name, codec)?,
            }
        }
        if element.kind == Kind::Text && !has_texts {
            return Err(DocumentRefusal::not_shown("objects of no known type"));
        }
        Ok(draft.finish(chunk, order, Vec::new()))
    }

    /// Of version 3.
    pub(super) fn of_version_3(
        chunk: Vec<u64>,
        element: &ZarrElement,
        codecs: &[Value],
    ) -> Result<DecodePlan, DocumentRefusal> {
        let order = (0..chunk.len()).collect();
        let mut shards = Vec::new();
        let moved = Vec::new();
        let mut plan = of_codecs((chunk, order), element, codecs, moved, &mut shards)?;
        plan.bound_shards();
        Ok(plan)
    }

    /// A shard that is encoded as a whole has no more bytes than its chunks and its index.
    fn bound_shards(&mut self) {
        let mut most = self.chain.stored().most() as u64;
        for level in self.shards.iter_mut().rev() {
            most = most
                .saturating_mul(level.entries)
                .saturating_add(level.index_bytes);
            let plain = usize::try_from(most.min(CHUNK_MOST)).unwrap_or(usize::MAX);
            let codecs = level.around.codecs().cloned().collect();
            level.around = Chain::new(codecs, Length::AtMost(plain));
            most = level.around.stored().most() as u64;
        }
    }
}

/// The codecs of chunks, gathered in order of writing.
struct PlanDraft {
    codecs: Vec<ChunkCodec>,
    names: Vec<String>,
    /// What is there to be encoded next: its dimensions, and its numbers if it is of such.
    shape: Vec<usize>,
    size: usize,
    number: Option<NumberType>,
    plain: Length,
}

impl PlanDraft {
    fn new(chunk: &[u64], element: &ZarrElement) -> Result<PlanDraft, DocumentRefusal> {
        let large = || {
            DocumentRefusal::not_shown(format!("chunks of {chunk:?} elements, of 4 GiB and more"))
        };
        let bytes = product(chunk, element.size().max(1) as u64);
        let bytes = bytes.filter(|n| *n <= CHUNK_MOST).ok_or_else(large)?;
        let bytes = usize::try_from(bytes).map_err(|_| large())?;
        let shape = chunk
            .iter()
            .map(|len| usize::try_from(*len).map_err(|_| large()));
        Ok(PlanDraft {
            codecs: Vec::new(),
            names: Vec::new(),
            shape: shape.collect::<Result<_, _>>()?,
            size: element.size(),
            number: element.number(),
            plain: match element.kind {
                Kind::Text => Length::AtMost(TEXT_MOST),
                _ => Length::Exactly(bytes),
            },
        })
    }

    fn reorder(&mut self, order: &[usize]) {
        self.codecs
            .extend(Reorder::new(&self.shape, order, self.size).map(ChunkCodec::Reorder));
        self.shape = order
            .iter()
            .filter_map(|dim| self.shape.get(*dim).copied())
            .collect();
    }

    /// Adds a codec, and notes what it leaves.
    fn add(&mut self, name: &str, configured: &Value) -> Result<(), DocumentRefusal> {
        self.names.push(name.to_owned());
        match codec(name, configured, self.number)? {
            KnownCodec::Nothing => {}
            KnownCodec::Undone(codec) => self.push(codec),
        }
        Ok(())
    }

    fn push(&mut self, codec: ChunkCodec) {
        match &codec {
            ChunkCodec::Delta { stored, .. }
            | ChunkCodec::AsType { stored, .. }
            | ChunkCodec::FixedScaleOffset { stored, .. }
            | ChunkCodec::Categorize { stored, .. } => {
                (self.size, self.number) = (stored.size(), Some(*stored));
            }
            ChunkCodec::Packbits => {
                let bytes = NumberType {
                    number: NumpyNumber::U8,
                    is_big: false,
                };
                (self.size, self.number) = (1, Some(bytes));
                self.shape = Vec::new();
            }
            _ => {}
        }
        self.codecs.push(codec);
    }

    fn finish(self, chunk: Vec<u64>, order: Vec<usize>, shards: Vec<ShardLevel>) -> DecodePlan {
        let shown = |name: &String| !["bytes", "transpose", "vlen"].contains(&name.as_str());
        let names: Vec<String> = self.names.into_iter().filter(shown).collect();
        let mut name = match names.is_empty() {
            true => "none".to_owned(),
            false => names.join("+"),
        };
        for _ in &shards {
            name = format!("sharding_indexed({name})");
        }
        DecodePlan {
            shards,
            chunk,
            chain: Chain::new(self.codecs, self.plain),
            order,
            name,
        }
    }
}

/// Codecs of version 3, split by what they do.
struct Parted<'v> {
    /// Elements to elements, by their names.
    before: Vec<(&'v str, &'v Value)>,
    /// Elements to bytes.
    packer: (&'v str, &'v Value),
    /// Bytes to bytes.
    after: Vec<(&'v str, &'v Value)>,
}

/// What turns elements into bytes.
const PACKERS: [&str; 6] = [
    "bytes",
    "sharding_indexed",
    "vlen-utf8",
    "vlen-bytes",
    "pcodec",
    "zfpy",
];

/// What keeps elements.
const OF_ELEMENTS: [&str; 8] = [
    "transpose",
    "delta",
    "astype",
    "fixedscaleoffset",
    "quantize",
    "bitround",
    "packbits",
    "categorize",
];

fn parted(codecs: &[Value]) -> Result<Parted<'_>, DocumentRefusal> {
    let (mut before, mut packer, mut after) = (Vec::new(), None, Vec::new());
    let mut unknown = None;
    for codec in codecs {
        let broken = || DocumentRefusal::fault("a codec has no name").found(codec);
        let (full, configured) = named(codec).ok_or_else(broken)?;
        let name = full.strip_prefix("numcodecs.").unwrap_or(full);
        let is_packer = PACKERS.contains(&name);
        let is_known = is_packer
            || OF_ELEMENTS.contains(&name)
            || super::codecs::codec(name, configured, None).is_ok_and(|_| true);
        if !is_known && unknown.is_none() {
            // It may be of any kind, so the order tells nothing.
            unknown = Some(match super::codecs::codec(name, configured, None) {
                Err(refusal @ DocumentRefusal::Fault(_)) => refusal,
                _ => DocumentRefusal::not_shown(format!("the codec {full}")),
            });
        }
        match (&packer, is_packer, OF_ELEMENTS.contains(&name)) {
            (None, true, _) => packer = Some((name, configured)),
            (None, false, true) => before.push((name, configured)),
            (Some(_), false, false) => after.push((name, configured)),
            _ if unknown.is_some() => {}
            _ => {
                return Err(
                    DocumentRefusal::fault("the codecs stand in no possible order").found(full),
                );
            }
        }
    }
    if let Some(unknown) = unknown {
        return Err(unknown);
    }
    let packer =
        packer.ok_or_else(|| DocumentRefusal::fault("no codec makes bytes of the elements"))?;
    Ok(Parted {
        before,
        packer,
        after,
    })
}

/// The plan of chunks of this shape. `order`: which dimension each one is where they are stored;
/// `moved`: codecs of elements, one by one, that stand before the shards.
fn of_codecs(
    (chunk, mut order): (Vec<u64>, Vec<usize>),
    element: &ZarrElement,
    codecs: &[Value],
    mut moved: Vec<(String, Value)>,
    shards: &mut Vec<ShardLevel>,
) -> Result<DecodePlan, DocumentRefusal> {
    let parts = parted(codecs)?;
    let (packer, configured) = parts.packer;
    if packer == "sharding_indexed" {
        for (name, configured) in parts.before {
            match name {
                "transpose" => order = transposed(&order, configured)?,
                "delta" | "packbits" => {
                    return Err(DocumentRefusal::not_shown(format!("{name} before shards")));
                }
                name => moved.push((name.to_owned(), configured.clone())),
            }
        }
        let (level, inner) = shard::shard((chunk, &order), configured, &parts.after)?;
        shards.push(level);
        if shards.len() > DEEPEST {
            return Err(DocumentRefusal::not_shown(format!(
                "more than {DEEPEST} shards in each other"
            )));
        }
        let codecs = configuration(configured, "codecs").and_then(Value::as_array);
        let codecs = codecs.ok_or_else(|| DocumentRefusal::fault("the shards have no codecs"))?;
        return of_codecs((inner, order), element, codecs, moved, shards);
    }
    let mut draft = PlanDraft::new(&chunk, element)?;
    let moved = moved
        .iter()
        .map(|(name, configured)| (name.as_str(), configured));
    // Dimensions that are to be put into this order, before something else is done.
    let mut pending = order.clone();
    for (name, configured) in moved.chain(parts.before) {
        if name == "transpose" {
            pending = transposed(&pending, configured)?;
            order = transposed(&order, configured)?;
        } else {
            draft.reorder(&pending);
            pending = (0..draft.shape.len()).collect();
            draft.add(name, configured)?;
            if draft.shape.is_empty() {
                pending = Vec::new();
            }
        }
    }
    let is_text = matches!(packer, "vlen-utf8" | "vlen-bytes");
    if is_text != (element.kind == Kind::Text) {
        return Err(DocumentRefusal::fault("a codec is none of the data type").found(packer));
    }
    if !is_text {
        draft.reorder(&pending);
    }
    match packer {
        "bytes" => draft.codecs.extend(turn(element, &draft, configured)?),
        "vlen-utf8" | "vlen-bytes" => draft.names.push("vlen".to_owned()),
        name => draft.add(name, configured)?,
    }
    for (name, configured) in parts.after {
        draft.add(name, configured)?;
    }
    Ok(draft.finish(chunk, order, std::mem::take(shards)))
}

/// What `bytes` does to the numbers, which may be of another type than the array's by then.
fn turn(
    element: &ZarrElement,
    draft: &PlanDraft,
    configured: &Value,
) -> Result<Option<ChunkCodec>, DocumentRefusal> {
    let is_big = match configuration(configured, "endian").map(Value::as_str) {
        None | Some(Some("little")) => return Ok(None),
        Some(Some("big")) => true,
        Some(_) => {
            return Err(
                DocumentRefusal::fault("the codec bytes has no such order").found(configured)
            );
        }
    };
    let turn = match draft
        .codecs
        .iter()
        .any(|codec| !matches!(codec, ChunkCodec::Reorder(_)))
    {
        true => ByteTurn::new([NumberRun {
            len: draft.size,
            is_big,
            count: 1,
        }]),
        false => element.turn(Some(is_big)),
    };
    Ok(turn.map(ChunkCodec::ByteTurn))
}

/// An order of dimensions after one of them is put upon it.
fn transposed(order: &[usize], configured: &Value) -> Result<Vec<usize>, DocumentRefusal> {
    let given = configuration(configured, "order");
    let broken = || DocumentRefusal::fault("the transposition is none of the dimensions");
    let dims: Vec<usize> = match given {
        Some(Value::Array(dims)) => {
            let dims = dims.iter().map(|dim| usize::try_from(dim.as_u64()?).ok());
            dims.collect::<Option<_>>().ok_or_else(broken)?
        }
        // As the first drafts of version 3 have it.
        Some(Value::String(order_name)) if order_name == "C" => (0..order.len()).collect(),
        Some(Value::String(order_name)) if order_name == "F" => (0..order.len()).rev().collect(),
        _ => return Err(broken()),
    };
    let mut sorted = dims.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..order.len()) {
        return Err(broken()
            .expected(order.len())
            .found(format_args!("{dims:?}")));
    }
    Ok(dims
        .into_iter()
        .filter_map(|dim| order.get(dim).copied())
        .collect())
}
