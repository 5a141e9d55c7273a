//! Where the values of a text lie: bands along the first dimension, as long as a chunk, and in each
//! the chunks that have values of it. Arithmetic alone. Used by [`super`].

/// The bands of an array.
pub(super) struct TextBands {
    shape: Vec<u64>,
    chunk: Vec<u64>,
    /// Which dimension each one is where chunks are stored.
    order: Vec<usize>,
}

/// Goes through the values of a chunk as they are stored, and tells which of the band each one is.
pub(super) struct ValueWalk<'b> {
    bands: &'b TextBands,
    /// First place of the chunk in the array.
    first: Vec<u64>,
    /// Values that are gone through along each dimension.
    lens: Vec<u64>,
    at: Vec<u64>,
    left: u64,
}

impl TextBands {
    pub(super) fn new(shape: &[u64], chunk: &[u64], order: &[usize]) -> TextBands {
        TextBands {
            shape: shape.to_vec(),
            chunk: chunk.to_vec(),
            order: order.to_vec(),
        }
    }

    /// Values of the array.
    pub(super) fn values(&self) -> u64 {
        product(&self.shape)
    }

    /// Chunks along a dimension.
    fn chunks_along(&self, dim: usize) -> u64 {
        let pair = self.shape.get(dim).zip(self.chunk.get(dim));
        pair.map_or(1, |(len, chunk)| len.div_ceil((*chunk).max(1)))
    }

    pub(super) fn chunks(&self) -> u64 {
        product(
            &(0..self.shape.len())
                .map(|dim| self.chunks_along(dim))
                .collect::<Vec<_>>(),
        )
    }

    pub(super) fn count(&self) -> u64 {
        match self.values() {
            0 => 0,
            _ => self.chunks_along(0),
        }
    }

    /// Values of a band.
    pub(super) fn values_of(&self, band: u64) -> u64 {
        let (Some(len), Some(chunk)) = (self.shape.first(), self.chunk.first()) else {
            return 1;
        };
        let start = band.saturating_mul(*chunk).min(*len);
        let rows = (len - start).min(*chunk);
        rows.saturating_mul(product(self.shape.get(1..).unwrap_or_default()))
    }

    /// Whether values are stored in the order in which they are shown.
    pub(super) fn is_in_order(&self) -> bool {
        let is_one = |dim: usize| self.chunks_along(dim) == 1;
        (1..self.shape.len()).all(is_one) && self.order.iter().enumerate().all(|(a, b)| a == *b)
    }

    /// Places of the chunks of a band, in order.
    pub(super) fn places(&self, band: u64) -> Vec<Vec<u64>> {
        let mut places = vec![match self.shape.is_empty() {
            true => Vec::new(),
            false => vec![band],
        }];
        for dim in 1..self.shape.len() {
            let longer = |place: Vec<u64>| {
                (0..self.chunks_along(dim)).map(move |at| [&place[..], &[at]].concat())
            };
            places = places.into_iter().flat_map(longer).collect();
        }
        places
    }

    pub(super) fn walk(&self, place: &[u64]) -> ValueWalk<'_> {
        let first = place.iter().zip(&self.chunk);
        ValueWalk {
            bands: self,
            first: first.map(|(at, chunk)| at.saturating_mul(*chunk)).collect(),
            lens: self.chunk.clone(),
            at: vec![0; self.chunk.len()],
            left: product(&self.chunk),
        }
    }
}

fn product(lens: &[u64]) -> u64 {
    if lens.contains(&0) {
        return 0;
    }
    lens.iter().fold(1, |n, len| n.saturating_mul(*len))
}

impl ValueWalk<'_> {
    /// Goes through those alone that are in the array: of a chunk that is missing.
    pub(super) fn within(mut self) -> Self {
        let pairs = self.bands.shape.iter().zip(&self.first);
        for (len, (shape, first)) in self.lens.iter_mut().zip(pairs) {
            *len = (*len).min(shape.saturating_sub(*first));
        }
        self.left = product(&self.lens);
        self
    }

    /// Values of the chunk that have not been gone through.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The number of the next value in its band; none within if it lies outside of the array.
    pub(super) fn next(&mut self) -> Option<Option<u64>> {
        self.left = self.left.checked_sub(1)?;
        let number = self.number();
        for dim in self.bands.order.iter().rev() {
            let (Some(at), Some(len)) = (self.at.get_mut(*dim), self.lens.get(*dim)) else {
                break;
            };
            *at += 1;
            if *at < *len {
                break;
            }
            *at = 0;
        }
        Some(number)
    }

    fn number(&self) -> Option<u64> {
        let mut number = 0u64;
        let lens = self.bands.shape.iter().zip(&self.first);
        for (dim, ((len, first), at)) in lens.zip(&self.at).enumerate() {
            if first.saturating_add(*at) >= *len {
                return None;
            }
            // Within the band along the first dimension, which the chunk spans.
            let within = if dim == 0 { *at } else { first + at };
            let len = if dim == 0 { 1 } else { *len };
            number = number.saturating_mul(len).saturating_add(within);
        }
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_is_met_once_and_in_its_place(
            dims in prop::collection::vec((1u64..7, 1u64..5), 0..4),
            turned in any::<bool>(),
        ) {
            let (shape, chunk): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let mut order: Vec<usize> = (0..shape.len()).collect();
            if turned {
                order.reverse();
            }
            let bands = TextBands::new(&shape, &chunk, &order);
            let mut seen = 0;
            for band in 0..bands.count() {
                let mut numbers = Vec::new();
                for place in bands.places(band) {
                    let mut walk = bands.walk(&place);
                    let mut inner = bands.walk(&place).within();
                    let mut same = Vec::new();
                    while let Some(number) = inner.next() {
                        same.push(number.unwrap());
                    }
                    let before = numbers.len();
                    while let Some(number) = walk.next() {
                        numbers.extend(number);
                    }
                    prop_assert_eq!(&numbers[before..], &same[..]);
                }
                if bands.is_in_order() {
                    prop_assert!(numbers.is_sorted());
                }
                numbers.sort_unstable();
                prop_assert!(numbers.iter().copied().eq(0..bands.values_of(band)));
                seen += numbers.len() as u64;
            }
            prop_assert_eq!(seen, bands.values());
        }
    }
}
