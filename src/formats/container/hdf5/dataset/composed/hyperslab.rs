//! Regular selections of elements (hyperslabs), as virtual datasets map them onto each other: the
//! first element here onto the first one there, and so on in C order.
//!
//! An element has a place (its number in the whole dataset) and an ordinal (its number among those
//! selected); both rise together. Numbers come from an untrusted file and are checked in
//! [`Hyperslab::new`]; after that nothing can overflow. Used by [`super`].

use std::ops::Range;

use crate::container::hdf5::index::{Stripe, UNLIMITED};
use crate::error::{Fault, Result};

#[derive(Debug)]
pub(super) struct Hyperslab {
    axes: Vec<Stretch>,
    len: u64,
}

#[derive(Debug)]
struct Stretch {
    start: u64,
    stride: u64,
    block: u64,
    /// Coordinates that are selected.
    count: u64,
    /// Without end in the file, so that it ends with the dataset.
    unlimited: bool,
    /// Places from one coordinate to the next.
    step: u64,
}

impl Stretch {
    /// What a stripe selects of a dimension of `dim` elements.
    fn new(stripe: &Stripe, dim: u64, step: u64) -> Option<Stretch> {
        let Stripe {
            start,
            stride,
            count,
            block,
        } = *stripe;
        let unlimited = count == UNLIMITED || block == UNLIMITED;
        let room = dim.checked_sub(start)?;
        let axis = |block, count| Stretch {
            start,
            stride,
            block,
            count,
            unlimited,
            step,
        };
        if block == UNLIMITED {
            return Some(axis(room.max(1), room));
        }
        if count == 0 || block == 0 || (stride < block && count > 1) {
            return None;
        }
        let axis = if count == UNLIMITED {
            let whole = (room / stride).checked_mul(block)?;
            axis(block, whole + (room % stride).min(block))
        } else {
            axis(block, count.checked_mul(block)?)
        };
        let end = match axis.count.checked_sub(1) {
            Some(last) => (last / block)
                .checked_mul(stride)?
                .checked_add(last % block)?,
            None => return Some(axis),
        };
        (end < room).then_some(axis)
    }

    fn coordinate(&self, nth: u64) -> u64 {
        self.start + nth / self.block * self.stride + nth % self.block
    }

    /// Coordinates without a gap, from the `nth` selected one on.
    fn run(&self, nth: u64) -> u64 {
        let left = self.count - nth;
        if self.stride == self.block {
            left
        } else {
            left.min(self.block - nth % self.block)
        }
    }
}

impl Hyperslab {
    /// Bytes that it takes beside itself.
    pub(super) fn on_heap(&self) -> u64 {
        (self.axes.capacity() * size_of::<Stretch>()) as u64
    }

    /// `stripes` of a dataset of these dimensions, whose elements can be counted; none: all of it.
    pub(super) fn new(stripes: Option<&[Stripe]>, dims: &[u64]) -> Result<Hyperslab> {
        let all = |dim: &u64| Stripe {
            start: 0,
            stride: *dim,
            count: 1,
            block: *dim,
        };
        let whole: Vec<Stripe> = dims.iter().map(all).collect();
        let stripes = stripes.unwrap_or(&whole);
        let selection = (stripes.len() == dims.len())
            .then(|| Hyperslab::of(stripes, dims))
            .flatten();
        selection.ok_or_else(|| {
            let fault = Fault::new("a part of a virtual dataset lies outside");
            let found = format!("{stripes:?}");
            fault
                .expected(format_args!("{dims:?} elements"))
                .found(found)
                .into()
        })
    }

    fn of(stripes: &[Stripe], dims: &[u64]) -> Option<Hyperslab> {
        let mut axes = Vec::with_capacity(dims.len());
        let mut step = 1u64;
        for (stripe, &dim) in stripes.iter().zip(dims).rev() {
            axes.push(Stretch::new(stripe, dim, step)?);
            step = step.checked_mul(dim)?;
        }
        axes.reverse();
        // At most the elements of the dataset.
        let len = axes.iter().map(|axis| axis.count).product();
        Some(Hyperslab { axes, len })
    }

    /// Selected elements.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Ends a selection without end after so many elements; false if it has an end, or would end in
    /// the midst of a row.
    pub(super) fn end_after(&mut self, len: u64) -> bool {
        let Some(axis) = self.axes.iter_mut().find(|axis| axis.unlimited) else {
            return false;
        };
        let each = self.len.checked_div(axis.count).unwrap_or(0);
        let Some(count) = len.checked_div(each) else {
            return len == 0;
        };
        axis.count = count.min(axis.count);
        self.len = each * axis.count;
        self.len == len
    }

    /// Places from the first to the last element.
    pub(super) fn span(&self) -> Range<u64> {
        match self.len.checked_sub(1) {
            Some(last) => self.place(0)..self.place(last) + 1,
            None => 0..0,
        }
    }

    fn place(&self, ordinal: u64) -> u64 {
        let mut rest = ordinal;
        let along = |axis: &Stretch| {
            let nth = rest % axis.count;
            rest /= axis.count;
            axis.coordinate(nth) * axis.step
        };
        self.axes.iter().rev().map(along).sum()
    }

    /// Elements that lie side by side, from this one on.
    fn run(&self, ordinal: u64) -> u64 {
        self.axes
            .last()
            .map_or(1, |axis| axis.run(ordinal % axis.count))
    }

    /// The first element at this place or behind it.
    fn first_from(&self, place: u64) -> u64 {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.place(middle) < place {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Visits the elements of `here` in a range of places: where they lie here, where there, how many
/// lie side by side in both. The two have the same length. Stops at the first error.
pub(super) fn each_run(
    here: &Hyperslab,
    there: &Hyperslab,
    places: &Range<u64>,
    visit: &mut dyn FnMut(u64, u64, u64) -> Result<()>,
) -> Result<()> {
    let mut ordinal = here.first_from(places.start);
    while ordinal < here.len {
        let place = here.place(ordinal);
        if place >= places.end {
            break;
        }
        let run = here.run(ordinal).min(there.run(ordinal));
        let len = run.min(places.end - place);
        visit(place, there.place(ordinal), len)?;
        ordinal += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stripe(start: u64, stride: u64, count: u64, block: u64) -> Stripe {
        Stripe {
            start,
            stride,
            count,
            block,
        }
    }

    /// The places, one coordinate after the other.
    fn naive(stripes: &[Stripe], dims: &[u64]) -> Vec<u64> {
        let mut places = vec![0];
        for (stripe, dim) in stripes.iter().zip(dims) {
            let chosen = |c: &u64| {
                let within = c.checked_sub(stripe.start);
                within.is_some_and(|c| {
                    c / stripe.stride < stripe.count && c % stripe.stride < stripe.block
                })
            };
            let along: Vec<u64> = (0..*dim).filter(chosen).collect();
            let next = places
                .iter()
                .flat_map(|place| along.iter().map(move |c| place * dim + c));
            places = next.collect();
        }
        places
    }

    #[test]
    fn what_lies_outside_is_refused() {
        for bad in [
            stripe(0, 1, 11, 1),
            stripe(10, 1, 1, 1),
            stripe(11, 1, UNLIMITED, 1),
            stripe(0, 0, 2, 1),
            stripe(0, 1, 0, 1),
            stripe(0, 1, 2, 0),
            stripe(0, 2, 2, 3),
            stripe(0, u64::MAX, 3, 1),
            stripe(0, 1, u64::MAX - 1, 2),
            stripe(5, 3, 2, 3),
        ] {
            assert!(Hyperslab::new(Some(&[bad]), &[10]).is_err(), "{bad:?}");
        }
        assert!(Hyperslab::new(Some(&[]), &[10]).is_err());
    }

    #[test]
    fn what_has_no_end_ends_with_the_dataset_or_with_the_other_side() {
        let rows = [stripe(1, 2, UNLIMITED, 1), stripe(0, 1, 3, 1)];
        let mut rows = Hyperslab::new(Some(&rows), &[6, 3]).unwrap();
        assert_eq!((rows.len(), rows.span()), (9, 3..18));
        assert!(rows.end_after(6) && rows.span() == (3..12));
        assert!(!rows.end_after(4));
        let block = [stripe(4, 1, 1, UNLIMITED)];
        assert_eq!(Hyperslab::new(Some(&block), &[9]).unwrap().span(), 4..9);
        assert_eq!(Hyperslab::new(Some(&block), &[4]).unwrap().len(), 0);
        assert!(!Hyperslab::new(None, &[4]).unwrap().end_after(2));
    }

    /// A dimension and a stripe of it.
    fn axis() -> impl Strategy<Value = (u64, Stripe)> {
        (0u64..4, 1u64..4, 0u64..3, 1u64..4, 0u64..3).prop_map(
            |(start, block, gap, count, after)| {
                let stride = block + gap;
                let dim = start + (count - 1) * stride + block + after;
                (dim, stripe(start, stride, count, block))
            },
        )
    }

    proptest! {
        #[test]
        fn runs_are_the_places_one_by_one(
            axes in prop::collection::vec(axis(), 0..4),
            a in 0u64..200,
            b in 0u64..200,
        ) {
            let (dims, stripes): (Vec<_>, Vec<_>) = axes.into_iter().unzip();
            let here = Hyperslab::new(Some(&stripes), &dims).unwrap();
            let expected = naive(&stripes, &dims);
            prop_assert_eq!(here.len(), expected.len() as u64);
            let there = Hyperslab::new(None, &[here.len()]).unwrap();
            let mut found = Vec::new();
            each_run(&here, &there, &(a..b), &mut |place, ordinal, len| {
                found.extend((0..len).map(|n| (place + n, ordinal + n)));
                Ok(())
            })
            .unwrap();
            let numbered = expected.iter().copied().zip(0..);
            let expected: Vec<_> = numbered.filter(|(place, _)| (a..b).contains(place)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
