//! Who asks: credentials by the ordinary chain, and signatures of requests (SigV4).

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use aws_config::BehaviorVersion;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::tls;
use http::{Method, Uri};

use crate::error::CliError;

/// The service that an HTTP API's requests are signed for.
const SERVICE: &str = "execute-api";

/// Credentials that expire within this are fetched anew.
const MARGIN: Duration = Duration::from_secs(120);

/// Signs requests as the person whom the credential chain gives.
pub(crate) struct Signer {
    runtime: tokio::runtime::Runtime,
    provider: SharedCredentialsProvider,
    region: String,
    held: RefCell<Option<Credentials>>,
}

/// The ordinary chain of credentials and settings, and what runs it. `region` before that of the chain.
///
/// # Errors
/// The machine has no runtime to give.
pub(crate) fn aws(region: Option<&str>) -> Result<(tokio::runtime::Runtime, aws_config::SdkConfig), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::Machine(format!("cannot start the credential chain: {error}")))?;
    let client = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
        .build_https();
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(client);
    if let Some(region) = region {
        loader = loader.region(aws_config::Region::new(region.to_owned()));
    }
    let config = runtime.block_on(loader.load());
    Ok((runtime, config))
}

impl Signer {
    /// Sets up the chain: environment, profile, single sign-on, process, web identity, container, instance. `region`
    /// is that of the API, if its name tells; otherwise the chain's.
    ///
    /// # Errors
    /// No region anywhere, or no chain of credentials.
    pub(crate) fn from_chain(region: Option<&str>) -> Result<Self, CliError> {
        let (runtime, config) = aws(region)?;
        let region = config.region().ok_or(CliError::NoRegion)?.to_string();
        let provider =
            config.credentials_provider().ok_or_else(|| CliError::Credentials { detail: "no provider".into() })?;
        Ok(Self { runtime, provider, region, held: RefCell::new(None) })
    }

    /// The headers that sign this request at `now`.
    ///
    /// # Errors
    /// No credentials.
    pub(crate) fn headers(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &[(&str, &str)],
        body: &[u8],
        now: SystemTime,
    ) -> Result<Vec<(String, String)>, CliError> {
        let credentials = self.credentials(now)?;
        sign_as(credentials, &self.region, method, uri, headers, body, now)
    }

    fn credentials(&self, now: SystemTime) -> Result<Credentials, CliError> {
        let fresh = |held: &Credentials| held.expiry().is_none_or(|expiry| now + MARGIN < expiry);
        if let Some(held) = self.held.borrow().as_ref().filter(|held| fresh(held)) {
            return Ok(held.clone());
        }
        let credentials = self
            .runtime
            .block_on(self.provider.provide_credentials())
            .map_err(|error| CliError::Credentials { detail: told(&error) })?;
        self.held.replace(Some(credentials.clone()));
        Ok(credentials)
    }
}

/// The kind of failure alone: the text of a provider's error may be a helper program's own output.
fn told(error: &CredentialsError) -> String {
    match error {
        CredentialsError::CredentialsNotLoaded(_) => "nothing in the chain has any",
        CredentialsError::ProviderTimedOut(_) => "the chain took too long",
        CredentialsError::InvalidConfiguration(_) => "the AWS configuration file has an error",
        CredentialsError::ProviderError(_) => {
            "a part of the chain failed (an expired sign-on, a helper program, a role that may not be assumed)"
        }
        _ => "the chain failed",
    }
    .to_owned()
}

fn sign_as(
    credentials: Credentials,
    region: &str,
    method: &Method,
    uri: &Uri,
    headers: &[(&str, &str)],
    body: &[u8],
    now: SystemTime,
) -> Result<Vec<(String, String)>, CliError> {
    let signing = |error: &dyn std::fmt::Display| CliError::Signing(error.to_string());
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(now)
        // The defaults are those of every service but S3: path segments are encoded twice, dots are resolved.
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| signing(&error))?
        .into();
    let address = uri.to_string();
    let request = SignableRequest::new(method.as_str(), address, headers.iter().copied(), SignableBody::Bytes(body))
        .map_err(|error| signing(&error))?;
    let (instructions, _) = sign(request, &params).map_err(|error| signing(&error))?.into_parts();
    let (signed, _) = instructions.into_parts();
    Ok(signed.into_iter().map(|header| (header.name().to_owned(), header.value().to_owned())).collect())
}
