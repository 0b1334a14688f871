//! Runs as the gate would record them.

use plangate_gate::audit::{Chain, GuardrailWord, SealedEvent, What};
use plangate_gate::digest::Digest;
use plangate_gate::ids::{RunId, WorkspaceId};
use plangate_gate::lifecycle::Status;
use plangate_gate::run::{Actor, Kind, Origin, Run};
use plangate_gate::time::Timestamp;
use plangate_wire::{AuditAnswer, EventView, ProjectionAnswer, RunAnswer};
use serde_json::json;

/// A projection that creates one resource and hides one value.
pub(crate) const PROJECTION: &str = concat!(
    r#"{"counts":{"create":1,"delete":0,"replace":0,"update":0},"format":1,"outputs":[],"resources":[{"actions":["create"],"#,
    r#""address":"terraform_data.greeting","attributes":{"id":{"after":{"unknown":true}},"#,
    r#""input":{"after":{"sensitive":true}}},"type":"terraform_data"}]}"#
);

pub(crate) fn now() -> Timestamp {
    "2026-11-30T05:00:00Z".parse().unwrap()
}

pub(crate) fn run_id() -> RunId {
    RunId::new(now(), [7; 10])
}

pub(crate) fn workspace_id() -> WorkspaceId {
    WorkspaceId::new([3; 10])
}

/// A run that has come as far as `status`.
pub(crate) fn run(status: Status) -> Run {
    let (id, workspace) = (run_id(), workspace_id());
    let object = |key: &str, bytes: &[u8]| json!({"bucket": "exchange", "key": key, "digest": Digest::of(bytes), "bytes": bytes.len()});
    let early = matches!(status, Status::Proposed | Status::Queued | Status::Planning);
    let mut record = json!({
        "schema": "plangate.run.v1", "id": id, "workspace": workspace,
        "kind": if status == Status::Planned { "plan-only" } else { "applicable" }, "status": status,
        "proposer": {"person": "ana", "arn": "arn:aws:sts::123456789012:assumed-role/developers/ana"},
        "origin": "person", "proposed_at": now(), "updated_at": now().plus_seconds(5),
        "bundle": object("bundles/b", b"bundle"), "fence": 1
    });
    let fields = record.as_object_mut().unwrap();
    if !early {
        fields.insert("plan".into(), json!({
            "receipt": Digest::of(b"receipt"), "caller": format!("arn:aws:sts::123456789012:assumed-role/{workspace}-plan/x"),
            "engine": {"name": "opentofu", "version": "1.11.6"}, "lock_file": "none", "exit_code": 2,
            "artifact": {"bucket": "sealed", "key": "artifacts/a", "version_id": "v-a", "digest": Digest::of(b"artifact"), "bytes": 8},
            "document": object("documents/d", b"document"),
            "plan_format": "1.2",
            "state": {"state": "present", "lineage": "l-1", "serial": 4, "version_id": "v-4", "digest": Digest::of(b"state 4")},
            "state_lock": {"locking": false}, "isolation": "same-user",
            "received_at": now(), "expires_at": "2026-11-30T06:00:00Z"
        }));
        fields.insert(
            "projection".into(),
            json!({
                "object": object("projections/p", PROJECTION.as_bytes()),
                "counts": {"create": 1, "update": 0, "delete": 0, "replace": 0}
            }),
        );
        fields.insert(
            "guardrails".into(),
            json!({
                "rule_set": {"id": "plangate.guardrails", "version": "1", "digest": Digest::of(b"rules")},
                "policy": Digest::of(b"policy"), "eligible": false, "findings_total": 1,
                "findings": [{"reason": "access-widened", "address": "terraform_data.greeting", "path": "input"}]
            }),
        );
    }
    if matches!(status, Status::Approved | Status::Applying | Status::Applied | Status::Rejected) {
        let choice = if status == Status::Rejected { "reject" } else { "approve" };
        fields.insert("decision".into(), json!({
            "choice": choice, "surface": "api", "projection": Digest::of(PROJECTION.as_bytes()), "at": "2026-11-30T05:10:00Z",
            "by": {"kind": "person", "person": "ben", "arn": "arn:aws:sts::123456789012:assumed-role/approvers/ben"},
            "reason": "seen"
        }));
    }
    if status == Status::Applied {
        fields.insert("apply".into(), json!({
            "order": Digest::of(b"order"), "ordered_at": "2026-11-30T05:10:05Z", "exit_code": 0,
            "caller": format!("arn:aws:sts::123456789012:assumed-role/{workspace}-apply/x"),
            "state_before": {"state": "present", "lineage": "l-1", "serial": 4, "version_id": "v-4", "digest": Digest::of(b"state 4")},
            "state_after": {"state": "present", "lineage": "l-1", "serial": 5, "version_id": "v-5", "digest": Digest::of(b"state 5")}
        }));
    }
    if status == Status::Failed {
        fields.insert(
            "failure".into(),
            json!({"reason": "state-identity-mismatch", "detail": "serial 5 where 4 was planned"}),
        );
    }
    if status.is_terminal() {
        fields.insert("ended_at".into(), json!("2026-11-30T05:11:00Z"));
    }
    serde_json::from_value(record).unwrap()
}

pub(crate) fn answer(status: Status) -> RunAnswer {
    RunAnswer { run: run(status).into() }
}

pub(crate) fn projection() -> ProjectionAnswer {
    ProjectionAnswer {
        digest: Digest::of(PROJECTION.as_bytes()),
        bytes: PROJECTION.len() as u64,
        projection: Some(serde_json::from_str(PROJECTION).unwrap()),
        url: None,
    }
}

/// The events of a run that was proposed, admitted and ended as `status`.
pub(crate) fn events(status: Status) -> Vec<SealedEvent> {
    let run = run(status);
    let (at, chain) = (now(), Chain::Run(run.id.clone()));
    let person = Actor::Person { person: run.proposer.person.clone(), arn: run.proposer.arn.clone() };
    let proposed = What::RunProposed {
        kind: Kind::Applicable,
        bundle: run.bundle.digest,
        proposer: run.proposer,
        origin: Origin::Person,
    };
    let ended = What::RunEnded { status, failure: run.failure, guardrails: GuardrailWord::Ineligible, note: None };
    let story =
        [(person, proposed), (Actor::gate("admit"), What::RunAdmitted { fence: 1 }), (Actor::gate("conclude"), ended)];
    let mut events: Vec<SealedEvent> = Vec::new();
    for (actor, what) in story {
        let head = events.last().map(SealedEvent::head);
        events.push(SealedEvent::next(chain.clone(), head.as_ref(), at, actor, what).unwrap());
    }
    events
}

pub(crate) fn page(events: &[SealedEvent], cursor: Option<&str>) -> AuditAnswer {
    let view =
        |event: &SealedEvent| EventView { event: serde_json::from_str(&event.bytes).unwrap(), digest: event.digest };
    AuditAnswer { events: events.iter().map(view).collect(), cursor: cursor.map(str::to_owned) }
}
