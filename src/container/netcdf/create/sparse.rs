//! Whether a new classic file is the Binsparse container that its descriptor says: all rules that
//! `verify` knows, of its variables as they are going to be. Used by [`super::plan`].

use std::sync::Arc;

use super::super::kind::ElementKind;
use crate::array::direct::DirectArray;
use crate::array::{Array, Info, Order};
use crate::container::binsparse::{self, Member, TEXT};
use crate::error::{Error, Result};
use crate::memory::budget::Budget;

/// The arrays of a container, by their shown names.
pub(super) struct NewMembers(Vec<Member>);

impl NewMembers {
    pub(super) fn new() -> NewMembers {
        NewMembers(Vec::new())
    }

    /// A variable as the file will show it.
    pub(super) fn add(
        &mut self,
        name: &str,
        (kind, shape): (ElementKind, &[u64]),
        given: &Arc<dyn Array>,
    ) -> Result<()> {
        let info = Info {
            dtype: kind.dtype(),
            shape: shape.to_vec(),
            order: Order::C,
            ..given.info()?
        };
        let given = Arc::clone(given);
        let read = move |at: u64, out: &mut [u8]| given.read_direct(at, out);
        self.0.push(Member {
            name: name.to_owned(),
            array: Ok(Arc::new(DirectArray::new(name.to_owned(), info, read))),
        });
        Ok(())
    }

    /// EINVAL with the first rule of a descriptor that they break, or that it breaks itself.
    pub(super) fn check(&self, descriptor: &[u8], budget: &Arc<Budget>) -> Result<()> {
        if descriptor.len() > binsparse::LONGEST {
            let most = binsparse::LONGEST;
            let why = format!("{TEXT} has at most {most} bytes");
            return Err(Error::Invalid(why));
        }
        let examined = binsparse::examine(descriptor, &self.0)?;
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
