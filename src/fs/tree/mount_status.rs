//! The status of a mount: what its daemon tells in the attribute `user.arrayfs.status`, as JSON in
//! the order of the fields.
//!
//! The daemon may be of another version than the command that asks. What this one does not know is
//! left out, and what that one does not tell is empty. Made by [`super::status`] and whoever serves
//! a tree, and read by the commands.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, from_value};

use crate::cache::stats::CacheStatus;
use crate::live::CountedStatus;
use crate::source::FarTraffic;
use crate::source::remote::RemoteSettings;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MountStatus {
    pub pid: u32,
    pub source: String,
    pub source_id: Option<SourceId>,
    pub version: String,
    pub open_files: usize,
    pub open_containers: usize,
    pub resident_bytes: Option<u64>,
    pub seconds: u64,
    pub staged_bytes: u64,
    pub staged: Vec<StagedStatus>,
    pub staged_unlisted: u64,
    pub staged_over_a_minute: usize,
    pub unlogged_bytes: u64,
    pub not_kept: Vec<String>,
    pub not_kept_unlisted: u64,
    pub half_removed: Vec<String>,
    pub half_removed_unlisted: u64,
    pub views_listed: bool,
    /// None where nothing ever is: of a mount that is not one of a scratch store.
    pub held_back: Option<HeldBackStatus>,
    /// Of a source in a store of objects or on the web.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<FarTraffic>,
    /// How it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_settings: Option<RemoteSettings>,
    pub counted: CountedStatus,
    pub requests: RequestsStatus,
    pub log: LogStatus,
    pub cache: CacheStatus,
}

/// Which file or directory is shown, for commands that look at it by its path.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SourceId {
    pub device: u64,
    pub inode: u64,
}

/// A container of which something is staged: how much of it is in memory and in the log, and why it
/// is not committed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StagedStatus {
    pub path: String,
    /// From the root of the mount, as text that leads back to its bytes.
    pub inside: String,
    /// It has been made, and is not packed yet: what was put into it is on the disk.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new: bool,
    pub bytes: u64,
    pub log: Option<String>,
    /// With what the log refers to.
    pub log_bytes: u64,
    pub seconds: u64,
    pub why: Option<String>,
    pub beside: Option<String>,
    pub unlogged: Option<UnloggedStatus>,
}

/// What would be lost with the daemon, of one container.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnloggedStatus {
    pub arrays: Vec<UnloggedArray>,
    pub arrays_unlisted: u64,
    pub bytes: u64,
    pub why: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnloggedArray {
    pub array: String,
    pub bytes: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldBackStatus {
    pub files: u64,
    pub bytes: u64,
    /// What has been encoded since the mount began, as programs see it, and as it is stored.
    pub encoded_bytes: u64,
    pub stored_bytes: u64,
    pub logged: Vec<String>,
    pub logged_unlisted: u64,
    pub unmerged: Vec<FileInTrouble>,
    pub unmerged_unlisted: u64,
    pub failed: Vec<FileInTrouble>,
    pub failed_unlisted: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileInTrouble {
    pub path: String,
    pub why: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestsStatus {
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub io_errors: u64,
    /// Upper ends of the times that are told apart.
    pub bounds_us: Vec<u64>,
    pub kinds: KindsStatus,
    /// The slowest first.
    pub slowest: Vec<SlowStatus>,
    #[serde(skip_serializing_if = "is_zero")]
    pub slowest_unlisted: u64,
}

/// By the name of the kind, in the order in which the daemon has them.
#[derive(Debug, Clone, Default)]
pub struct KindsStatus(pub Vec<(String, KindStatus)>);

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KindStatus {
    pub count: u64,
    pub seconds: f64,
    /// One more than there are bounds.
    pub by_time: Vec<u64>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SlowStatus {
    pub kind: String,
    pub path: String,
    pub seconds: f64,
    pub ago: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogStatus {
    /// Where lines go now, in words.
    pub to: String,
    pub warnings: Vec<WarningStatus>,
    #[serde(skip_serializing_if = "is_zero")]
    pub warnings_unlisted: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WarningStatus {
    pub level: String,
    pub text: String,
    pub times: u64,
    pub last: String,
}

/// What is wrong with a file that cannot be stored.
pub const UNSTORED: &str = "not all of it can be stored";

impl FileInTrouble {
    pub fn line(&self, what: &str) -> String {
        format!("{}: {what}: {}", self.path, self.why)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Serialize for KindsStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(kind, counted)| (kind, counted)))
    }
}

impl<'de> Deserialize<'de> for KindsStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KindsStatus, D::Error> {
        let kinds = Map::<String, Value>::deserialize(deserializer)?.into_iter();
        let kinds = kinds.map(|(kind, counted)| Ok((kind, from_value(counted)?)));
        let kinds: serde_json::Result<_> = kinds.collect();
        kinds.map(KindsStatus).map_err(D::Error::custom)
    }
}
