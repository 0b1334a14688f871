//! Documents: workspaces, policies, grants, principals. A write names the etag it read, is remembered by its request id,
//! and may only be tried (`validate_only`); each is audited with before and after (`R1`, `R34`).

use plangate_gate::audit::{Chain, What};
use plangate_gate::digest::Digest;
use plangate_gate::documents::{DocumentKind, GrantSpec, PrincipalSpec, SPEC_LIMIT, SpecError, WorkspaceSpec, plain};
use plangate_gate::ids::{DocumentId, Person, WorkspaceId};
use plangate_gate::policy::Policy;
use plangate_gate::run::Actor;
use plangate_gate::time::Timestamp;
use plangate_gate::untrusted;
use plangate_wire::{Document, DocumentPut, Reason};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::access;
use crate::attempt::Attempts;
use crate::error::{Error, Refusal};
use crate::freeze;
use crate::requests::Remembered;
use crate::rows::{self, ChainRow};
use crate::store::{Item, Key, Store, Write};

/// A document's body in the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    kind: DocumentKind,
    id: String,
    namespace: String,
    owner: String,
    spec: serde_json::Value,
}

/// A document's spec, checked as far as it can be without asking anybody.
#[derive(Debug, Clone)]
enum Spec {
    Workspace(Box<WorkspaceSpec>),
    Policy,
    Grant(GrantSpec),
    Principal(PrincipalSpec),
}

/// A document's key.
#[must_use]
pub fn key(kind: DocumentKind, id: &str) -> Key {
    Key::new(format!("DOC#{}#{id}", kind.as_str()), "DOC")
}

/// The list of all documents of a kind.
#[must_use]
pub fn list(kind: DocumentKind) -> String {
    format!("DOCS#{}", kind.as_str())
}

fn etag(item: &Item) -> String {
    let digest = Digest::of(item.body.as_bytes()).hex();
    format!("{}-{}", item.version, digest.get(..16).unwrap_or_default())
}

fn view(item: &Item) -> Result<Document, Error> {
    let stored: Stored = rows::read(item)?;
    let Stored { kind, id, namespace, owner, spec } = stored;
    Ok(Document { kind, id, namespace, owner, etag: etag(item), spec, lock: None, known: None, drift: None })
}

/// Reads a document.
///
/// # Errors
/// The table does not answer, or the document is damaged.
pub async fn get(store: &dyn Store, kind: DocumentKind, id: &str) -> Result<Option<Document>, Error> {
    store.get(&key(kind, id)).await?.as_ref().map(view).transpose()
}

/// A page of documents of a kind, in the order of their ids, beyond `after`.
///
/// # Errors
/// The table does not answer, or a document is damaged.
pub async fn page(
    store: &dyn Store,
    kind: DocumentKind,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Document>, Error> {
    store.list(&list(kind), after, false, limit).await?.iter().map(view).collect()
}

/// Reads a workspace's spec, with its etag.
///
/// # Errors
/// The table does not answer, there is no such workspace, or its document is damaged.
pub async fn workspace(store: &dyn Store, id: &WorkspaceId) -> Result<(String, WorkspaceSpec), Error> {
    let (item, spec) = read_workspace(store, id).await?.ok_or_else(no_workspace)?;
    Ok((etag(&item), spec))
}

/// Reads a workspace's spec, if there is such a workspace.
///
/// # Errors
/// The table does not answer, or its document is damaged.
pub async fn find_workspace(store: &dyn Store, id: &WorkspaceId) -> Result<Option<WorkspaceSpec>, Error> {
    Ok(read_workspace(store, id).await?.map(|(_, spec)| spec))
}

async fn read_workspace(store: &dyn Store, id: &WorkspaceId) -> Result<Option<(Item, WorkspaceSpec)>, Error> {
    let Some(item) = store.get(&key(DocumentKind::Workspace, id.as_str())).await? else { return Ok(None) };
    let stored: Stored = rows::read(&item)?;
    let spec = workspace_spec(stored.spec)?;
    Ok(Some((item, spec)))
}

/// The spec of a workspace's document, as it was stored.
///
/// # Errors
/// It is damaged.
pub fn workspace_spec(spec: serde_json::Value) -> Result<WorkspaceSpec, Error> {
    serde_json::from_value(spec).map_err(|error| Error::RecordInvalid { what: "a workspace", error: error.to_string() })
}

fn no_workspace() -> Error {
    Error::RecordInvalid { what: "a workspace", error: "it is not there".to_owned() }
}

/// Reads a workspace's spec with its etag, and gives the check that it has not changed since.
pub(crate) async fn workspace_and_check(
    store: &dyn Store,
    id: &WorkspaceId,
) -> Result<(String, WorkspaceSpec, Write), Error> {
    let (item, spec) = read_workspace(store, id).await?.ok_or_else(no_workspace)?;
    Ok((etag(&item), spec, Write::Check(item.key, item.version)))
}

/// Reads the spec of a workspace that somebody names who may know of it.
///
/// # Errors
/// The table does not answer, there is no such workspace (a refusal), or its document is damaged.
pub async fn known_workspace(store: &dyn Store, id: &WorkspaceId) -> Result<WorkspaceSpec, Error> {
    let missing = || Refusal::new(Reason::NotFound, format!("there is no workspace `{id}`"));
    Ok(find_workspace(store, id).await?.ok_or_else(missing)?)
}

/// Reads a policy, pins it under its digest, and gives the digest and the write that stores it (`R33`).
pub(crate) async fn pin_policy(store: &dyn Store, id: &DocumentId) -> Result<(Digest, Option<Write>), Error> {
    let invalid = |error: String| Error::RecordInvalid { what: "a policy", error };
    let document = get(store, DocumentKind::Policy, id.as_str()).await?;
    let document = document.ok_or_else(|| invalid(format!("there is no policy `{id}`")))?;
    let bytes = rows::write("a policy", &document.spec)?;
    let policy = Policy::parse_untrusted(bytes.as_bytes()).map_err(|error| invalid(error.to_string()))?;
    let text = policy.to_bytes().map_err(|error| invalid(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| invalid(error.to_string()))?;
    let digest = policy.digest();
    let key = policy_key(&digest);
    let write = match store.get(&key).await? {
        Some(_) => None,
        None => Some(Write::Put(Item::new(key, text))),
    };
    Ok((digest, write))
}

/// Reads the pinned policy with this digest, and holds it against the digest.
///
/// # Errors
/// It is not there, or is another.
pub async fn pinned_policy(store: &dyn Store, digest: &Digest) -> Result<Policy, Error> {
    let invalid = |error: &str| Error::RecordInvalid { what: "a pinned policy", error: error.to_owned() };
    let item = store.get(&policy_key(digest)).await?.ok_or_else(|| invalid("it is not there"))?;
    let policy = Policy::parse_untrusted(item.body.as_bytes()).map_err(|error| invalid(&error.to_string()))?;
    if policy.digest() == *digest { Ok(policy) } else { Err(invalid("it is another than its digest says")) }
}

pub(crate) fn policy_key(digest: &Digest) -> Key {
    Key::new(format!("POLICY#{digest}"), "POLICY")
}

/// Writes a document on behalf of `actor`, who may; gives it as it then stands, and whether it was written.
///
/// Checks run in one order: existence and etag, validation, uniqueness and references.
///
/// # Errors
/// A refusal, or AWS does not answer.
pub async fn put(
    store: &dyn Store,
    kind: DocumentKind,
    id: &str,
    request: &DocumentPut,
    person: &Person,
    actor: &Actor,
    now: Timestamp,
) -> Result<(Document, bool), Error> {
    let remembered = Remembered::new(person, &request.request_id, &(kind, id, request), now)?;
    let mut attempts = Attempts::new(id);
    loop {
        let current = store.get(&key(kind, id)).await?;
        if let Some(first) = remembered.first_answer(store).await? {
            let document = serde_json::from_str(&first)
                .map_err(|error| Error::RecordInvalid { what: "a request", error: error.to_string() })?;
            return Ok((document, true));
        }
        let found = current.as_ref().map(etag);
        if found != request.etag {
            let message = match (&found, &request.etag) {
                (Some(_), None) => format!("the {} `{id}` is there already", kind.as_str()),
                (None, Some(_)) => format!("there is no {} `{id}` yet; create it without an etag", kind.as_str()),
                _ => format!("the {} `{id}` was changed since it was read", kind.as_str()),
            };
            return Err(Refusal::new(Reason::EtagMismatch, message).with(serde_json::json!({ "etag": found })).into());
        }
        let spec = checked(kind, id, request)?;
        let before: Option<Stored> = current.as_ref().map(rows::read).transpose()?;
        let stored = Stored {
            kind,
            id: id.to_owned(),
            namespace: request.namespace.clone(),
            owner: request.owner.clone(),
            spec: request.spec.clone(),
        };
        let mut item = Item::new(key(kind, id), rows::write("a document", &stored)?);
        item.version = current.as_ref().map_or(0, |item| item.version);
        item.lists = Some((list(kind), id.to_owned()));
        let mut written = item.clone();
        written.version += 1;
        let document = view(&written)?;

        let before_spec = before.map(|stored| stored.spec);
        let mut switched_on = false;
        let mut writes = match &spec {
            Spec::Workspace(new) => {
                let old: Option<WorkspaceSpec> = before_spec.clone().and_then(|spec| serde_json::from_value(spec).ok());
                switched_on = new.automatic_approval && !old.as_ref().is_some_and(|old| old.automatic_approval);
                workspace_claims(store, id, old.as_ref(), new).await?
            }
            Spec::Grant(new) => {
                let old = before_spec.clone().and_then(|spec| serde_json::from_value(spec).ok());
                access::grant_writes(store, id, old.as_ref(), new).await?
            }
            Spec::Principal(new) => {
                let old = before_spec.clone().and_then(|spec| serde_json::from_value(spec).ok());
                access::principal_writes(store, id, old.as_ref(), new).await?
            }
            Spec::Policy => Vec::new(),
        };
        if request.validate_only {
            return Ok((document, false));
        }
        let chain = match kind {
            DocumentKind::Workspace => id.parse().map(Chain::Workspace).unwrap_or(Chain::Gate),
            _ => Chain::Gate,
        };
        let mut chain = ChainRow::load(store, chain).await?;
        let changed = What::DocumentChanged {
            document: kind,
            id: id.to_owned(),
            before: found,
            after: document.etag.clone(),
            spec_before: before_spec,
            spec_after: request.spec.clone(),
        };
        chain.append(now, actor, changed)?;
        if switched_on {
            chain.append(now, actor, What::AutomaticApprovalSwitchedOn { after: document.etag.clone() })?;
        }
        writes.push(Write::Put(item));
        writes.push(remembered.write(&rows::write("a document", &document)?)?);
        writes.extend(chain.writes()?);
        if attempts.settle(store.transact(writes).await).await?.is_some() {
            return Ok((document, true));
        }
    }
}

/// Checks that a workspace asks for no longer life of its plans than this gate gives, `longest` seconds (`R13`).
///
/// # Errors
/// `invalid-document`. Of what is no workspace's spec at all, [`put`] says more.
pub fn lives_within(kind: DocumentKind, request: &DocumentPut, longest: u32) -> Result<(), Error> {
    if kind != DocumentKind::Workspace {
        return Ok(());
    }
    let bytes = rows::write("a document", &request.spec)?;
    match strict::<WorkspaceSpec>("workspace's spec", &bytes) {
        Ok(spec) if spec.plan_expiry_seconds > longest => {
            let message =
                format!("`plan_expiry_seconds` is between 60 and {longest}: this gate lets no plan live longer");
            Err(Refusal::new(Reason::InvalidDocument, message).into())
        }
        _ => Ok(()),
    }
}

/// Everything about a document that can be checked without asking anybody.
fn checked(kind: DocumentKind, id: &str, request: &DocumentPut) -> Result<Spec, Error> {
    let refuse = |message: String| Error::from(Refusal::new(Reason::InvalidDocument, message));
    let field = |error: SpecError| refuse(error.to_string());
    for (name, text) in [("namespace", &request.namespace), ("owner", &request.owner)] {
        if !plain(text, 128) {
            return Err(refuse(format!("`{name}` is 1 to 128 characters without control characters")));
        }
    }
    let bytes = rows::write("a document", &request.spec)?;
    let spec = match kind {
        DocumentKind::Workspace => {
            let id: WorkspaceId = id.parse().map_err(|error| refuse(format!("{error}")))?;
            let spec: WorkspaceSpec = strict("workspace's spec", &bytes)?;
            spec.validate(&id).map_err(field)?;
            Spec::Workspace(Box::new(spec))
        }
        DocumentKind::Policy => {
            Policy::parse_untrusted(bytes.as_bytes()).map_err(|error| refuse(error.to_string()))?;
            Spec::Policy
        }
        DocumentKind::Grant => {
            let spec: GrantSpec = strict("grant's spec", &bytes)?;
            spec.validate().map_err(field)?;
            Spec::Grant(spec)
        }
        DocumentKind::Principal => {
            let spec: PrincipalSpec = strict("principal's spec", &bytes)?;
            spec.validate().map_err(field)?;
            Spec::Principal(spec)
        }
    };
    if kind != DocumentKind::Workspace {
        id.parse::<DocumentId>().map_err(|error| refuse(format!("{error}")))?;
    }
    Ok(spec)
}

fn strict<T: DeserializeOwned>(what: &'static str, bytes: &str) -> Result<T, Error> {
    untrusted::parse(what, bytes.as_bytes(), SPEC_LIMIT)
        .map_err(|error| Refusal::new(Reason::InvalidDocument, error.to_string()).into())
}

/// What belongs to one workspace alone: its name, its state, its roles, its bucket (`R1`).
fn unique(spec: &WorkspaceSpec) -> Vec<(&'static str, String)> {
    let mut claims = vec![
        ("name", spec.name.clone()),
        ("state", format!("{}/{}", spec.state.bucket, spec.state.key)),
        ("plan_role", spec.plan_role.clone()),
        ("apply_role", spec.apply_role.clone()),
        ("sealed_bucket", spec.sealed_bucket.clone()),
    ];
    if let Some(estate) = &spec.estate {
        claims.push(("estate.plan_role", estate.plan_role.clone()));
        claims.push(("estate.apply_role", estate.apply_role.clone()));
    }
    claims
}

async fn workspace_claims(
    store: &dyn Store,
    id: &str,
    old: Option<&WorkspaceSpec>,
    new: &WorkspaceSpec,
) -> Result<Vec<Write>, Error> {
    let policy = key(DocumentKind::Policy, new.policy.as_str());
    let Some(item) = store.get(&policy).await? else {
        let message = format!("there is no policy `{}`", new.policy);
        return Err(Refusal::new(Reason::MissingReference, message).into());
    };
    let mut writes = vec![Write::Check(policy, item.version)];
    writes.extend(freeze::list_workspace(store, id).await?);
    let held: Vec<_> = old.map(unique).into_iter().flatten().collect();
    for claim in unique(new) {
        if held.contains(&claim) {
            continue;
        }
        let key = Key::new(format!("UNIQUE#{}#{}", claim.0, claim.1), "UNIQUE");
        if let Some(other) = store.get(&key).await? {
            let owner: String = rows::read(&other)?;
            if owner != id {
                let message = format!("`{}` belongs to another workspace", claim.0);
                return Err(Refusal::new(Reason::NotUnique, message).into());
            }
            continue;
        }
        writes.push(Write::Put(Item::new(key, rows::write("a claim of uniqueness", &id)?)));
    }
    for (name, value) in held.iter().filter(|claim| !unique(new).contains(claim)) {
        let key = Key::new(format!("UNIQUE#{name}#{value}"), "UNIQUE");
        if let Some(item) = store.get(&key).await? {
            writes.push(Write::Delete(key, item.version));
        }
    }
    Ok(writes)
}
