//! Reading the work order: whether it is one, for this task, still valid, and for an apply signed by the gate.

use base64::Engine as _;
use plangate_gate::digest::Digest;
use plangate_gate::failure::FailureReason;
use plangate_gate::keys::{order_key, signatures_key};
use plangate_gate::order::{ORDER_LIMIT, Phase, SignatureAlgorithm, Signatures, WorkOrder};
use plangate_gate::time::Timestamp;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};

use crate::cloud::{Cloud, Place};
use crate::config::{Config, KeyState, OrderKey};
use crate::environment::Invocation;
use crate::error::{Result, RunnerError};

/// An order as it was found: parsed, and not yet believed.
#[derive(Debug, Clone)]
pub(crate) struct FoundOrder {
    /// What it says.
    pub(crate) order: WorkOrder,
    /// Its exact bytes.
    bytes: Vec<u8>,
    /// The digest of these.
    pub(crate) digest: Digest,
}

/// Fetches the order of this task.
///
/// # Errors
/// [`RunnerError::Unusable`]: without an order there is nothing that a receipt could be about.
pub(crate) fn find(cloud: &dyn Cloud, config: &Config, invocation: &Invocation) -> Result<FoundOrder> {
    let key = order_key(&invocation.workspace, &invocation.run, invocation.phase);
    let place = Place { bucket: &config.exchange_bucket, key: &key };
    let found = cloud.fetch(place, ORDER_LIMIT as u64).map_err(RunnerError::unusable)?;
    let bytes = found.ok_or_else(|| RunnerError::unusable(format!("there is no work order `{place}`")))?.bytes;
    let order = WorkOrder::parse_untrusted(&bytes).map_err(RunnerError::unusable)?;
    Ok(FoundOrder { digest: Digest::of(&bytes), order, bytes })
}

/// Checks that the order is meant for this task at `now`. For an apply that begins with the gate's signature.
///
/// # Errors
/// `order-invalid`; `order-key-retired`; `plan-expired` for an apply that comes too late (`R13`).
pub(crate) fn check(
    found: &FoundOrder,
    cloud: &dyn Cloud,
    config: &Config,
    invocation: &Invocation,
    now: Timestamp,
) -> Result<()> {
    let order = &found.order;
    let invalid = |detail: &str| Err(RunnerError::failed(FailureReason::OrderInvalid, detail));
    if invocation.phase == Phase::Apply {
        let key = signatures_key(&invocation.workspace, &invocation.run);
        let place = Place { bucket: &config.exchange_bucket, key: &key };
        // The role may not look what is there: where nothing is, it is refused.
        let fetched =
            cloud.fetch(place, ORDER_LIMIT as u64).map_err(|error| error.because(FailureReason::OrderInvalid));
        let Some(signatures) = fetched? else {
            return invalid("the order has no signature");
        };
        check_signature(&found.bytes, &Signatures::parse_untrusted(&signatures.bytes)?, &config.order_keys)?;
    }
    if order.phase != invocation.phase {
        return invalid("the order is for the other phase");
    }
    if order.run != invocation.run || order.workspace != invocation.workspace {
        return invalid("the order is for another run or workspace");
    }
    if order.bundle.bucket != config.exchange_bucket {
        return invalid("the order names another bucket for the bundle than the gate's");
    }
    check_expiry(order, now)
}

/// Checks that the order has not expired at `now`.
///
/// # Errors
/// `order-invalid`; for an apply `plan-expired` (`R13`).
pub(crate) fn check_expiry(order: &WorkOrder, now: Timestamp) -> Result<()> {
    if now < order.expires_at {
        return Ok(());
    }
    let reason = match order.phase {
        Phase::Plan => FailureReason::OrderInvalid,
        Phase::Apply => FailureReason::PlanExpired,
    };
    Err(RunnerError::failed(reason, format!("it expired at {}, and it is {now}", order.expires_at)))
}

/// Checks that one of `signatures` is a good one over `bytes` by one of `keys` that is accepted. One by a retired key is told
/// apart from a stranger's: the order was the gate's, and came too late.
fn check_signature(bytes: &[u8], signatures: &Signatures, keys: &[OrderKey]) -> Result<()> {
    let mut retired = None;
    for signature in &signatures.signatures {
        let SignatureAlgorithm::EcdsaSha256 = signature.algorithm;
        let Some(key) = keys.iter().find(|key| key.key_id == signature.key_id) else { continue };
        let point = public_point(&key.public_key_pem)?;
        let Ok(der) = base64::engine::general_purpose::STANDARD.decode(&signature.signature) else { continue };
        if UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(bytes, &der).is_ok() {
            match key.state {
                KeyState::Accepted => return Ok(()),
                KeyState::Retired => retired = Some(key),
            }
        }
    }
    if let Some(key) = retired {
        let detail = format!("the order was signed by `{}`, which has been retired", key.key_id);
        return Err(RunnerError::failed(FailureReason::OrderKeyRetired, detail));
    }
    Err(RunnerError::failed(FailureReason::OrderInvalid, "no known key has signed the order"))
}

/// What precedes the point in the SubjectPublicKeyInfo of a P-256 key: two object identifiers and a bit string's head.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The uncompressed point of a P-256 key in PEM.
fn public_point(pem: &str) -> Result<Vec<u8>> {
    let malformed = || RunnerError::gate("an order key of the runner's configuration is no P-256 public key in PEM");
    let body: String = pem
        .trim()
        .strip_prefix("-----BEGIN PUBLIC KEY-----")
        .and_then(|rest| rest.strip_suffix("-----END PUBLIC KEY-----"))
        .ok_or_else(malformed)?
        .split_whitespace()
        .collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).map_err(|_| malformed())?;
    let point = der.strip_prefix(&P256_PREFIX).ok_or_else(malformed)?;
    if point.len() == 65 && point.first() == Some(&4) { Ok(point.to_vec()) } else { Err(malformed()) }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
