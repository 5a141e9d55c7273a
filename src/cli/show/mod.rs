//! `arrayfs show`: values of an array as a table, or as a picture.
//!
//! Opens the array as `cat` does, finds out which of its elements are meant, and prints a table of
//! the first and last of them ([`table`]) or draws them ([`drawing`]). What it takes grows with
//! what is shown, not with the array.

mod drawing;
mod table;
mod texts;
mod view;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::failure::{CommandResult, Failure};
use super::open_array;
use super::options::RemoteFlags;
use crate::container::Preferences;
use crate::look::picture::PictureSize;
use view::ArrayView;

/// For decoded blocks: those that a row of a table or a picture crosses should fit.
const CACHE: u64 = 256 << 20;

const SHOWN: &str = "\
A slice is NumPy's: an index, -1 (the last), start:stop, start:stop:step, ':' or '...' for each \
axis, separated by commas. Of more than two axes the first plane is shown.

On a terminal a table has as many rows and columns as fit; what is left out has an ellipsis. In a \
pipe or a file it has at most 1,000 of each, as wide as they are, and all digits of every number. --all: \
every row and column of the slice.

A picture takes every n-th element where there are more than pixels, and says so. With '-o' it is \
a PNG file, which replaces a file of that name.

Exit status: 0 done, 1 failed, 2 wrong usage, a slice that does not fit included";

/// Arguments of `show`.
#[derive(Args)]
#[command(after_help = SHOWN)]
pub(super) struct ShowArgs {
    /// A container file or directory, or CONTAINER/ARRAY, as 'arrayfs ls' shows it
    pub(super) container: PathBuf,
    /// The array's name, if the path is the container's
    array: Option<String>,
    /// Which elements: 0,:,10:20
    #[arg(short, long, value_name = "SLICE", allow_hyphen_values = true)]
    slice: Option<String>,
    /// What the numbers mean: scale_factor, add_offset, and '_' where _FillValue or missing_value
    /// is stored
    #[arg(short, long)]
    physical: bool,
    /// Every row and column
    #[arg(short, long)]
    all: bool,
    /// All digits of floats, on a terminal too
    #[arg(short, long)]
    exact: bool,
    /// Draw a line, a map of colours, or a histogram; what fits the slice if left out
    #[arg(long, value_name = "KIND", num_args = 0..=1, require_equals = true,
        default_missing_value = "auto")]
    plot: Option<PlotKind>,
    /// Draw into this PNG file
    #[arg(short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) remote: RemoteFlags,
    /// Of the PNG file, in pixels (default: 1000x700)
    #[arg(long, value_name = "WxH", requires = "output")]
    size: Option<String>,
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlotKind {
    /// A line for one axis, a map for two
    Auto,
    Line,
    #[value(alias = "heat", alias = "heatmap")]
    Map,
    #[value(alias = "histogram")]
    Hist,
}

pub(super) fn run(args: &ShowArgs, preferences: Preferences) -> CommandResult {
    let size = args.size.as_deref().map(PictureSize::parse).transpose();
    let size = size.map_err(Failure::usage)?.unwrap_or_default();
    if let Some(output) = &args.output {
        drawing::may_be_written(output, preferences)?;
    }
    let name = args.array.as_deref();
    let opened = open_array::open(&args.container, preferences, name, CACHE)?;
    let mut view = ArrayView::of(opened, args.slice.as_deref(), args.physical)?;
    match (args.plot, &args.output) {
        (None, None) if view.element.is_none() => texts::show(&view, args.all),
        (None, None) => {
            view.take_first_plane();
            table::show(&view, args.all, args.exact)
        }
        (kind, output) => {
            let kind = kind.unwrap_or(PlotKind::Auto);
            let output = output.as_deref().map(|path| (path, size));
            drawing::show(view, kind, output)
        }
    }
}
