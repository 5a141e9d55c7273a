//! arrayfs mounts compressed array containers and shows each as a directory of raw, decoded arrays.
//!
//! The modules in the order of the way of a read: the kernel's request enters at [`kernel`], finds its
//! node in the [`tree`], whose container was opened by [`container`]; [`array`] turns the byte range into
//! blocks, [`cache`] has them or lets a [`codec`] decode what [`source`] fetched, and the reply goes back.

pub mod array;
pub mod cache;
pub mod cli;
pub mod codec;
pub mod container;
pub mod daemon;
pub mod error;
pub mod kernel;
pub mod memory;
pub mod source;
pub mod tree;
