//! What `arrays.json` says of a dataset and no reader of its elements needs. Used by `dataset`.

use hdf5_sys::h5d::{H5D_alloc_time_t, H5D_fill_time_t, H5D_fill_value_t, H5D_layout_t};

use super::dataset::LibraryDataset;
use super::identifier::Outcome;
use super::json::{JsonMaker, NoJson};
use super::text;
use super::types;
use crate::container::hdf5::index::details::{DatasetDetails, FillSpelling};
use crate::container::stored::{AllocationTime, FillTime, StoredType};

/// Longest fill value that is told, in bytes.
const FILL_MOST: usize = 64 << 10;

impl LibraryDataset {
    /// Everything but its scales. `filters`: names, and whether they are optional.
    pub(super) fn details(
        &self,
        described: &StoredType,
        most: Vec<u64>,
        filters: Vec<(String, bool)>,
    ) -> Outcome<DatasetDetails> {
        Ok(DatasetDetails {
            committed: types::committed(self.element()),
            most,
            filters,
            fill: self.spelled_fill(described)?,
            fill_time: match self.fill_time()? {
                H5D_fill_time_t::H5D_FILL_TIME_ALLOC => Some(FillTime::Alloc),
                H5D_fill_time_t::H5D_FILL_TIME_NEVER => Some(FillTime::Never),
                _ => None,
            },
            allocated: self.allocated()?,
            scales: Vec::new(),
        })
    }

    fn spelled_fill(&self, described: &StoredType) -> Outcome<FillSpelling> {
        match self.fill_status()? {
            H5D_fill_value_t::H5D_FILL_VALUE_UNDEFINED => return Ok(FillSpelling::Undefined),
            H5D_fill_value_t::H5D_FILL_VALUE_USER_DEFINED => {}
            _ => return Ok(FillSpelling::Default),
        }
        if described.is_text() {
            return self.spelled_text();
        }
        let size = types::size(self.element());
        if !described.is_plain() || size > FILL_MOST {
            return Ok(not_shown(
                "a value that is too long, or elsewhere in the file",
            ));
        }
        let (fill, mut maker) = (self.fill(size)?, JsonMaker::new());
        // SAFETY: it has just been read, and its type has no pointers.
        let made = unsafe { maker.values(self.element(), &fill, 1, 1) };
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
    fn spelled_text(&self) -> Outcome<FillSpelling> {
        let text = text::fill(self.properties(), self.element())?;
        let told = String::from_utf8(text).ok();
        Ok(match told.filter(|text| text.len() <= FILL_MOST) {
            Some(text) => FillSpelling::Value {
                shown: serde_json::Value::from(text).to_string(),
                stored: None,
            },
            None => not_shown("a text that is too long, or no UTF-8"),
        })
    }

    fn allocated(&self) -> Outcome<Option<AllocationTime>> {
        let usual = match self.layout_class() {
            H5D_layout_t::H5D_COMPACT => AllocationTime::Early,
            H5D_layout_t::H5D_CONTIGUOUS => AllocationTime::Late,
            _ => AllocationTime::Incremental,
        };
        let allocated = match self.allocation_time()? {
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
