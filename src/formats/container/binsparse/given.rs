//! Whether arrays that a new container is to be made of are the Binsparse container that a
//! descriptor says: all rules that `verify` knows, of the arrays as they are going to be. Used by
//! the formats that are made, `hdf5` and `netcdf`.

use std::sync::Arc;

use super::{LONGEST, Member, TEXT, examine};
use crate::array::direct::DirectArray;
use crate::array::{Array, Info};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

/// The arrays of a container.
#[derive(Default)]
pub(crate) struct GivenMembers(Vec<Member>);

impl GivenMembers {
    /// An array under its shown name, and as the file is going to show it; `given` has its bytes.
    pub(crate) fn add(&mut self, name: &str, info: Info, given: &Arc<dyn Array>) {
        let given = Arc::clone(given);
        let read = move |at: u64, out: &mut [u8]| given.read_direct(at, out);
        self.0.push(Member {
            name: name.to_owned(),
            array: Ok(Arc::new(DirectArray::new(name.to_owned(), info, read))),
        });
    }

    /// EINVAL with the first rule of a descriptor that they break, or that it breaks itself.
    pub(crate) fn check(&self, descriptor: &[u8], budget: &Arc<Budget>) -> Result<()> {
        if descriptor.len() > LONGEST {
            let why = format!("{TEXT} has at most {LONGEST} bytes");
            return Err(Error::Invalid(why));
        }
        let examined = examine(descriptor, &self.0)?;
        let mut first = examined.faults.first().map(ToString::to_string);
        if let (Some(check), None) = (examined.check, &first) {
            check.check(budget, &mut |fault| {
                first.get_or_insert_with(|| fault.to_string());
            })?;
        }
        match first {
            None => Ok(()),
            Some(why) => Err(Error::Invalid(format!("{TEXT}: {why}"))),
        }
    }
}
