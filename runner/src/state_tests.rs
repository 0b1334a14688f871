use std::collections::BTreeMap;
use std::io::Write;

use super::*;
use crate::cloud::{Fetched, Protection, Put, Secret, Session};

/// A bucket of objects with versions, and nothing else.
#[derive(Default)]
struct Bucket(BTreeMap<String, (Vec<u8>, Option<String>)>);

impl Bucket {
    fn with(key: &str, bytes: &str, version: Option<&str>) -> Self {
        Self([(key.to_owned(), (bytes.as_bytes().to_vec(), version.map(str::to_owned)))].into())
    }
}

impl Cloud for Bucket {
    fn caller(&self) -> Result<String> {
        Err(RunnerError::gate("not here"))
    }

    fn assume(&self, _: &str, _: &str, _: &str) -> Result<Session> {
        Err(RunnerError::gate("not here"))
    }

    fn parameters(&self, _: &[String]) -> Result<BTreeMap<String, Secret>> {
        Err(RunnerError::gate("not here"))
    }

    fn fetch(&self, place: Place<'_>, limit: u64) -> Result<Option<Fetched>> {
        let Some((bytes, version_id)) = self.0.get(place.key).cloned() else { return Ok(None) };
        if bytes.len() as u64 > limit {
            return Err(RunnerError::gate("too large"));
        }
        Ok(Some(Fetched { bytes, version_id }))
    }

    fn put_new(&self, _: Place<'_>, _: &[u8], _: Protection<'_>) -> Result<Put> {
        Err(RunnerError::gate("not here"))
    }

    fn claim(&self, _: Place<'_>, _: &[u8]) -> Result<Put> {
        Err(RunnerError::gate("not here"))
    }
}

fn reference() -> Reference {
    Reference { bucket: "b".to_owned(), key: "state/terraform.tfstate".to_owned(), region: "eu-central-1".to_owned() }
}

const STATE: &str = r#"{"version":4,"terraform_version":"1.11.4","serial":7,"lineage":"l-1","outputs":{"x":{"value":"serial"}},"resources":[]}"#;

#[test]
fn a_states_identity_is_lineage_serial_version_and_bytes() {
    let at = reference();
    let of = |bucket: &Bucket| identity(bucket, &at, 1000);
    let first = of(&Bucket::with(&at.key, STATE, Some("v1"))).unwrap();
    assert_eq!(
        first,
        StateIdentity::Present {
            lineage: "l-1".to_owned(),
            serial: 7,
            version_id: "v1".to_owned(),
            digest: Digest::of(STATE.as_bytes())
        }
    );
    assert_eq!(of(&Bucket::default()).unwrap(), StateIdentity::None);
    // Written again with the same content, or restored and counted up to the same serial: another identity.
    assert_ne!(of(&Bucket::with(&at.key, STATE, Some("v2"))).unwrap(), first);
    assert_ne!(of(&Bucket::with(&at.key, &STATE.replace("\"x\"", "\"y\""), Some("v1"))).unwrap(), first);
}

#[test]
fn what_cannot_be_identified_is_not_taken_for_no_state() {
    let at = reference();
    for (bytes, version) in [("", Some("v1")), ("{}", Some("v1")), ("{\"serial\":1}", Some("v1")), (STATE, None)] {
        assert!(identity(&Bucket::with(&at.key, bytes, version), &at, 1000).is_err(), "`{bytes}`");
    }
    assert!(identity(&Bucket::with(&at.key, STATE, Some("v1")), &at, 10).is_err(), "too large");
}

fn plan_file(tfstate: Option<&str>) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.start_file("tfplan", options).unwrap();
    zip.write_all(b"protobuf").unwrap();
    if let Some(text) = tfstate {
        zip.start_file("tfstate", options).unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn a_plan_file_tells_the_state_it_was_made_against() {
    let at = reference();
    let present = identity(&Bucket::with(&at.key, STATE, Some("v1")), &at, 1000).unwrap();
    let reason = |file: &[u8], state: &StateIdentity| match check_artifact(file, state, 1000) {
        Ok(()) => None,
        Err(RunnerError::Failed { reason, .. }) => Some(reason),
        Err(other) => panic!("{other}"),
    };
    let first = r#"{"version":4,"serial":0,"lineage":""}"#;
    assert_eq!(reason(&plan_file(Some(STATE)), &present), None);
    assert_eq!(reason(&plan_file(Some(first)), &StateIdentity::None), None);
    for moved in [&STATE.replace(":7", ":8"), &STATE.replace("l-1", "l-2"), first] {
        assert_eq!(reason(&plan_file(Some(moved)), &present), Some(FailureReason::StateMovedDuringPlan));
    }
    assert_eq!(reason(&plan_file(Some(STATE)), &StateIdentity::None), Some(FailureReason::StateMovedDuringPlan));
    assert_eq!(reason(&plan_file(None), &present), Some(FailureReason::PlanErrored));
    assert_eq!(reason(b"{\"meta\":{}}", &present), Some(FailureReason::PlanErrored));
    let bomb = plan_file(Some(&format!("{STATE}{}", " ".repeat(5000))));
    assert_eq!(reason(&bomb, &present), Some(FailureReason::PlanErrored));
}

#[test]
fn a_standing_lock_is_told_by_its_id_whatever_else_it_holds() {
    let at = reference();
    let key = lock_key(&at);
    assert_eq!(standing_lock(&Bucket::default(), &at).unwrap(), None);
    let info = r#"{"ID":"4f0c","Operation":"OperationTypeApply","Info":"","Who":"a@b","Version":"1.11.4","Created":"2026-11-30T05:00:00Z","Path":"b/k"}"#;
    let lock = standing_lock(&Bucket::with(&key, info, Some("v1")), &at).unwrap().unwrap();
    assert_eq!((lock.id.as_str(), lock.operation.as_str()), ("4f0c", "OperationTypeApply"));
    let odd = standing_lock(&Bucket::with(&key, "no json", Some("v1")), &at).unwrap().unwrap();
    assert_eq!(odd.id, "");
}
