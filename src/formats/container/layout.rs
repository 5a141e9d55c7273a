//! How the stored files of a container lie: it is a file, or a directory of members.
//!
//! A format says it once, for whatever asks which files are a container's: listings, identities,
//! logs, commits, rights. Nothing here lists a directory: a name is asked about, and only members
//! that make the identity are gone through. Used by all that knows that containers have files.

use std::ffi::OsStr;
use std::path::Path;

use super::writable::MemberNumber;

/// Where a container's bytes lie.
#[derive(Clone, Copy)]
pub enum Layout {
    /// In one file, and it is that file.
    File {
        /// What follows its name in the names of files beside it that decide how it is read: their
        /// identities are part of the container's. They are shown as they are.
        sidecars: &'static [&'static str],
    },
    /// In files of a directory, which is the container. They are not shown beside the arrays.
    Directory(&'static dyn MemberNames),
}

/// Which files of a directory are a container's.
pub trait MemberNames: Sync {
    /// Those whose identities make up the container's, in their order, whether they are there or
    /// not; by the first the container is recognised. Of a container of very many members these are
    /// its documents, and each other member is compared when it is fetched.
    fn identifying(&self) -> &'static [&'static str];

    /// Whether a file of this name is a member: one that makes the identity, or another one.
    fn has(&self, name: &OsStr) -> bool;

    /// Whether what lies in directories of it is the container's, too: nothing else is looked for
    /// there.
    fn has_directories(&self) -> bool {
        false
    }
}

/// What of a container's directory is its own, beside the members that [`MemberNames`] tell by
/// their names: known when it has been opened.
pub trait OwnFiles: Send + Sync {
    /// Whether what lies at a path below the directory is the container's.
    fn has(&self, path: &Path) -> bool;
}

/// Members that all make the identity.
pub struct AllMembers(pub &'static [&'static str]);

impl MemberNames for AllMembers {
    fn identifying(&self) -> &'static [&'static str] {
        self.0
    }

    fn has(&self, name: &OsStr) -> bool {
        self.0.iter().any(|member| OsStr::new(member) == name)
    }
}

impl Layout {
    /// A file that stands for itself.
    pub const FILE: Layout = Layout::File { sidecars: &[] };

    pub fn is_file(self) -> bool {
        matches!(self, Layout::File { .. })
    }

    /// Ends of the names of files beside it; none beside a directory.
    pub fn sidecars(self) -> &'static [&'static str] {
        match self {
            Layout::File { sidecars } => sidecars,
            Layout::Directory(_) => &[],
        }
    }

    /// Names of members that make the identity; none of a file.
    pub fn identifying(self) -> &'static [&'static str] {
        match self {
            Layout::File { .. } => &[],
            Layout::Directory(members) => members.identifying(),
        }
    }

    /// Whether a file of this name in the directory is the container's.
    pub fn has_member(self, name: &OsStr) -> bool {
        match self {
            Layout::File { .. } => false,
            Layout::Directory(members) => members.has(name),
        }
    }

    /// Whether what lies in directories of it is the container's.
    pub fn has_directories(self) -> bool {
        match self {
            Layout::File { .. } => false,
            Layout::Directory(members) => members.has_directories(),
        }
    }

    /// What a recipe and a log call the files that make the identity: one file has no name.
    pub fn file_names(self) -> &'static [&'static str] {
        match self {
            Layout::File { .. } => &[""],
            Layout::Directory(members) => members.identifying(),
        }
    }

    /// Whether a log may call a file of the container so.
    pub fn has_file(self, name: &str) -> bool {
        match self {
            Layout::File { .. } => name.is_empty(),
            Layout::Directory(members) => members.has(OsStr::new(name)),
        }
    }

    /// The name of a member by its number in a recipe; none of a file.
    pub fn member(self, number: MemberNumber) -> Option<&'static str> {
        self.identifying().get(number.0 as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a store of very many chunks: a document, and whatever lies beside it.
    struct Chunks;

    impl MemberNames for Chunks {
        fn identifying(&self) -> &'static [&'static str] {
            &["zarr.json"]
        }

        fn has(&self, name: &OsStr) -> bool {
            name == "zarr.json" || name.as_encoded_bytes().starts_with(b"c")
        }
    }

    #[test]
    fn members_are_asked_for_by_name_and_only_documents_are_gone_through() {
        let layout = Layout::Directory(&Chunks);
        assert!(!layout.is_file() && layout.has_member(OsStr::new("c123456")));
        assert!(layout.has_file("c1") && !layout.has_file("") && !layout.has_file("x"));
        assert_eq!(layout.identifying(), ["zarr.json"]);
        assert_eq!(layout.member(MemberNumber(1)), None);
        assert!(Layout::FILE.has_file("") && !Layout::FILE.has_file("x"));
        assert_eq!(Layout::FILE.file_names(), [""]);
        assert!(Layout::FILE.is_file() && !Layout::FILE.has_member(OsStr::new("x")));
    }
}
