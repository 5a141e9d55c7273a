//! What a codec says is wrong with a chunk, with its numbers where every fault has them. Used by
//! all of this format that decodes.

use crate::codec::filters::FilterError;
use crate::error::{Error, Fault};

pub(super) fn error(error: FilterError) -> Error {
    let damage = match error {
        FilterError::Damage(damage) => *damage,
        FilterError::Failed(error) => return error,
    };
    let fault = match damage.filter {
        "" => Fault::new(damage.what),
        codec => Fault::new(format!("{codec}: {}", damage.what)),
    };
    let fault = Fault {
        expected: damage.expected,
        found: damage.found,
        ..fault
    };
    fault.into()
}
