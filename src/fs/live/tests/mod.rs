//! What becomes of containers when the power goes, or a call fails, at any moment.
//!
//! Driven through a tree, as programs would.

mod crash;
