//! Extended attributes: `user.arrayfs.*` of arrays and containers, and those of files shown as they
//! are. Access control lists are the business of [`super::stored_xattrs`].

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use super::container_state::{array_state, quiet_state};
use super::half_removed::HalfRemoved;
use super::inode::InodeId;
use super::mounted_fs::MountedFs;
use super::node::Node;
use super::status::StatusReport;
use super::stored_xattrs::StoredXattrs;
use crate::array::Info;
use crate::cache::BlockCache;
use crate::container::describe::ratio;
use crate::container::inside::ContainerNumber;
use crate::error::{Error, Result};
use crate::live::LiveContainer;
use crate::live::creation::given::PREFIX;
use crate::live::shown::entry_table::EntryIndex;
use crate::live::shown::open_container::OpenContainer;
use crate::live::version::ContainerVersion;
use crate::source::acl::is_list;

/// Setting it commits everything that is staged at or below what it is set on, and returns when
/// that has been tried.
pub const COMMIT: &str = "user.arrayfs.commit";

/// Setting it commits as [`COMMIT`] does, and changes of a container that another process has
/// changed since are applied to it as it is now, if its arrays are as they were.
pub const APPLY: &str = "user.arrayfs.apply";

/// Setting it commits as [`COMMIT`] does, but where very much would have to be moved, what is safe
/// in logs stays there.
pub const COMMIT_QUICKLY: &str = "user.arrayfs.commit_quickly";

/// Setting it throws everything away that is staged there.
pub const DISCARD: &str = "user.arrayfs.discard";

/// Setting it has what was written through the mount looked into again.
pub const REFRESH: &str = "user.arrayfs.refresh";

/// On a container's directory: whether something of it is staged, and why. On an array that cannot
/// be written, and not listed: why.
pub const STATE: &str = "user.arrayfs.state";

/// On a container's directory, and not listed: bytes of its file in which nothing lies, as far as
/// the daemon knows.
pub const DEAD_BYTES: &str = "user.arrayfs.dead_bytes";

/// On the root of the mount: what `arrayfs status` shows.
pub const STATUS: &str = "user.arrayfs.status";

/// Answers `getxattr` and `listxattr`.
pub(crate) struct Xattrs {
    pub(super) fs: Arc<MountedFs>,
    pub(super) stored: StoredXattrs,
    pub(super) half_removed: Arc<HalfRemoved>,
    pub(super) status: Arc<StatusReport>,
}

impl Xattrs {
    pub(super) fn new(fs: &Arc<MountedFs>, cache: Arc<BlockCache>) -> Xattrs {
        let half_removed = Arc::new(HalfRemoved::new(fs));
        Xattrs {
            fs: Arc::clone(fs),
            stored: StoredXattrs(Arc::clone(fs)),
            status: Arc::new(StatusReport::new(fs, &half_removed, cache)),
            half_removed,
        }
    }

    pub fn xattr(&self, inode: InodeId, name: &OsStr) -> Result<Vec<u8>> {
        if !self.stored.offers(name) {
            return Err(Error::Unsupported);
        }
        if is_list(name) {
            return self.stored.access_list(inode, name);
        }
        if inode == InodeId::ROOT && name == STATUS {
            let status = serde_json::to_vec(&self.status.status());
            return status.map_err(|e| Error::Bug(e.to_string()));
        }
        if name == DEAD_BYTES
            && let Some(bytes) = self.dead_bytes(inode)?
        {
            return Ok(bytes.to_string().into_bytes());
        }
        let node = self.fs.inodes.get(inode)?;
        let asked = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let found = match (&*node, asked) {
            (Node::Container(container), Some(asked)) => {
                self.xattr_of_outermost(inode, container, asked)?
            }
            (Node::Entry(version, entry), Some(asked)) => {
                match self.xattr_of_entry(version, *entry, asked)? {
                    None if name == STATE => array_state(&self.fs, inode)?,
                    found => found,
                }
            }
            (Node::Container(_) | Node::Entry(..), None) => None,
            (node, _) => return self.stored.xattr(inode, node, name),
        };
        found.map(String::into_bytes).ok_or(Error::NoAttribute)
    }

    pub fn names(&self, inode: InodeId) -> Result<Vec<OsString>> {
        let node = self.fs.inodes.get(inode)?;
        let mut is_counted = true;
        let own: &[&str] = match &*node {
            Node::Container(_) => &OF_CONTAINER,
            Node::Entry(version, entry) => {
                let opened = self.fs.live.opener.open(version)?;
                match (opened.part_at(*entry), opened.shown_array(*entry).is_some()) {
                    (Some(_), _) => &OF_CONTAINER,
                    (None, true) => {
                        let described = opened.described(*entry)?;
                        is_counted = described.is_none_or(|(_, info)| info.stored().is_some());
                        &OF_ARRAY
                    }
                    (None, false) => &[],
                }
            }
            _ => return self.stored.names(inode, &node),
        };
        let is_known = |name: &&&str| is_counted || !OF_COUNTED.contains(*name);
        let own = own
            .iter()
            .filter(is_known)
            .map(|name| format!("{PREFIX}{name}").into());
        Ok(own.chain(self.stored.list_names(inode)).collect())
    }

    /// Of the file that a container is.
    fn dead_bytes(&self, inode: InodeId) -> Result<Option<u64>> {
        let node = self.fs.inodes.get(inode)?;
        let Some(container) = node.container().filter(|found| !found.new.is_new()) else {
            return Ok(None);
        };
        let version = self.fs.live.current.version_of(inode.into(), container)?;
        let opened = self.fs.live.opener.open(&version)?;
        Ok(opened.writable().map(|writable| writable.dead_bytes()))
    }

    /// An attribute of a container's own directory.
    fn xattr_of_outermost(
        &self,
        inode: InodeId,
        container: &Arc<LiveContainer>,
        asked: &str,
    ) -> Result<Option<String>> {
        let version = self.fs.live.current.version_of(inode.into(), container)?;
        let opened = self.fs.live.opener.open(&version)?;
        let part = ContainerNumber::OUTERMOST;
        if asked != "state" {
            return self.xattr_of_part(&version, &opened, part, asked);
        }
        self.fs.live.held.look_who_holds(&version);
        let staged = version.writes.state();
        let staged = staged.or_else(|| self.fs.live.packing.new_state(inode.into()));
        let known = (&*self.fs, &*self.half_removed);
        let quiet = || quiet_state(known, inode, (container, &opened));
        state_of(&opened, part, (staged, &quiet)).map(Some)
    }

    /// An attribute of a container in a group of a file, but for what is staged of it, or of the
    /// file itself.
    fn xattr_of_part(
        &self,
        version: &ContainerVersion,
        opened: &OpenContainer,
        part: ContainerNumber,
        asked: &str,
    ) -> Result<Option<String>> {
        let container = opened.container(part)?;
        Ok(match asked {
            "format" => Some(container.format.to_owned()),
            "version" => {
                let restated = self
                    .fs
                    .live
                    .restating
                    .restated(version, part)?
                    .version
                    .clone();
                Some(restated.unwrap_or_else(|| container.version.clone()))
            }
            "state" => Some(state_of(opened, part, (None, &|| None))?),
            _ => None,
        })
    }

    fn xattr_of_entry(
        &self,
        version: &Arc<ContainerVersion>,
        entry: EntryIndex,
        asked: &str,
    ) -> Result<Option<String>> {
        let opened = self.fs.live.opener.open(version)?;
        if let Some(part) = opened.part_at(entry) {
            return self.xattr_of_part(version, &opened, part, asked);
        }
        if !OF_ARRAY.contains(&asked) {
            return Ok(None);
        }
        let Some((format, stored)) = opened.described(entry)? else {
            return Ok(None);
        };
        let restated = || match opened.shown_array(entry) {
            Some(number) => self.fs.live.restating.info(version, number),
            None => Ok(None),
        };
        of_array(format, &stored, restated, asked)
    }
}

/// Attributes that are listed of a container's directory, and of an array.
const OF_CONTAINER: [&str; 3] = ["format", "version", "state"];
const OF_ARRAY: [&str; 7] = [
    "dtype",
    "shape",
    "order",
    "codec",
    "stored_bytes",
    "ratio",
    "format",
];

/// Those that an array has whose stored bytes have been counted.
const OF_COUNTED: [&str; 2] = ["stored_bytes", "ratio"];

/// The kernel takes no attributes beyond 64 KiB, and a state may name all that could not be kept.
fn shortened(mut state: String) -> String {
    const MOST: usize = 16 << 10;
    if state.len() > MOST {
        let end = (0..=MOST).rev().find(|at| state.is_char_boundary(*at));
        let more = state.len() - end.unwrap_or(0);
        state.truncate(state.len() - more);
        state.push_str(&format!("... and {more} bytes more, which the log has"));
    }
    state
}

/// `staged`: what is staged, if anything is; `quiet`: what there is to say if not.
fn state_of(
    opened: &OpenContainer,
    part: ContainerNumber,
    (staged, quiet): (Option<String>, &dyn Fn() -> Option<String>),
) -> Result<String> {
    opened.container(part)?;
    let faults = opened.error_txt(part);
    Ok(match staged {
        Some(staged) => shortened(staged),
        None if faults.is_empty() => quiet().map_or_else(|| "clean".to_owned(), shortened),
        None => {
            let first = faults.split(|byte| *byte == b'\n').next();
            let first = String::from_utf8_lossy(first.unwrap_or_default());
            shortened(format!("damaged: see error.txt: {first}"))
        }
    })
}

/// Its type and shape as they are shown, which is `restated` if that is something else; all else is
/// of what is stored.
fn of_array(
    format: &str,
    stored: &Info,
    restated: impl Fn() -> Result<Option<Info>>,
    asked: &str,
) -> Result<Option<String>> {
    let shown = || -> Result<Info> { Ok(restated()?.unwrap_or_else(|| stored.clone())) };
    Ok(Some(match asked {
        "dtype" => shown()?.dtype.name().into_owned(),
        "shape" => {
            let shape: Vec<String> = shown()?.shape.iter().map(u64::to_string).collect();
            format!("[{}]", shape.join(", "))
        }
        "order" => shown()?.order.name().to_owned(),
        "codec" => stored.codec.to_string(),
        asked if OF_COUNTED.contains(&asked) && stored.stored().is_none() => return Ok(None),
        "stored_bytes" => stored.stored_bytes.to_string(),
        "ratio" => ratio(stored).map_or_else(|| "1.00".to_owned(), |ratio| format!("{ratio:.2}")),
        "format" => format.to_owned(),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_state_is_cut_where_a_letter_begins() {
        assert_eq!(shortened("clean".into()), "clean");
        for before in 0..4 {
            let long = "x".repeat(before) + &"\u{20ac}".repeat(30_000);
            let shown = shortened(long.clone());
            assert!(shown.len() < 17 << 10 && long.starts_with(shown.split("...").next().unwrap()));
            assert!(shown.ends_with("bytes more, which the log has"));
        }
    }
}
