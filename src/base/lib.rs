//! What all of arrayfs stands on: errors, the memory that requests may take, locks, threads.
//!
//! Knows nothing of arrays, files or formats. [`memory`] bounds what a file or a writer decides the
//! size of; [`sync`] says what locks are; [`patience`] whether somebody still waits; [`pipeline`]
//! and [`workers`] are threads that work ahead; [`processors`] says how many can run; [`range_set`]
//! keeps sets of numbers. Public is what the crates above use.

pub mod error;
#[doc(hidden)]
pub mod fuzz_input;
pub mod memory;
pub mod patience;
pub mod pipeline;
pub mod processors;
pub mod range_set;
pub mod sync;
pub mod workers;

#[cfg(test)]
#[global_allocator]
static ALLOCATOR: memory::observed_allocator::ObservedAllocator =
    memory::observed_allocator::ObservedAllocator;
