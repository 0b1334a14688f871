//! Workspaces, policies, grants and principals; of a workspace also how it stands.

use plangate_gate::documents::{Action, DocumentKind};
use plangate_gate::ids::{DocumentId, WorkspaceId};
use plangate_record::access::{Caller, not_permitted};
use plangate_record::known::KnownRow;
use plangate_record::{Error, Refusal, acknowledge, documents};
use plangate_wire::{AcknowledgeRequest, Document, DocumentAnswer, DocumentPut, DocumentsAnswer, Reason};

use crate::decode::{Answer, Event};
use crate::gate::Gate;
use crate::reading::within;
use crate::standing;

/// How many documents one page has.
const PAGE: usize = 100;

/// Whether the caller may do `action` on this document. A workspace belongs to itself, all else to no workspace.
fn may(caller: &Caller, action: Action, kind: DocumentKind, id: &str) -> bool {
    match kind {
        DocumentKind::Workspace => id.parse().is_ok_and(|id: WorkspaceId| caller.may(action, Some(&id))),
        // Who may look at or change policies, grants and principals may do so for all: they reach everywhere.
        _ => caller.may(Action::Administer, None),
    }
}

/// `GET /v1/{kind}s`: those that the caller may read. What they may not is passed over unnamed, by the cursor too.
pub(crate) async fn list(gate: &Gate<'_>, event: &Event, caller: &Caller, kind: DocumentKind) -> Result<Answer, Error> {
    let mut after = event.query(&["cursor"])?.get("cursor").cloned();
    let ours = |id: &String| match kind {
        DocumentKind::Workspace => id.parse::<WorkspaceId>().is_ok(),
        _ => id.parse::<DocumentId>().is_ok(),
    };
    if after.as_ref().is_some_and(|id| !ours(id)) {
        return Err(Refusal::new(Reason::InvalidRequest, "`cursor` is not one of ours").into());
    }
    let mut documents: Vec<Document> = Vec::new();
    let mut last = kind != DocumentKind::Workspace && !caller.may(Action::Administer, None);
    // One more than a page has tells that there is another.
    while !last && documents.len() <= PAGE {
        let page = documents::page(gate.store, kind, after.as_deref(), PAGE).await?;
        last = page.len() < PAGE;
        after = page.last().map(|document| document.id.clone());
        documents.extend(page.into_iter().filter(|document| may(caller, Action::Read, kind, &document.id)));
    }
    let fits = within(&documents, PAGE);
    let more = fits < documents.len();
    documents.truncate(fits);
    let cursor = documents.last().filter(|_| more).map(|document| document.id.clone());
    Ok(Answer::of(200, &DocumentsAnswer { documents, cursor })?)
}

/// `GET /v1/{kind}s/{id}`.
pub(crate) async fn get(gate: &Gate<'_>, caller: &Caller, kind: DocumentKind, id: &str) -> Result<Answer, Error> {
    if !may(caller, Action::Read, kind, id) {
        return Err(not_permitted().into());
    }
    let Some(mut document) = documents::get(gate.store, kind, id).await? else {
        return Err(Refusal::new(Reason::NotFound, format!("there is no {} `{id}`", kind.as_str())).into());
    };
    if let (DocumentKind::Workspace, Ok(workspace)) = (kind, id.parse()) {
        let spec = documents::workspace_spec(document.spec.clone())?;
        let known = KnownRow::load(gate.store, &workspace).await?.known;
        document.lock = Some(standing::lock(gate, &workspace).await?);
        document.drift = standing::drift(gate, &workspace, &spec, &known).await?;
        document.known = standing::known(known, &workspace, &spec);
    }
    Ok(Answer::of(200, &DocumentAnswer { document, committed: false })?)
}

/// `PUT /v1/{kind}s/{id}`.
pub(crate) async fn put(
    gate: &Gate<'_>,
    event: &Event,
    caller: &Caller,
    kind: DocumentKind,
    id: &str,
) -> Result<Answer, Error> {
    let request: DocumentPut = event.body()?;
    if !may(caller, Action::Administer, kind, id) {
        return Err(not_permitted().into());
    }
    documents::lives_within(kind, &request, gate.longest_plan_expiry)?;
    let (document, committed) =
        documents::put(gate.store, kind, id, &request, caller.person(), caller.actor(), gate.now).await?;
    Ok(Answer::of(200, &DocumentAnswer { document, committed })?)
}

/// `POST /v1/workspaces/{id}/acknowledge`.
pub(crate) async fn acknowledge(gate: &Gate<'_>, event: &Event, caller: &Caller, id: &str) -> Result<Answer, Error> {
    let request: AcknowledgeRequest = event.body()?;
    let workspace: WorkspaceId = id.parse().map_err(|_| not_permitted())?;
    acknowledge::acknowledge(gate.store, gate.workflow, caller, &workspace, &request, gate.now).await?;
    Ok(Answer::of(200, &standing::lock(gate, &workspace).await?)?)
}
