//! URLs of sources: read in this one place, for the mount and for every command.
//!
//! A text with `://` behind a scheme is a URL, whatever lies under that name on a disk. What a URL
//! may hold that nobody is to see (a user's name and password, a query with a signature) is in no
//! text that this module gives back but for requests. Used by the command line and by [`super`].

use std::fmt;
use std::path::{Path, PathBuf};

use url::Url;

/// Whose interface is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    S3,
    Google,
    Azure,
    /// One file of a web server.
    Web,
}

/// What is mounted or looked at, in a store of objects.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceUrl {
    pub provider: Provider,
    /// Bucket or container; of a web server nothing.
    pub bucket: String,
    /// Of an Azure container, if the URL says it.
    pub account: Option<String>,
    /// A key, or the prefix of keys, without `/` at either end.
    pub key: String,
    /// Of a web server: as requests need it.
    pub(super) web: Option<Url>,
}

/// Why a text is no URL of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadUrl(pub String);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const EXAMPLES: &str = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX and https://HOST/FILE are \
                        sources";

/// The scheme of a text that is a URL.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once("://")?;
    let mut letters = scheme.chars();
    let begins = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let goes_on = letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (begins && goes_on).then_some(scheme)
}

/// Whether a path as it was given is a URL.
pub fn is_url(given: &Path) -> bool {
    given.to_str().is_some_and(|text| scheme(text).is_some())
}

impl SourceUrl {
    /// None: it is a path. `account`: of Azure, if it was named apart.
    pub fn parse(given: &Path, account: Option<&str>) -> Option<Result<SourceUrl, BadUrl>> {
        let text = given.to_str()?;
        let scheme = scheme(text)?.to_ascii_lowercase();
        let rest = &text[scheme.len() + "://".len()..];
        Some(match &*scheme {
            "s3" | "s3a" => in_bucket(Provider::S3, rest),
            "gs" | "gcs" => in_bucket(Provider::Google, rest),
            "az" | "azure" | "abfs" | "abfss" => in_account(rest, account),
            "http" | "https" => of_web(text),
            other => Err(BadUrl(format!("{other}:// is no source; {EXAMPLES}"))),
        })
    }

    /// As messages and the mount table name it.
    pub fn shown(&self) -> String {
        let slash = if self.key.is_empty() { "" } else { "/" };
        let of_bucket = |scheme: &str| format!("{scheme}://{}{slash}{}", self.bucket, self.key);
        match (self.provider, &self.web) {
            (Provider::Web, Some(web)) => without_secrets(web),
            (Provider::Azure, _) => match &self.account {
                Some(account) => format!("az://{account}/{}{slash}{}", self.bucket, self.key),
                None => of_bucket("az"),
            },
            (Provider::Google, _) => of_bucket("gs"),
            (Provider::S3 | Provider::Web, _) => of_bucket("s3"),
        }
    }

    /// Whether it has what [`SourceUrl::shown`] leaves out.
    pub fn has_secrets(&self) -> bool {
        self.web
            .as_ref()
            .is_some_and(|web| web.as_str() != without_secrets(web))
    }

    /// The root that its key is looked for in: all of the bucket, or of a web server what has the
    /// file; and the key as a path.
    pub fn root(&self) -> (SourceUrl, PathBuf) {
        match &self.web {
            Some(web) => {
                let name = PathBuf::from(web_name(web));
                (self.clone(), name)
            }
            None => {
                let root = SourceUrl {
                    key: String::new(),
                    ..self.clone()
                };
                (root, PathBuf::from(&self.key))
            }
        }
    }

    /// What may be the file if this is the URL of an array in it: this and those above it, each
    /// with the rest. Of a web server.
    pub fn files_above(&self) -> Vec<(SourceUrl, String)> {
        let (mut all, mut rest) = (Vec::new(), Vec::new());
        let mut web = self.web.clone();
        while let Some(url) = web {
            let name = web_name(&url);
            let mut within = rest.clone();
            within.reverse();
            let file = SourceUrl {
                key: name.clone(),
                web: Some(url.clone()),
                ..self.clone()
            };
            all.push((file, within.join("/")));
            rest.push(name);
            let mut above = url;
            let has_more = above.path_segments().is_some_and(|parts| parts.count() > 1);
            if let Ok(mut parts) = above.path_segments_mut() {
                parts.pop();
            }
            web = Some(above).filter(|_| has_more);
        }
        all
    }

    /// Whether a web server has it, which lists nothing.
    pub fn is_web(&self) -> bool {
        self.provider == Provider::Web
    }
}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

/// A URL without what signs it.
pub(super) fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    // Of a URL that has a host neither can fail.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// What the file of a web server is called: the last part of its path.
pub(super) fn web_name(url: &Url) -> String {
    let last = url.path_segments().and_then(|mut all| all.next_back());
    let last = last.unwrap_or_default();
    let name = percent_encoding::percent_decode_str(last).decode_utf8_lossy();
    let is_name = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
    match is_name {
        true => name.into_owned(),
        false => "file".into(),
    }
}

fn trimmed(key: &str) -> String {
    key.trim_matches('/').to_owned()
}

fn in_bucket(provider: Provider, rest: &str) -> Result<SourceUrl, BadUrl> {
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    check_bucket(bucket)?;
    Ok(SourceUrl {
        provider,
        bucket: bucket.to_owned(),
        account: None,
        key: trimmed(key),
        web: None,
    })
}

/// `ACCOUNT/CONTAINER/KEY`, `CONTAINER@ACCOUNT.host/KEY`, or with an account `CONTAINER/KEY`.
fn in_account(rest: &str, account: Option<&str>) -> Result<SourceUrl, BadUrl> {
    let (first, key) = rest.split_once('/').unwrap_or((rest, ""));
    let (account, bucket, key) = match (first.split_once('@'), account) {
        (Some((bucket, host)), _) => {
            let account = host.split('.').next().unwrap_or(host);
            (Some(account.to_owned()), bucket, key)
        }
        (None, Some(account)) if account != first => (Some(account.to_owned()), first, key),
        (None, _) => {
            let (bucket, key) = key.split_once('/').unwrap_or((key, ""));
            (Some(first.to_owned()), bucket, key)
        }
    };
    if bucket.is_empty() {
        let wanted = "az://ACCOUNT/CONTAINER/PREFIX, or az://CONTAINER/PREFIX with account=ACCOUNT";
        return Err(BadUrl(format!(
            "az://{first} names no container; as in {wanted}"
        )));
    }
    check_bucket(bucket)?;
    Ok(SourceUrl {
        provider: Provider::Azure,
        bucket: bucket.to_owned(),
        account,
        key: trimmed(key),
        web: None,
    })
}

fn check_bucket(bucket: &str) -> Result<(), BadUrl> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-._$".contains(c);
    match bucket {
        "" => Err(BadUrl(format!("the URL names no bucket; {EXAMPLES}"))),
        _ if bucket.chars().all(is_letter) && !bucket.starts_with('.') => Ok(()),
        _ => Err(BadUrl(
            "the URL's bucket has characters that no bucket's name has; names and passwords do not go there".into(),
        )),
    }
}

/// The error of the parser would tell what nobody is to see.
fn of_web(text: &str) -> Result<SourceUrl, BadUrl> {
    let url = Url::parse(text).ok().filter(|url| url.has_host());
    let url = url.ok_or_else(|| BadUrl(format!("the URL cannot be read; {EXAMPLES}")))?;
    Ok(SourceUrl {
        provider: Provider::Web,
        bucket: String::new(),
        account: None,
        key: web_name(&url),
        web: Some(url),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SourceUrl, BadUrl> {
        SourceUrl::parse(Path::new(text), None).unwrap()
    }

    #[test]
    fn each_spelling_means_its_place() {
        let shown = |text: &str| parse(text).unwrap().shown();
        assert_eq!(shown("s3://b/run7/"), "s3://b/run7");
        assert_eq!(shown("S3://b"), "s3://b");
        assert_eq!(shown("gs://b/a//b"), "gs://b/a//b");
        assert_eq!(shown("az://acc/cont/x/y"), "az://acc/cont/x/y");
        assert_eq!(
            shown("abfss://cont@acc.dfs.core.windows.net/x"),
            "az://acc/cont/x"
        );
        let with = SourceUrl::parse(Path::new("az://cont/x"), Some("acc"));
        assert_eq!(with.unwrap().unwrap().shown(), "az://acc/cont/x");
        let (root, path) = parse("s3://b/run7/x.h5").unwrap().root();
        assert_eq!((root.shown(), path), ("s3://b".into(), "run7/x.h5".into()));
    }

    #[test]
    fn what_nobody_is_to_see_is_in_no_message() {
        let url = parse("https://me:secret@host:8/a%20b.h5?X-Sig=secret#secret").unwrap();
        assert_eq!(url.shown(), "https://host:8/a%20b.h5");
        assert_eq!(format!("{url:?}"), url.shown());
        assert_eq!(url.root().1, PathBuf::from("a b.h5"));
        for bad in ["s3://key:secret@b/x", "https://:secret@/", "x-secret://b"] {
            let BadUrl(why) = parse(bad).unwrap_err();
            assert!(!why.contains(":secret"), "{why}");
        }
    }

    #[test]
    fn an_array_s_url_leads_to_the_file_above() {
        let url = parse("https://h/d/x.h5/g/values?sig=1").unwrap();
        let all = url.files_above();
        let shown: Vec<_> = all
            .iter()
            .map(|(url, within)| (url.shown(), &**within))
            .collect();
        assert_eq!(shown[2], ("https://h/d/x.h5".into(), "g/values"));
        assert_eq!(shown.len(), 4);
    }

    #[test]
    fn paths_are_none() {
        for path in ["s3:/b", "/tmp/s3://b", "a", "://x", "1a://x", "./s3://b"] {
            assert!(SourceUrl::parse(Path::new(path), None).is_none(), "{path}");
            assert!(!is_url(Path::new(path)));
        }
        assert!(parse("s3://").is_err() && parse("az://acc").is_err());
    }
}
