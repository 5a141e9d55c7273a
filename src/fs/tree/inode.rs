//! Inode numbers: which there are, what each stands for, under which names, and when two look-ups
//! find the same.
//!
//! An inode is not a path. A file of the source is one inode under all its names, and what lies
//! below a directory stays what it is when the directory is moved. The names under which an inode
//! was looked up are its links; paths are made of them when they are needed. A number lives as long
//! as the kernel refers to it (its look-ups are counted). A file of the source has the number that
//! it has there, so that programs which remember numbers (backups, version control) find it again;
//! everything else has one that nothing else has. [`Inodes::enter`] is the one place where one is
//! made. Used by `tree` alone.

mod id;
mod inodes;
mod links;
mod short_name;
mod table;
#[cfg(test)]
mod tests;

pub(super) use id::Dirent;
pub use id::InodeId;
pub(super) use inodes::Inodes;
