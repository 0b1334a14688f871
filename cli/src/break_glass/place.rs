//! Where a workspace's things are, from names alone (`R56`): each is checked before it may stand in a script.

use plangate_gate::documents::DocumentKind;
use plangate_gate::ids::{RunId, WorkspaceId};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::args::Print;
use crate::documents::read_file;
use crate::error::CliError;
use crate::text::inert;

/// The most bytes of a saved document.
const FILE_LIMIT: u64 = 1024 * 1024;

/// Why there is no way around the gate into another account.
pub(super) const ELSEWHERE: &str = "the workspace's estate is in another account, where its break-glass role leads nobody: \
     go by your own way into that account (docs/accounts.md)";

/// Everything that the script says of a workspace. Only [`Place::of`] makes one, of checked parts.
#[derive(Debug)]
pub(crate) struct Place {
    /// The workspace.
    pub(crate) workspace: WorkspaceId,
    /// What people call it, where a document tells.
    pub(crate) name: Option<String>,
    /// The region.
    pub(crate) region: String,
    /// The ARN of its break-glass role.
    pub(crate) role: String,
    /// The exchange bucket.
    pub(crate) exchange: String,
    /// The run that was named.
    pub(crate) run: Option<RunId>,
    /// The second factor: a device's serial number, to be asked for, or none of the script's.
    pub(crate) factor: Factor,
    /// The session's name, if it was said.
    pub(crate) session: Option<String>,
}

/// How somebody shows the second factor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Factor {
    /// By a code of this device, or of one that the script asks for.
    Code(Option<String>),
    /// At the sign-in to Identity Center.
    SignIn,
}

/// What is taken of a saved document. What else it holds is passed over on purpose: it may be younger than this program, and
/// nobody wants to hear of that at night.
#[derive(Debug, Deserialize)]
struct Saved {
    kind: DocumentKind,
    id: WorkspaceId,
    spec: SavedSpec,
}

#[derive(Debug, Deserialize)]
struct SavedSpec {
    name: String,
    apply_role: String,
    state: SavedState,
    estate: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct SavedState {
    region: String,
}

#[derive(Debug, Deserialize)]
struct SavedAnswer {
    document: Saved,
}

impl Place {
    /// The place of the workspace that is named on the command line, by its id or by a document that was saved.
    ///
    /// # Errors
    /// Something is missing, says two things, or is not what such a name can be.
    pub(crate) fn of(args: &Print) -> Result<Self, CliError> {
        let saved = match args.workspace.parse::<WorkspaceId>() {
            Ok(id) => Known { id, name: None, role: None, region: None },
            Err(_) => Known::read(&args.workspace)?,
        };
        let region = one("region", args.region.as_deref(), saved.region.as_deref())?;
        check("--region", "a region such as `eu-central-1`", region, is_region)?;
        let saved_role = saved.role.as_deref().map(Arn::parse).transpose()?;
        let account = one("account", args.account.as_deref(), saved_role.as_ref().map(|arn| arn.account))?;
        check("--account", "the twelve digits of an account", account, is_account)?;
        let partition = saved_role.as_ref().map_or_else(|| partition(region), |arn| arn.partition);
        check("--gate", "2 to 16 of a-z 0-9, a letter first", &args.gate, |text| {
            (2..=16).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
                && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        })?;
        let exchange =
            args.exchange_bucket.clone().unwrap_or_else(|| format!("{}-exchange-{account}-{region}", args.gate));
        check("--exchange-bucket", "a bucket's name", &exchange, |text| {
            (3..=63).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
        })?;
        if let Some(serial) = &args.mfa_serial {
            check("--mfa-serial", "a serial number or an ARN", serial, |text| words(text, 9..=256, b"_+=/:,.@-"))?;
        }
        if let Some(session) = &args.session_name {
            check("--session-name", "2 to 64 of a-z A-Z 0-9 _ + = , . @ -", session, |text| {
                words(text, 2..=64, b"_+=,.@-")
            })?;
        }
        let id = &saved.id;
        let role = format!("arn:{partition}:iam::{account}:role/plangate/break-glass/{id}-break-glass");
        Ok(Self {
            role,
            exchange,
            region: region.to_owned(),
            run: args.run.clone(),
            factor: if args.identity_center { Factor::SignIn } else { Factor::Code(args.mfa_serial.clone()) },
            session: args.session_name.clone(),
            name: saved.name,
            workspace: saved.id,
        })
    }
}

/// What is known of a workspace before the command line's own words.
struct Known {
    id: WorkspaceId,
    name: Option<String>,
    role: Option<String>,
    region: Option<String>,
}

impl Known {
    /// Reads a saved document: the whole answer of `workspace get --json`, or what stands in it under `document`.
    fn read(path: &str) -> Result<Self, CliError> {
        let invalid = |detail: &str| CliError::File { path: inert(path), detail: detail.to_owned() };
        let bytes = match read_file(std::path::Path::new(path), FILE_LIMIT) {
            Err(CliError::Read { .. }) if path != "-" => {
                let said = format!("`{}` is neither a workspace's id nor a file that can be read", inert(path));
                return Err(CliError::Usage(said));
            }
            other => other?,
        };
        let saved = serde_json::from_slice::<SavedAnswer>(&bytes)
            .map(|answer| answer.document)
            .or_else(|_| serde_json::from_slice::<Saved>(&bytes))
            .map_err(|_| invalid("this is not what `plangate workspace get --json` prints"))?;
        if saved.kind != DocumentKind::Workspace {
            return Err(invalid("this is no workspace"));
        }
        if !plangate_gate::documents::plain(&saved.spec.name, 128) {
            return Err(invalid("`name` has control characters, or is too long"));
        }
        let spec = saved.spec;
        if spec.estate.is_some() {
            return Err(invalid(ELSEWHERE));
        }
        let (name, role, region) = (Some(spec.name), Some(spec.apply_role), Some(spec.state.region));
        Ok(Self { id: saved.id, name, role, region })
    }
}

/// The parts of a role's ARN that are needed.
struct Arn<'t> {
    partition: &'t str,
    account: &'t str,
}

impl<'t> Arn<'t> {
    fn parse(text: &'t str) -> Result<Self, CliError> {
        let mut parts = text.split(':');
        match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("arn"), Some(partition), Some("iam"), Some(""), Some(account))
                if partition.starts_with("aws") && words(partition, 3..=32, b"-") && is_account(account) =>
            {
                Ok(Self { partition, account })
            }
            _ => Err(CliError::Usage("the file's `apply_role` is no ARN of a role".to_owned())),
        }
    }
}

/// The one value of `name`: as it was said, or as the document has it. Both must be the same.
fn one<'t>(name: &str, said: Option<&'t str>, saved: Option<&'t str>) -> Result<&'t str, CliError> {
    match (said, saved) {
        (Some(said), Some(saved)) if said != saved => {
            Err(CliError::Usage(format!("--{name} is `{}`, and the file says `{}`", inert(said), inert(saved))))
        }
        (Some(one), _) | (None, Some(one)) => Ok(one),
        (None, None) => Err(CliError::Usage(format!("--{name} is needed with a workspace's id"))),
    }
}

fn check(option: &str, expected: &str, text: &str, holds: impl Fn(&str) -> bool) -> Result<(), CliError> {
    if holds(text) {
        return Ok(());
    }
    Err(CliError::Usage(format!("`{}` cannot be: {option} is {expected}", inert(text))))
}

fn words(text: &str, length: std::ops::RangeInclusive<usize>, besides: &[u8]) -> bool {
    length.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || besides.contains(&b))
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let letters = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase());
    let number = parts.last().is_some_and(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    text.len() <= 32 && parts.len() >= 3 && number && parts.iter().rev().skip(1).all(letters)
}

/// The partition that a region belongs to.
fn partition(region: &str) -> &'static str {
    const OTHERS: [(&str, &str); 5] = [
        ("cn-", "aws-cn"),
        ("us-gov-", "aws-us-gov"),
        ("us-isob-", "aws-iso-b"),
        ("us-iso-", "aws-iso"),
        ("eusc-", "aws-eusc"),
    ];
    OTHERS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or("aws", |(_, partition)| partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_tells_its_partition_and_nothing_else_is_one() {
        for (region, its) in [("eu-central-1", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")] {
            assert!(is_region(region));
            assert_eq!(partition(region), its);
        }
        for bad in ["", "eu", "eu-central", "eu-central-1;rm", "EU-central-1", "eu--1", "eu-central-$(id)-1"] {
            assert!(!is_region(bad), "`{bad}`");
        }
    }

    #[test]
    fn what_is_said_and_what_was_saved_must_agree() {
        assert_eq!(one("account", None, Some("1")).unwrap(), "1");
        assert_eq!(one("account", Some("1"), Some("1")).unwrap(), "1");
        assert!(one("account", Some("1"), Some("2")).is_err());
        assert!(one("account", None, None).is_err());
    }
}
