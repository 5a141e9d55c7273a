//! What commits of a mount leave for later openings of the same version of a container.
//!
//! It is good as long as no other program changes the container. It belongs to a version: all
//! copies of it are one. There is one for every container that was looked up, so it is small. Used
//! by the formats when a container is opened and written; kept by `live`.

use super::carried::Carried;
use super::free_room::FreeRoom;
use super::own_lengths::OwnLengths;
use super::proven::ProvenEncodings;
use super::told_once::ToldOnce;

/// Empty for a container that this mount has not written.
#[derive(Default)]
pub struct LeftByCommits {
    pub own_lengths: OwnLengths,
    pub free_room: FreeRoom,
    pub carried: Carried,
    /// Of datasets whose chunks skip their filters, by their tokens.
    pub unfiltered: ToldOnce,
    /// Of datasets, by their tokens.
    pub proven: ProvenEncodings,
}
