//! The HTTP client, the threads it runs on, and which hosts it may be led to.
//!
//! Two threads serve all requests of the process; nothing outside of this folder knows of `async`.
//! They are begun by the first request: a daemon has forked by then. Redirects are followed by
//! [`super::transport`], never from HTTPS to HTTP, and not into the network that this host is in
//! (link-local, loopback and private addresses) unless the source itself lies there. Used by
//! [`super::transport`].

use std::error::Error as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::runtime::{Builder, Handle, Runtime};
use url::Url;

use crate::error::{Error, Result};

const THREADS: usize = 2;
/// Of those that look names up and use the disk, which block.
const BLOCKING: usize = 8;

const CONNECTING: Duration = Duration::from_secs(10);
/// Longest silence of a server before the request is made once more.
const SILENCE: Duration = Duration::from_secs(15);

pub(super) fn runtime() -> Result<&'static Handle> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let started = RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(BLOCKING)
            .thread_name("remote")
            .enable_all()
            .build()
    });
    match started {
        Ok(runtime) => Ok(runtime.handle()),
        Err(e) => Err(Error::io(
            "cannot start the threads of remote sources",
            std::io::Error::from(e.kind()),
        )),
    }
}

/// Hosts of the proxies that the environment names.
static PROXIES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let names = ["http_proxy", "https_proxy", "all_proxy"];
    let given = names
        .iter()
        .flat_map(|name| [std::env::var(name), std::env::var(name.to_uppercase())]);
    let hosts = given.filter_map(|proxy| {
        let proxy = proxy.ok()?;
        let url = Url::parse(&proxy).ok().filter(Url::has_host);
        let url = url.or_else(|| Url::parse(&format!("http://{proxy}")).ok())?;
        Some(url.host_str()?.to_owned())
    });
    hosts.collect()
});

/// Which hosts answers may come from.
pub(super) struct HostRule {
    source: Option<String>,
    /// The source lies in a network that is nobody else's.
    is_inside: AtomicBool,
}

/// That a host is not asked.
#[derive(Debug)]
struct LedInside;

impl std::fmt::Display for LedInside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("leads to an address of this network, which is not asked")
    }
}

impl std::error::Error for LedInside {}

fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || shared
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_inside(IpAddr::V4(v4)),
            None => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_unique_local()
                    || v6.is_unicast_link_local()
            }
        },
    }
}

fn address_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

impl HostRule {
    pub(super) fn of(source: Option<&str>) -> Arc<HostRule> {
        let address = source.and_then(address_of);
        Arc::new(HostRule {
            is_inside: AtomicBool::new(address.is_some_and(is_inside)),
            source: source.map(str::to_owned),
        })
    }

    fn allows(&self, host: &str, addresses: &[IpAddr]) -> bool {
        let any_inside = addresses.iter().any(|address| is_inside(*address));
        // Who set a proxy meant it.
        if PROXIES.iter().any(|proxy| proxy == host) {
            return true;
        }
        if self.source.as_deref() == Some(host) {
            self.is_inside.fetch_or(any_inside, Ordering::Relaxed);
            return true;
        }
        !any_inside || self.is_inside.load(Ordering::Relaxed)
    }

    /// Where an answer leads to, if it may lead there.
    pub(super) fn led_to(&self, from: &Url, location: &str) -> std::result::Result<Url, String> {
        let to = from.join(location);
        let to = to.map_err(|_| "leads to what is no URL".to_owned())?;
        let is_safe = to.scheme() == "https" || to.scheme() == "http" && from.scheme() == "http";
        if !is_safe {
            return Err("leads from HTTPS to another protocol, and is not followed".into());
        }
        match to.host_str().and_then(address_of) {
            Some(address) if !self.allows("", &[address]) => Err(LedInside.to_string()),
            _ => Ok(to),
        }
    }
}

/// Names are looked up by the system.
struct Resolver(Arc<HostRule>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rule = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
            match rule.allows(&host, &addresses) {
                true => Ok(Box::new(found.into_iter()) as Addrs),
                false => Err(LedInside.into()),
            }
        })
    }
}

/// Whether a request went to no host because of the rule.
pub(super) fn is_led_inside(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(one) = cause {
        if one.is::<LedInside>() {
            return true;
        }
        cause = one.source();
    }
    false
}

/// What TLS is made of, for all clients of the process; before the first of them.
pub(super) fn provide_cryptography() {
    static PROVIDER: Once = Once::new();
    // An error says that there is one already.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// A static program looks names up in files and by DNS by itself. Other ways that the system's
/// configuration names are libraries, which it must not load: they are for another C library.
#[cfg(all(target_feature = "crt-static", target_env = "gnu"))]
fn look_names_up_alone() {
    unsafe extern "C" {
        fn __nss_configure_lookup(
            database: *const std::ffi::c_char,
            ways: *const std::ffi::c_char,
        ) -> std::ffi::c_int;
    }
    static ONCE: Once = Once::new();
    // SAFETY: both are strings that live for ever; no name is being looked up yet.
    ONCE.call_once(|| unsafe {
        __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr());
    });
}

#[cfg(not(all(target_feature = "crt-static", target_env = "gnu")))]
fn look_names_up_alone() {}

pub(super) fn build(rule: &Arc<HostRule>) -> Result<reqwest::Client> {
    look_names_up_alone();
    let built = reqwest::Client::builder()
        .user_agent(concat!("arrayfs/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(Arc::new(Resolver(Arc::clone(rule))))
        .connect_timeout(CONNECTING)
        .read_timeout(SILENCE)
        .pool_max_idle_per_host(super::transport::IN_FLIGHT)
        .tcp_nodelay(true)
        .build();
    built.map_err(|e| {
        let cause = std::io::Error::other(innermost(&e));
        Error::io("cannot make an HTTP client", cause)
    })
}

/// What is at the bottom of an error, which names no URL.
pub(super) fn innermost(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause = error.source();
    while let Some(one) = cause {
        text = one.to_string();
        cause = one.source();
    }
    match text.is_empty() {
        true if error.is_timeout() => "no answer in time".into(),
        true => "the request failed".into(),
        false => crate::error::without_numbers(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_inside_but_by_a_source_that_is() {
        let from = Url::parse("https://zenodo.org/x").unwrap();
        let outside = HostRule::of(Some("zenodo.org"));
        for to in [
            "https://127.0.0.1/x",
            "https://[::1]/",
            "https://169.254.169.254/latest",
            "https://10.0.0.1/",
            "https://[::ffff:192.168.0.1]/",
            "https://100.64.0.1/",
            "http://zenodo.org/x",
            "file:///etc/passwd",
        ] {
            assert!(outside.led_to(&from, to).is_err(), "{to}");
        }
        assert!(outside.led_to(&from, "https://1.1.1.1/x").is_ok());
        assert_eq!(outside.led_to(&from, "/y").unwrap().path(), "/y");
        let inside = HostRule::of(Some("10.0.0.2"));
        assert!(inside.led_to(&from, "https://10.0.0.1/").is_ok());
        // A name that turns out to be inside.
        assert!(outside.allows("zenodo.org", &["10.0.0.1".parse().unwrap()]));
        assert!(outside.led_to(&from, "https://10.0.0.1/").is_ok());
    }
}
