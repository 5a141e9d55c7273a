//! The only place that knows FUSE: requests of the kernel in, answers out.
//!
//! [`session::Mount`] mounts and serves a [`crate::tree::Tree`]; everything else of arrayfs
//! compiles and is tested without it. Used by `cli::mount`.

mod about;
mod adapter;
mod config;
mod direct_writes;
mod directory;
mod dispatch;
mod errno;
mod passthrough;
mod read;
mod reply;
mod request;
mod request_counters;
mod root_mount;
mod serving;
pub mod session;
mod slow_requests;
mod stale_pages;
mod stand_in;
#[cfg(test)]
mod tests;
