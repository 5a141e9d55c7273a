//! What a writable mount does with ordinary files and directories, as their own file system does
//! it, and what it does with containers.

mod arrays;
mod containers;
mod copied_onto;
mod direct;
mod durability;
mod foreign;
mod locks;
mod mappings;
mod modes;
mod names;
mod open_files;
mod owners;
mod sparse;
mod times;
mod xattrs;
