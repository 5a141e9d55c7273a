//! Who asks: credentials as the store's own tools find them.
//!
//! Those of `object_store` (environment, web identity, container, instance) and, before the last
//! three, static keys of the AWS tools' files ([`super::profile`]). They are refreshed by
//! `object_store` when they expire, and are in no message. Used by [`super::cloud`].

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, header};
use object_store::aws::{
    AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredential, AwsCredentialProvider,
};
use object_store::azure::{
    AzureAuthorizer, AzureConfigKey, AzureCredentialProvider, MicrosoftAzureBuilder,
};
use object_store::client::HttpRequest;
use object_store::gcp::{GcpCredentialProvider, GoogleCloudStorageBuilder};
use object_store::{ClientOptions, RetryConfig, StaticCredentialProvider};

use super::profile::Profile;
use super::settings::RemoteSettings;
use super::url::{Provider, SourceUrl};
use crate::error::{Error, Result};

/// Where nobody answers, that is soon known: an instance's service is near, or is not there.
const PROBE: Duration = Duration::from_secs(1);

/// Of a store that says no other.
const REGION: &str = "us-east-1";

pub(super) struct Credentials {
    keys: Keys,
    pub(super) region: String,
    /// What the environment or a profile says.
    pub(super) endpoint: Option<String>,
    pub(super) account: Option<String>,
    /// Where they were looked for.
    looked_at: String,
}

enum Keys {
    None,
    Aws(AwsCredentialProvider),
    Google(GcpCredentialProvider),
    Azure(AzureCredentialProvider),
}

impl Credentials {
    pub(super) fn find(url: &SourceUrl, settings: &RemoteSettings) -> Result<Credentials> {
        match url.provider {
            Provider::S3 => of_aws(settings),
            Provider::Google => of_google(url, settings),
            Provider::Azure => of_azure(url, settings),
            Provider::Web => Ok(Credentials::none()),
        }
    }

    fn none() -> Credentials {
        Credentials {
            keys: Keys::None,
            region: REGION.into(),
            endpoint: None,
            account: None,
            looked_at: String::new(),
        }
    }

    pub(super) fn are_none(&self) -> bool {
        matches!(self.keys, Keys::None)
    }

    /// Signs a request, which is sent soon.
    pub(super) async fn sign(&self, request: &mut HttpRequest, requester_pays: bool) -> Result<()> {
        match &self.keys {
            Keys::None => Ok(()),
            Keys::Aws(provider) => {
                let found = provider.get_credential().await;
                let credential = found.map_err(|_| self.not_found())?;
                let signer = AwsAuthorizer::new(&credential, "s3", &self.region)
                    .with_request_payer(requester_pays);
                signer
                    .try_authorize(request, None)
                    .map_err(|_| cannot_sign())
            }
            Keys::Google(provider) => {
                let found = provider.get_credential().await;
                let credential = found.map_err(|_| self.not_found())?;
                let bearer = format!("Bearer {}", credential.bearer);
                let mut value = HeaderValue::try_from(bearer).map_err(|_| cannot_sign())?;
                value.set_sensitive(true);
                request.headers_mut().insert(header::AUTHORIZATION, value);
                Ok(())
            }
            Keys::Azure(provider) => {
                let found = provider.get_credential().await;
                let credential = found.map_err(|_| self.not_found())?;
                let account = self.account.as_deref().unwrap_or_default();
                let signer = AzureAuthorizer::new(&credential, account);
                signer.try_authorize(request).map_err(|_| cannot_sign())
            }
        }
    }

    fn not_found(&self) -> Error {
        let doing = format!(
            "no credentials found: looked at {}; -o anonymous reads public buckets",
            self.looked_at
        );
        Error::io(doing, std::io::Error::from_raw_os_error(libc::EACCES))
    }
}

/// The cause may quote a key.
fn cannot_sign() -> Error {
    let cause = std::io::Error::from_raw_os_error(libc::EACCES);
    Error::io("credentials that cannot be used to sign requests", cause)
}

fn retry() -> RetryConfig {
    RetryConfig {
        max_retries: 1,
        retry_timeout: PROBE,
        ..RetryConfig::default()
    }
}

fn client() -> ClientOptions {
    ClientOptions::new()
        .with_connect_timeout(PROBE)
        .with_timeout(10 * PROBE)
}

fn unusable(what: &str) -> Error {
    Error::Invalid(format!(
        "{what} cannot be used: see its variables in the environment"
    ))
}

fn of_aws(settings: &RemoteSettings) -> Result<Credentials> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name("bucket")
        .with_retry(retry())
        .with_client_options(client());
    let from_environment = |key| builder.get_config_value(&key);
    let has_keys = from_environment(AmazonS3ConfigKey::AccessKeyId).is_some();
    let endpoint = from_environment(AmazonS3ConfigKey::S3Endpoint)
        .or_else(|| from_environment(AmazonS3ConfigKey::Endpoint));
    let region = from_environment(AmazonS3ConfigKey::Region)
        .or_else(|| from_environment(AmazonS3ConfigKey::DefaultRegion));
    let profile = Profile::find(settings.profile.as_deref())?;
    let region = settings.region.clone().or(region);
    let region = region.or_else(|| profile.region.clone());
    let region = region.unwrap_or_else(|| REGION.into());
    let uses_profile = settings.profile.is_some() || !has_keys;
    let keys = match (settings.anonymous, profile.keys()) {
        (true, _) => Keys::None,
        (false, Some((key_id, secret_key, token))) if uses_profile => {
            let (key_id, secret_key) = (key_id.to_owned(), secret_key.to_owned());
            let token = token.map(str::to_owned);
            Keys::Aws(Arc::new(StaticCredentialProvider::new(AwsCredential {
                key_id,
                secret_key,
                token,
            })))
        }
        _ => {
            if uses_profile {
                profile.check_usable()?;
            }
            builder = builder.with_region(&region);
            let built = builder.build().map_err(|_| unusable("S3's credentials"))?;
            Keys::Aws(Arc::clone(built.credentials()))
        }
    };
    Ok(Credentials {
        keys,
        region,
        endpoint: endpoint.or_else(|| profile.endpoint.clone()),
        account: None,
        looked_at: format!(
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, {}, web identity, the container's and the instance's service",
            profile.place()
        ),
    })
}

fn of_google(url: &SourceUrl, settings: &RemoteSettings) -> Result<Credentials> {
    let looked_at = "GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT, \
                     ~/.config/gcloud/application_default_credentials.json and the instance's service";
    let mut found = Credentials {
        looked_at: looked_at.into(),
        ..Credentials::none()
    };
    if settings.anonymous {
        return Ok(found);
    }
    let builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(&url.bucket)
        .with_retry(retry())
        .with_client_options(client());
    let built = builder.build();
    let built = built.map_err(|_| unusable("Google's credentials"))?;
    found.keys = Keys::Google(Arc::clone(built.credentials()));
    Ok(found)
}

fn of_azure(url: &SourceUrl, settings: &RemoteSettings) -> Result<Credentials> {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(&url.bucket)
        .with_retry(retry())
        .with_client_options(client());
    let from_environment = builder.get_config_value(&AzureConfigKey::AccountName);
    let account = url.account.clone().or_else(|| settings.account.clone());
    let account = account.or(from_environment);
    let mut found = Credentials {
        account: account.clone(),
        endpoint: builder.get_config_value(&AzureConfigKey::Endpoint),
        looked_at: "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID with its secret or token \
                    file, and the instance's service"
            .into(),
        ..Credentials::none()
    };
    if settings.anonymous {
        return Ok(found);
    }
    if let Some(account) = account {
        builder = builder.with_account(account);
    }
    let built = builder.build();
    let built = built.map_err(|_| unusable("Azure's credentials"))?;
    found.keys = Keys::Azure(Arc::clone(built.credentials()));
    Ok(found)
}
