//! Whole files, written by hand or by a naive encoder: what is shown, what is refused, and where.

mod encoder;
mod large;
mod memory;
mod program;
mod random;
mod refusing;
mod rewriting;
