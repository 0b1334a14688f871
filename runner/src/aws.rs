//! The services of AWS, under the role of the task. Nothing is read from a configuration file of the AWS SDK.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use aws_config::ecs::EcsCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::config::{SharedAsyncSleep, SharedHttpClient};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ServerSideEncryption;
use aws_smithy_http_client::tls;
use base64::Engine as _;
use plangate_gate::digest::Digest;
use tokio::runtime::{Builder, Handle};

use crate::cloud::{Cloud, Fetched, Place, Protection, Put, Secret, Session};
use crate::config::Config;
use crate::environment::Invocation;
use crate::error::{Result, RunnerError};
use crate::estate::SESSION;

/// Requests of one call, the first included.
const ATTEMPTS: u32 = 5;

/// How long to wait before something is written again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// How long a request of most calls may take, transfer included.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(300);

/// The same for a claim, which is small, and for which everything waits.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(20);

/// The name under which a claim carries which task wrote it.
const WRITER: &str = "plangate-writer";

/// The most parameters that one request may name.
const PARAMETERS_AT_ONCE: usize = 10;

/// The clients.
#[derive(Debug)]
pub struct Aws {
    runtime: Handle,
    s3: aws_sdk_s3::Client,
    ssm: aws_sdk_ssm::Client,
    sts: aws_sdk_sts::Client,
    writer: String,
}

impl Aws {
    /// Clients for the region and address of `config`, with the credentials that the task was given. `writer` is a name
    /// that no other task has or can guess.
    ///
    /// # Errors
    /// [`RunnerError::Unusable`] if the platform gives no runtime.
    pub fn new(config: &Config, invocation: &Invocation, writer: String) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| RunnerError::unusable(format!("no runtime: {}", error.kind())))?;
        let handle = runtime.handle().clone();
        // The phases are plain code that waits; this thread keeps connections and timers going meanwhile.
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        let _entered = handle.enter();
        let http = aws_smithy_http_client::Builder::new()
            .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
            .build_https();
        plangate_faults::invocation(&invocation.run);
        let clients = plangate_faults::wrap(http.clone(), &format!("runner-{}", invocation.phase.as_str()));
        let mut builder = SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(config.region.clone()))
            .credentials_provider(credentials(invocation, &http))
            .http_client(clients)
            .sleep_impl(SharedAsyncSleep::new(Sleep))
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(Duration::from_secs(5))
                    .operation_attempt_timeout(ATTEMPT_TIMEOUT)
                    .build(),
            );
        if let Some(endpoint) = &config.endpoint_url {
            builder = builder.endpoint_url(endpoint);
        }
        let shared = builder.build();
        // An address of one's own has no names for buckets under it.
        let s3 = aws_sdk_s3::config::Builder::from(&shared).force_path_style(config.endpoint_url.is_some()).build();
        Ok(Self {
            runtime: handle,
            s3: aws_sdk_s3::Client::from_conf(s3),
            ssm: aws_sdk_ssm::Client::new(&shared),
            sts: aws_sdk_sts::Client::new(&shared),
            writer,
        })
    }

    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Writes an object on condition that none exists, and again while the outcome is unknown: the SDK would do so too,
    /// and not tell whether what it then finds may be its own.
    fn put(
        &self,
        place: Place<'_>,
        bytes: &[u8],
        protection: Protection<'_>,
        writer: Option<&str>,
        timeout: Duration,
    ) -> Result<Put> {
        let checksum = base64::engine::general_purpose::STANDARD.encode(Digest::of(bytes).raw());
        let once = aws_sdk_s3::config::Builder::new()
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().operation_attempt_timeout(timeout).build());
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let mut request = self
                .s3
                .put_object()
                .bucket(place.bucket)
                .key(place.key)
                .if_none_match("*")
                .checksum_sha256(&checksum)
                .body(ByteStream::from(bytes.to_vec()));
            if let Protection::Key(arn) = protection {
                request = request.server_side_encryption(ServerSideEncryption::AwsKms).ssekms_key_id(arn);
            }
            if let Some(writer) = writer {
                request = request.metadata(WRITER, writer);
            }
            match self.wait(request.customize().config_override(once.clone()).send()) {
                Ok(done) => return Ok(Put::Written { version_id: done.version_id }),
                Err(error) if status(&error) == Some(412) => {
                    return Ok(if attempt == 1 { Put::Exists } else { Put::Perhaps });
                }
                Err(error) if attempt < ATTEMPTS && may_have_been_done(&error) => {
                    std::thread::sleep(pause);
                    pause *= 2;
                    attempt += 1;
                }
                Err(error) => return Err(failed("PutObject", &place, &error)),
            }
        }
    }

    /// Whether this very task wrote what stands at `place`.
    fn is_own(&self, place: Place<'_>) -> Result<bool> {
        let found = self
            .wait(self.s3.head_object().bucket(place.bucket).key(place.key).send())
            .map_err(|error| failed("HeadObject", &place, &error))?;
        Ok(found.metadata.is_some_and(|all| all.get(WRITER) == Some(&self.writer)))
    }

    async fn get(&self, place: Place<'_>, limit: u64) -> Result<Option<Fetched>> {
        let too_large = || RunnerError::TooLarge { place: place.to_string(), limit };
        let mut found = match self.s3.get_object().bucket(place.bucket).key(place.key).send().await {
            Ok(found) => found,
            Err(error) if error.as_service_error().is_some_and(|error| error.is_no_such_key()) => return Ok(None),
            Err(error) => return Err(failed("GetObject", &place, &error)),
        };
        let announced = found.content_length.and_then(|length| u64::try_from(length).ok()).unwrap_or(0);
        if announced > limit {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
        while let Some(chunk) = found.body.next().await {
            let chunk = chunk.map_err(|_| RunnerError::gate(format!("GetObject of `{place}` broke off")))?;
            if bytes.len() as u64 + chunk.len() as u64 > limit {
                return Err(too_large());
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(Fetched { bytes, version_id: found.version_id }))
    }
}

/// The runtime's sleep, for retries and timeouts.
#[derive(Debug)]
struct Sleep;

impl aws_sdk_s3::config::AsyncSleep for Sleep {
    fn sleep(&self, duration: Duration) -> aws_sdk_s3::config::Sleep {
        aws_sdk_s3::config::Sleep::new(tokio::time::sleep(duration))
    }
}

/// The credentials of the task's role (`R19`): the session in the variables, else the container's endpoint.
fn credentials(invocation: &Invocation, http: &SharedHttpClient) -> SharedCredentialsProvider {
    let variable = |name: &str| invocation.credentials().get(name).cloned();
    match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"), variable("AWS_SESSION_TOKEN")) {
        (Some(id), Some(secret), Some(token)) => {
            SharedCredentialsProvider::new(Credentials::new(id, secret, Some(token), None, "task session"))
        }
        _ => {
            let settings = ProviderConfig::without_region().with_http_client(http.clone()).with_sleep_impl(Sleep);
            SharedCredentialsProvider::new(EcsCredentialsProvider::builder().configure(&settings).build())
        }
    }
}

fn status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

/// Whether a failed request may have been carried out, or be carried out if it is sent again: no answer came, or the
/// service says that it had trouble.
fn may_have_been_done<E: ProvideErrorMetadata>(error: &SdkError<E>) -> bool {
    match error {
        SdkError::ConstructionFailure(_) => false,
        SdkError::ServiceError(told) => {
            let status = told.raw().status().as_u16();
            status >= 500 || matches!(status, 408 | 409 | 429) || told.err().code() == Some("RequestTimeout")
        }
        _ => true,
    }
}

/// A failed call by its name, its object, and the service's own code: never a message, which may repeat input.
fn failed<E: ProvideErrorMetadata>(call: &str, of: &dyn std::fmt::Display, error: &SdkError<E>) -> RunnerError {
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or(match error {
        SdkError::TimeoutError(_) => "timeout",
        SdkError::DispatchFailure(_) => "no connection or no credentials",
        _ => "no usable answer",
    });
    let status = status(error).map(|status| format!(" ({status})")).unwrap_or_default();
    RunnerError::gate(format!("{call} of `{of}`: {code}{status}"))
}

impl Cloud for Aws {
    fn caller(&self) -> Result<String> {
        let identity = self
            .wait(self.sts.get_caller_identity().send())
            .map_err(|error| failed("GetCallerIdentity", &"this task", &error))?;
        identity.arn.ok_or_else(|| RunnerError::gate("GetCallerIdentity tells no ARN"))
    }

    fn assume(&self, role: &str, external_id: &str, run: &str) -> Result<Session> {
        let seconds = i32::try_from(SESSION.as_secs()).unwrap_or(i32::MAX);
        let request = self.sts.assume_role().role_arn(role).external_id(external_id).duration_seconds(seconds);
        let request = request.role_session_name(run).source_identity(run);
        let answer = self.wait(request.send()).map_err(|error| failed("AssumeRole", &role, &error))?;
        if answer.source_identity.as_deref() != Some(run) {
            return Err(RunnerError::gate(format!(
                "AssumeRole of `{role}` gives a session that does not name the run"
            )));
        }
        let (Some(keys), Some(user)) = (answer.credentials, answer.assumed_role_user) else {
            return Err(RunnerError::gate(format!("AssumeRole of `{role}` gives no session")));
        };
        Ok(Session {
            caller: user.arn,
            access_key_id: keys.access_key_id,
            secret_access_key: Secret::new(keys.secret_access_key),
            session_token: Secret::new(keys.session_token),
        })
    }

    fn parameters(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let mut values = BTreeMap::new();
        for some in names.chunks(PARAMETERS_AT_ONCE) {
            let request = self.ssm.get_parameters().set_names(Some(some.to_vec())).with_decryption(true);
            let answer =
                self.wait(request.send()).map_err(|error| failed("GetParameters", &some.join(", "), &error))?;
            for parameter in answer.parameters.unwrap_or_default() {
                if let (Some(name), Some(value)) = (parameter.name, parameter.value) {
                    values.insert(name, Secret::new(value));
                }
            }
        }
        Ok(values)
    }

    fn fetch(&self, place: Place<'_>, limit: u64) -> Result<Option<Fetched>> {
        self.wait(self.get(place, limit))
    }

    fn put_new(&self, place: Place<'_>, bytes: &[u8], protection: Protection<'_>) -> Result<Put> {
        self.put(place, bytes, protection, None, ATTEMPT_TIMEOUT)
    }

    fn claim(&self, place: Place<'_>, bytes: &[u8]) -> Result<Put> {
        match self.put(place, bytes, Protection::Bucket, Some(&self.writer), CLAIM_TIMEOUT) {
            Ok(Put::Perhaps) => Ok(if self.is_own(place)? { Put::Written { version_id: None } } else { Put::Exists }),
            // The network may have delivered it twice, and refused the second. Who cannot tell has not got it.
            Ok(Put::Exists) if matches!(self.is_own(place), Ok(true)) => Ok(Put::Written { version_id: None }),
            Ok(told) => Ok(told),
            // The last answer may have been lost as well.
            Err(error) => match self.is_own(place) {
                Ok(true) => Ok(Put::Written { version_id: None }),
                _ => Err(error),
            },
        }
    }
}
