//! A container as its log names it. Used by `live` when a log is begun, and when a commit has
//! changed the files.

use crate::container::{MemberStats, Recognised};
use crate::source::Stat;
use crate::stage::{Base, BaseFile};

/// A container as a log names it.
pub fn base_of(recognised: &Recognised, found: &MemberStats) -> Base {
    let layout = recognised.layout();
    let each = layout.identifying().iter().zip(&found.members);
    let file = |(name, stat): (&&str, &Option<Stat>)| {
        let identity = stat.as_ref().map(Stat::file)?;
        Some(BaseFile::new(name, identity))
    };
    Base {
        format: recognised.format.name().to_owned(),
        files: match layout.is_file() {
            true => vec![BaseFile::new("", found.own.file())],
            false => each.filter_map(file).collect(),
        },
    }
}
