//! Figures of arrays: how many values there are, from which to which, what they are on average.
//!
//! Values are added in batches, and sums of batches are merged in one order, whoever made them: so
//! the same array always has the same figures, on however many cores. Extremes of integers are
//! exact. Pure. Used by `info --stats`.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Serialize, Serializer};

use super::element::{ElementType, StructurePart};
use super::histogram::{Histogram, HistogramBin};
use super::number_text::{Digits, float};
use super::physical::PhysicalScale;
use super::value::{ElementNumber, complex, number};

/// Bins that are told.
const BINS: usize = 16;

/// Different texts that are counted; of more it is said that there are more.
const DISTINCT_MOST: usize = 1 << 20;

/// Sums of the numbers of a part of an array.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NumberSums {
    count: u64,
    missing: u64,
    nan: u64,
    infinite: u64,
    zeros: u64,
    /// Not whole.
    broken: u64,
    extremes: Option<(ElementNumber, ElementNumber)>,
    /// Of finite numbers: how many, their mean, and the sum of squares of how far they are from it.
    finite: u64,
    mean: f64,
    squares: f64,
    histogram: Histogram,
}

/// What is told of numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumberFigures {
    /// Elements, whatever they are.
    pub count: u64,
    /// Those that stand for none (`_FillValue`).
    pub fill: u64,
    pub nan: u64,
    pub infinite: u64,
    pub zeros: u64,
    /// All that are finite are whole numbers.
    pub all_integers: bool,
    #[serde(serialize_with = "told_number")]
    pub minimum: Option<ElementNumber>,
    #[serde(serialize_with = "told_number")]
    pub maximum: Option<ElementNumber>,
    /// Of the finite ones.
    pub mean: Option<f64>,
    /// Of the finite ones, around the mean: the root of the mean square.
    pub standard_deviation: Option<f64>,
    pub histogram: Vec<HistogramBin>,
}

/// JSON has integers of 64 bits, and neither NaN nor infinities.
fn told_number<S: Serializer>(value: &Option<ElementNumber>, to: S) -> Result<S::Ok, S::Error> {
    match *value {
        None => to.serialize_none(),
        Some(ElementNumber::Integer(n)) => match (i64::try_from(n), u64::try_from(n)) {
            (Ok(n), _) => to.serialize_i64(n),
            (_, Ok(n)) => to.serialize_u64(n),
            _ => to.serialize_f64(n as f64),
        },
        Some(ElementNumber::Float(value)) if value.is_finite() => to.serialize_f64(value),
        Some(ElementNumber::Float(value)) => {
            to.serialize_str(if value > 0.0 { "inf" } else { "-inf" })
        }
    }
}

impl NumberSums {
    /// Adds a batch of numbers.
    pub fn add(&mut self, values: impl Iterator<Item = ElementNumber>, scale: &PhysicalScale) {
        let mut batch = NumberSums::default();
        let (mut first, mut sum, mut squares) = (None, 0.0, 0.0);
        let has_missing = scale.has_missing();
        for value in values {
            batch.count += 1;
            if has_missing && scale.is_missing(value) {
                batch.missing += 1;
                continue;
            }
            let float = value.as_f64();
            if float.is_nan() {
                batch.nan += 1;
                continue;
            }
            batch.widen(value);
            if float.is_infinite() {
                batch.infinite += 1;
                continue;
            }
            batch.finite += 1;
            batch.zeros += u64::from(float == 0.0);
            batch.broken += u64::from(float.trunc() != float);
            batch.histogram.add(float);
            // Far from zero the squares themselves would lose the digits that count.
            let moved = float - *first.get_or_insert(float);
            sum += moved;
            squares += moved * moved;
        }
        if let Some(first) = first {
            let count = batch.finite as f64;
            batch.mean = first + sum / count;
            // Where it is too large for a float, no deviation is told.
            let apart = squares - sum * sum / count;
            batch.squares = if apart < 0.0 { 0.0 } else { apart };
        }
        self.merge(&batch);
    }

    fn widen(&mut self, value: ElementNumber) {
        let (least, most) = self.extremes.get_or_insert((value, value));
        if is_less(value, *least) {
            *least = value;
        }
        if is_less(*most, value) {
            *most = value;
        }
    }

    /// Adds the sums of the numbers that follow.
    pub fn merge(&mut self, next: &NumberSums) {
        if let Some((least, most)) = next.extremes {
            self.widen(least);
            self.widen(most);
        }
        if next.finite > 0 {
            let (own, others) = (self.finite as f64, next.finite as f64);
            let all = own + others;
            let apart = next.mean - self.mean;
            if self.finite == 0 {
                (self.mean, self.squares) = (next.mean, next.squares);
            } else {
                self.mean += apart * (others / all);
                self.squares += next.squares + apart * apart * (own * others / all);
            }
        }
        self.count += next.count;
        self.missing += next.missing;
        self.nan += next.nan;
        self.infinite += next.infinite;
        self.zeros += next.zeros;
        self.broken += next.broken;
        self.finite += next.finite;
        self.histogram.merge(&next.histogram);
    }

    /// As if the same numbers had been added so many times.
    fn repeat(&mut self, times: u64) {
        let counts = [
            &mut self.count,
            &mut self.missing,
            &mut self.nan,
            &mut self.infinite,
            &mut self.zeros,
            &mut self.broken,
            &mut self.finite,
        ];
        for count in counts {
            *count = count.saturating_mul(times);
        }
        self.squares *= times as f64;
        self.histogram.repeat(times);
    }

    /// What is told of them.
    pub fn figures(&self) -> NumberFigures {
        let any = self.finite > 0;
        NumberFigures {
            count: self.count,
            fill: self.missing,
            nan: self.nan,
            infinite: self.infinite,
            zeros: self.zeros,
            all_integers: any && self.broken == 0,
            minimum: self.extremes.map(|(least, _)| least),
            maximum: self.extremes.map(|(_, most)| most),
            mean: Some(self.mean).filter(|mean| any && mean.is_finite()),
            standard_deviation: Some((self.squares / self.finite as f64).sqrt())
                .filter(|deviation| any && deviation.is_finite()),
            histogram: self.histogram.bins(BINS, self.broken == 0),
        }
    }
}

fn is_less(a: ElementNumber, b: ElementNumber) -> bool {
    match (a, b) {
        (ElementNumber::Integer(a), ElementNumber::Integer(b)) => a < b,
        (a, b) => a.as_f64() < b.as_f64(),
    }
}

/// Sums of the texts of a part of an array.
#[derive(Debug, Clone, Default)]
pub struct TextSums {
    count: u64,
    empty: u64,
    longest: u64,
    /// Of each text a number that others hardly have.
    seen: HashSet<u64>,
    has_more: bool,
}

/// What is told of texts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextFigures {
    pub count: u64,
    pub empty: u64,
    /// In bytes.
    pub longest: u64,
    /// How many different ones; none if they are too many to count.
    pub distinct: Option<u64>,
}

impl TextSums {
    /// Adds a text that is `len` bytes long, of which the first are given.
    pub fn add(&mut self, text: &[u8], len: u64) {
        self.count += 1;
        self.empty += u64::from(len == 0);
        self.longest = self.longest.max(len);
        let mut hasher = DefaultHasher::new();
        (text, len).hash(&mut hasher);
        self.see(hasher.finish());
    }

    fn see(&mut self, hash: u64) {
        match self.seen.len() < DISTINCT_MOST {
            true => drop(self.seen.insert(hash)),
            false => self.has_more |= !self.seen.contains(&hash),
        }
    }

    /// Adds the sums of others.
    pub fn merge(&mut self, next: &TextSums) {
        self.count += next.count;
        self.empty += next.empty;
        self.longest = self.longest.max(next.longest);
        self.has_more |= next.has_more;
        for hash in &next.seen {
            self.see(*hash);
        }
    }

    /// What is told of them.
    pub fn figures(&self) -> TextFigures {
        TextFigures {
            count: self.count,
            empty: self.empty,
            longest: self.longest,
            distinct: (!self.has_more).then_some(self.seen.len() as u64),
        }
    }
}

/// Sums of one part of the elements of an array: of all of them, or of a member of compounds.
#[derive(Debug, Clone)]
pub enum ColumnSums {
    Numbers(NumberSums),
    /// Of how large complex numbers are.
    Magnitudes(NumberSums),
    Texts(TextSums),
    /// Nothing is told of them but how many they are.
    Others(u64),
}

/// What is told of a column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnFigures {
    Numbers(NumberFigures),
    Magnitudes(NumberFigures),
    Texts(TextFigures),
    Others { count: u64 },
}

impl ColumnSums {
    /// Of no values yet.
    pub fn of(element: &ElementType) -> ColumnSums {
        match element {
            ElementType::Complex { .. } => ColumnSums::Magnitudes(NumberSums::default()),
            element if flat(element).0.is_number() => ColumnSums::Numbers(NumberSums::default()),
            element if element.is_text() => ColumnSums::Texts(TextSums::default()),
            _ => ColumnSums::Others(0),
        }
    }

    /// Adds the column of elements, which are `size` bytes each.
    pub fn add(
        &mut self,
        column: &StructurePart,
        bytes: &[u8],
        size: usize,
        scale: &PhysicalScale,
    ) {
        let elements = bytes.chunks_exact(size.max(1));
        let part = |element| bytes_of(element, column);
        match self {
            ColumnSums::Numbers(sums) => {
                let (base, count) = flat(&column.element);
                let each = base.size().max(1);
                let of = |bytes| number(base, bytes).unwrap_or(ElementNumber::Float(f64::NAN));
                let values = elements.flat_map(|element| part(element).chunks(each).take(count));
                sums.add(values.map(of), scale);
            }
            ColumnSums::Magnitudes(sums) => {
                let values = elements.map(|element| {
                    let parts = complex(&column.element, part(element));
                    ElementNumber::Float(parts.map_or(f64::NAN, |(a, b)| a.hypot(b)))
                });
                sums.add(values, scale);
            }
            ColumnSums::Texts(sums) => {
                for text in elements.map(part) {
                    let end = text.iter().rposition(|byte| *byte != 0);
                    let text = text.get(..end.map_or(0, |end| end + 1)).unwrap_or_default();
                    sums.add(text, text.len() as u64);
                }
            }
            ColumnSums::Others(count) => *count += elements.len() as u64,
        }
    }

    /// As if the same elements had been added so many times.
    pub fn repeat(&mut self, times: u64) {
        match self {
            ColumnSums::Numbers(sums) | ColumnSums::Magnitudes(sums) => sums.repeat(times),
            ColumnSums::Texts(sums) => {
                sums.count = sums.count.saturating_mul(times);
                sums.empty = sums.empty.saturating_mul(times);
            }
            ColumnSums::Others(count) => *count = count.saturating_mul(times),
        }
    }

    /// Adds the sums of the same column of the elements that follow.
    pub fn merge(&mut self, next: &ColumnSums) {
        match (self, next) {
            (ColumnSums::Numbers(own), ColumnSums::Numbers(next))
            | (ColumnSums::Magnitudes(own), ColumnSums::Magnitudes(next)) => own.merge(next),
            (ColumnSums::Texts(own), ColumnSums::Texts(next)) => own.merge(next),
            (ColumnSums::Others(own), ColumnSums::Others(next)) => *own += next,
            _ => {}
        }
    }

    /// What is told of it.
    pub fn figures(&self) -> ColumnFigures {
        match self {
            ColumnSums::Numbers(sums) => ColumnFigures::Numbers(sums.figures()),
            ColumnSums::Magnitudes(sums) => ColumnFigures::Magnitudes(sums.figures()),
            ColumnSums::Texts(sums) => ColumnFigures::Texts(sums.figures()),
            ColumnSums::Others(count) => ColumnFigures::Others { count: *count },
        }
    }
}

impl ColumnFigures {
    /// With extremes of short floats as they are spelled: 0.1 and not 0.10000000149011612.
    pub fn spelled(mut self, element: &ElementType) -> ColumnFigures {
        if let (ColumnFigures::Numbers(of), ElementType::Float { size, .. }) =
            (&mut self, flat(element).0)
        {
            for extreme in [&mut of.minimum, &mut of.maximum] {
                if let Some(ElementNumber::Float(value)) = extreme {
                    *value = float(*value, *size, Digits::All).parse().unwrap_or(*value);
                }
            }
        }
        self
    }
}

/// An array within an element counts as its elements.
fn flat(element: &ElementType) -> (&ElementType, usize) {
    match element {
        ElementType::Repeated { count, base } => {
            let (base, inner) = flat(base);
            (base, count.saturating_mul(inner))
        }
        element => (element, 1),
    }
}

fn bytes_of<'a>(element: &'a [u8], column: &StructurePart) -> &'a [u8] {
    let end = column.offset.saturating_add(column.element.size());
    element.get(column.offset..end).unwrap_or_default()
}

/// How many entries the rows (or columns) of a sparse matrix have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EntrySums {
    last: Option<u64>,
    rows: u64,
    empty: u64,
    entries: u64,
    least: Option<u64>,
    most: u64,
    histogram: Histogram,
}

/// What is told of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EntryFigures {
    /// `row` or `column`; `pointer` if nobody says which.
    pub per: &'static str,
    pub rows: u64,
    pub entries: u64,
    pub empty: u64,
    pub minimum: u64,
    pub median: f64,
    /// How far the median may be from what is told.
    pub median_within: f64,
    pub mean: f64,
    pub maximum: u64,
}

impl EntrySums {
    /// The next pointer: where a row ends and the next one begins.
    pub fn add(&mut self, pointer: u64) {
        if let Some(last) = self.last.replace(pointer) {
            // Falling pointers are for `verify` to tell.
            let entries = pointer.saturating_sub(last);
            self.rows += 1;
            self.empty += u64::from(entries == 0);
            self.entries = self.entries.saturating_add(entries);
            self.least = Some(self.least.map_or(entries, |least| least.min(entries)));
            self.most = self.most.max(entries);
            self.histogram.add(entries as f64);
        }
    }

    /// What is told; nothing if there is no row.
    pub fn figures(&self, per: &'static str) -> Option<EntryFigures> {
        let (median, width) = self.histogram.quantile(0.5)?;
        Some(EntryFigures {
            per,
            rows: self.rows,
            entries: self.entries,
            empty: self.empty,
            minimum: self.least?,
            median,
            median_within: if width > 1.0 { width } else { 0.0 },
            mean: self.entries as f64 / self.rows as f64,
            maximum: self.most,
        })
    }
}

#[cfg(test)]
mod tests;
