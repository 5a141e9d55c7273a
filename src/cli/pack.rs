//! `arrayfs pack`: a file becomes a Bloscpack file, whose chunks are encoded by several threads; of
//! a directory all files do, in place.

use std::path::{Path, PathBuf};

use super::args::PackArgs;
use super::failure::{CommandResult, Failure};
use super::new_output::OutputPlace;
use super::{convert, plain_input, size};
use crate::codec::blosc::Filter;
use crate::codec::blosc::encode::Compressor;
use crate::codec::checksum::Checksum;
use crate::container::bloscpack::{LARGEST_CHUNK, PackSettings, pack};
use crate::memory::budget::Budget;
use crate::scratch::ConvertDirection;

/// What is added to the name of a file that is packed.
pub(super) const EXTENSION: &str = "blp";

pub(super) fn run(args: &PackArgs) -> CommandResult {
    if args.file.is_dir() {
        let options = convert::encode_options(args)?;
        return convert::run(&args.file, ConvertDirection::Pack, &options);
    }
    let mut settings = settings(args)?;
    let shape = args.shape.as_deref().map(shape).transpose()?;
    let input = plain_input::open(&args.file)?;
    if let Some(dtype) = &args.dtype {
        let typed = settings.of_array(dtype, shape, input.len());
        settings = typed.map_err(|e| Failure::new(format!("{}: {e}", args.file.display())))?;
    }
    let out = args.out.clone().unwrap_or_else(|| packed_name(&args.file));
    let mut output = OutputPlace::find(out, args.force, &[&args.file])?.begin()?;
    pack(&settings, input.clone(), &Budget::by_default(), &mut output)?;
    Ok(output.finish(&*input)?)
}

fn packed_name(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(EXTENSION);
    PathBuf::from(name)
}

/// Words that are not known have been refused before.
fn settings(args: &PackArgs) -> Result<PackSettings, Failure> {
    let usual = PackSettings::default();
    Ok(PackSettings {
        compressor: match args.codec.as_deref().unwrap_or_default() {
            "lz4" => Compressor::Lz4,
            "lz4hc" => Compressor::Lz4Hc,
            "snappy" => Compressor::Snappy,
            "zlib" => Compressor::Zlib,
            "zstd" => Compressor::Zstd,
            _ => Compressor::BloscLz,
        },
        filter: match args.filter.as_deref().unwrap_or_default() {
            _ if args.no_shuffle => Filter::None,
            "none" => Filter::None,
            "bitshuffle" => Filter::Bitshuffle,
            _ => Filter::Shuffle,
        },
        level: args.level.unwrap_or(usual.level),
        typesize: args.typesize.unwrap_or(usual.typesize),
        chunk_size: args
            .chunk
            .as_deref()
            .map_or(Ok(usual.chunk_size), chunk_size)?,
        checksum: match args
            .checksum
            .as_deref()
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            None => usual.checksum,
            Some("none") => Checksum::None,
            Some(named) => Checksum::named(named).unwrap_or(usual.checksum),
        },
        ..usual
    })
}

fn chunk_size(text: &str) -> Result<u32, Failure> {
    if text == "max" {
        return Ok(LARGEST_CHUNK);
    }
    let bytes = size::parse(text).map_err(|why| Failure::usage(format!("--chunk: {why}")))?;
    let size = u32::try_from(bytes).ok();
    let size = size.filter(|size| (1..=LARGEST_CHUNK).contains(size));
    size.ok_or_else(|| {
        Failure::usage(format!(
            "--chunk: {bytes} bytes are no size of a chunk: 1 to {LARGEST_CHUNK} ('max')"
        ))
    })
}

/// As NumPy prints it, or its numbers alone.
fn shape(text: &str) -> Result<Vec<u64>, Failure> {
    let trimmed = text.trim();
    let within = |open, close| trimmed.strip_prefix(open)?.strip_suffix(close);
    let list = within('(', ')').or_else(|| within('[', ']'));
    let list = list.unwrap_or(trimmed).trim();
    let list = list.strip_suffix(',').unwrap_or(list);
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let numbers = list.split(',').map(|number| number.trim().parse());
    let numbers: Result<Vec<u64>, _> = numbers.collect();
    numbers.map_err(|_| {
        Failure::usage(format!(
            "--shape: '{text}' is no shape: numbers, separated by commas"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_in_every_form() {
        let is = |text| shape(text).map_err(|failure| failure.status);
        assert_eq!(is("100,20"), Ok(vec![100, 20]));
        assert_eq!(is("(100, 20)"), Ok(vec![100, 20]));
        assert_eq!(is("[7]"), Ok(vec![7]));
        assert_eq!(is("(7,)"), Ok(vec![7]));
        assert_eq!(is("()"), Ok(vec![]));
        for no_shape in ["a", "1,,2", "-1", "1x2", "99999999999999999999"] {
            assert_eq!(is(no_shape), Err(2), "{no_shape}");
        }
    }

    #[test]
    fn chunks_have_a_size_that_the_format_can_hold() {
        let is = |text| chunk_size(text).map_err(|failure| failure.status);
        assert_eq!(is("1M"), Ok(1 << 20));
        assert_eq!(is("1001"), Ok(1001));
        assert_eq!(is("max"), Ok(2_147_483_631));
        for none in ["0", "2G", "x", ""] {
            assert_eq!(is(none), Err(2), "{none}");
        }
    }

    #[test]
    fn the_extension_is_added() {
        assert_eq!(packed_name(Path::new("a/b.raw")), Path::new("a/b.raw.blp"));
    }
}
