//! Programs that people use every day, in a plain directory and in a writable mount: what they
//! write is whole, and they see nothing strange.

mod archives;
mod builds;
mod databases;
mod editors;
mod git;
mod writers;
