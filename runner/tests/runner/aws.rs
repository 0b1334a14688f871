//! The runner's own clients, over HTTP.

use std::sync::Arc;

use plangate_gate::digest::Digest;
use plangate_runner::aws::Aws;
use plangate_runner::cloud::{Cloud, Place, Protection, Put, store};
use plangate_runner::config::Config;
use plangate_runner::environment::Invocation;
use serde_json::json;

use crate::http::{LOST_ANSWER, serve};
use crate::memory::Memory;
use crate::stage::{DOCUMENT_KEY, EXCHANGE, RUN, Stage, WS};

fn aws() -> (Aws, Arc<Memory>) {
    let mut stage = Stage::planning();
    let memory = Arc::clone(&stage.memory);
    stage.settings["endpoint_url"] = json!(serve(&memory));
    let config = Config::parse(&serde_json::to_vec(&stage.settings).unwrap()).unwrap();
    let variables = [
        ("PLANGATE_WORKSPACE", WS),
        ("PLANGATE_RUN", RUN),
        ("PLANGATE_PHASE", "plan"),
        ("AWS_ACCESS_KEY_ID", "ASIAEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "session"),
        ("AWS_SESSION_TOKEN", "token"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let invocation = Invocation::from_variables(variables).unwrap();
    (Aws::new(&config, &invocation).unwrap(), memory)
}

fn at(key: &str) -> Place<'_> {
    Place { bucket: EXCHANGE, key }
}

#[test]
fn an_object_is_written_once_under_its_key_and_read_back_with_its_version() {
    let (aws, memory) = aws();
    let Put::Written { version_id } = aws.put_new(at("a b/ü.json"), b"one", Protection::Key(DOCUMENT_KEY)).unwrap()
    else {
        panic!("it was not written")
    };
    assert_eq!(aws.put_new(at("a b/ü.json"), b"two", Protection::Bucket).unwrap(), Put::Exists);
    assert_eq!(aws.claim(at("a b/ü.json"), b"two").unwrap(), Put::Exists);
    let found = aws.fetch(at("a b/ü.json"), 3).unwrap().unwrap();
    assert_eq!((found.bytes.as_slice(), found.version_id), (&b"one"[..], version_id));
    assert_eq!(memory.get(EXCHANGE, "a b/ü.json").unwrap().key_arn.as_deref(), Some(DOCUMENT_KEY));
    assert!(aws.fetch(at("a b/ü.json"), 2).is_err(), "more than was allowed");
    assert!(aws.fetch(at("none"), 3).unwrap().is_none());
}

#[test]
fn after_a_lost_answer_an_object_is_recognised_as_ones_own_and_a_claim_never_is() {
    let (aws, memory) = aws();
    let key = format!("receipts/{LOST_ANSWER}");
    assert_eq!(store(&aws, at(&key), b"receipt", Protection::Bucket).unwrap().digest, Digest::of(b"receipt"));
    let key = format!("receipts/other-{LOST_ANSWER}");
    memory.put(EXCHANGE, &key, b"somebody else's", None);
    assert!(store(&aws, at(&key), b"receipt", Protection::Bucket).is_err());
    let key = format!("claims/{LOST_ANSWER}");
    assert!(aws.claim(at(&key), b"claim").is_err(), "whether the claim is ours cannot be known");
    assert!(memory.get(EXCHANGE, &key).is_some());
}

#[test]
fn parameters_are_read_in_portions_and_the_missing_ones_are_left_out() {
    let (aws, memory) = aws();
    let names: Vec<String> = (0..23).map(|number| format!("/plangate/{WS}/p{number}")).collect();
    for name in &names[1..] {
        memory.parameters.lock().unwrap().insert(name.clone(), format!("value of {name}"));
    }
    let found = aws.parameters(&names).unwrap();
    assert_eq!(found.len(), 22);
    assert_eq!(found[&names[22]].expose(), format!("value of {}", names[22]));
    assert_eq!(aws.caller().unwrap(), format!("arn:aws:sts::123456789012:assumed-role/{WS}-plan/0123456789abcdef"));
}
