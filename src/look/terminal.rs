//! Pictures in a terminal: two pixels in each character cell, in as many colours as it has.
//!
//! Pure: what the terminal is, is told. Used by the command `show`.

use super::canvas::{Colour, MISSING, colour_of_level};
use super::chart::Chart;
use super::number_text::short;
use super::raster::{PixelShade, Raster};

/// Cells of the colour bar.
const BAR: usize = 24;

/// From light to dark, where there are no colours.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];

/// Stands for values that are none.
const NONE: char = '×';

/// Ink of lines and bars, where there are colours.
const INK: Colour = [0x35, 0xb7, 0x79];

/// What colours a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalColours {
    /// 24 bits.
    All,
    /// Those of a table of 256.
    Table,
    None,
}

/// Where a picture goes.
#[derive(Debug, Clone, Copy)]
pub struct TerminalArea {
    /// Character cells.
    pub width: usize,
    pub height: usize,
    pub colours: TerminalColours,
}

/// The cells that remain for pixels, beside `gutter`: as wide, and half as tall in rows.
fn pixels_of(chart: &Chart, area: TerminalArea, gutter: usize) -> (usize, usize) {
    let width = area.width.saturating_sub(gutter + 1).max(8);
    let height = 2 * area.height.max(4);
    let Some((rows, columns)) = chart.grid().filter(|(rows, columns)| rows * columns > 0) else {
        return (width, height);
    };
    // As wide as tall, a value in each direction, as far as there is room.
    let scale = (width as f64 / columns as f64).min(height as f64 / rows as f64);
    let fitted = |n: usize, room: usize| ((n as f64 * scale) as usize).clamp(8.min(room), room);
    (fitted(columns, width), fitted(rows, height))
}

/// How many rows and columns of values a map can show there.
pub fn most_values(area: TerminalArea) -> (usize, usize) {
    (2 * area.height.max(4), area.width.max(9) - 1)
}

/// The lines of a picture, with all that is written around it.
pub fn lines(chart: &Chart, area: TerminalArea) -> Vec<String> {
    let labels = [&chart.down.first, &chart.down.last].map(|label| label.chars().count());
    let gutter = labels.into_iter().max().unwrap_or(0);
    let (width, height) = pixels_of(chart, area, gutter);
    let raster = chart.raster((width, height));
    let mut lines = vec![chart.title.clone()];
    lines.extend(chart.captions.iter().cloned());
    if !chart.down.name.is_empty() {
        lines.push(format!("{:>gutter$} ↓ {}", "", chart.down.name));
    }
    let rows = height.div_ceil(2);
    for row in 0..rows {
        let label = match row {
            0 => chart.down.first.as_str(),
            row if row + 1 == rows => chart.down.last.as_str(),
            _ => "",
        };
        lines.push(format!(
            "{label:>gutter$} {}",
            cells(&raster, row, area.colours)
        ));
    }
    let (first, last) = (&chart.across.first, &chart.across.last);
    let name = match &*chart.across.name {
        "" => String::new(),
        name => format!("{name} →"),
    };
    let room = width.saturating_sub(first.chars().count() + last.chars().count());
    lines.push(format!("{:>gutter$} {first}{name:^room$}{last}", ""));
    if let Some(range) = chart.colour_range() {
        let bar: String = (0..BAR)
            .map(|n| PixelShade::Level(n as f32 / (BAR - 1) as f32))
            .map(|shade| cell(shade, shade, area.colours))
            .collect();
        let end = reset(area.colours);
        lines.push(format!(
            "{} {bar}{end} {}",
            short(range.least),
            short(range.most)
        ));
    }
    lines.push(chart.summary());
    lines
}

/// A row of character cells.
fn cells(raster: &Raster, row: usize, colours: TerminalColours) -> String {
    let (mut text, mut last) = (String::new(), String::new());
    for x in 0..raster.width {
        let (upper, lower) = (raster.get(x, 2 * row), raster.get(x, 2 * row + 1));
        let cell = cell(upper, lower, colours);
        // What sets colours is said once for cells that follow each other.
        let at = cell.rfind('m').filter(|_| colours != TerminalColours::None);
        let (set, shown) = cell.split_at(at.map_or(0, |at| at + 1));
        if set != last {
            text.push_str(set);
            last = set.to_owned();
        }
        text.push_str(shown);
    }
    text + reset(colours)
}

fn reset(colours: TerminalColours) -> &'static str {
    match colours {
        TerminalColours::None => "",
        _ => "\u{1b}[0m",
    }
}

/// A character, behind what sets its colours.
fn cell(upper: PixelShade, lower: PixelShade, colours: TerminalColours) -> String {
    let colour = |shade| match shade {
        PixelShade::Background => None,
        PixelShade::Level(level) => Some(colour_of_level(level)),
        PixelShade::Missing => Some(MISSING),
        PixelShade::Ink => Some(INK),
    };
    if colours == TerminalColours::None {
        return plain(upper, lower).to_string();
    }
    let set = |ground: u8, colour: Colour| match colours {
        TerminalColours::All => {
            let [red, green, blue] = colour;
            format!("{ground};2;{red};{green};{blue}")
        }
        _ => format!("{ground};5;{}", in_table(colour)),
    };
    match (colour(upper), colour(lower)) {
        (None, None) => "\u{1b}[0m ".into(),
        (Some(upper), Some(lower)) => {
            format!("\u{1b}[{};{}m▀", set(38, upper), set(48, lower))
        }
        (Some(upper), None) => format!("\u{1b}[0;{}m▀", set(38, upper)),
        (None, Some(lower)) => format!("\u{1b}[0;{}m▄", set(38, lower)),
    }
}

/// Without colours: how dark the two pixels are.
fn plain(upper: PixelShade, lower: PixelShade) -> char {
    let is_ink = |shade| shade == PixelShade::Ink;
    match (upper, lower) {
        (upper, lower) if is_ink(upper) && is_ink(lower) => '█',
        (upper, _) if is_ink(upper) => '▀',
        (_, lower) if is_ink(lower) => '▄',
        (PixelShade::Missing, _) | (_, PixelShade::Missing) => NONE,
        (PixelShade::Level(a), PixelShade::Level(b)) => shade((a + b) / 2.0),
        (PixelShade::Level(a), _) | (_, PixelShade::Level(a)) => shade(a),
        _ => ' ',
    }
}

fn shade(level: f32) -> char {
    let at = (level.clamp(0.0, 1.0) * SHADES.len() as f32) as usize;
    SHADES.get(at).copied().unwrap_or('█')
}

/// The nearest of the cube of 6 by 6 by 6 colours in the table of 256.
fn in_table(colour: Colour) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |value: u8| {
        let near = (0u8..)
            .zip(STEPS)
            .min_by_key(|(_, step)| step.abs_diff(value));
        near.map_or(0, |(n, _)| n)
    };
    let [red, green, blue] = colour.map(nearest);
    16 + 36 * red + 6 * green + blue
}

#[cfg(test)]
mod tests {
    use super::super::chart::ChartAxis;
    use super::super::sample::SampledValue;
    use super::*;

    fn map(colours: TerminalColours) -> Vec<String> {
        let values = [0.0, 1.0, 2.0, 3.0].map(SampledValue::Number).to_vec();
        let axis = |name: &str| ChartAxis {
            name: name.into(),
            first: "0".into(),
            last: "1".into(),
        };
        let mut chart = Chart::heat(values, 2, axis("lat"), axis("lon"));
        chart.title = "t".into();
        let area = TerminalArea {
            width: 20,
            height: 4,
            colours,
        };
        lines(&chart, area)
    }

    #[test]
    fn maps_without_colours_are_shades() {
        let lines = map(TerminalColours::None);
        assert_eq!(lines[0], "t");
        assert!(lines[1].contains("lat"));
        assert_eq!(lines[2], "0     ░░░░");
        assert_eq!(lines[5], "1 ▓▓▓▓████");
        assert!(lines.iter().all(|line| !line.contains('\u{1b}')));
        assert!(lines.last().unwrap().starts_with("minimum 0, maximum 3"));
    }

    #[test]
    fn colours_are_those_of_the_terminal() {
        let all = map(TerminalColours::All).join("\n");
        assert!(
            all.contains("\u{1b}[38;2;68;1;84;48;2;68;1;84m▀"),
            "{all:?}"
        );
        assert!(all.contains("\u{1b}[0m"));
        let table = map(TerminalColours::Table).join("\n");
        assert!(table.contains("\u{1b}[38;5;"), "{table:?}");
        assert_eq!(in_table([255, 255, 255]), 231);
        assert_eq!(in_table([0, 0, 0]), 16);
    }
}
