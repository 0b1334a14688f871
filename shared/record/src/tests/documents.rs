//! Documents: etags, remembered requests, uniqueness, audit.

use plangate_gate::audit::{Chain, What};
use plangate_gate::documents::DocumentKind;
use plangate_wire::{DocumentPut, Reason};
use serde_json::json;

use super::world::{ADMINISTRATOR, World, administrator, at};
use crate::access::{CallerIdentity, identify};
use crate::documents::{get, put};
use crate::error::Error;

fn request(etag: Option<String>, id: &str, spec: serde_json::Value) -> DocumentPut {
    let (namespace, owner) = ("default".to_owned(), "platform".to_owned());
    DocumentPut { etag, request_id: id.parse().unwrap(), validate_only: false, namespace, owner, spec }
}

async fn send(
    world: &World,
    kind: DocumentKind,
    id: &str,
    put_: &DocumentPut,
) -> Result<(plangate_wire::Document, bool), Reason> {
    match put(world, kind, id, put_, &"administrator".parse().unwrap(), &administrator(), at(5)).await {
        Ok(done) => Ok(done),
        Err(Error::Refused(refusal)) => Err(refusal.reason),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_change_names_what_it_read_and_is_audited_with_before_and_after() {
    let world = World::new().await;
    let id = world.workspace.to_string();
    let read = get(&world, DocumentKind::Workspace, &id).await.unwrap().unwrap();
    let mut spec = read.spec.clone();
    spec["automatic_approval"] = true.into();
    assert_eq!(
        send(&world, DocumentKind::Workspace, &id, &request(None, "request-a", spec.clone())).await.unwrap_err(),
        Reason::EtagMismatch
    );
    let change = request(Some(read.etag.clone()), "request-b", spec.clone());
    let mut only_tried = change.clone();
    only_tried.validate_only = true;
    only_tried.request_id = "request-c".parse().unwrap();
    assert!(!send(&world, DocumentKind::Workspace, &id, &only_tried).await.unwrap().1);
    assert_eq!(get(&world, DocumentKind::Workspace, &id).await.unwrap().unwrap(), read, "nothing was committed");

    let (written, committed) = send(&world, DocumentKind::Workspace, &id, &change).await.unwrap();
    assert!(committed && written.etag != read.etag);
    assert_eq!(send(&world, DocumentKind::Workspace, &id, &change).await.unwrap().0, written, "the first answer again");
    let mut other = change.clone();
    other.owner = "others".into();
    assert_eq!(send(&world, DocumentKind::Workspace, &id, &other).await.unwrap_err(), Reason::RequestIdReused);

    let ledger = world.chain(Chain::Workspace(world.workspace.clone())).await;
    assert!(matches!(ledger.last(), Some(What::AutomaticApprovalSwitchedOn { after }) if *after == written.etag));
    assert!(
        matches!(ledger.iter().rev().nth(1), Some(What::DocumentChanged { spec_before: Some(before), spec_after, .. })
        if before["automatic_approval"].is_null() && spec_after["automatic_approval"] == true)
    );
}

#[tokio::test]
async fn two_workspaces_share_no_name_state_or_role() {
    let world = World::new().await;
    let read = get(&world, DocumentKind::Workspace, world.workspace.as_str()).await.unwrap().unwrap();
    let other = plangate_gate::ids::WorkspaceId::new([6; 10]).to_string();
    let mut fine: serde_json::Value =
        serde_json::from_str(&read.spec.to_string().replace(world.workspace.as_str(), &other)).unwrap();
    fine["name"] = "orders".into();
    fine["state"]["bucket"] = "sealed-2".into();
    fine["sealed_bucket"] = "sealed-2".into();
    for (place, field) in [("/name", "payments"), ("/sealed_bucket", "sealed"), ("/state/bucket", "sealed")] {
        let mut taken = fine.clone();
        *taken.pointer_mut(place).unwrap() = field.into();
        let refused = send(&world, DocumentKind::Workspace, &other, &request(None, "request-d", taken)).await;
        assert_eq!(refused.unwrap_err(), Reason::NotUnique, "{place}");
    }
    send(&world, DocumentKind::Workspace, &other, &request(None, "request-e", fine.clone())).await.unwrap();
    // What a workspace gives up, another may have.
    let etag = Some(get(&world, DocumentKind::Workspace, &other).await.unwrap().unwrap().etag);
    fine["name"] = "orders-2".into();
    send(&world, DocumentKind::Workspace, &other, &request(etag, "request-f", fine)).await.unwrap();
    let mut renamed = read.spec.clone();
    renamed["name"] = "orders".into();
    send(&world, DocumentKind::Workspace, world.workspace.as_str(), &request(Some(read.etag), "request-g", renamed))
        .await
        .unwrap();
}

#[tokio::test]
async fn what_is_not_a_document_is_refused() {
    let world = World::new().await;
    let cases = [
        (DocumentKind::Policy, "strict", json!({ "schema": "plangate.policy.v1", "allow_all": true })),
        (DocumentKind::Grant, "ana", json!({ "person": "ana", "workspaces": ["payments"], "actions": ["read"] })),
        (DocumentKind::Principal, "eve", json!({ "person": "eve", "iam": [{ "account": "1", "role": "eve" }] })),
        (DocumentKind::Workspace, "payments", json!({})),
    ];
    for (kind, id, spec) in cases {
        let etag = get(&world, kind, id).await.unwrap().map(|document| document.etag);
        let refused = send(&world, kind, id, &request(etag, "request-h", spec)).await;
        assert_eq!(refused.unwrap_err(), Reason::InvalidDocument, "{id}");
    }
}

#[tokio::test]
async fn an_identity_is_one_persons_and_a_grant_withdrawn_is_gone() {
    let world = World::new().await;
    let principal = json!({ "person": "eve", "iam": [{ "account": "111122223333", "role": "bob" }] });
    let refused = send(&world, DocumentKind::Principal, "eve", &request(None, "request-i", principal)).await;
    assert_eq!(refused.unwrap_err(), Reason::NotUnique);
    // A user of Slack likewise, and only once in a document.
    let of = |person: &str, users: &[&str]| {
        let slack: Vec<_> = users.iter().map(|user| json!({ "team": "T0AAAAAAA", "user": user })).collect();
        json!({ "person": person, "iam": [{ "account": "111122223333", "role": person }], "slack": slack })
    };
    world.put(DocumentKind::Principal, "bob", of("bob", &["U0BOB"])).await;
    for (users, reason) in [(["U0EVE", "U0BOB"], Reason::NotUnique), (["U0EVE", "U0EVE"], Reason::InvalidDocument)] {
        let request = request(None, "request-j", of("eve", &users));
        assert_eq!(send(&world, DocumentKind::Principal, "eve", &request).await.unwrap_err(), reason);
    }

    assert!(world.caller("bob").await.may(plangate_gate::documents::Action::Approve, Some(&world.workspace)));
    let grant = json!({ "person": "cleo", "workspaces": ["*"], "actions": ["read"] });
    world.put(DocumentKind::Grant, "bob", grant).await;
    assert!(!world.caller("bob").await.may(plangate_gate::documents::Action::Approve, Some(&world.workspace)));
    let stranger = CallerIdentity::parse("arn:aws:sts::111122223333:assumed-role/dora/s", None).unwrap();
    assert!(
        matches!(identify(&world, &stranger, ADMINISTRATOR).await, Err(Error::Refused(r)) if r.reason == Reason::NotPermitted)
    );
}
