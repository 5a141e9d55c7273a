//! Containers in a store of objects, and on the web.
//!
//! The store is [`ObjectServer`], in the same process; a real one is SeaweedFS ([`seaweed`]).

mod ahead;
mod credentials;
mod disk_cache;
mod golden;
mod hosts;
mod names;
mod requests;
mod seaweed;
mod tls;
mod troubles;
mod versions;
mod web;

use std::ffi::OsString;
use std::path::Path;

use crate::harness::mounted::Mounted;
use crate::harness::object_server::ObjectServer;
use crate::harness::process::{Ran, arrayfs};

/// Mounts a prefix of the bucket.
fn mount(server: &ObjectServer, prefix: &str, options: &[&str]) -> Mounted {
    let own = server.options();
    let all: Vec<&str> = own
        .iter()
        .map(String::as_str)
        .chain(options.iter().copied())
        .collect();
    Mounted::new(Path::new(&server.url(prefix)), &all)
}

/// Runs a command with what it has to know of the store.
fn command(server: &ObjectServer, words: &[&str]) -> Ran {
    let words = words.iter().map(OsString::from);
    arrayfs(words.chain(server.flags().into_iter().map(OsString::from)))
}
