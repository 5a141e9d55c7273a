//! Pictures as PNG files: the chart, a title, labels of the axes, and what the colours mean.
//!
//! Where the plotted pixels lie in the image is told in its text `Plot area` (x, y, width, height),
//! for programs. Pure: makes bytes. Used by the command `show`.

use embedded_graphics::Drawable;
use embedded_graphics::geometry::Point;
use embedded_graphics::mono_font::iso_8859_1::{FONT_7X13, FONT_9X15_BOLD};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::Rgb888;
use embedded_graphics::text::{Alignment, Text};

use super::canvas::{Canvas, Colour, MISSING, colour_of_level};
use super::chart::Chart;
use super::number_text::short;
use super::raster::PixelShade;
use crate::error::{Error, Result};

/// Around the plot.
const LEFT: u32 = 100;
const RIGHT: u32 = 120;
const BOTTOM: u32 = 70;

/// Height of a line of text.
const LINE: u32 = 17;

/// The picture without words is at least so wide and tall.
const PLOT_LEAST: u32 = 32;

/// Widest and tallest pictures.
const SIDE_MOST: u32 = 4096;

/// Lines of a chart, and bars.
const INK: Colour = [0x31, 0x68, 0x8e];
const BLACK: Rgb888 = Rgb888::new(0, 0, 0);
const FRAME: Colour = [0x60, 0x60, 0x60];

/// Size of an image in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureSize {
    pub width: u32,
    pub height: u32,
}

impl Default for PictureSize {
    fn default() -> Self {
        PictureSize {
            width: 1000,
            height: 700,
        }
    }
}

impl PictureSize {
    /// `1000x700`; what is wrong with it in words.
    pub fn parse(text: &str) -> std::result::Result<PictureSize, String> {
        let sides = text.split_once(['x', 'X', '×']);
        let sides = sides.and_then(|(width, height)| {
            Some((width.trim().parse().ok()?, height.trim().parse().ok()?))
        });
        let Some((width, height)) = sides else {
            return Err(format!("'{text}' is no size; e.g. 1000x700"));
        };
        let least = PictureSize {
            width: LEFT + RIGHT + PLOT_LEAST,
            height: BOTTOM + 8 * LINE + PLOT_LEAST,
        };
        if width < least.width || height < least.height {
            return Err(format!(
                "{text} is too small for what is written around a picture; at least {}x{}",
                least.width, least.height
            ));
        }
        if width > SIDE_MOST || height > SIDE_MOST {
            return Err(format!("{text} is too large; at most {SIDE_MOST} each way"));
        }
        Ok(PictureSize { width, height })
    }

    /// Most rows and columns of values that a map shows.
    pub fn most_values(self) -> (usize, usize) {
        let width = self.width.saturating_sub(LEFT + RIGHT).max(1);
        let height = self.height.saturating_sub(BOTTOM + 3 * LINE).max(1);
        (height as usize, width as usize)
    }
}

/// A rectangle of the image.
#[derive(Debug, Clone, Copy)]
struct PlotArea {
    x: u32,
    y: u32,
    width: u32,
    height: u32,
}

impl PlotArea {
    fn of(chart: &Chart, size: PictureSize) -> PlotArea {
        let top = LINE * (2 + chart.captions.len().min(5) as u32);
        let mut area = PlotArea {
            x: LEFT,
            y: top,
            width: size.width.saturating_sub(LEFT + RIGHT).max(1),
            height: size.height.saturating_sub(top + BOTTOM).max(1),
        };
        let grid = chart.grid().filter(|(rows, columns)| rows * columns > 0);
        if let Some((rows, columns)) = grid {
            // As tall as wide, a value in each direction, unless one side would be a strip.
            let (wide, tall) = (f64::from(area.width), f64::from(area.height));
            let scale = (wide / columns as f64).min(tall / rows as f64);
            let (width, height) = (columns as f64 * scale, rows as f64 * scale);
            if width * 4.0 >= wide && height * 4.0 >= tall {
                (area.width, area.height) = (width.round() as u32, height.round() as u32);
            }
        }
        area
    }
}

/// The bytes of a PNG file.
pub fn png(chart: &Chart, size: PictureSize) -> Result<Vec<u8>> {
    let area = PlotArea::of(chart, size);
    let mut canvas = Canvas::new(size.width, size.height)?;
    plot(chart, area, &mut canvas);
    words(chart, area, size, &mut canvas);
    if chart.colour_range().is_some() {
        colour_bar(chart, area, &mut canvas);
    }
    let place = format!("{},{},{},{}", area.x, area.y, area.width, area.height);
    encoded(&canvas, size, chart, place).map_err(|e| Error::Bug(format!("a picture: {e}")))
}

fn encoded(
    canvas: &Canvas,
    size: PictureSize,
    chart: &Chart,
    place: String,
) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.add_itxt_chunk("Title".into(), chart.title.clone())?;
    encoder.add_itxt_chunk("Description".into(), description(chart))?;
    encoder.add_text_chunk("Plot area".into(), place)?;
    let mut writer = encoder.write_header()?;
    writer.write_image_data(canvas.bytes())?;
    writer.finish()?;
    Ok(bytes)
}

fn description(chart: &Chart) -> String {
    let mut lines = chart.captions.clone();
    lines.push(chart.summary());
    lines.join("\n")
}

fn plot(chart: &Chart, area: PlotArea, canvas: &mut Canvas) {
    let raster = chart.raster((area.width as usize, area.height as usize));
    for y in 0..area.height {
        for x in 0..area.width {
            let colour = match raster.get(x as usize, y as usize) {
                PixelShade::Background => continue,
                PixelShade::Level(level) => colour_of_level(level),
                PixelShade::Missing => MISSING,
                PixelShade::Ink => INK,
            };
            canvas.set(area.x + x, area.y + y, colour);
        }
    }
    frame(area, canvas);
}

/// Around an area, beside its pixels.
fn frame(area: PlotArea, canvas: &mut Canvas) {
    let (left, top) = (area.x.saturating_sub(1), area.y.saturating_sub(1));
    let (right, bottom) = (area.x + area.width, area.y + area.height);
    for x in left..=right {
        canvas.set(x, top, FRAME);
        canvas.set(x, bottom, FRAME);
    }
    for y in top..=bottom {
        canvas.set(left, y, FRAME);
        canvas.set(right, y, FRAME);
    }
}

fn words(chart: &Chart, area: PlotArea, size: PictureSize, canvas: &mut Canvas) {
    let bottom = area.y + area.height;
    let wide = size.width.saturating_sub(20);
    write(
        canvas,
        &FONT_9X15_BOLD,
        &chart.title,
        (10, 18),
        Alignment::Left,
        wide,
    );
    for (n, caption) in chart.captions.iter().take(5).enumerate() {
        let y = 18 + LINE * (n as u32 + 1);
        write(canvas, &FONT_7X13, caption, (10, y), Alignment::Left, wide);
    }
    let gutter = LEFT - 12;
    let left = area.x - 6;
    let font = &FONT_7X13;
    write(
        canvas,
        font,
        &chart.down.first,
        (left, area.y + 10),
        Alignment::Right,
        gutter,
    );
    write(
        canvas,
        font,
        &chart.down.last,
        (left, bottom),
        Alignment::Right,
        gutter,
    );
    if !chart.down.name.is_empty() {
        let down = format!("down: {}", chart.down.name);
        let at = (area.x, bottom + 2 * LINE);
        write(canvas, font, &down, at, Alignment::Left, area.width);
    }
    let below = bottom + LINE;
    let (right, half) = (area.x + area.width, area.x + area.width / 2);
    let third = area.width / 3;
    write(
        canvas,
        font,
        &chart.across.first,
        (area.x, below),
        Alignment::Left,
        third,
    );
    write(
        canvas,
        font,
        &chart.across.last,
        (right, below),
        Alignment::Right,
        third,
    );
    write(
        canvas,
        font,
        &chart.across.name,
        (half, below),
        Alignment::Center,
        third,
    );
    let summary = chart.summary();
    write(
        canvas,
        font,
        &summary,
        (10, size.height - 12),
        Alignment::Left,
        wide,
    );
}

fn colour_bar(chart: &Chart, area: PlotArea, canvas: &mut Canvas) {
    let Some(range) = chart.colour_range() else {
        return;
    };
    let bar = PlotArea {
        x: area.x + area.width + 16,
        width: 18,
        ..area
    };
    for y in 0..bar.height {
        let level = 1.0 - y as f32 / bar.height.saturating_sub(1).max(1) as f32;
        for x in 0..bar.width {
            canvas.set(bar.x + x, bar.y + y, colour_of_level(level));
        }
    }
    frame(bar, canvas);
    let x = bar.x + bar.width + 5;
    let room = RIGHT - 16 - 18 - 8;
    let font = &FONT_7X13;
    write(
        canvas,
        font,
        &short(range.most),
        (x, bar.y + 10),
        Alignment::Left,
        room,
    );
    write(
        canvas,
        font,
        &short(range.least),
        (x, bar.y + bar.height),
        Alignment::Left,
        room,
    );
    if let Some(units) = &chart.units {
        let middle = bar.y + bar.height / 2;
        write(canvas, font, units, (x, middle), Alignment::Left, room);
    }
}

/// Writes as much of a text as there is room for; letters that the font lacks are question marks.
fn write(
    canvas: &mut Canvas,
    font: &MonoFont<'_>,
    text: &str,
    (x, y): (u32, u32),
    side: Alignment,
    room: u32,
) {
    let most = (room / font.character_size.width.max(1)) as usize;
    let known = text.chars().map(|c| match c {
        '→' => '>',
        '…' => '~',
        c => c,
    });
    let text: String = known.take(most).collect();
    let at = Point::new(x.min(SIDE_MOST) as i32, y.min(SIDE_MOST) as i32);
    let style = MonoTextStyle::new(font, BLACK);
    // Drawing on a canvas cannot fail.
    let _ = Text::with_alignment(&text, at, style, side).draw(canvas);
}

#[cfg(test)]
mod tests {
    use super::super::chart::ChartAxis;
    use super::super::sample::SampledValue;
    use super::*;

    #[test]
    fn sizes_are_read_and_bounded() {
        let size = PictureSize::parse("1200x800").unwrap();
        assert_eq!((size.width, size.height), (1200, 800));
        for bad in ["", "12", "axb", "10x10", "99999x800", "800x5000", "-1x5"] {
            assert!(PictureSize::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pictures_have_their_pixels_where_they_say() {
        let values = [0.0, 1.0, 2.0, 3.0].map(SampledValue::Number).to_vec();
        let axis = ChartAxis::default;
        let mut chart = Chart::heat(values, 2, axis(), axis());
        chart.title = "title, ünïcode ≥".into();
        let bytes = png(&chart, PictureSize::default()).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.width, frame.height), (1000, 700));
        let texts = &reader.info().uncompressed_latin1_text;
        let place: Vec<usize> = texts[0]
            .text
            .split(',')
            .map(|n| n.parse().unwrap())
            .collect();
        let at = |x: usize, y: usize| {
            let at = 3 * ((place[1] + y) * 1000 + place[0] + x);
            [pixels[at], pixels[at + 1], pixels[at + 2]]
        };
        let (right, bottom) = (place[2] - 1, place[3] - 1);
        assert_eq!(at(0, 0), colour_of_level(0.0));
        assert_eq!(at(right, bottom), colour_of_level(1.0));
        assert_eq!(at(0, bottom), colour_of_level(2.0 / 3.0));
    }
}
