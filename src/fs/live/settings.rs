//! How containers are opened and changed, as a mount was told. Used by all of `live`, and by who
//! mounts.

use std::time::Duration;

use super::committing::due::Pacing;
use super::recovery::StaleLogs;
use crate::commit::Preference;
use crate::container::Preferences;

#[derive(Debug, Clone, Default)]
pub struct ContainerSettings {
    pub preferences: Preferences,
    /// How changes of arrays are committed.
    pub commit: Preference,
    /// How long programs that close files may wait for that.
    pub pacing: Pacing,
    /// What becomes of changes of another version of a container.
    pub stale: StaleLogs,
    /// How long a new container is not used before it is packed, if not as long as usual.
    pub packed_after: Option<Duration>,
}
