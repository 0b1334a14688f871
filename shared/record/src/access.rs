//! Who a caller is and what they may do: by control-plane configuration alone (`R45`, `R50`).

use plangate_gate::documents::{Action, GrantSpec, IamMatch, PrincipalSpec};
use plangate_gate::ids::{Person, WorkspaceId};
use plangate_wire::Reason;
use serde::{Deserialize, Serialize};

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
}

/// A caller whom configuration knows. Only [`identify`] makes one.
#[derive(Debug, Clone)]
pub struct Caller {
    person: Person,
    arn: String,
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

    /// The IAM identity of this request.
    #[must_use]
    pub fn arn(&self) -> &str {
        &self.arn
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

fn granted_partition(person: &Person) -> String {
    format!("GRANTED#{person}")
}

/// Finds out who a caller is. `administrator` is the ARN of the role that administers before there are any principals.
///
/// # Errors
/// Nobody whom configuration knows, or the table does not answer.
pub async fn identify(store: &dyn Store, caller: &CallerIdentity, administrator: &str) -> Result<Caller, Error> {
    let mut found = None;
    for session in [Some(caller.session.as_str()), None] {
        if let Some(item) = store.get(&identity_key(&caller.account, &caller.role, session)).await? {
            let identity: Identity = rows::read(&item)?;
            if identity.role_id.is_none() || identity.role_id == caller.role_id {
                found = Some(identity);
                break;
            }
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
    let mut grants = Vec::new();
    for item in store.partition(&granted_partition(&person), "", 200).await? {
        grants.push(rows::read(&item)?);
    }
    Ok(Caller { person, arn: caller.arn.clone(), bot, grants, administrator: first })
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

/// The writes that let a principal be found by each of its IAM identities; an identity is one principal's alone.
pub(crate) async fn principal_writes(
    store: &dyn Store,
    id: &str,
    old: Option<&PrincipalSpec>,
    new: &PrincipalSpec,
) -> Result<Vec<Write>, Error> {
    let key_of = |iam: &IamMatch| identity_key(&iam.account, &iam.role, iam.session.as_deref());
    let mut writes: Vec<Write> = Vec::new();
    let mut kept = Vec::new();
    for iam in &new.iam {
        let key = key_of(iam);
        let current = store.get(&key).await?;
        if let Some(item) = &current {
            let identity: Identity = rows::read(item)?;
            if identity.principal != id {
                let message = format!("the identity `{}/{}` belongs to another principal", iam.account, iam.role);
                return Err(Refusal::new(Reason::NotUnique, message).into());
            }
        }
        if kept.contains(&key) {
            let message = format!("the identity `{}/{}` is named twice", iam.account, iam.role);
            return Err(Refusal::new(Reason::InvalidDocument, message).into());
        }
        let identity = Identity {
            principal: id.to_owned(),
            person: new.person.clone(),
            bot: new.bot,
            role_id: iam.role_id.clone(),
        };
        let mut item = Item::new(key.clone(), rows::write("an identity", &identity)?);
        item.version = current.map_or(0, |item| item.version);
        writes.push(Write::Put(item));
        kept.push(key);
    }
    for key in old.into_iter().flat_map(|old| old.iam.iter().map(key_of)).filter(|key| !kept.contains(key)) {
        if let Some(item) = store.get(&key).await? {
            writes.push(Write::Delete(key, item.version));
        }
    }
    Ok(writes)
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
