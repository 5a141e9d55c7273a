//! Changing DAPHNE files: what is permitted, whether the arrays agree, and how the file comes
//! about.
//!
//! - [`plain`]: files of the program's own form, where values lie as they are shown.
//! - [`consistency`]: whether the arrays of a CSRMatrix agree.
//!
//! A file keeps the form that it has: the program reads numbers of the other one without an error,
//! and wrongly. Assumes a file without faults; others are not offered for writing.

mod consistency;
mod plain;

pub(super) use plain::{PlainBody, offer};
