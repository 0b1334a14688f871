//! The exchange bucket in S3.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::Client;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ChecksumMode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plangate_gate::digest::Digest;

use crate::aws::kind;
use crate::objects::{Object, ObjectError, Objects, Presigned, Presigner, PutOutcome};

/// How long a presigned address is good for.
const PRESIGNED: Duration = Duration::from_secs(900);

/// The exchange bucket.
#[derive(Debug, Clone)]
pub struct S3Objects {
    client: Client,
    bucket: String,
}

impl S3Objects {
    /// The bucket with this name.
    #[must_use]
    pub fn new(client: Client, bucket: String) -> Self {
        Self { client, bucket }
    }

    /// The bucket's name.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }
}

#[async_trait]
impl Presigner for S3Objects {
    async fn put(&self, key: &str, digest: &Digest, bytes: u64) -> Result<Presigned, ObjectError> {
        let config = PresigningConfig::expires_in(PRESIGNED).map_err(|e| unavailable(key, e.to_string()))?;
        let request = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .content_length(i64::try_from(bytes).unwrap_or(i64::MAX))
            .checksum_sha256(STANDARD.encode(digest.raw()));
        Ok(presigned(&request.presigned(config).await.map_err(|error| unavailable(key, kind(&error)))?))
    }

    async fn get(&self, key: &str) -> Result<Presigned, ObjectError> {
        let config = PresigningConfig::expires_in(PRESIGNED).map_err(|e| unavailable(key, e.to_string()))?;
        let request = self.client.get_object().bucket(&self.bucket).key(key);
        Ok(presigned(&request.presigned(config).await.map_err(|error| unavailable(key, kind(&error)))?))
    }
}

fn presigned(request: &aws_sdk_s3::presigning::PresignedRequest) -> Presigned {
    let headers = request.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Presigned { url: request.uri().to_owned(), headers }
}

fn unavailable(key: &str, error: String) -> ObjectError {
    ObjectError::Unavailable { key: key.to_owned(), error }
}

#[async_trait]
impl Objects for S3Objects {
    async fn head(&self, key: &str) -> Result<Option<(u64, Option<Digest>)>, ObjectError> {
        let request = self.client.head_object().bucket(&self.bucket).key(key).checksum_mode(ChecksumMode::Enabled);
        match request.send().await {
            Ok(answer) => {
                let bytes = answer.content_length().and_then(|length| u64::try_from(length).ok()).unwrap_or_default();
                let digest = answer
                    .checksum_sha256()
                    .and_then(|text| STANDARD.decode(text).ok())
                    .and_then(|raw| raw.try_into().ok())
                    .map(Digest::from_raw);
                Ok(Some((bytes, digest)))
            }
            Err(error) if error.as_service_error().is_some_and(|service| service.is_not_found()) => Ok(None),
            Err(error) => Err(unavailable(key, kind(&error))),
        }
    }

    async fn get(&self, key: &str, version: Option<&str>, limit: u64) -> Result<Option<Object>, ObjectError> {
        let request = self.client.get_object().bucket(&self.bucket).key(key).set_version_id(version.map(str::to_owned));
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                let absent = error.as_service_error().is_some_and(|service| service.is_no_such_key());
                let code = kind(&error);
                let gone = absent || code == "NoSuchVersion" || code == "NoSuchKey";
                return if gone { Ok(None) } else { Err(unavailable(key, code)) };
            }
        };
        let mut body = answer.body;
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|_| unavailable(key, "the answer was cut off".to_owned()))?;
            if (bytes.len() + piece.len()) as u64 > limit {
                return Err(ObjectError::TooLarge { key: key.to_owned(), limit });
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Some(Object { bytes, version_id: answer.version_id }))
    }

    async fn put_new(&self, key: &str, bytes: Vec<u8>) -> Result<PutOutcome, ObjectError> {
        let digest = Digest::of(&bytes);
        let request = self
            .client
            .put_object()
            .bucket(&self.bucket)
            .key(key)
            .if_none_match("*")
            .checksum_sha256(STANDARD.encode(digest.raw()))
            .body(ByteStream::from(bytes));
        match request.send().await {
            Ok(answer) => Ok(PutOutcome::Written { version_id: answer.version_id }),
            // 412: it is there. 409: somebody is writing it at this moment; whoever asks again finds it there.
            Err(error) => match kind(&error).as_str() {
                "PreconditionFailed" => Ok(PutOutcome::Exists),
                code => Err(unavailable(key, code.to_owned())),
            },
        }
    }
}
