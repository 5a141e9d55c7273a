//! Static keys in the files of the AWS tools: `~/.aws/credentials` and `~/.aws/config`.
//!
//! Small INI files. What needs a program or a browser to be had is named, with the command that
//! exports it. Used by [`super::credentials`].

use std::collections::HashMap;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// A larger file is none of keys.
const LARGEST: u64 = 1 << 20;

#[derive(Default)]
pub(super) struct Profile {
    name: String,
    values: HashMap<String, String>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

type StaticKeys<'a> = (&'a str, &'a str, Option<&'a str>);

impl Profile {
    /// The one that is named, by an option or the environment, or else the default one.
    pub(super) fn find(named: Option<&str>) -> Result<Profile> {
        let from_environment = std::env::var("AWS_PROFILE").ok();
        let name = named.map(str::to_owned).or(from_environment);
        let texts = [
            ("AWS_CONFIG_FILE", "config"),
            ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
        ];
        let texts = texts.map(|(variable, name)| read(variable, name));
        let found = Profile::in_texts(name.as_deref().unwrap_or("default"), &texts);
        match (found, name) {
            (Some(profile), _) => Ok(profile),
            (None, Some(name)) => Err(Error::Invalid(format!(
                "there is no profile '{name}' in ~/.aws/config and ~/.aws/credentials"
            ))),
            (None, None) => Ok(Profile::default()),
        }
    }

    /// What later texts say counts.
    fn in_texts(name: &str, texts: &[String]) -> Option<Profile> {
        let mut profile = Profile {
            name: name.to_owned(),
            ..Profile::default()
        };
        let mut is_there = false;
        for text in texts {
            let mut is_within = false;
            for line in text.lines().map(str::trim) {
                if let Some(section) = line
                    .strip_prefix('[')
                    .and_then(|line| line.split(']').next())
                {
                    let section = section.trim();
                    let section = section.strip_prefix("profile ").unwrap_or(section);
                    is_within = section.trim() == name;
                    is_there |= is_within;
                } else if let (true, false, Some((key, value))) = (
                    is_within,
                    line.starts_with(['#', ';']),
                    line.split_once('='),
                ) {
                    let key = key.trim().to_ascii_lowercase();
                    profile.values.insert(key, value.trim().to_owned());
                }
            }
        }
        profile.region = profile.values.get("region").cloned();
        profile.endpoint = profile.values.get("endpoint_url").cloned();
        is_there.then_some(profile)
    }

    fn value(&self, key: &str) -> Option<&str> {
        let value = self.values.get(key).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Id, secret and token.
    pub(super) fn keys(&self) -> Option<StaticKeys<'_>> {
        Some((
            self.value("aws_access_key_id")?,
            self.value("aws_secret_access_key")?,
            self.value("aws_session_token"),
        ))
    }

    /// An error if it has credentials of a kind that is not taken here.
    pub(super) fn check_usable(&self) -> Result<()> {
        let kinds = [
            ("sso_session", "are those of a single sign-on"),
            ("sso_start_url", "are those of a single sign-on"),
            ("credential_process", "come from a program"),
            ("role_arn", "are those of a role"),
        ];
        let mut kinds = kinds.iter();
        match kinds.find(|(key, _)| self.value(key).is_some()) {
            Some((_, kind)) => Err(Error::Invalid(format!(
                "the credentials of profile '{0}' {kind}; put them into the environment with: eval \"$(aws configure \
                 export-credentials --profile {0} --format env)\"",
                self.name
            ))),
            None => Ok(()),
        }
    }

    /// For messages.
    pub(super) fn place(&self) -> String {
        match &*self.name {
            "" => "~/.aws/credentials".to_owned(),
            name => format!("profile '{name}' of ~/.aws/credentials and ~/.aws/config"),
        }
    }
}

fn read(variable: &str, name: &str) -> String {
    let given = std::env::var_os(variable).map(PathBuf::from);
    let home = || {
        Some(
            PathBuf::from(std::env::var_os("HOME")?)
                .join(".aws")
                .join(name),
        )
    };
    let Some(path) = given.or_else(home) else {
        return String::new();
    };
    let is_small = std::fs::metadata(&path).is_ok_and(|found| found.len() <= LARGEST);
    match is_small {
        true => std::fs::read_to_string(path).unwrap_or_default(),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[default]\nregion = eu-west-1\n[profile sso]\nsso_session=x\n; a = b\n";
    const KEYS: &str =
        "# mine\n[default]\naws_access_key_id = a\naws_secret_access_key=b=\n[other]\n";

    fn profile(name: &str) -> Option<Profile> {
        Profile::in_texts(name, &[CONFIG.into(), KEYS.into()])
    }

    #[test]
    fn keys_and_region_come_from_both_files() {
        let default = profile("default").unwrap();
        assert_eq!(default.keys(), Some(("a", "b=", None)));
        assert_eq!(default.region.as_deref(), Some("eu-west-1"));
        assert!(default.check_usable().is_ok());
        assert!(profile("other").unwrap().keys().is_none());
        assert!(profile("none").is_none());
    }

    #[test]
    fn what_a_program_has_to_export_is_named() {
        let why = profile("sso").unwrap().check_usable().unwrap_err();
        assert!(why.to_string().contains("--profile sso"), "{why}");
    }
}
