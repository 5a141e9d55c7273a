//! Options of remote sources: behind `-o`, and as long flags of every command that reads.
//!
//! Used by [`super`] and by the command line.

use std::path::Path;
use std::time::Duration;

use clap::Args;

use super::super::failure::Failure;
use super::super::size;
use crate::source::remote::RemoteSettings;

/// Options that need a value, and one as an example.
pub(super) const VALUED: &[(&str, &str)] = &[
    ("endpoint", "https://minio.example.org:9000"),
    ("region", "eu-central-1"),
    ("profile", "work"),
    ("account", "mydata"),
    ("disk_cache", "/var/cache/arrayfs"),
    ("disk_cache_size", "20G"),
    ("metadata_ttl", "60"),
    ("timeout", "60"),
    ("url_file", "/etc/arrayfs/url"),
];

/// Longest time that is waited, or believed in: a year.
const LONGEST: f64 = 365.0 * 86400.0;

/// Sets one that has a value; the error says what is wrong with it.
pub(super) fn set(settings: &mut RemoteSettings, name: &str, value: &str) -> Result<(), String> {
    let text = || match value.is_empty() {
        true => Err("expected a value".to_owned()),
        false => Ok(Some(value.to_owned())),
    };
    match name {
        "endpoint" => settings.endpoint = Some(endpoint(value)?),
        "region" => settings.region = text()?,
        "profile" => settings.profile = text()?,
        "account" => settings.account = text()?,
        "disk_cache" => {
            let absolute = std::path::absolute(value);
            settings.disk_cache = Some(absolute.map_err(|_| "expected a directory".to_owned())?);
        }
        "disk_cache_size" => settings.disk_cache_size = Some(size::parse(value)?),
        "metadata_ttl" => settings.metadata_ttl = Some(seconds(value, 0.0)?),
        "timeout" => settings.timeout = Some(seconds(value, 0.1)?),
        "url_file" => settings.url_file = Some(Path::new(value).to_owned()),
        _ => return Err("there is no such option".into()),
    }
    Ok(())
}

fn endpoint(value: &str) -> Result<String, String> {
    let is_url = value.starts_with("https://") || value.starts_with("http://");
    match is_url && !value.contains(['@', '?', '#']) {
        true => Ok(value.to_owned()),
        false => Err("expected http:// or https:// and a host".into()),
    }
}

fn seconds(value: &str, least: f64) -> Result<Duration, String> {
    match value.parse::<f64>() {
        Ok(seconds) if (least..=LONGEST).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("expected seconds, at least {least}")),
    }
}

/// The long flags.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Sources in object stores and on the web")]
pub(crate) struct RemoteFlags {
    /// Server that speaks the store's interface: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Region of the bucket (default: that of the environment or profile, else us-east-1)
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Section of ~/.aws/config and ~/.aws/credentials
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Azure's storage account
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Sign no requests: for public buckets
    #[arg(long)]
    anonymous: bool,
    /// Pay for requests to a bucket whose owner does not
    #[arg(long, alias = "requester_pays")]
    requester_pays: bool,
    /// Name the bucket in the path, and not in the host
    #[arg(long, alias = "path_style")]
    path_style: bool,
    /// Keep what was read in this directory
    #[arg(long, alias = "disk_cache", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    disk_cache: Option<String>,
    /// As much of it (default: a tenth of the free disk, at most 20G)
    #[arg(long, alias = "disk_cache_size", value_name = "SIZE")]
    disk_cache_size: Option<String>,
    /// Believe listings for so long (default: 60)
    #[arg(long, alias = "metadata_ttl", value_name = "SECONDS")]
    metadata_ttl: Option<String>,
    /// A request ends within this, retries included (default: 60)
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<String>,
    /// Read the URL from this file, so that nobody sees it; or give - for SOURCE or PATH, and the
    /// URL on standard input
    #[arg(long, alias = "url_file", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    url_file: Option<String>,
}

impl RemoteFlags {
    /// As words of `-o`.
    pub(in super::super) fn options(&self) -> impl Iterator<Item = String> {
        let flags = [
            ("anonymous", self.anonymous),
            ("requester_pays", self.requester_pays),
            ("path_style", self.path_style),
        ];
        let values = [
            ("endpoint", &self.endpoint),
            ("region", &self.region),
            ("profile", &self.profile),
            ("account", &self.account),
            ("disk_cache", &self.disk_cache),
            ("disk_cache_size", &self.disk_cache_size),
            ("metadata_ttl", &self.metadata_ttl),
            ("timeout", &self.timeout),
            ("url_file", &self.url_file),
        ];
        let flags = flags.into_iter().filter(|(_, given)| *given);
        let values = values.map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        let flags = flags.map(|(name, _)| name.to_owned());
        flags.chain(values.into_iter().flatten())
    }

    pub(in super::super) fn settings(&self) -> Result<RemoteSettings, Failure> {
        let options: Vec<String> = self.options().collect();
        Ok(super::MountOptions::parse(&options)?.remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_flags_are_words() {
        let mut settings = RemoteSettings::default();
        set(&mut settings, "timeout", "2.5").unwrap();
        assert_eq!(settings.timeout(), Duration::from_millis(2500));
        for (name, value) in VALUED {
            set(&mut settings, name, value).unwrap();
        }
        for (name, value) in [
            ("endpoint", "host:9000"),
            ("endpoint", "https://me:secret@host"),
            ("timeout", "0"),
            ("metadata_ttl", "-1"),
            ("region", ""),
            ("disk_cache_size", "much"),
        ] {
            assert!(set(&mut settings, name, value).is_err(), "{name}={value}");
        }
        let flags = RemoteFlags {
            anonymous: true,
            region: Some("r".into()),
            ..RemoteFlags::default()
        };
        assert!(flags.options().eq(["anonymous", "region=r"]));
        let settings = flags.settings().unwrap();
        assert!(settings.anonymous && settings.region.as_deref() == Some("r"));
    }
}
