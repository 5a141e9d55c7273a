//! What is said of a remote source beside its URL. Used by the command line and by [`super`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::memory::budget::Budget;

/// Listings and absences are believed for so long.
pub const METADATA_TTL: Duration = Duration::from_secs(60);

/// A request and all its retries end within this.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// None of it is a secret.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteSettings {
    /// Of a server that speaks a store's interface.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// In the files of the AWS tools.
    pub profile: Option<String>,
    /// Of Azure.
    pub account: Option<String>,
    /// Requests are not signed.
    pub anonymous: bool,
    pub requester_pays: bool,
    /// The bucket stands in the path of S3's URLs, and not in the host.
    pub path_style: bool,
    pub disk_cache: Option<PathBuf>,
    /// In bytes.
    pub disk_cache_size: Option<u64>,
    pub metadata_ttl: Option<Duration>,
    pub timeout: Option<Duration>,
    /// Has the URL.
    pub url_file: Option<PathBuf>,
}

/// What a remote store works with.
pub struct RemoteRoom {
    pub settings: RemoteSettings,
    /// Pays for what is fetched.
    pub budget: Arc<Budget>,
}

impl RemoteSettings {
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    pub fn metadata_ttl(&self) -> Duration {
        self.metadata_ttl.unwrap_or(METADATA_TTL)
    }
}
