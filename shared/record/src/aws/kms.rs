//! Signing apply orders with the gate's asymmetric key in KMS.

use async_trait::async_trait;
use aws_sdk_kms::Client;
use aws_sdk_kms::primitives::Blob;
use aws_sdk_kms::types::{MessageType, SigningAlgorithmSpec};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plangate_gate::digest::Digest;
use plangate_gate::order::{Signature, SignatureAlgorithm};

use crate::authorize::Signer;
use crate::aws::kind;
use crate::workflow::WorkflowError;

/// The order key.
#[derive(Debug, Clone)]
pub struct KmsSigner {
    client: Client,
    key_arn: String,
}

impl KmsSigner {
    /// The key with this ARN.
    #[must_use]
    pub fn new(client: Client, key_arn: String) -> Self {
        Self { client, key_arn }
    }
}

#[async_trait]
impl Signer for KmsSigner {
    async fn sign(&self, digest: &Digest) -> Result<Signature, WorkflowError> {
        let request = self
            .client
            .sign()
            .key_id(&self.key_arn)
            .message_type(MessageType::Digest)
            .message(Blob::new(digest.raw().to_vec()))
            .signing_algorithm(SigningAlgorithmSpec::EcdsaSha256);
        let answer = request.send().await.map_err(|error| WorkflowError { call: "Sign", error: kind(&error) })?;
        let missing = || WorkflowError { call: "Sign", error: "an answer without a signature".to_owned() };
        let signature = answer.signature().ok_or_else(missing)?;
        Ok(Signature {
            key_id: self.key_arn.clone(),
            algorithm: SignatureAlgorithm::EcdsaSha256,
            signature: STANDARD.encode(signature.as_ref()),
        })
    }
}
