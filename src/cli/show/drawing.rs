//! The picture: which elements make it, which way it stands, and where it goes.

use std::io::Write;
use std::path::Path;

use super::super::failure::{CommandResult, Failure};
use super::super::new_output::OutputPlace;
use super::super::open_array::OpenedArray;
use super::super::screen::Screen;
use super::super::{container, output};
use super::PlotKind;
use super::view::ArrayView;
use crate::container::Preferences;
use crate::look::chart::{Chart, ChartAxis};
use crate::look::element::ElementType;
use crate::look::layout::ElementLayout;
use crate::look::number_text::{Digits, short};
use crate::look::picture::{PictureSize, png};
use crate::look::sample::{DecodeCost, SampleReader, SampledValue, indices, scattered, thinned};
use crate::look::terminal::{self, TerminalArea};
use crate::look::value::{number, printable, text};

/// Values of a line, and of a histogram.
const LINE_MOST: u64 = 1 << 20;
const HISTOGRAM_MOST: u64 = 4 << 20;

/// Bars of a histogram.
const BARS: usize = 64;

/// Character rows of a picture at most.
const ROWS_MOST: usize = 40;

/// What the prompt and what is written around a picture take of a terminal's rows.
const OTHER_ROWS: usize = 8;

/// Refuses what is no place for a picture before anything is read.
pub(super) fn may_be_written(path: &Path, preferences: Preferences) -> CommandResult {
    if path == Path::new("-") {
        return Err(Failure::usage(
            "-o -: a picture is not written to standard output; name a file that ends in .png",
        ));
    }
    let extension = path
        .extension()
        .map(|extension| extension.to_ascii_lowercase());
    if extension.is_some_and(|extension| extension != "png") {
        return Err(Failure::usage(format!(
            "-o {}: pictures are PNG files; let the name end in .png",
            path.display()
        )));
    }
    if container::find(path, preferences).is_ok() {
        return Err(Failure::new(format!(
            "{} is a container, or lies in one; a picture would destroy it: choose another name",
            path.display()
        )));
    }
    Ok(())
}

pub(super) fn show(
    mut view: ArrayView,
    kind: PlotKind,
    file: Option<(&Path, PictureSize)>,
) -> CommandResult {
    let element = numbers_of(&view)?;
    if view.is_empty() {
        return match file {
            None => view.print_empty(),
            Some(_) => Err(Failure::new(format!(
                "{}: no elements, of which a picture could be made",
                view.title()
            ))),
        };
    }
    let screen = Screen::find();
    let area = TerminalArea {
        width: screen.width().saturating_sub(1),
        height: screen.height.saturating_sub(OTHER_ROWS).clamp(8, ROWS_MOST),
        colours: screen.colours,
    };
    if kind != PlotKind::Hist {
        view.take_first_plane();
    }
    let axes = view.axes();
    let most = match file {
        Some((_, size)) => size.most_values(),
        None => terminal::most_values(area),
    };
    let plot = Plot::of(&view, &element)?;
    let mut chart = match (kind, &axes[..]) {
        (PlotKind::Hist, _) => plot.bars()?,
        (PlotKind::Line | PlotKind::Auto, [axis]) => plot.line(*axis)?,
        (PlotKind::Map | PlotKind::Auto, [down, across]) => plot.map(*down, *across, most)?,
        (_, []) => {
            return Err(Failure::usage(
                "a single value is no picture; leave out --plot",
            ));
        }
        (PlotKind::Line, _) => return Err(needs("a line", 1, axes.len())),
        (_, _) => return Err(needs("a map", 2, axes.len())),
    };
    chart.title = view.title();
    chart.units = view
        .scale
        .units
        .as_deref()
        .map(printable)
        .filter(|_| view.is_physical || !view.scale.is_scaled());
    match file {
        None => {
            let lines = terminal::lines(&chart, area);
            output::print(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))
        }
        Some((path, size)) => write(&chart, &view, path, size),
    }
}

fn needs(what: &str, axes: usize, has: usize) -> Failure {
    Failure::usage(format!(
        "{what} needs a slice of {axes} axes, and this one has {has}; --slice chooses, e.g. an index for every other \
         axis, or --plot=hist"
    ))
}

/// The type, if it is one of numbers.
fn numbers_of(view: &ArrayView) -> Result<ElementType, Failure> {
    match &view.element {
        Some(element) if element.is_number() => Ok(element.clone()),
        Some(element @ ElementType::Complex { .. }) => Ok(element.clone()),
        _ => Err(Failure::new(format!(
            "{} are no numbers, of which a picture could be made; without --plot they are a table",
            view.title()
        ))),
    }
}

fn write(chart: &Chart, view: &ArrayView, path: &Path, size: PictureSize) -> CommandResult {
    let container = view.opened.found.shown();
    let place = OutputPlace::find(path.to_owned(), true, &[&container])?;
    let bytes = png(chart, size)?;
    let mut file = place.begin()?;
    file.put_all(0, &bytes)?;
    file.finish_new()?;
    output::print(|out| writeln!(out, "{}: {}", output::path_text(path), chart.summary()))
}

/// What pictures are made of.
struct Plot<'a> {
    view: &'a ArrayView,
    element: &'a ElementType,
    layout: ElementLayout,
    cost: DecodeCost,
}

impl<'a> Plot<'a> {
    fn of(view: &'a ArrayView, element: &'a ElementType) -> Result<Plot<'a>, Failure> {
        let info = &view.opened.info;
        let layout = ElementLayout::of(info);
        Ok(Plot {
            view,
            element,
            layout: layout.ok_or_else(|| Failure::new("its elements have no size"))?,
            cost: DecodeCost::of(info, &view.opened.details.chunks),
        })
    }

    fn read(&self, indices: &[Vec<u64>]) -> Result<Vec<SampledValue>, Failure> {
        let reader = SampleReader {
            array: &self.view.opened.array,
            layout: &self.layout,
            element: self.element,
            scale: &self.view.scale,
            is_physical: self.view.is_physical,
        };
        Ok(reader.read(indices)?)
    }

    /// What part it is, and how much of that was read.
    fn captions(&self, steps: &[u64]) -> Vec<String> {
        let mut captions = self.view.captions();
        if matches!(self.element, ElementType::Complex { .. }) {
            captions.push("magnitudes of complex numbers".into());
        }
        let axes = steps.iter().zip(&self.view.slices).enumerate();
        let thinned: Vec<String> = axes
            .filter(|(_, (step, _))| **step > 1)
            .map(|(axis, (step, slice))| {
                let name = match self.view.axis_name(axis) {
                    name if name.is_empty() => format!("axis {axis}"),
                    name => name,
                };
                format!("every {} of {} along {name}", ordinal(*step), slice.count)
            })
            .collect();
        if !thinned.is_empty() {
            captions.push(format!("a sample: {}", thinned.join(", ")));
        }
        captions
    }

    /// How many values the slice has, if not all of them are read.
    fn sample_of(&self, steps: &[u64]) -> Option<u64> {
        let counts = self.view.slices.iter().map(|slice| slice.count);
        let all = counts.fold(1u64, u64::saturating_mul);
        steps.iter().any(|step| *step > 1).then_some(all)
    }

    fn bars(&self) -> Result<Chart, Failure> {
        let steps = scattered(&self.view.slices, HISTOGRAM_MOST, &self.cost);
        let values = self.read(&indices(&self.view.slices, &steps))?;
        let mut chart = Chart::bars(values, BARS);
        chart.sample_of = self.sample_of(&steps);
        chart.captions = self.captions(&steps);
        Ok(chart)
    }

    fn line(&self, axis: usize) -> Result<Chart, Failure> {
        let targets: Vec<u64> = self.view.slices.iter().map(|_| LINE_MOST).collect();
        let steps = thinned(&self.view.slices, &targets, &self.cost);
        let lists = indices(&self.view.slices, &steps);
        let values = self.read(&lists)?;
        let along = lists.get(axis).map(Vec::as_slice).unwrap_or_default();
        let mut chart = Chart::line(values, self.axis(axis, along));
        chart.sample_of = self.sample_of(&steps);
        chart.captions = self.captions(&steps);
        Ok(chart)
    }

    fn map(&self, down: usize, across: usize, most: (usize, usize)) -> Result<Chart, Failure> {
        let targets = (0..self.view.slices.len()).map(|axis| match axis {
            axis if axis == down => most.0 as u64,
            axis if axis == across => most.1 as u64,
            _ => 1,
        });
        let targets: Vec<u64> = targets.collect();
        let steps = thinned(&self.view.slices, &targets, &self.cost);
        let mut lists = indices(&self.view.slices, &steps);
        let rows = lists.get(down).cloned().unwrap_or_default();
        let north = self.north(down, &rows);
        let is_turned = north == Some(true);
        if is_turned && let Some(list) = lists.get_mut(down) {
            list.reverse();
        }
        let values = self.read(&lists)?;
        let list = |axis: usize| lists.get(axis).map(Vec::as_slice).unwrap_or_default();
        let columns = list(across).len();
        let (down_axis, across_axis) =
            (self.axis(down, list(down)), self.axis(across, list(across)));
        let mut chart = Chart::heat(values, columns, down_axis, across_axis);
        chart.sample_of = self.sample_of(&steps);
        chart.captions = self.captions(&steps);
        let (first, last) = (&chart.down.first, &chart.down.last);
        chart.captions.push(match north {
            Some(true) => format!("north is up: latitudes rise, so row {last} is at the bottom"),
            Some(false) => format!("north is up: row {first} is at the top"),
            None => format!("row {first} is at the top"),
        });
        Ok(chart)
    }

    /// What is written at an axis: its first and last index, and what these stand for.
    fn axis(&self, axis: usize, indices: &[u64]) -> ChartAxis {
        let ends = [indices.first(), indices.last()];
        let [first, last] = ends.map(|index| index.map_or(String::new(), u64::to_string));
        let mut name = self.view.axis_name(axis);
        if let [Some(from), Some(to)] = ends
            && let Some((texts, units)) = self.coordinates(axis, [*from, *to])
        {
            let [from, to] = texts;
            let units = if units.is_empty() {
                units
            } else {
                format!(" {units}")
            };
            name = format!("{name} ({from} to {to}{units})");
        }
        ChartAxis { name, first, last }
    }

    /// Whether the rows have to change places for north to be up; none if they are no latitudes.
    fn north(&self, axis: usize, rows: &[u64]) -> Option<bool> {
        let (first, last) = (*rows.first()?, *rows.last()?);
        let coordinate = self.coordinate(axis)?;
        let units = coordinate.attributes.get("units")?.as_str()?;
        let is_latitude = [
            "degrees_north",
            "degree_north",
            "degree_N",
            "degrees_N",
            "degreeN",
            "degreesN",
        ];
        if !is_latitude.contains(&units) || first == last {
            return None;
        }
        let [from, to] = coordinate_values(&coordinate, [first, last])?.map(|value| value.1);
        Some(from? < to?)
    }

    /// The array that says what the indices of an axis stand for: that of its dimension's name.
    fn coordinate(&self, axis: usize) -> Option<OpenedArray> {
        let path = self.view.opened.details.dims.get(axis)?.as_deref()?;
        let coordinate = self.view.opened.beside(path)?;
        let len = self.view.opened.info.shape.get(axis)?;
        (coordinate.info.shape == [*len]).then_some(coordinate)
    }

    fn coordinates(&self, axis: usize, ends: [u64; 2]) -> Option<([String; 2], String)> {
        let coordinate = self.coordinate(axis)?;
        let texts = coordinate_values(&coordinate, ends)?.map(|value| value.0);
        let units = coordinate
            .attributes
            .get("units")
            .and_then(|units| units.as_str());
        Some((texts, printable(units.unwrap_or_default())))
    }
}

/// Values of a coordinate as text, and as numbers.
fn coordinate_values(
    coordinate: &OpenedArray,
    ends: [u64; 2],
) -> Option<[(String, Option<f64>); 2]> {
    let (layout, element) = (ElementLayout::of(&coordinate.info)?, coordinate.element()?);
    let picked = layout.read(&*coordinate.array, &[ends.to_vec()]).ok()?;
    Some([0, 1].map(|n| {
        let value = number(&element, picked.get(n)).map(|value| value.as_f64());
        let told = match value {
            Some(value) => short(value),
            None => text(&element, picked.get(n), Digits::Six),
        };
        (told, value)
    }))
}

fn ordinal(n: u64) -> String {
    let ending = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
}
