//! Who a caller is and what they may do: by control-plane configuration alone (`R45`, `R50`).

use plangate_gate::documents::{Action, DocumentKind, GrantSpec, IamMatch, PrincipalSpec, SlackMatch};
use plangate_gate::ids::{Person, WorkspaceId};
use plangate_gate::run::Actor;
use plangate_wire::Reason;
use serde::{Deserialize, Serialize};

use crate::documents;
use crate::error::{Error, Refusal};
use crate::rows;
use crate::store::{Item, Key, Store, Write};

/// The IAM identity of a request: an assumed role, as API Gateway shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The whole ARN.
    pub arn: String,
    /// The account.
    pub account: String,
    /// The role's name.
    pub role: String,
    /// The session's name.
    pub session: String,
    /// The role's unique id, where it is known.
    pub role_id: Option<String>,
}

impl CallerIdentity {
    /// Reads the ARN of an assumed role, and the `AROA...:session` that may come with it. Nothing else is an identity
    /// here: users have long-lived keys (`R19`).
    #[must_use]
    pub fn parse(arn: &str, user_id: Option<&str>) -> Option<Self> {
        let mut parts = arn.splitn(6, ':');
        let (prefix, partition, service) = (parts.next()?, parts.next()?, parts.next()?);
        let (_region, account, resource) = (parts.next()?, parts.next()?, parts.next()?);
        let mut names = resource.splitn(3, '/');
        let (kind, role, session) = (names.next()?, names.next()?, names.next()?);
        if prefix != "arn" || !partition.starts_with("aws") || service != "sts" || kind != "assumed-role" {
            return None;
        }
        let role_id = user_id.and_then(|id| id.split_once(':')).map(|(id, _)| id.to_owned());
        let (account, role, session) = (account.to_owned(), role.to_owned(), session.to_owned());
        Some(Self { arn: arn.to_owned(), account, role, session, role_id })
    }

    /// Where configuration may name it: this very session, or whoever has the role.
    #[must_use]
    pub fn keys(&self) -> [Key; 2] {
        [Some(self.session.as_str()), None].map(|session| identity_key(&self.account, &self.role, session))
    }
}

/// A caller whom configuration knows. Only [`identify`] and [`identify_slack`] make one.
#[derive(Debug, Clone)]
pub struct Caller {
    person: Person,
    identity: String,
    actor: Actor,
    bot: bool,
    grants: Vec<GrantSpec>,
    administrator: bool,
}

impl Caller {
    /// Their name.
    #[must_use]
    pub const fn person(&self) -> &Person {
        &self.person
    }

    /// The identity of this request: the ARN of an assumed role, or `slack:TEAM/USER`.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Who acts, as it is recorded.
    #[must_use]
    pub const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Whether it is a bot.
    #[must_use]
    pub const fn is_bot(&self) -> bool {
        self.bot
    }

    /// Whether they may do `action` on `workspace`; `None` is what belongs to no workspace.
    #[must_use]
    pub fn may(&self, action: Action, workspace: Option<&WorkspaceId>) -> bool {
        // The first administrator configures and looks; who proposes and approves is for grants alone.
        let first = self.administrator && matches!(action, Action::Administer | Action::Read);
        first || self.grants.iter().any(|grant| grant.allows(action, workspace))
    }

    /// Whether they may do `action`; refused, they learn nothing of what exists.
    ///
    /// # Errors
    /// The one refusal of all who may not.
    pub fn require(&self, action: Action, workspace: Option<&WorkspaceId>) -> Result<(), Refusal> {
        if self.may(action, workspace) { Ok(()) } else { Err(not_permitted()) }
    }
}

/// The one refusal of all who may not.
#[must_use]
pub fn not_permitted() -> Refusal {
    Refusal::new(Reason::NotPermitted, "you may not do this, or there is nothing of that name")
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    principal: String,
    person: Person,
    bot: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    role_id: Option<String>,
}

fn identity_key(account: &str, role: &str, session: Option<&str>) -> Key {
    Key::new(format!("IDENTITY#{account}/{role}"), session.map_or("ROLE".to_owned(), |name| format!("SESSION#{name}")))
}

fn slack_key(team: &str, user: &str) -> Key {
    // An account is digits: no IAM identity has this key.
    Key::new(format!("IDENTITY#slack/{team}/{user}"), "USER")
}

fn granted_partition(person: &Person) -> String {
    format!("GRANTED#{person}")
}

/// Finds out who a caller is. `administrator` is the ARN of the role that administers before there are any principals.
///
/// # Errors
/// Nobody whom configuration knows, or the table does not answer.
pub async fn identify(store: &dyn Store, caller: &CallerIdentity, administrator: &str) -> Result<Caller, Error> {
    let mut found = None;
    for item in store.get_all(&caller.keys()).await?.into_iter().flatten() {
        let identity: Identity = rows::read(&item)?;
        if identity.role_id.is_none() || identity.role_id == caller.role_id {
            found = Some(identity);
            break;
        }
    }
    let first = administrator
        .strip_prefix("arn:")
        .and_then(|rest| rest.split_once(":role/"))
        .is_some_and(|(head, path)| head.ends_with(&caller.account) && path.rsplit('/').next() == Some(&caller.role));
    let (person, bot) = match found {
        Some(identity) => (identity.person, identity.bot),
        None if first => (first_administrator()?, false),
        None => return Err(not_permitted().into()),
    };
    let grants = grants_of(store, &person).await?;
    let actor = Actor::Person { person: person.clone(), arn: caller.arn.clone() };
    Ok(Caller { person, identity: caller.arn.clone(), actor, bot, grants, administrator: first })
}

/// Finds out who a user of Slack is, by the ids in a message that Slack has signed. What they may do is what that person
/// may do anywhere (`R48`, `R50`).
///
/// # Errors
/// Nobody whom configuration knows, or the table does not answer.
pub async fn identify_slack(store: &dyn Store, team: &str, user: &str) -> Result<Caller, Error> {
    let Some(item) = store.get(&slack_key(team, user)).await? else { return Err(not_permitted().into()) };
    let Identity { person, bot, .. } = rows::read(&item)?;
    let grants = grants_of(store, &person).await?;
    let actor = Actor::Slack { person: person.clone(), team: team.to_owned(), user: user.to_owned() };
    Ok(Caller { person, identity: format!("slack:{team}/{user}"), actor, bot, grants, administrator: false })
}

async fn grants_of(store: &dyn Store, person: &Person) -> Result<Vec<GrantSpec>, Error> {
    let items = store.partition(&granted_partition(person), "", 200).await?;
    items.iter().map(|item| Ok(rows::read(item)?)).collect()
}

/// Who may approve on a workspace, sorted: for telling those who may read it. Looks at the first 500 grants.
///
/// # Errors
/// The table does not answer, or a grant is damaged.
pub async fn approvers(store: &dyn Store, workspace: &WorkspaceId) -> Result<Vec<Person>, Error> {
    const PAGE: usize = 100;
    let mut found = std::collections::BTreeSet::new();
    let mut after: Option<String> = None;
    for _ in 0..5 {
        let page = documents::page(store, DocumentKind::Grant, after.as_deref(), PAGE).await?;
        after = page.last().map(|document| document.id.clone());
        let more = page.len() == PAGE;
        for document in page {
            let grant: GrantSpec = serde_json::from_value(document.spec)
                .map_err(|error| Error::RecordInvalid { what: "a grant", error: error.to_string() })?;
            if grant.allows(Action::Approve, Some(workspace)) {
                found.insert(grant.person);
            }
        }
        if !more {
            break;
        }
    }
    Ok(found.into_iter().collect())
}

fn first_administrator() -> Result<Person, Error> {
    "administrator"
        .parse()
        .map_err(|_| Error::RecordInvalid { what: "a person", error: "the administrator".to_owned() })
}

/// The writes that let a grant be found by its person.
pub(crate) async fn grant_writes(
    store: &dyn Store,
    id: &str,
    old: Option<&GrantSpec>,
    new: &GrantSpec,
) -> Result<Vec<Write>, Error> {
    let mut writes = Vec::new();
    let key = Key::new(granted_partition(&new.person), id);
    let mut item = Item::new(key.clone(), rows::write("a grant", new)?);
    item.version = store.get(&key).await?.map_or(0, |item| item.version);
    writes.push(Write::Put(item));
    if let Some(old) = old.filter(|old| old.person != new.person) {
        let key = Key::new(granted_partition(&old.person), id);
        if let Some(item) = store.get(&key).await? {
            writes.push(Write::Delete(key, item.version));
        }
    }
    Ok(writes)
}

/// The writes that let a principal be found by each of its identities, IAM's and Slack's; an identity is one principal's
/// alone.
pub(crate) async fn principal_writes(
    store: &dyn Store,
    id: &str,
    old: Option<&PrincipalSpec>,
    new: &PrincipalSpec,
) -> Result<Vec<Write>, Error> {
    let mut writes: Vec<Write> = Vec::new();
    let mut kept = Vec::new();
    for (key, name, role_id) in identities(new) {
        let current = store.get(&key).await?;
        if let Some(item) = &current {
            let identity: Identity = rows::read(item)?;
            if identity.principal != id {
                let message = format!("the identity `{name}` belongs to another principal");
                return Err(Refusal::new(Reason::NotUnique, message).into());
            }
        }
        if kept.contains(&key) {
            let message = format!("the identity `{name}` is named twice");
            return Err(Refusal::new(Reason::InvalidDocument, message).into());
        }
        let identity = Identity { principal: id.to_owned(), person: new.person.clone(), bot: new.bot, role_id };
        let mut item = Item::new(key.clone(), rows::write("an identity", &identity)?);
        item.version = current.map_or(0, |item| item.version);
        writes.push(Write::Put(item));
        kept.push(key);
    }
    let before = old.into_iter().flat_map(identities).map(|(key, _, _)| key);
    for key in before.filter(|key| !kept.contains(key)) {
        if let Some(item) = store.get(&key).await? {
            writes.push(Write::Delete(key, item.version));
        }
    }
    Ok(writes)
}

/// The identities of a principal: under which key each is found, what it is called, and the role's id where it has one.
fn identities(spec: &PrincipalSpec) -> Vec<(Key, String, Option<String>)> {
    let iam = |IamMatch { account, role, role_id, session }: &IamMatch| {
        (identity_key(account, role, session.as_deref()), format!("{account}/{role}"), role_id.clone())
    };
    let slack = |SlackMatch { team, user }: &SlackMatch| (slack_key(team, user), format!("slack:{team}/{user}"), None);
    spec.iam.iter().map(iam).chain(spec.slack.iter().map(slack)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_assumed_role_is_an_identity() {
        let caller =
            CallerIdentity::parse("arn:aws:sts::123456789012:assumed-role/Approver/bob", Some("AROAXX:bob")).unwrap();
        assert_eq!((caller.account.as_str(), caller.role.as_str()), ("123456789012", "Approver"));
        assert_eq!((caller.session.as_str(), caller.role_id.as_deref()), ("bob", Some("AROAXX")));
        for other in [
            "arn:aws:iam::123456789012:user/bob",
            "arn:aws:iam::123456789012:root",
            "arn:aws:sts::1:assumed-role/x",
            "",
        ] {
            assert_eq!(CallerIdentity::parse(other, None), None, "`{other}`");
        }
    }
}
