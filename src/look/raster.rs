//! Values as pixels, whatever shows them: a terminal or an image file.
//!
//! Pure. Made by [`super::chart`], shown by [`super::terminal`] and [`super::picture`].

use super::histogram::HistogramBin;
use super::sample::SampledValue;

/// What a pixel is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PixelShade {
    /// Nothing.
    Background,
    /// A value between the least (0) and the most (1).
    Level(f32),
    /// A value that is none.
    Missing,
    /// A line, or a bar.
    Ink,
}

/// Pixels, row by row from the top.
#[derive(Debug, Clone, PartialEq)]
pub struct Raster {
    pub width: usize,
    pub height: usize,
    pixels: Vec<PixelShade>,
}

/// From the least to the most of what is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShownRange {
    pub least: f64,
    pub most: f64,
}

impl ShownRange {
    /// Of the finite values; none if there is none.
    pub fn of(values: &[SampledValue]) -> Option<ShownRange> {
        let finite = values.iter().filter_map(|value| match value {
            SampledValue::Number(number) if number.is_finite() => Some(*number),
            _ => None,
        });
        finite.fold(None, |range: Option<ShownRange>, value| {
            let range = range.unwrap_or(ShownRange {
                least: value,
                most: value,
            });
            Some(ShownRange {
                least: range.least.min(value),
                most: range.most.max(value),
            })
        })
    }

    /// Where a value lies in it: 0 to 1. Where all are the same, in the middle.
    pub fn part(&self, value: f64) -> f64 {
        // Halves, so that the difference of the largest numbers is finite.
        let whole = self.most / 2.0 - self.least / 2.0;
        match whole > 0.0 {
            true => ((value / 2.0 - self.least / 2.0) / whole).clamp(0.0, 1.0),
            false => 0.5,
        }
    }
}

impl Raster {
    /// Nothing but background.
    pub fn empty(width: usize, height: usize) -> Raster {
        Raster {
            width,
            height,
            pixels: vec![PixelShade::Background; width.saturating_mul(height)],
        }
    }

    /// A pixel; background outside.
    pub fn get(&self, x: usize, y: usize) -> PixelShade {
        let is_inside = x < self.width && y < self.height;
        let pixel = self.pixels.get(y * self.width + x).filter(|_| is_inside);
        pixel.copied().unwrap_or(PixelShade::Background)
    }

    fn set(&mut self, x: usize, y: usize, shade: PixelShade) {
        if x < self.width
            && let Some(pixel) = self.pixels.get_mut(y * self.width + x)
        {
            *pixel = shade;
        }
    }

    /// A map of values, of which `columns` make a row: each pixel has the value that lies there.
    pub fn heat(
        values: &[SampledValue],
        columns: usize,
        range: Option<ShownRange>,
        (width, height): (usize, usize),
    ) -> Raster {
        let mut raster = Raster::empty(width, height);
        let rows = values.len().checked_div(columns).unwrap_or(0);
        for y in 0..height {
            for x in 0..width {
                let (row, column) = (y * rows / height, x * columns / width);
                let shade = match values.get(row * columns + column) {
                    Some(SampledValue::Number(value)) => match range {
                        Some(range) => PixelShade::Level(range.part(*value) as f32),
                        None => PixelShade::Missing,
                    },
                    Some(_) => PixelShade::Missing,
                    None => PixelShade::Background,
                };
                raster.set(x, y, shade);
            }
        }
        raster
    }

    /// A line from the left to the right. Where several values share a column of pixels it goes
    /// from the least to the most of them; where there is none, it is interrupted.
    pub fn line(
        values: &[SampledValue],
        range: Option<ShownRange>,
        (width, height): (usize, usize),
    ) -> Raster {
        let mut raster = Raster::empty(width, height);
        let Some(range) = range.filter(|_| height > 0) else {
            return raster;
        };
        let row = |value: f64| {
            let from_top = (1.0 - range.part(value)) * (height - 1) as f64;
            from_top.round() as usize
        };
        let mut before: Option<usize> = None;
        for x in 0..width {
            let Some((mut top, mut bottom, last)) = column(values, x, width, &row) else {
                before = None;
                continue;
            };
            if let Some(before) = before {
                // Joined with the column before, half way.
                (top, bottom) = (top.min(before), bottom.max(before));
            }
            before = Some(last);
            (top..=bottom).for_each(|y| raster.set(x, y, PixelShade::Ink));
        }
        raster
    }

    /// A bar for each bin, from the bottom.
    pub fn bars(bins: &[HistogramBin], (width, height): (usize, usize)) -> Raster {
        let mut raster = Raster::empty(width, height);
        let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
        for x in 0..width {
            let Some(bin) = bins.get(x * bins.len() / width).filter(|_| most > 0) else {
                continue;
            };
            let tall = (bin.count as f64 / most as f64 * height as f64).round() as usize;
            // What is there at all is seen.
            let tall = tall.max(usize::from(bin.count > 0)).min(height);
            (height - tall..height).for_each(|y| raster.set(x, y, PixelShade::Ink));
        }
        raster
    }
}

/// Of the values in a column of pixels: the top row, the bottom row, and the row of the last one.
fn column(
    values: &[SampledValue],
    x: usize,
    width: usize,
    row: &dyn Fn(f64) -> usize,
) -> Option<(usize, usize, usize)> {
    let count = values.len();
    if count <= width {
        return between(values, x, width, row);
    }
    let within = values.get(x * count / width..(x + 1) * count / width)?;
    let rows = within.iter().filter_map(|value| match value {
        SampledValue::Number(number) => Some(row(*number)),
        _ => None,
    });
    rows.fold(None, |so_far, row| match so_far {
        None => Some((row, row, row)),
        Some((top, bottom, _)) => Some((top.min(row), bottom.max(row), row)),
    })
}

/// The rows of pixels of a column between two values: on the straight way from one to the other.
fn between(
    values: &[SampledValue],
    x: usize,
    width: usize,
    row: &dyn Fn(f64) -> usize,
) -> Option<(usize, usize, usize)> {
    let last = values.len().checked_sub(1)?;
    let at = match width {
        0 | 1 => 0.0,
        width => x as f64 * last as f64 / (width - 1) as f64,
    };
    let number = |n: usize| match values.get(n.min(last)) {
        Some(SampledValue::Number(number)) => Some(*number),
        _ => None,
    };
    let first = at.floor() as usize;
    let part = at - at.floor();
    let value = match (number(first), number(first + 1)) {
        (Some(a), Some(b)) if part > 0.0 => a * (1.0 - part) + b * part,
        (Some(a), _) if part < 0.5 => a,
        (_, Some(b)) if part >= 0.5 => b,
        _ => return None,
    };
    let row = row(value);
    Some((row, row, row))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &[f64]) -> Vec<SampledValue> {
        values.iter().copied().map(SampledValue::Number).collect()
    }

    #[test]
    fn maps_have_the_value_that_lies_there() {
        let mut values = numbers(&[0.0, 1.0, 2.0, 4.0]);
        values[2] = SampledValue::Fill;
        let range = ShownRange::of(&values);
        let raster = Raster::heat(&values, 2, range, (4, 2));
        let row = |y| (0..4).map(|x| raster.get(x, y)).collect::<Vec<_>>();
        let level = PixelShade::Level;
        assert_eq!(row(0), [level(0.0), level(0.0), level(0.25), level(0.25)]);
        let missing = PixelShade::Missing;
        assert_eq!(row(1), [missing, missing, level(1.0), level(1.0)]);
        assert_eq!(raster.get(4, 0), PixelShade::Background);
    }

    #[test]
    fn lines_go_through_their_values() {
        let values = numbers(&[0.0, 1.0, 0.0]);
        let raster = Raster::line(&values, ShownRange::of(&values), (3, 5));
        assert_eq!(raster.get(0, 4), PixelShade::Ink);
        assert_eq!(raster.get(1, 0), PixelShade::Ink);
        assert_eq!(raster.get(2, 4), PixelShade::Ink);
        // Many values share a column: from the least to the most.
        let many: Vec<f64> = (0..1000).map(|n| f64::from(n % 2)).collect();
        let many = numbers(&many);
        let raster = Raster::line(&many, ShownRange::of(&many), (10, 4));
        assert!((0..10).all(|x| (0..4).all(|y| raster.get(x, y) == PixelShade::Ink)));
    }

    #[test]
    fn nothing_and_extremes_make_no_trouble() {
        let none = [SampledValue::NotANumber; 3];
        assert_eq!(ShownRange::of(&none), None);
        Raster::heat(&none, 3, None, (5, 5));
        Raster::heat(&[], 0, None, (5, 5));
        Raster::line(&[], None, (5, 5));
        Raster::line(&none, None, (0, 0));
        Raster::bars(&[], (3, 3));
        let wide = numbers(&[f64::MIN, f64::MAX, f64::INFINITY]);
        let range = ShownRange::of(&wide).unwrap();
        assert_eq!((range.part(0.0), range.part(f64::INFINITY)), (0.5, 1.0));
        Raster::line(&wide, Some(range), (7, 3));
    }
}
