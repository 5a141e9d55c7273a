//! Containers in object stores and on the web, read where they lie.
//!
//! The way of a read: [`store`] (listings that are believed for a time) → [`object`] (one version,
//! in pieces that are asked for at once) → [`transport`] (requests: signed, counted, repeated) →
//! [`cloud`] and [`client`]. What is promised stands in docs/remote.md. Nothing outside of this
//! folder knows of requests, and nothing in it of formats. Used by the program.

#[cfg(feature = "remote")]
mod asking;
#[cfg(feature = "remote")]
mod body;
#[cfg(feature = "remote")]
mod cached_file;
#[cfg(feature = "remote")]
mod client;
#[cfg(feature = "remote")]
mod cloud;
#[cfg(feature = "remote")]
mod credentials;
#[cfg(feature = "remote")]
mod directory;
#[cfg(feature = "remote")]
mod disk_cache;
#[cfg(feature = "remote")]
mod findings;
#[cfg(feature = "remote")]
mod listing;
#[cfg(feature = "remote")]
mod names;
#[cfg(feature = "remote")]
mod object;
#[cfg(feature = "remote")]
mod piece;
#[cfg(feature = "remote")]
mod profile;
#[cfg(feature = "remote")]
mod refusal;
mod settings;
#[cfg(feature = "remote")]
mod shared;
#[cfg(feature = "remote")]
mod steps;
#[cfg(feature = "remote")]
mod store;
#[cfg(feature = "remote")]
mod transport;
mod url;
#[cfg(feature = "remote")]
mod version;

use std::sync::Arc;

pub use self::settings::{METADATA_TTL, RemoteRoom, RemoteSettings, TIMEOUT};
pub use self::url::{BadUrl, Provider, SourceUrl, is_url};
use super::Store;
use crate::error::Result;

/// Opens what a URL leads to: a tree below a prefix, or one file. Nothing is asked yet.
#[cfg(feature = "remote")]
pub fn open(url: &SourceUrl, room: &RemoteRoom) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(store::RemoteStore::new(url, room)?))
}

/// The same, and whether anything lies there.
#[cfg(feature = "remote")]
pub fn look_at(url: &SourceUrl, room: &RemoteRoom) -> Result<(Arc<dyn Store>, bool)> {
    let store = store::RemoteStore::new(url, room)?;
    let has_any = store.has_any()?;
    Ok((Arc::new(store), has_any))
}

#[cfg(not(feature = "remote"))]
pub fn open(_url: &SourceUrl, _room: &RemoteRoom) -> Result<Arc<dyn Store>> {
    let why = "this arrayfs was built without remote sources";
    Err(crate::error::Error::Invalid(why.into()))
}

#[cfg(not(feature = "remote"))]
pub fn look_at(url: &SourceUrl, room: &RemoteRoom) -> Result<(Arc<dyn Store>, bool)> {
    open(url, room).map(|store| (store, false))
}
