//! Type, shape and order of a NumPy array out of a file's metadata.
//!
//! `{"dtype": ..., "shape": [...], "order": "C" or "F", "container": "numpy"}`; the dtype is a
//! Python literal inside the JSON string, in files of bloscpack before 0.7.2 a bare string or JSON
//! lists. What is not understood, or does not fit the data, is no fault: the data are then shown as
//! bytes. Used when a file is opened.

use serde_json::{Value, json};

use crate::array::Order;
use crate::array::dtype::descr::{MAX_DIMS, product};
use crate::array::dtype::{Dtype, descr_of_name};

/// The members of the metadata that are looked at.
pub(crate) const MEMBERS: [&str; 4] = ["container", "dtype", "shape", "order"];

/// What the metadata say about the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numpy {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) order: Order,
}

impl Numpy {
    /// The array that `metadata` describe: `None` if they are not of a NumPy array, an explanation
    /// if they are but cannot hold for `bytes` of data (append does not update them).
    pub(crate) fn from_metadata(metadata: &Value, bytes: u64) -> Option<Result<Self, String>> {
        (metadata.get("container")?.as_str()? == "numpy").then(|| Self::read(metadata, bytes))
    }

    /// An array of a type as NumPy names it, or spells its `descr`.
    pub(crate) fn named(name: &str, shape: Vec<u64>, order: Order) -> Option<Self> {
        Some(Numpy {
            dtype: Dtype::of_descr(&Value::from(descr_of_name(name)))?,
            shape,
            order,
        })
    }

    /// Plain bytes, as they are shown of a file that says nothing else.
    pub(crate) fn is_bytes(&self) -> bool {
        self.dtype.name() == "uint8" && self.shape.len() == 1
    }

    /// None if no number holds it.
    pub(crate) fn bytes(&self) -> Option<u64> {
        product(&self.shape, self.dtype.itemsize()?)
    }

    /// As the real program describes it.
    pub(crate) fn metadata(&self) -> Value {
        json!({
            "dtype": self.dtype.npy_descr(),
            "shape": self.shape,
            "order": self.order.name(),
            "container": "numpy",
        })
    }

    fn read(metadata: &Value, bytes: u64) -> Result<Self, String> {
        let dtype = metadata
            .get("dtype")
            .and_then(Dtype::of_descr)
            .ok_or("the NumPy dtype is not known")?;
        let shape = metadata
            .get("shape")
            .and_then(shape)
            .ok_or("the NumPy shape is no shape")?;
        let order = match metadata.get("order").and_then(Value::as_str) {
            Some("C") => Order::C,
            Some("F") => Order::Fortran,
            _ => return Err("the NumPy order is neither C nor F".into()),
        };
        let numpy = Numpy {
            dtype,
            shape,
            order,
        };
        match numpy.bytes() {
            Some(size) if size == bytes => Ok(numpy),
            size => {
                let size = size.map_or("too many".into(), |size| size.to_string());
                Err(format!(
                    "dtype and shape make {size} bytes, the chunks hold {bytes}"
                ))
            }
        }
    }
}

fn shape(value: &Value) -> Option<Vec<u64>> {
    let dims = value.as_array().filter(|dims| dims.len() <= MAX_DIMS)?;
    dims.iter().map(Value::as_u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_must_fit_the_data() {
        let metadata = |shape: Value| json!({"dtype": "'<f8'", "shape": shape, "order": "F", "container": "numpy"});
        let found = Numpy::from_metadata(&metadata(json!([2, 3])), 48)
            .unwrap()
            .unwrap();
        assert_eq!((found.shape, found.order), (vec![2, 3], Order::Fortran));
        assert!(
            Numpy::from_metadata(&metadata(json!([])), 8)
                .unwrap()
                .is_ok()
        );
        assert!(
            Numpy::from_metadata(&metadata(json!([0, u64::MAX, 9])), 0)
                .unwrap()
                .is_ok()
        );
        assert!(
            Numpy::from_metadata(&metadata(json!([2, 3])), 56)
                .unwrap()
                .is_err()
        );
        assert!(
            Numpy::from_metadata(&metadata(json!([-1])), 8)
                .unwrap()
                .is_err()
        );
        assert!(
            Numpy::from_metadata(&metadata(json!([u64::MAX, 2])), 8)
                .unwrap()
                .is_err()
        );
        assert!(Numpy::from_metadata(&json!({"dtype": "'<f8'"}), 8).is_none());
        assert!(Numpy::from_metadata(&json!([1]), 8).is_none());
    }
}
