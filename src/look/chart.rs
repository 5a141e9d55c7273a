//! A picture of values and what is written around it, before it is known where it is shown.
//!
//! Pure. Made by the command `show`; drawn by [`super::terminal`] and [`super::picture`].

use super::histogram::{Histogram, HistogramBin};
use super::number_text::short;
use super::raster::{Raster, ShownRange};
use super::sample::SampledValue;

/// What a picture shows.
#[derive(Debug, Clone)]
pub enum ChartKind {
    /// Values in rows of so many.
    Heat {
        columns: usize,
    },
    Line,
    Bars {
        bins: Vec<HistogramBin>,
    },
}

/// An axis, and what is written at its ends.
#[derive(Debug, Clone, Default)]
pub struct ChartAxis {
    /// Name and units.
    pub name: String,
    /// At the left, or at the top.
    pub first: String,
    /// At the right, or at the bottom.
    pub last: String,
}

/// Values and words.
#[derive(Debug, Clone)]
pub struct Chart {
    pub kind: ChartKind,
    pub title: String,
    /// Lines that say what part of the array it is.
    pub captions: Vec<String>,
    pub across: ChartAxis,
    pub down: ChartAxis,
    values: Vec<SampledValue>,
    range: Option<ShownRange>,
    /// How many values there are, if only a sample of them is here.
    pub sample_of: Option<u64>,
    /// What is written with numbers.
    pub units: Option<String>,
}

impl Chart {
    /// A map of rows of values. `down`: its name, and the index of the first and last row.
    pub fn heat(
        values: Vec<SampledValue>,
        columns: usize,
        down: ChartAxis,
        across: ChartAxis,
    ) -> Chart {
        Chart {
            kind: ChartKind::Heat { columns },
            down,
            across,
            ..Chart::line(values, ChartAxis::default())
        }
    }

    /// Values along one axis.
    pub fn line(values: Vec<SampledValue>, across: ChartAxis) -> Chart {
        let range = ShownRange::of(&values);
        let bound = |value: fn(ShownRange) -> f64| range.map_or(String::new(), |r| short(value(r)));
        Chart {
            kind: ChartKind::Line,
            title: String::new(),
            captions: Vec::new(),
            across,
            down: ChartAxis {
                name: String::new(),
                first: bound(|range| range.most),
                last: bound(|range| range.least),
            },
            values,
            range,
            sample_of: None,
            units: None,
        }
    }

    /// How values are distributed, in at most so many bins.
    pub fn bars(values: Vec<SampledValue>, most: usize) -> Chart {
        let mut histogram = Histogram::default();
        for value in &values {
            if let SampledValue::Number(number) = value {
                histogram.add(*number);
            }
        }
        let whole = |value: &SampledValue| match value {
            SampledValue::Number(number) => number.trunc() == *number,
            _ => true,
        };
        let bins = histogram.bins(most, values.iter().all(whole));
        let edge = |bin: Option<&HistogramBin>, of: fn(&HistogramBin) -> f64| {
            bin.map_or(String::new(), |bin| short(of(bin)))
        };
        let across = ChartAxis {
            name: String::new(),
            first: edge(bins.first(), |bin| bin.from),
            last: edge(bins.last(), |bin| bin.to),
        };
        let tallest = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
        let mut chart = Chart::line(values, across);
        chart.down = ChartAxis {
            name: "count".into(),
            first: tallest.to_string(),
            last: "0".into(),
        };
        chart.kind = ChartKind::Bars { bins };
        chart
    }

    /// Its pixels.
    pub fn raster(&self, size: (usize, usize)) -> Raster {
        match &self.kind {
            ChartKind::Heat { columns } => Raster::heat(&self.values, *columns, self.range, size),
            ChartKind::Line => Raster::line(&self.values, self.range, size),
            ChartKind::Bars { bins } => Raster::bars(bins, size),
        }
    }

    /// Rows and columns of a map.
    pub fn grid(&self) -> Option<(usize, usize)> {
        match self.kind {
            ChartKind::Heat { columns } => Some((self.values.len().checked_div(columns)?, columns)),
            _ => None,
        }
    }

    /// What the colours stand for, if they stand for something.
    pub fn colour_range(&self) -> Option<ShownRange> {
        self.range
            .filter(|_| matches!(self.kind, ChartKind::Heat { .. }))
    }

    /// Extremes, and what is no number: one line.
    pub fn summary(&self) -> String {
        let count = |of: fn(&SampledValue) -> bool| self.values.iter().filter(|v| of(v)).count();
        let nan = count(|value| *value == SampledValue::NotANumber);
        let fill = count(|value| *value == SampledValue::Fill);
        let infinite =
            count(|value| matches!(value, SampledValue::Number(number) if number.is_infinite()));
        let units = match &self.units {
            Some(units) => format!(" {units}"),
            None => String::new(),
        };
        let mut told = match self.range {
            Some(ShownRange { least, most }) => format!(
                "minimum {}{units}, maximum {}{units}",
                short(least),
                short(most)
            ),
            None => "no numbers".into(),
        };
        told += &match self.sample_of {
            Some(all) => format!(", of a sample of {} of {all} values", self.values.len()),
            None => format!(", of {} values", self.values.len()),
        };
        for (count, what) in [(nan, "NaN"), (fill, "fill"), (infinite, "infinite")] {
            if count > 0 {
                told += &format!(", {count} {what}");
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_counted() {
        let values = vec![
            SampledValue::Number(2.0),
            SampledValue::Fill,
            SampledValue::NotANumber,
            SampledValue::Number(f64::INFINITY),
            SampledValue::Number(-1.5),
        ];
        let mut chart = Chart::line(values, ChartAxis::default());
        chart.units = Some("K".into());
        let told = "minimum -1.5 K, maximum 2 K, of 5 values, 1 NaN, 1 fill, 1 infinite";
        assert_eq!(chart.summary(), told);
        chart.sample_of = Some(90);
        assert!(
            chart
                .summary()
                .contains(", of a sample of 5 of 90 values, 1 NaN")
        );
        assert_eq!((&*chart.down.first, &*chart.down.last), ("2", "-1.5"));
    }

    #[test]
    fn bars_are_counts() {
        let values = (0..100).map(|n| SampledValue::Number(f64::from(n % 10)));
        let chart = Chart::bars(values.collect(), 20);
        let ChartKind::Bars { bins } = &chart.kind else {
            panic!("no bars");
        };
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 100);
        assert_eq!(chart.grid(), None);
    }
}
