use plangate_gate::untrusted::UntrustedError;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::*;

struct Signer {
    pair: EcdsaKeyPair,
    key: OrderKey,
}

fn signer(key_id: &str) -> Signer {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8.as_ref(), &random).unwrap();
    let der = [&P256_PREFIX[..], pair.public_key().as_ref()].concat();
    let body = base64::engine::general_purpose::STANDARD.encode(der);
    let (first, rest) = body.split_at(64);
    let public_key_pem = format!("-----BEGIN PUBLIC KEY-----\n{first}\n{rest}\n-----END PUBLIC KEY-----\n");
    Signer { pair, key: OrderKey { key_id: key_id.to_owned(), public_key_pem, state: KeyState::Accepted } }
}

impl Signer {
    fn sign_as(&self, key_id: &str, bytes: &[u8]) -> plangate_gate::order::Signature {
        let signature = self.pair.sign(&SystemRandom::new(), bytes).unwrap();
        plangate_gate::order::Signature {
            key_id: key_id.to_owned(),
            algorithm: SignatureAlgorithm::EcdsaSha256,
            signature: base64::engine::general_purpose::STANDARD.encode(signature),
        }
    }

    fn sign(&self, bytes: &[u8]) -> plangate_gate::order::Signature {
        self.sign_as(&self.key.key_id, bytes)
    }
}

#[test]
fn one_good_signature_by_a_known_key_over_the_exact_bytes_is_needed() {
    let (ours, older, stranger) = (signer("ours"), signer("older"), signer("stranger"));
    let keys = [ours.key.clone(), older.key.clone()];
    let order = b"{\"run\":1}";
    let mut garbled = ours.sign(order);
    garbled.signature = "not base64!".to_owned();
    let check =
        |signatures: Vec<plangate_gate::order::Signature>| check_signature(order, &Signatures { signatures }, &keys);
    check(vec![ours.sign(order)]).unwrap();
    check(vec![older.sign(order)]).unwrap();
    check(vec![stranger.sign(order), garbled.clone(), ours.sign(order)]).unwrap();
    for (story, signatures) in [
        ("none", vec![]),
        ("an unknown key's", vec![stranger.sign(order)]),
        ("an unknown key's under a known name", vec![stranger.sign_as("ours", order)]),
        ("one over other bytes", vec![ours.sign(b"{\"run\":1} ")]),
        ("one that is no base64", vec![garbled]),
        ("one key's under the other's name", vec![older.sign_as("ours", order)]),
    ] {
        let error = check(signatures).unwrap_err();
        assert!(
            matches!(error, RunnerError::Failed { reason: FailureReason::OrderInvalid, .. }),
            "a signature: {story}: {error}"
        );
    }
}

#[test]
fn a_retired_key_is_recognised_and_its_signature_is_no_longer_good() {
    let (active, old, stranger) = (signer("active"), signer("old"), signer("stranger"));
    let order = b"{\"run\":1}";
    let accepting = [active.key.clone(), old.key.clone()];
    let retired = [active.key.clone(), OrderKey { state: KeyState::Retired, ..old.key.clone() }];
    let check = |keys: &[OrderKey], signatures| check_signature(order, &Signatures { signatures }, keys);
    let reason = |outcome| match outcome {
        Err(RunnerError::Failed { reason, .. }) => Some(reason),
        Ok(()) => None,
        Err(other) => panic!("{other}"),
    };
    check(&accepting, vec![old.sign(order)]).unwrap();
    assert_eq!(reason(check(&retired, vec![old.sign(order)])), Some(FailureReason::OrderKeyRetired));
    check(&retired, vec![old.sign(order), active.sign(order)]).unwrap();
    check(&retired, vec![active.sign(order), old.sign(order)]).unwrap();
    for forged in [stranger.sign_as("old", order), old.sign(b"another order"), old.sign_as("active", order)] {
        assert_eq!(reason(check(&retired, vec![forged])), Some(FailureReason::OrderInvalid), "it never was the gate's");
    }
}

#[test]
fn a_key_that_is_no_p256_key_is_a_failure_of_the_gate() {
    let good = signer("ours");
    let order = b"order";
    for pem in ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----\n!"] {
        let key = OrderKey { key_id: "ours".to_owned(), public_key_pem: pem.to_owned(), state: KeyState::Accepted };
        let signatures = Signatures { signatures: vec![good.sign(order)] };
        let error = check_signature(order, &signatures, &[key]).unwrap_err();
        assert!(matches!(error, RunnerError::Failed { reason: FailureReason::GateError, .. }));
    }
}

#[test]
fn a_list_of_signatures_is_read_strictly() {
    assert!(matches!(Signatures::parse_untrusted(b"{\"signatures\":[]}"), Err(UntrustedError::Malformed { .. })));
    let error = RunnerError::from(Signatures::parse_untrusted(b"[]").unwrap_err());
    assert!(matches!(error, RunnerError::Failed { reason: FailureReason::OrderInvalid, .. }));
}
