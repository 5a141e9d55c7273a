//! Codecs as documents name and configure them. Pure. Used by [`super::plan`].

use serde_json::Value;

use super::document::{DocumentRefusal, configuration};
use super::element::{Kind, of_version_2};
use crate::codec::numcodecs::{ChunkCodec, LzmaFilter, LzmaForm, NumberType, Sum};
use crate::memory::fallible::room_for;

/// What is done with the codec of this name.
pub(super) enum KnownCodec {
    /// Bytes to bytes, or elements to elements.
    Undone(ChunkCodec),
    /// It loses something when it is written, and nothing is undone.
    Nothing,
}

/// A codec that numcodecs knows. `current`: the numbers that it is given when it is written, if
/// that is known.
pub(super) fn codec(
    name: &str,
    configured: &Value,
    current: Option<NumberType>,
) -> Result<KnownCodec, DocumentRefusal> {
    let text = |key| configuration(configured, key).and_then(Value::as_str);
    let codec = match name {
        "blosc" => ChunkCodec::Blosc,
        "gzip" => ChunkCodec::Gzip,
        "zlib" => ChunkCodec::Zlib,
        "zstd" => ChunkCodec::Zstd,
        "lz4" => ChunkCodec::Lz4,
        "bz2" => ChunkCodec::Bz2,
        "lzma" => ChunkCodec::Lzma(lzma(configured)?),
        "crc32" | "adler32" | "crc32c" | "fletcher32" => {
            let (sum, usual) = match name {
                "crc32" => (Sum::Crc32, "start"),
                "adler32" => (Sum::Adler32, "start"),
                "crc32c" => (Sum::Crc32c, "end"),
                _ => (Sum::Fletcher32, "end"),
            };
            let at_start = match text("location").unwrap_or(usual) {
                "start" => true,
                "end" => false,
                other => return Err(broken(name, "location").found(other)),
            };
            ChunkCodec::Sum { sum, at_start }
        }
        "shuffle" => {
            let size = configuration(configured, "elementsize").map_or(Some(4), Value::as_u64);
            let size = size.and_then(|size| usize::try_from(size).ok());
            ChunkCodec::Shuffle {
                size: size
                    .filter(|size| *size > 0)
                    .ok_or_else(|| broken(name, "elementsize"))?,
            }
        }
        "pcodec" => {
            let number = current.filter(|number| number.size() > 1 || !number.is_big);
            let unknown = || DocumentRefusal::not_shown("pcodec of elements that are no numbers");
            ChunkCodec::Pcodec(number.ok_or_else(unknown)?.number)
        }
        "delta" | "quantize" | "fixedscaleoffset" | "astype" => {
            return of_numbers(name, configured, current);
        }
        "bitround" => return Ok(KnownCodec::Nothing),
        "packbits" => ChunkCodec::Packbits,
        "categorize" => categorize(configured)?,
        name => return Err(DocumentRefusal::not_shown(format!("the codec {name}"))),
    };
    Ok(KnownCodec::Undone(codec))
}

fn broken(codec: &str, what: &str) -> DocumentRefusal {
    DocumentRefusal::fault(format!("the codec {codec} has no proper {what}"))
}

/// A type of numbers in a configuration; the one before, where none is given.
fn number(
    (codec, configured): (&str, &Value),
    key: &str,
    otherwise: Option<NumberType>,
) -> Result<NumberType, DocumentRefusal> {
    let Some(value) = configuration(configured, key) else {
        return otherwise.ok_or_else(|| broken(codec, key));
    };
    let descr = value
        .as_str()
        .ok_or_else(|| broken(codec, key).found(value))?;
    let known = NumberType::of_descr(descr);
    // Times are added and stored as the numbers that they are.
    let known = known.or_else(|| {
        let element = of_version_2(value).ok()?;
        matches!(element.kind, Kind::Time(..)).then(|| element.number())?
    });
    known
        .ok_or_else(|| DocumentRefusal::not_shown(format!("the codec {codec} of the type {descr}")))
}

fn of_numbers(
    name: &str,
    configured: &Value,
    current: Option<NumberType>,
) -> Result<KnownCodec, DocumentRefusal> {
    let of = (name, configured);
    if name == "astype" {
        let shown = number(of, "decode_dtype", current)?;
        let stored = number(of, "encode_dtype", None)?;
        return Ok(KnownCodec::Undone(ChunkCodec::AsType { shown, stored }));
    }
    let shown = number(of, "dtype", current)?;
    let stored = number(of, "astype", Some(shown))?;
    let float = |key| {
        let value = configuration(configured, key).and_then(Value::as_f64);
        value.ok_or_else(|| broken(name, key))
    };
    Ok(match name {
        "delta" => KnownCodec::Undone(ChunkCodec::Delta { shown, stored }),
        "quantize" if shown == stored => KnownCodec::Nothing,
        "quantize" => KnownCodec::Undone(ChunkCodec::AsType { shown, stored }),
        _ => KnownCodec::Undone(ChunkCodec::FixedScaleOffset {
            scale: float("scale")?,
            offset: float("offset")?,
            shown,
            stored,
        }),
    })
}

/// Bytes of all labels, each as long as the longest may be.
const LABELS_MOST: usize = 16 << 20;

fn categorize(configured: &Value) -> Result<ChunkCodec, DocumentRefusal> {
    const NAME: &str = "categorize";
    let dtype = configuration(configured, "dtype").ok_or_else(|| broken(NAME, "dtype"))?;
    let element = of_version_2(dtype)?;
    let stored = number((NAME, configured), "astype", NumberType::of_descr("|u1"))?;
    let Kind::Unicode(len) = element.kind else {
        return Err(DocumentRefusal::not_shown(
            "categorize of other types than texts of fixed length",
        ));
    };
    let labels = configuration(configured, "labels").and_then(Value::as_array);
    let labels = labels.ok_or_else(|| broken(NAME, "labels"))?;
    let total = labels.len().checked_mul(element.size());
    let mut bytes = total
        .filter(|total| *total <= LABELS_MOST)
        .and_then(|total| room_for(total, "labels of a codec").ok())
        .ok_or_else(|| DocumentRefusal::not_shown("categorize with labels of very many bytes"))?;
    for label in labels {
        let label = label
            .as_str()
            .ok_or_else(|| broken(NAME, "labels").found(label))?;
        let end = bytes.len() + element.size();
        for c in label.chars().take(len) {
            let unit = u32::from(c);
            // As it is stored: the element's own order is undone behind it.
            bytes.extend(match element.is_big {
                true => unit.to_be_bytes(),
                false => unit.to_le_bytes(),
            });
        }
        bytes.resize(end, 0);
    }
    Ok(ChunkCodec::Categorize {
        labels: bytes,
        size: element.size(),
        stored,
    })
}

/// Python's numbers of formats and filters.
fn lzma(configured: &Value) -> Result<LzmaForm, DocumentRefusal> {
    let form = configuration(configured, "format").map_or(Some(1), Value::as_u64);
    match form {
        Some(0) => Ok(LzmaForm::Either),
        Some(1) => Ok(LzmaForm::Xz),
        Some(2) => Ok(LzmaForm::Alone),
        Some(3) => {
            let filters = configuration(configured, "filters").and_then(Value::as_array);
            let filters = filters.ok_or_else(|| broken("lzma", "filters"))?;
            let filters = filters.iter().map(lzma_filter);
            Ok(LzmaForm::Raw(filters.collect::<Result<_, _>>()?))
        }
        _ => Err(broken("lzma", "format")),
    }
}

fn lzma_filter(filter: &Value) -> Result<LzmaFilter, DocumentRefusal> {
    let broken = || broken("lzma", "filters").found(filter);
    let number = |key: &str, usual: u64| {
        configuration(filter, key)
            .map_or(Some(usual), Value::as_u64)
            .ok_or_else(broken)
    };
    let small = |key, usual| number(key, usual).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Ok(match number("id", 0)? {
        0x4000_0000_0000_0001 => {
            let (lc, lp, pb) = (small("lc", 3)?, small("lp", 0)?, small("pb", 2)?);
            if lc > 8 || lp > 4 || pb > 4 {
                return Err(broken());
            }
            LzmaFilter::Lzma1 { lc, lp, pb }
        }
        0x21 => LzmaFilter::Lzma2,
        3 => LzmaFilter::Delta {
            distance: usize::try_from(number("dist", 1)?).unwrap_or(usize::MAX),
        },
        id @ 4..=10 => LzmaFilter::Code {
            id,
            start: usize::try_from(number("start_offset", 0)?).unwrap_or(usize::MAX),
        },
        id => {
            return Err(DocumentRefusal::not_shown(format!(
                "the filter {id} of lzma"
            )));
        }
    })
}
