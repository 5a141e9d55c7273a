//! What people look at instead of reading bytes: values of arrays as tables, pictures and figures.
//!
//! Everything here is about values and pixels: which elements a slice means ([`slice`],
//! [`layout`]), what the bytes of an element say ([`element`], [`value`], [`physical`]), and how
//! many of them become a table ([`table`]), a picture ([`raster`], [`terminal`], [`picture`]) or
//! figures ([`figures`]). No more is read than is shown; what is read comes through
//! [`crate::array::read`]. Used by the commands `show` and `info --stats`, which open containers,
//! print and know the terminal.

pub mod canvas;
pub mod chart;
pub mod element;
pub mod figures;
pub mod histogram;
pub mod layout;
pub mod lines;
pub mod number_text;
pub mod physical;
pub mod picture;
pub mod portions;
pub mod raster;
pub mod sample;
pub mod slice;
pub mod table;
pub mod terminal;
pub mod value;
