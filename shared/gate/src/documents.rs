//! What is configured: workspaces, policies, grants and principals, as documents `{kind, id, namespace, owner, etag, spec}`.

use serde::{Deserialize, Serialize};

use crate::ids::{DocumentId, Person, WorkspaceId};
use crate::order::Phase;
use crate::untrusted;

/// The most bytes that a document's spec may have.
pub const SPEC_LIMIT: usize = 64 * 1024;
/// The longest that a plan may live anywhere, in seconds: a week. A gate may say less (`R13`).
pub const LONGEST_PLAN_EXPIRY: u32 = 604_800;
/// The most characters of a workspace's review prose.
pub const LONGEST_REVIEW_POLICY: usize = 8000;

/// The kinds of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DocumentKind {
    /// A workspace.
    Workspace,
    /// A guardrail policy.
    Policy,
    /// What a person may do where.
    Grant,
    /// Who a caller is.
    Principal,
}

impl DocumentKind {
    /// The kind's name, singular.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Policy => "policy",
            Self::Grant => "grant",
            Self::Principal => "principal",
        }
    }
}

/// The engines that plangate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// OpenTofu.
    Opentofu,
    /// Terraform.
    Terraform,
}

impl EngineName {
    /// The engine's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Opentofu => "opentofu",
            Self::Terraform => "terraform",
        }
    }
}

/// An engine, exactly (`R10`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// Which one.
    pub name: EngineName,
    /// Its exact version, as it prints it, without `v`.
    pub version: String,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name.as_str(), self.version)
    }
}

/// Where a workspace's one state stands (`R1`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The bucket's region.
    pub region: String,
}

/// A variable whose value is read by the runner, under the workspace's role, from a parameter (`R21`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretReference {
    /// The variable's name.
    pub variable: String,
    /// The SSM parameter's name.
    pub parameter: String,
}

/// Attributes that are never shown: a further mask beyond the engine's own, never the control.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Withheld {
    /// Patterns of resource types, `*` stands for any text.
    pub types: Vec<String>,
    /// Patterns of attribute paths.
    pub paths: Vec<String>,
}

/// What one review may cost at most, all attempts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budgets {
    /// How long it may take, in seconds, 5 to 240.
    pub seconds: u32,
    /// How often the model may be asked, 1 to 5. What it has answered is never asked for again.
    pub attempts: u32,
    /// How many tokens it may read and write, 1000 to 1000000.
    pub tokens: u32,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { seconds: 60, attempts: 2, tokens: 150_000 }
    }
}

/// How a workspace's reviewer is reached (`R43`). No binding holds a key: those that need one name a parameter, which the
/// workspace's own review function reads (`R21`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "binding", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReviewerBinding {
    /// Always asks a person.
    #[default]
    #[serde(deserialize_with = "untrusted::no_fields")]
    AlwaysEscalate,
    /// A model on Amazon Bedrock, under the role of the gate's own review function.
    Bedrock {
        /// The model's id, or the ARN of a model or of an inference profile.
        model: String,
        /// What a review may cost.
        #[serde(default, deserialize_with = "untrusted::by_name")]
        budgets: Budgets,
    },
    /// A model behind Anthropic's Messages API, asked by the workspace's review function.
    Anthropic {
        /// The model's id.
        model: String,
        /// The SSM parameter with the key.
        key_parameter: String,
        /// Where the API is, if not at Anthropic's own address.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        base_url: Option<String>,
        /// What a review may cost.
        #[serde(default, deserialize_with = "untrusted::by_name")]
        budgets: Budgets,
    },
    /// A gateway or a local model behind the chat API that OpenAI made common, asked by the workspace's review function.
    OpenaiCompatible {
        /// The model's id.
        model: String,
        /// Where the API is: what `/chat/completions` is put behind.
        base_url: String,
        /// The SSM parameter with the key, where the API asks for one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        key_parameter: Option<String>,
        /// What a review may cost.
        #[serde(default, deserialize_with = "untrusted::by_name")]
        budgets: Budgets,
    },
}

impl ReviewerBinding {
    /// The binding's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AlwaysEscalate => "always-escalate",
            Self::Bedrock { .. } => "bedrock",
            Self::Anthropic { .. } => "anthropic",
            Self::OpenaiCompatible { .. } => "openai-compatible",
        }
    }

    /// The model and what a review of it may cost, where there is a model.
    #[must_use]
    pub fn model(&self) -> Option<(&str, Budgets)> {
        match self {
            Self::AlwaysEscalate => None,
            Self::Bedrock { model, budgets }
            | Self::Anthropic { model, budgets, .. }
            | Self::OpenaiCompatible { model, budgets, .. } => Some((model, *budgets)),
        }
    }

    /// Checks what can be checked of a binding of workspace `id`.
    fn validate(&self, id: &WorkspaceId) -> Result<(), SpecError> {
        let Some((model, budgets)) = self.model() else { return Ok(()) };
        let visible = |text: &str| (1..=512).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        require(
            "reviewer.model",
            visible(model) && model.len() <= 256,
            "is a model's id, 1 to 256 visible characters",
        )?;
        let seconds = (5..=240).contains(&budgets.seconds);
        require("reviewer.budgets.seconds", seconds, "is between 5 and 240")?;
        require("reviewer.budgets.attempts", (1..=5).contains(&budgets.attempts), "is between 1 and 5")?;
        let tokens = (1000..=1_000_000).contains(&budgets.tokens);
        require("reviewer.budgets.tokens", tokens, "is between 1000 and 1000000")?;
        let (key, address) = match self {
            Self::AlwaysEscalate | Self::Bedrock { .. } => (None, None),
            Self::Anthropic { key_parameter, base_url, .. } => (Some(key_parameter), base_url.as_ref()),
            Self::OpenaiCompatible { key_parameter, base_url, .. } => (key_parameter.as_ref(), Some(base_url)),
        };
        if let Some(parameter) = key {
            let prefix = format!("/plangate/reviewer/{id}/");
            let inside = parameter.strip_prefix(&prefix).is_some_and(|name| !name.is_empty()) && visible(parameter);
            require("reviewer.key_parameter", inside, format!("begins with `{prefix}`"))?;
        }
        let expected = "is an `https` address without user, query or fragment; `http` only on the loopback interface";
        require("reviewer.base_url", address.is_none_or(|text| model_address(text)), expected)
    }
}

/// Whether a model may be asked at this address: what is sent there is a key and somebody's plan.
fn model_address(text: &str) -> bool {
    let plain = text.len() <= 512 && text.bytes().all(|b| b.is_ascii_graphic() && !b"@?#\\\"<>".contains(&b));
    let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return false,
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    plain && port && !host.is_empty() && (tls || matches!(host, "127.0.0.1" | "localhost" | "[::1]"))
}

fn yes() -> bool {
    true
}

fn an_hour() -> u32 {
    3600
}

/// The roles of an estate in another account. Each is assumed by the workspace's own role of the same phase, and by nobody else
/// (`R16`, `R18`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estate {
    /// The ARN of the role that reads the estate.
    pub plan_role: String,
    /// The ARN of the role that changes it.
    pub apply_role: String,
}

impl Estate {
    /// The role of a phase.
    #[must_use]
    pub fn role(&self, phase: Phase) -> &str {
        match phase {
            Phase::Plan => &self.plan_role,
            Phase::Apply => &self.apply_role,
        }
    }

    /// Checks the roles of the estate of workspace `id`, whose own roles are in the account `home`.
    fn validate(&self, id: &WorkspaceId, home: Option<&str>) -> Result<(), SpecError> {
        for (field, arn, phase) in
            [("estate.plan_role", &self.plan_role, "plan"), ("estate.apply_role", &self.apply_role, "apply")]
        {
            let path = format!("plangate/estate/{phase}/");
            let expected = format!("is `arn:aws:iam::ACCOUNT:role/{path}NAME` and names the workspace `{id}`");
            let name = arn.split(":role/").nth(1).and_then(|rest| rest.strip_prefix(path.as_str()));
            let good = arn.starts_with("arn:aws") && plain(arn, 512) && name.is_some_and(|n| n.contains(id.as_str()));
            require(field, good, expected)?;
        }
        let (plan, apply) = (account(&self.plan_role), account(&self.apply_role));
        require("estate.apply_role", plan.is_some() && plan == apply, "is in the account of `estate.plan_role`")?;
        require("estate.plan_role", plan != home, "is in another account than `plan_role`")
    }
}

/// The account in an ARN.
fn account(arn: &str) -> Option<&str> {
    arn.split(':').nth(4).filter(|account| account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit()))
}

/// A workspace's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceSpec {
    /// What people call it. May change; the id may not.
    pub name: String,
    /// The engine that plans and applies (`R10`).
    pub engine: Engine,
    /// Its one state (`R1`).
    pub state: Reference,
    /// The ARN of the role that plans (`R18`).
    pub plan_role: String,
    /// The ARN of the role that applies (`R16`).
    pub apply_role: String,
    /// Where the estate is in another account: its roles there. Then the two above only lead there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estate: Option<Estate>,
    /// The bucket of its artifacts, under its sealed key (`R15`).
    pub sealed_bucket: String,
    /// The ARN of its sealed KMS key.
    pub sealed_key: String,
    /// References to secrets, never values (`R21`).
    #[serde(default)]
    pub secrets: Vec<SecretReference>,
    /// The policy document that judges its runs.
    pub policy: DocumentId,
    /// How long a plan may be decided on and applied, in seconds, 60 to 604800 (`R13`).
    #[serde(default = "an_hour")]
    pub plan_expiry_seconds: u32,
    /// Whether an eligible run may be approved without a person (`R34`).
    #[serde(default)]
    pub automatic_approval: bool,
    /// Whether it manages the gate itself, its rules or its policy (`R35`).
    #[serde(default)]
    pub manages_gate: bool,
    /// Whether the approver must be another person than the proposer (`R47`).
    #[serde(default = "yes")]
    pub distinct_approver: bool,
    /// The reviewer (`R43`).
    #[serde(default)]
    pub reviewer: ReviewerBinding,
    /// What the reviewer is to look for, in the workspace's own words, at most 8000 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub review_policy: String,
    /// Where in Slack its runs are shown and decided on; none: nowhere.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slack: Option<SlackChannel>,
    /// How often it is looked at for drift, in hours, 1 to 720; none: never (`R55`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub drift_hours: Option<u16>,
}

/// A channel in Slack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlackChannel {
    /// Its id, such as `C024BE91L`. Names change; ids do not.
    pub channel: String,
}

/// Whether `text` is an id of Slack's of one of these `kinds` (their first letters).
#[must_use]
pub fn slack_id(text: &str, kinds: &str) -> bool {
    (3..=32).contains(&text.len())
        && text.chars().next().is_some_and(|first| kinds.contains(first))
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

/// A field of a document that says something it may not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct SpecError {
    /// Which field.
    pub field: &'static str,
    /// What is wrong with it, and what is expected.
    pub problem: String,
}

fn require(field: &'static str, holds: bool, problem: impl Into<String>) -> Result<(), SpecError> {
    if holds { Ok(()) } else { Err(SpecError { field, problem: problem.into() }) }
}

/// The most characters of what people say for the record: reasons and notes.
pub const WORDS_LIMIT: usize = 1000;

/// Whether `text` is a line of 1 to `most` characters, without control characters.
#[must_use]
pub fn plain(text: &str, most: usize) -> bool {
    !text.is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control)
}

/// Whether `text` is a variable name as engines take it.
fn variable_name(text: &str) -> bool {
    text.len() <= 128
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

impl WorkspaceSpec {
    /// Whether runs may be approved without a person here (`R34`, `R35`).
    #[must_use]
    pub const fn approves_automatically(&self) -> bool {
        self.automatic_approval && !self.manages_gate
    }

    /// Checks everything that can be checked of the spec of workspace `id` without asking anybody.
    ///
    /// # Errors
    /// The first field that says what it may not.
    pub fn validate(&self, id: &WorkspaceId) -> Result<(), SpecError> {
        require("name", plain(&self.name, 128), "is 1 to 128 characters without control characters")?;
        require("name", self.name.parse::<WorkspaceId>().is_err(), "may not look like a workspace id")?;
        let version = &self.engine.version;
        let exact = version.split('.').count() == 3
            && version.len() <= 32
            && version.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
            && version.bytes().next().is_some_and(|b| b.is_ascii_digit());
        require("engine.version", exact, "is an exact version such as `1.11.4`, not a range")?;
        require("state.bucket", plain(&self.state.bucket, 63), "is a bucket's name")?;
        require("state.key", plain(&self.state.key, 512), "is an object's key")?;
        require("state.region", plain(&self.state.region, 32), "is a region")?;
        for (field, arn, path) in
            [("plan_role", &self.plan_role, "plangate/plan/"), ("apply_role", &self.apply_role, "plangate/apply/")]
        {
            // The paths are what the orchestrator may pass on (`R20`); a role elsewhere could never run.
            let expected = format!("is `arn:aws:iam::ACCOUNT:role/{path}NAME` and names the workspace `{id}`");
            let name = arn.split(":role/").nth(1).and_then(|rest| rest.strip_prefix(path));
            let good = arn.starts_with("arn:aws") && plain(arn, 512) && name.is_some_and(|n| n.contains(id.as_str()));
            require(field, good, expected)?;
        }
        require("apply_role", self.plan_role != self.apply_role, "is another role than `plan_role`")?;
        if let Some(estate) = &self.estate {
            estate.validate(id, account(&self.plan_role))?;
        }
        require("sealed_bucket", plain(&self.sealed_bucket, 63), "is a bucket's name")?;
        require(
            "sealed_key",
            self.sealed_key.starts_with("arn:aws") && plain(&self.sealed_key, 512),
            "is a key's ARN",
        )?;
        require("secrets", self.secrets.len() <= 64, "has at most 64 entries")?;
        let mut seen = std::collections::BTreeSet::new();
        for secret in &self.secrets {
            require("secrets.variable", variable_name(&secret.variable), "is the name of a variable")?;
            require("secrets.variable", seen.insert(&secret.variable), "is named once")?;
            let prefix = format!("/plangate/{id}/");
            let inside = secret.parameter.starts_with(&prefix) && plain(&secret.parameter, 512);
            require("secrets.parameter", inside, format!("begins with `{prefix}`"))?;
        }
        let expiry = (60..=LONGEST_PLAN_EXPIRY).contains(&self.plan_expiry_seconds);
        require("plan_expiry_seconds", expiry, "is between 60 and 604800")?;
        let manages = !(self.manages_gate && self.automatic_approval);
        require("automatic_approval", manages, "cannot be on where `manages_gate` is")?;
        let channel = self.slack.as_ref().is_none_or(|slack| slack_id(&slack.channel, "CG"));
        require("slack.channel", channel, "is a channel's id such as `C024BE91L`, not its name")?;
        let hours = self.drift_hours.is_none_or(|hours| (1..=720).contains(&hours));
        require("drift_hours", hours, "is between 1 and 720")?;
        self.reviewer.validate(id)?;
        let prose = self.review_policy.chars().nth(LONGEST_REVIEW_POLICY).is_none()
            && !self.review_policy.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
        require("review_policy", prose, "is at most 8000 characters; of control characters only line breaks and tabs")
    }
}

/// One thing that a person may be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// See runs, projections, records.
    Read,
    /// Read the logs of phases.
    ReadLogs,
    /// Propose runs.
    Propose,
    /// Decide on runs (`R45`).
    Approve,
    /// Change configuration.
    Administer,
}

/// Where a grant holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scope {
    /// One workspace.
    Workspace(WorkspaceId),
    /// Every workspace, and what belongs to none.
    Everywhere(Star),
}

/// The text `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Star {
    /// `*`
    #[serde(rename = "*")]
    Star,
}

/// What a person may do where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantSpec {
    /// The person.
    pub person: Person,
    /// Where.
    pub workspaces: Vec<Scope>,
    /// What.
    pub actions: Vec<Action>,
}

impl GrantSpec {
    /// Checks the spec.
    ///
    /// # Errors
    /// A list that is empty or too long.
    pub fn validate(&self) -> Result<(), SpecError> {
        require("workspaces", (1..=200).contains(&self.workspaces.len()), "has 1 to 200 entries")?;
        require("actions", (1..=8).contains(&self.actions.len()), "has 1 to 8 entries")
    }

    /// Whether this grant allows `action` on `workspace`; `None` is what belongs to no workspace.
    #[must_use]
    pub fn allows(&self, action: Action, workspace: Option<&WorkspaceId>) -> bool {
        self.actions.contains(&action)
            && self.workspaces.iter().any(|scope| match scope {
                Scope::Everywhere(Star::Star) => true,
                Scope::Workspace(id) => Some(id) == workspace,
            })
    }
}

/// An IAM identity, as a request shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IamMatch {
    /// The account, twelve digits.
    pub account: String,
    /// The role's name. A path does not show in a request.
    pub role: String,
    /// The role's unique id (`AROA...`), so that a role made anew under the old name is somebody else.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role_id: Option<String>,
    /// The session's name; only for roles whose sessions are named by IAM Identity Center (`AWSReservedSSO_...`). Of any
    /// other role a caller chooses the name himself, and could be whoever he likes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
}

/// A user of Slack, as a signed message of Slack's shows them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlackMatch {
    /// The team that the user belongs to, such as `T024BE7LD`.
    pub team: String,
    /// The user, such as `U024BE7LH`. Names of any kind count for nothing.
    pub user: String,
}

/// Who a caller is (`R50`): IAM identities, and users of Slack, to one person or bot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrincipalSpec {
    /// The name by which grants and records know it.
    pub person: Person,
    /// Whether it is a bot, which may name the person behind a proposal.
    #[serde(default)]
    pub bot: bool,
    /// The IAM identities that are this person's.
    pub iam: Vec<IamMatch>,
    /// The users of Slack that are this person.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub slack: Vec<SlackMatch>,
}

impl PrincipalSpec {
    /// Checks the spec.
    ///
    /// # Errors
    /// A list that is empty or too long, or an identity that cannot occur.
    pub fn validate(&self) -> Result<(), SpecError> {
        require("person", self.person != Person::gate(), "is not `plangate`, which is the gate itself")?;
        require("iam", (1..=20).contains(&self.iam.len()), "has 1 to 20 entries")?;
        for each in &self.iam {
            let account = each.account.len() == 12 && each.account.bytes().all(|b| b.is_ascii_digit());
            require("iam.account", account, "has twelve digits")?;
            let name = |text: &str| {
                (1..=64).contains(&text.len())
                    && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+=,.@-".contains(&b))
            };
            require("iam.role", name(&each.role), "is a role's name without its path")?;
            require("iam.session", each.session.as_deref().is_none_or(name), "is a session's name")?;
            let pinned = each.session.is_none() || each.role.starts_with("AWSReservedSSO_");
            require("iam.session", pinned, "is only for roles of IAM Identity Center, `AWSReservedSSO_...`")?;
            let id = |text: &str| (16..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
            require("iam.role_id", each.role_id.as_deref().is_none_or(id), "is a role's unique id")?;
        }
        require("slack", self.slack.len() <= 20, "has at most 20 entries")?;
        require("slack", !self.bot || self.slack.is_empty(), "is for people: a bot decides nothing in Slack")?;
        for each in &self.slack {
            require("slack.team", slack_id(&each.team, "TE"), "is a team's id such as `T024BE7LD`, not its name")?;
            require("slack.user", slack_id(&each.user, "UW"), "is a user's id such as `U024BE7LH`, not a name")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> (WorkspaceId, WorkspaceSpec) {
        let id = WorkspaceId::new([3; 10]);
        let spec = serde_json::from_value(serde_json::json!({
            "name": "payments", "engine": {"name": "opentofu", "version": "1.11.6"},
            "state": {"bucket": "b", "key": "state/terraform.tfstate", "region": "eu-central-1"},
            "plan_role": format!("arn:aws:iam::123456789012:role/plangate/plan/{id}-plan"),
            "apply_role": format!("arn:aws:iam::123456789012:role/plangate/apply/{id}-apply"),
            "sealed_bucket": "b", "sealed_key": "arn:aws:kms:eu-central-1:123456789012:key/1",
            "secrets": [{"variable": "db_password", "parameter": format!("/plangate/{id}/db_password")}],
            "policy": "default"
        }))
        .unwrap();
        (id, spec)
    }

    #[test]
    fn automatic_approval_is_off_and_a_second_person_is_asked_by_default() {
        let (id, spec) = workspace();
        spec.validate(&id).unwrap();
        assert!(!spec.automatic_approval && !spec.manages_gate && spec.distinct_approver);
        assert_eq!(spec.plan_expiry_seconds, 3600);
        assert_eq!(spec.reviewer, ReviewerBinding::AlwaysEscalate);
    }

    #[test]
    fn what_a_workspace_may_not_say_is_named() {
        let (id, good) = workspace();
        let refused = |change: fn(&mut WorkspaceSpec)| {
            let mut spec = good.clone();
            change(&mut spec);
            spec.validate(&id).unwrap_err().field
        };
        assert_eq!(refused(|s| s.engine.version = "~> 1.11".into()), "engine.version");
        assert_eq!(refused(|s| s.apply_role = s.plan_role.clone()), "apply_role");
        assert_eq!(refused(|s| s.plan_role = "arn:aws:iam::123456789012:role/admin".into()), "plan_role");
        assert_eq!(refused(|s| s.secrets[0].parameter = "/other/db".into()), "secrets.parameter");
        assert_eq!(refused(|s| s.secrets.push(s.secrets[0].clone())), "secrets.variable");
        assert_eq!(refused(|s| s.plan_expiry_seconds = 1), "plan_expiry_seconds");
        assert_eq!(refused(|s| (s.manages_gate, s.automatic_approval) = (true, true)), "automatic_approval");
        let channel = |text: &str| Some(SlackChannel { channel: text.into() });
        let mut spec = good.clone();
        spec.slack = channel("#changes");
        assert_eq!(spec.validate(&id).unwrap_err().field, "slack.channel");
        spec.slack = channel("C024BE91L");
        spec.validate(&id).unwrap();
        for (hours, good) in [(0, false), (1, true), (720, true), (721, false)] {
            spec.drift_hours = Some(hours);
            assert_eq!(spec.validate(&id).is_ok(), good, "{hours}");
        }
        assert_eq!(spec.validate(&id).unwrap_err().field, "drift_hours");
    }

    #[test]
    fn nobody_is_called_as_the_gate_is() {
        let iam = vec![IamMatch { account: "123456789012".into(), role: "ana".into(), role_id: None, session: None }];
        let principal = |person| PrincipalSpec { person, bot: false, iam: iam.clone(), slack: Vec::new() };
        principal("plangate-admin".parse().unwrap()).validate().unwrap();
        assert_eq!(principal(Person::gate()).validate().unwrap_err().field, "person");
    }

    #[test]
    fn an_estate_elsewhere_has_a_role_for_each_phase_in_one_account_that_is_another() {
        let (id, good) = workspace();
        let role =
            |account: &str, phase: &str| format!("arn:aws:iam::{account}:role/plangate/estate/{phase}/{id}-{phase}");
        let judged = |plan_role: String, apply_role: String| {
            let spec = WorkspaceSpec { estate: Some(Estate { plan_role, apply_role }), ..good.clone() };
            spec.validate(&id).map_err(|error| error.field)
        };
        let (other, third) = ("444455556666", "777788889999");
        assert_eq!(judged(role(other, "plan"), role(other, "apply")), Ok(()));
        assert_eq!(judged(role(other, "apply"), role(other, "apply")), Err("estate.plan_role"));
        assert_eq!(judged(role(other, "plan"), role(other, "plan")), Err("estate.apply_role"));
        assert_eq!(judged(role(other, "plan"), role(third, "apply")), Err("estate.apply_role"));
        let home = account(&good.plan_role).unwrap();
        assert_eq!(judged(role(home, "plan"), role(home, "apply")), Err("estate.plan_role"));
        let stranger = "arn:aws:iam::444455556666:role/plangate/estate/apply/ws-fedcba9876543210-apply";
        assert_eq!(judged(role(other, "plan"), stranger.to_owned()), Err("estate.apply_role"));
        let administrator = "arn:aws:iam::444455556666:role/administrator";
        assert_eq!(judged(administrator.to_owned(), role(other, "apply")), Err("estate.plan_role"));
        let estate = Estate { plan_role: role(other, "plan"), apply_role: role(other, "apply") };
        assert_eq!((estate.role(Phase::Plan), estate.role(Phase::Apply)), (&*estate.plan_role, &*estate.apply_role));
    }

    #[test]
    fn in_slack_a_person_is_a_team_and_a_user_by_their_ids_and_a_bot_is_nobody() {
        let principal = |team: &str, user: &str, bot: bool| PrincipalSpec {
            person: "ana".parse().unwrap(),
            bot,
            iam: vec![IamMatch { account: "123456789012".into(), role: "ana".into(), role_id: None, session: None }],
            slack: vec![SlackMatch { team: team.into(), user: user.into() }],
        };
        principal("T024BE7LD", "U024BE7LH", false).validate().unwrap();
        principal("E024BE7LD", "W024BE7LH", false).validate().unwrap();
        assert_eq!(principal("T024BE7LD", "U024BE7LH", true).validate().unwrap_err().field, "slack");
        for (team, user, field) in [
            ("acme", "U024BE7LH", "slack.team"),
            ("T024BE7LD", "ana", "slack.user"),
            ("T024BE7LD", "U1/2#3", "slack.user"),
        ] {
            assert_eq!(principal(team, user, false).validate().unwrap_err().field, field, "{team} {user}");
        }
    }

    #[test]
    fn a_reviewer_is_named_with_what_it_needs_and_no_more() {
        let (id, good) = workspace();
        let key = format!("/plangate/reviewer/{id}/key");
        let judged = |reviewer: serde_json::Value| {
            let reviewer = serde_json::from_value(reviewer).map_err(|error| error.to_string())?;
            let spec = WorkspaceSpec { reviewer, ..good.clone() };
            spec.validate(&id).map(|()| spec.reviewer.name()).map_err(|error| error.field.to_owned())
        };
        let openai =
            |url: &str| judged(serde_json::json!({"binding": "openai-compatible", "model": "m", "base_url": url}));
        let anthropic = |parameter: &str| {
            judged(serde_json::json!({"binding": "anthropic", "model": "m", "key_parameter": parameter}))
        };
        let bedrock = |budgets: serde_json::Value| {
            judged(serde_json::json!({"binding": "bedrock", "model": "amazon.nova-pro-v1:0", "budgets": budgets}))
        };
        assert_eq!(judged(serde_json::json!({"binding": "always-escalate"})).unwrap(), "always-escalate");
        assert_eq!(anthropic(&key).unwrap(), "anthropic");
        assert_eq!(bedrock(serde_json::json!({})).unwrap(), "bedrock");
        for url in [
            "https://gateway.example/api/v1",
            "https://[2001:db8::1]:8443/v1",
            "http://127.0.0.1:8080/v1",
            "http://[::1]/v1",
        ] {
            assert_eq!(openai(url).unwrap(), "openai-compatible", "{url}");
        }
        for url in [
            "http://gateway.example/v1",
            "http://127.0.0.1.example/v1",
            "http://localhost@example/v1",
            "https://",
            "https://me:key@gateway.example/v1",
            "https://gateway.example/v1?key=1",
            "https://gateway.example/#x",
            "https://gateway.example:99999/",
            "ftp://gateway.example",
            "https://gate way.example",
            "http://169.254.169.254/latest",
        ] {
            assert_eq!(openai(url).unwrap_err(), "reviewer.base_url", "{url}");
        }
        for parameter in ["/plangate/other/key", &format!("/plangate/{id}/key"), &format!("/plangate/reviewer/{id}/")] {
            assert_eq!(anthropic(parameter).unwrap_err(), "reviewer.key_parameter");
        }
        for (budgets, field) in [("seconds", 241), ("attempts", 0), ("tokens", 999)] {
            let field = (format!("reviewer.budgets.{budgets}"), field);
            assert_eq!(bedrock(serde_json::json!({ budgets: field.1 })).unwrap_err(), field.0);
        }
        assert!(judged(serde_json::json!({"binding": "bedrock", "model": "m", "budgets": [60, 2, 150_000]})).is_err());
        // A key itself has no place in a document.
        let with_key =
            judged(serde_json::json!({"binding": "anthropic", "model": "m", "key_parameter": key, "key": "sk"}));
        assert!(with_key.unwrap_err().contains("unknown field"));
        let prose = |text: &str| WorkspaceSpec { review_policy: text.to_owned(), ..good.clone() }.validate(&id);
        prose("Tags may change.\n\tNothing else.").unwrap();
        assert_eq!(prose("\u{1b}[2J").unwrap_err().field, "review_policy");
        assert_eq!(prose(&"x".repeat(LONGEST_REVIEW_POLICY + 1)).unwrap_err().field, "review_policy");
    }

    #[test]
    fn a_session_makes_a_person_only_where_its_name_cannot_be_chosen() {
        let principal = |role: &str| PrincipalSpec {
            person: "ana".parse().unwrap(),
            bot: false,
            iam: vec![IamMatch {
                account: "123456789012".into(),
                role: role.into(),
                role_id: None,
                session: Some("ana".into()),
            }],
            slack: Vec::new(),
        };
        assert_eq!(principal("Deployers").validate().unwrap_err().field, "iam.session");
        principal("AWSReservedSSO_Deployers_0123456789abcdef").validate().unwrap();
    }

    #[test]
    fn a_grant_holds_where_it_says_and_nowhere_else() {
        let (id, other) = (WorkspaceId::new([3; 10]), WorkspaceId::new([4; 10]));
        let grant = GrantSpec {
            person: "ana".parse().unwrap(),
            workspaces: vec![Scope::Workspace(id.clone())],
            actions: vec![Action::Propose],
        };
        assert!(grant.allows(Action::Propose, Some(&id)));
        assert!(!grant.allows(Action::Approve, Some(&id)));
        assert!(!grant.allows(Action::Propose, Some(&other)));
        assert!(!grant.allows(Action::Propose, None));
    }
}
