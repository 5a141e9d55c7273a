//! The stores' interfaces: URLs of keys and of listings, and how requests are signed.
//!
//! URLs are made here and not by `object_store`, whose paths cannot say every key (`a//b`,
//! `a/../b`) and which fails a whole listing for one such key; credentials and signatures are its
//! own. Used by [`super::transport`].

use http::{HeaderMap, HeaderValue, Method, header};
use object_store::client::{HttpRequest, HttpRequestBody};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::credentials::Credentials;
use super::settings::RemoteSettings;
use super::url::{Provider, SourceUrl};
use crate::error::{Error, Result};

/// What a part of a key is written as in the path of a URL, so that signatures are of what is sent.
const KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

const QUERY: &AsciiSet = &KEY.add(b'/');

/// Entries of a page of a listing, of all stores.
pub(super) const PAGE: usize = 1000;

const AZURE_VERSION: &str = "2021-12-02";

/// A bucket, as requests reach it.
pub(super) struct Cloud {
    pub(super) url: SourceUrl,
    /// Of the bucket, or of the file of a web server.
    base: Url,
    credentials: Credentials,
    requester_pays: bool,
    pub(super) region: String,
}

/// Which entries a page of a listing has.
#[derive(Debug, Clone)]
pub(super) struct PageOf<'a> {
    pub(super) prefix: &'a str,
    /// Where the page before ended.
    pub(super) token: Option<&'a str>,
    pub(super) most: usize,
}

impl Cloud {
    pub(super) fn new(url: &SourceUrl, settings: &RemoteSettings) -> Result<Cloud> {
        let credentials = Credentials::find(url, settings)?;
        let region = credentials.region.clone();
        Ok(Cloud {
            base: base_url(url, settings, &credentials)?,
            url: url.clone(),
            region,
            credentials,
            requester_pays: settings.requester_pays,
        })
    }

    /// Where the source lies.
    pub(super) fn host(&self) -> Option<&str> {
        self.base.host_str()
    }

    /// What tells its objects from those of other stores: to be hashed, for a URL's query may be a
    /// secret.
    pub(super) fn place(&self) -> String {
        format!("{} {}", self.url.shown(), self.base)
    }

    /// Whether signatures may be a part of URLs.
    pub(super) fn signs_urls(&self) -> bool {
        self.url.provider == Provider::Azure
    }

    /// Whether requests are not signed.
    pub(super) fn is_anonymous(&self) -> bool {
        self.credentials.are_none()
    }

    /// Of an object, or of the one version of it.
    pub(super) fn object(&self, key: &str, version: Option<&str>) -> Result<Url> {
        let mut url = self.base.clone();
        if self.url.is_web() {
            return Ok(url);
        }
        let above = url.path().trim_end_matches('/').to_owned();
        let path = format!("{above}/{}", utf8_percent_encode(key, KEY));
        set_path(&mut url, &path)?;
        if let Some(version) = version {
            let name = match self.url.provider {
                Provider::Google => "generation",
                Provider::Azure => "versionid",
                Provider::S3 | Provider::Web => "versionId",
            };
            url.set_query(Some(&query(&[(name, version)])));
        }
        Ok(url)
    }

    pub(super) fn page(&self, page: &PageOf<'_>) -> Url {
        let most = page.most.to_string();
        let mut asked = match self.url.provider {
            Provider::Azure => vec![
                ("comp", "list"),
                ("delimiter", "/"),
                ("maxresults", &most),
                ("prefix", page.prefix),
                ("restype", "container"),
            ],
            _ => vec![
                ("delimiter", "/"),
                ("encoding-type", "url"),
                ("list-type", "2"),
                ("max-keys", &most),
                ("prefix", page.prefix),
            ],
        };
        if let Some(token) = page.token {
            let name = match self.url.provider {
                Provider::Azure => "marker",
                _ => "continuation-token",
            };
            asked.push((name, token));
        }
        // In the order in which they are signed.
        asked.sort_unstable();
        let mut url = self.base.clone();
        url.set_query(Some(&query(&asked)));
        url
    }

    /// A request with these headers, signed as of now.
    pub(super) async fn signed(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
    ) -> Result<HttpRequest> {
        let request = http::Request::builder().method(method).uri(url.as_str());
        let mut request = request
            .body(HttpRequestBody::empty())
            .map_err(|_| Error::Bug("a URL of a request cannot be sent".into()))?;
        *request.headers_mut() = headers;
        let plain = HeaderValue::from_static("identity");
        request.headers_mut().insert(header::ACCEPT_ENCODING, plain);
        if self.url.provider == Provider::Azure {
            let version = HeaderValue::from_static(AZURE_VERSION);
            request.headers_mut().insert("x-ms-version", version);
        }
        let payer = self.requester_pays;
        self.credentials.sign(&mut request, payer).await?;
        Ok(request)
    }
}

fn query(pairs: &[(&str, &str)]) -> String {
    let encode = |text| utf8_percent_encode(text, QUERY).to_string();
    let pairs = pairs.iter();
    let pairs = pairs.map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// `Url::set_path` takes `..` out, and so does the parser: keys that have it are not asked for.
fn set_path(url: &mut Url, path: &str) -> Result<()> {
    url.set_path(path);
    match url.path() == path {
        true => Ok(()),
        false => Err(Error::Invalid("a key that no URL can say".into())),
    }
}

fn base_url(url: &SourceUrl, settings: &RemoteSettings, credentials: &Credentials) -> Result<Url> {
    if let Some(web) = &url.web {
        return Ok(web.clone());
    }
    let given = settings.endpoint.clone();
    let given = given.or_else(|| credentials.endpoint.clone());
    let bucket = &url.bucket;
    let text = match (url.provider, given) {
        (Provider::S3, Some(endpoint)) => below(&endpoint, bucket),
        (Provider::S3, None) => s3_base(bucket, &credentials.region, settings.path_style),
        (Provider::Google, Some(endpoint)) => below(&endpoint, bucket),
        (Provider::Google, None) => format!("https://storage.googleapis.com/{bucket}"),
        (Provider::Azure, given) => azure_base(url, given, credentials)?,
        (Provider::Web, _) => return Err(Error::Bug("a URL of a web server is lost".into())),
    };
    let parsed = Url::parse(&text).ok().filter(Url::has_host);
    parsed.ok_or_else(|| {
        let why = "endpoint= is not a URL, as in endpoint=https://minio.example.org:9000";
        Error::Invalid(why.into())
    })
}

fn below(endpoint: &str, bucket: &str) -> String {
    format!("{}/{bucket}", endpoint.trim_end_matches('/'))
}

/// A name with dots fits no certificate.
fn s3_base(bucket: &str, region: &str, path_style: bool) -> String {
    let domain = match region.starts_with("cn-") {
        true => "amazonaws.com.cn",
        false => "amazonaws.com",
    };
    match path_style || bucket.contains('.') {
        true => format!("https://s3.{region}.{domain}/{bucket}"),
        false => format!("https://{bucket}.s3.{region}.{domain}"),
    }
}

fn azure_base(url: &SourceUrl, given: Option<String>, credentials: &Credentials) -> Result<String> {
    let account = url.account.as_ref().or(credentials.account.as_ref());
    let bucket = &url.bucket;
    match (given, account) {
        (Some(endpoint), _) => Ok(below(&endpoint, bucket)),
        (None, Some(account)) => Ok(format!("https://{account}.blob.core.windows.net/{bucket}")),
        (None, None) => Err(Error::Invalid(
            "no storage account: az://ACCOUNT/CONTAINER, or -o account=ACCOUNT".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn cloud(url: &str, settings: RemoteSettings) -> Cloud {
        let url = SourceUrl::parse(Path::new(url), None).unwrap().unwrap();
        let settings = RemoteSettings {
            anonymous: true,
            ..settings
        };
        Cloud::new(&url, &settings).unwrap()
    }

    #[test]
    fn keys_are_said_as_they_are() {
        let cloud = cloud(
            "s3://b",
            RemoteSettings {
                endpoint: Some("http://host:1/".into()),
                ..RemoteSettings::default()
            },
        );
        let url = |key| cloud.object(key, None).map(String::from);
        assert_eq!(
            url("a b/ü+%20?#").unwrap(),
            "http://host:1/b/a%20b/%C3%BC%2B%2520%3F%23"
        );
        assert_eq!(url("a//b").unwrap(), "http://host:1/b/a//b");
        assert!(url("a/../b").is_err());
        let versioned = cloud.object("a", Some("v/1")).unwrap();
        assert_eq!(versioned.as_str(), "http://host:1/b/a?versionId=v%2F1");
        let page = cloud.page(&PageOf {
            prefix: "x/y/",
            token: Some("t="),
            most: 7,
        });
        assert_eq!(
            page.query().unwrap(),
            "continuation-token=t%3D&delimiter=%2F&encoding-type=url&list-type=2&max-keys=7&prefix=x%2Fy%2F"
        );
    }

    #[test]
    fn buckets_have_hosts_where_certificates_fit() {
        let base = |url| {
            cloud(
                url,
                RemoteSettings {
                    region: Some("eu-central-1".into()),
                    ..RemoteSettings::default()
                },
            )
            .base
            .to_string()
        };
        assert_eq!(base("s3://b"), "https://b.s3.eu-central-1.amazonaws.com/");
        assert_eq!(
            base("s3://b.c"),
            "https://s3.eu-central-1.amazonaws.com/b.c"
        );
        assert_eq!(base("gs://b"), "https://storage.googleapis.com/b");
        assert_eq!(base("az://acc/c"), "https://acc.blob.core.windows.net/c");
    }
}
