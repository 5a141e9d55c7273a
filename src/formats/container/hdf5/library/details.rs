//! What `arrays.json` says of a dataset and no reader of its elements needs. Used by `dataset`.

use std::ffi::{c_char, c_uint};
use std::ptr;

use hdf5_sys::h5d::{H5D_alloc_time_t, H5D_fill_time_t, H5D_fill_value_t, H5D_layout_t};
use hdf5_sys::h5p::{
    H5Pfill_value_defined, H5Pget_alloc_time, H5Pget_fill_time, H5Pget_fill_value, H5Pget_filter2,
    H5Pget_layout, H5Pget_nfilters,
};
use hdf5_sys::h5z::H5Z_FLAG_OPTIONAL;

use super::identifier::{Identifier, Outcome, check};
use super::json::{JsonMaker, NoJson};
use super::space::largest;
use super::text;
use super::types;
use crate::container::hdf5::index::details::{DatasetDetails, FillSpelling};
use crate::container::stored::{AllocationTime, FillTime, StoredType};

/// Longest fill value that is told, in bytes.
const FILL_MOST: usize = 64 << 10;
/// Longest name of a filter that is told, in bytes.
const NAME_MOST: usize = 256;

/// What a dataset is made of.
pub(super) struct DatasetParts<'a> {
    pub(super) element: &'a Identifier,
    /// The same, as the index has it.
    pub(super) described: &'a StoredType,
    pub(super) space: &'a Identifier,
    pub(super) properties: &'a Identifier,
}

impl DatasetParts<'_> {
    /// Everything but its scales. `dims`: none for one without space.
    pub(super) fn details(&self, dims: Option<&[u64]>) -> Outcome<DatasetDetails> {
        let most = match dims {
            Some([_, ..]) => largest(self.space)?,
            _ => Vec::new(),
        };
        Ok(DatasetDetails {
            committed: types::committed(self.element),
            most,
            filters: self.filters()?,
            fill: self.fill()?,
            fill_time: self.fill_time()?,
            allocated: self.allocated()?,
            scales: Vec::new(),
        })
    }

    /// Names, and whether they are optional.
    fn filters(&self) -> Outcome<Vec<(String, bool)>> {
        // SAFETY: the handle is a dataset creation property list.
        let filters = check(unsafe { H5Pget_nfilters(self.properties.id()) })?;
        (0..filters).map(|at| self.filter(at)).collect()
    }

    fn filter(&self, at: usize) -> Outcome<(String, bool)> {
        let mut name: [u8; NAME_MOST] = [0; NAME_MOST];
        let (mut flags, mut values) = (0, 0);
        let list = self.properties.id();
        let (to, none) = (name.as_mut_ptr().cast::<c_char>(), ptr::null_mut());
        // SAFETY: there is room for the name, which fits or is cut, and for no values; nothing else
        // is asked for: in particular not whether the filter is available.
        let id = unsafe {
            H5Pget_filter2(
                list,
                at as c_uint,
                &mut flags,
                &mut values,
                none,
                NAME_MOST,
                to,
                none,
            )
        };
        check(id)?;
        let end = name.iter().position(|&byte| byte == 0);
        let name = String::from_utf8_lossy(&name[..end.unwrap_or(NAME_MOST)]).into_owned();
        Ok((name, flags & H5Z_FLAG_OPTIONAL != 0))
    }

    fn fill(&self) -> Outcome<FillSpelling> {
        let mut defined = H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED;
        // SAFETY: the handle is a dataset creation property list.
        check(unsafe { H5Pfill_value_defined(self.properties.id(), &mut defined) })?;
        match defined {
            H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED => return Ok(FillSpelling::Undefined),
            H5D_fill_value_t::H5D_FILL_VALUE_USER_DEFINED => {}
            _ => return Ok(FillSpelling::Default),
        }
        if self.described.is_text() {
            return self.text_fill();
        }
        let size = types::size(self.element);
        if !self.described.is_plain() || size > FILL_MOST {
            return Ok(not_shown(
                "a value that is too long, or elsewhere in the file",
            ));
        }
        let mut fill = vec![0; size];
        let (list, at) = (self.properties.id(), fill.as_mut_ptr().cast());
        // SAFETY: there is room for one element of the stored type.
        check(unsafe { H5Pget_fill_value(list, self.element.id(), at) })?;
        let mut maker = JsonMaker::new();
        // SAFETY: it has just been read, and its type has no pointers.
        let made = unsafe { maker.values(self.element, &fill, 1, 1) };
        let shown = match made {
            Ok(values) => values.into_iter().next().unwrap_or_default(),
            Err(NoJson::Omitted(why)) => return Ok(not_shown(&why)),
            Err(NoJson::Refused(why)) => return Err(why),
        };
        Ok(FillSpelling::Value {
            shown: shown.to_string(),
            stored: (!maker.is_exact).then_some(fill),
        })
    }

    /// Of texts of variable length.
    fn text_fill(&self) -> Outcome<FillSpelling> {
        let text = text::fill(self.properties, self.element)?;
        let told = String::from_utf8(text).ok();
        Ok(match told.filter(|text| text.len() <= FILL_MOST) {
            Some(text) => FillSpelling::Value {
                shown: serde_json::Value::from(text).to_string(),
                stored: None,
            },
            None => not_shown("a text that is too long, or no UTF-8"),
        })
    }

    fn fill_time(&self) -> Outcome<Option<FillTime>> {
        let mut time = H5D_fill_time_t::H5D_FILL_TIME_IFSET;
        // SAFETY: the handle is a dataset creation property list.
        check(unsafe { H5Pget_fill_time(self.properties.id(), &mut time) })?;
        Ok(match time {
            H5D_fill_time_t::H5D_FILL_TIME_ALLOC => Some(FillTime::Alloc),
            H5D_fill_time_t::H5D_FILL_TIME_NEVER => Some(FillTime::Never),
            _ => None,
        })
    }

    fn allocated(&self) -> Outcome<Option<AllocationTime>> {
        let mut time = H5D_alloc_time_t::H5D_ALLOC_TIME_DEFAULT;
        // SAFETY: the handle is a dataset creation property list.
        check(unsafe { H5Pget_alloc_time(self.properties.id(), &mut time) })?;
        // SAFETY: as above.
        let usual = match unsafe { H5Pget_layout(self.properties.id()) } {
            H5D_layout_t::H5D_COMPACT => AllocationTime::Early,
            H5D_layout_t::H5D_CONTIGUOUS => AllocationTime::Late,
            _ => AllocationTime::Incremental,
        };
        let allocated = match time {
            H5D_alloc_time_t::H5D_ALLOC_TIME_EARLY => AllocationTime::Early,
            H5D_alloc_time_t::H5D_ALLOC_TIME_LATE => AllocationTime::Late,
            H5D_alloc_time_t::H5D_ALLOC_TIME_INCR => AllocationTime::Incremental,
            _ => usual,
        };
        Ok((allocated != usual).then_some(allocated))
    }
}

fn not_shown(why: &str) -> FillSpelling {
    FillSpelling::Value {
        shown: serde_json::Value::from(format!("(not shown: {why})")).to_string(),
        stored: None,
    }
}
