//! The runner's own clients, over HTTP.

use std::sync::Arc;

use plangate_gate::digest::Digest;
use plangate_runner::aws::Aws;
use plangate_runner::cloud::{Cloud, Place, Protection, Put, store, tell};
use plangate_runner::config::Config;
use plangate_runner::environment::Invocation;
use serde_json::json;

use crate::http::{LOST_ANSWER, NOT_TO_BE_READ, serve};
use crate::memory::Memory;
use crate::stage::{DOCUMENT_KEY, EXCHANGE, RUN, Stage, WS};

fn aws() -> (Aws, Arc<Memory>) {
    let (mut all, memory) = tasks(1);
    (all.remove(0), memory)
}

/// The clients of several tasks over the same services.
fn tasks(count: usize) -> (Vec<Aws>, Arc<Memory>) {
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
    let all = (0..count).map(|task| Aws::new(&config, &invocation, format!("task-{task}")).unwrap());
    (all.collect(), memory)
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
fn after_a_lost_answer_an_object_is_recognised_as_ones_own() {
    let (aws, memory) = aws();
    let (bytes, digest) = (b"receipt", Digest::of(b"receipt"));
    let key = format!("receipts/{LOST_ANSWER}");
    let stored = store(&aws, at(&key), bytes, Protection::Bucket).unwrap();
    assert_eq!((stored.digest, stored.version_id), (digest, Some(memory.get(EXCHANGE, &key).unwrap().id)));
    tell(&aws, at(&key), bytes).unwrap();
    let key = format!("receipts/other-{LOST_ANSWER}");
    memory.put(EXCHANGE, &key, b"somebody else's", None);
    assert!(store(&aws, at(&key), bytes, Protection::Bucket).is_err());
    let key = format!("receipts/told-{LOST_ANSWER}");
    memory.put(EXCHANGE, &key, b"other's", None);
    assert!(tell(&aws, at(&key), bytes).is_err());
}

#[test]
fn where_nobody_may_look_a_lost_answer_is_no_failure_of_what_is_told_with_its_digest() {
    let (aws, memory) = aws();
    let key = format!("documents/{LOST_ANSWER}-{NOT_TO_BE_READ}");
    let stored = store(&aws, at(&key), b"document", Protection::Key(DOCUMENT_KEY)).unwrap();
    assert_eq!((stored.digest, stored.version_id), (Digest::of(b"document"), None));
    assert_eq!(memory.get(EXCHANGE, &key).unwrap().bytes, b"document");
    // What stood there when it was first asked is somebody else's for certain.
    assert!(store(&aws, at(&key), b"document", Protection::Bucket).is_err());
    // And what is told to nobody must be seen.
    let error = tell(&aws, at(&format!("receipts/{LOST_ANSWER}-{NOT_TO_BE_READ}")), b"receipt").unwrap_err();
    assert!(error.to_string().contains("cannot be seen"), "{error}");
}

#[test]
fn after_a_lost_answer_a_claim_is_of_the_task_that_wrote_it_and_of_no_other() {
    let (all, memory) = tasks(2);
    let key = format!("claims/{LOST_ANSWER}");
    // Both tasks of a run write the very same bytes.
    assert_eq!(all[0].claim(at(&key), b"claim").unwrap(), Put::Written { version_id: None });
    assert_eq!(all[1].claim(at(&key), b"claim").unwrap(), Put::Exists);
    let key = format!("claims/other-{LOST_ANSWER}");
    memory.put_by(EXCHANGE, &key, b"claim", None, Some("task-1"));
    assert_eq!(all[0].claim(at(&key), b"claim").unwrap(), Put::Exists);
    let key = format!("claims/{LOST_ANSWER}-{NOT_TO_BE_READ}");
    assert!(all[0].claim(at(&key), b"claim").is_err(), "whether the claim is ours cannot be known");
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
