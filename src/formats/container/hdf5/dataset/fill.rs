//! The fill value of a dataset in its shown form. Used by [`super`].

use crate::array::fill::Fill;
use crate::container::hdf5::element::Element;
use crate::error::{Fault, Result};
use crate::memory::fallible;

/// `stored`: one element as stored; none for zeros.
pub(super) fn of_stored(stored: Option<&[u8]>, element: &Element) -> Result<Fill> {
    let Some(stored) = stored else {
        return Ok(Fill::default());
    };
    if stored.len() as u64 != element.stored {
        let fault = Fault::new("the fill value has another length than the elements");
        return Err(fault.expected(element.stored).found(stored.len()).into());
    }
    let mut shown = fallible::zeros(element.shown, "cannot hold a fill value")?;
    element.cast.run(stored, &mut shown);
    Fill::new(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::stored::StoredType;

    #[test]
    fn a_fill_value_of_another_length_is_refused() {
        let element = Element::of(&StoredType::opaque(3)).unwrap();
        assert!(of_stored(Some(&[1, 2]), &element).is_err());
        let zeros = of_stored(Some(&[0, 0, 0]), &element).unwrap();
        assert!(zeros.is_zeros());
    }
}
