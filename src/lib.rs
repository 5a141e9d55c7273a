//! arrayfs mounts compressed array containers and shows each as a directory of raw, decoded arrays.
//!
//! Here is the program: [`cli`] and what only it uses. The crates below, in the order of the way of
//! a read: `arrayfs-fs` takes the kernel's requests and knows names, what is staged and commits;
//! `arrayfs-formats` makes arrays of stored bytes; `arrayfs-codec` decodes; `arrayfs-base` has
//! errors, memory and locks for all of them.
//!
//! Public is what the program needs, and nothing else: so unused code shows.

#![warn(missing_docs)]

pub mod cli;
mod daemon;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod look;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use arrayfs_base::fuzz_input;
pub(crate) use arrayfs_base::{error, memory, processors, sync};
pub(crate) use arrayfs_codec as codec;
pub(crate) use arrayfs_formats::{array, cache, container, source};
pub(crate) use arrayfs_fs::{commit, disk, kernel, live, scratch, stage, tree};

#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: memory::ReservingAllocator = memory::ReservingAllocator;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: memory::observed_allocator::ObservedAllocator =
    memory::observed_allocator::ObservedAllocator;

/// Run by other tests in a process of its own; by itself it finds no socket and ends.
#[cfg(test)]
#[test]
#[ignore = "the worker of other tests"]
fn serves_hdf5() {
    container::hdf5::serve();
}
