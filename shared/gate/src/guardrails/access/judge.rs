//! Judges the rows whose types stand in the table, and single attributes of all others.

use crate::guardrails::access::iam::{self, Document, Unclear};
use crate::guardrails::access::names;
use crate::guardrails::access::network::{Range, Rule, admits_more};
use crate::guardrails::access::read;
use crate::guardrails::access::shape;
use crate::guardrails::access::sides::{Both, Sides, is_nothing};
use crate::guardrails::access::steps::Steps;
use crate::guardrails::access::table::{Judge, Kind, Missing, Presence};
use crate::guardrails::finding::Reason;
use crate::value::Value;

/// What was found in a row: a reason, and the attribute if it is about one.
pub(super) type Found<'c> = (Reason, Option<&'c str>);

/// Judges a change of a resource whose type is in the table.
pub(super) fn row<'c>(kind: &Kind, both: Both<'c, '_>, steps: &Steps) -> Vec<Found<'c>> {
    // What is there afterwards, if the plan does not say that nothing is, has to be seen.
    if !both.is_readable() || both.after.is_none() && !both.removed {
        return vec![(Reason::AccessWidened, None)];
    }
    let moved = |name: &&str| kind.is_target(name) && !both.attribute(name).same();
    if both.before.is_some() && both.after.is_some() && both.names().iter().any(moved) {
        // One thing goes and another comes: neither excuses the other.
        let mut found = part(kind, both.removal(), steps);
        found.extend(part(kind, both.arrival(), steps));
        return found;
    }
    part(kind, both, steps)
}

fn part<'c>(kind: &Kind, both: Both<'c, '_>, steps: &Steps) -> Vec<Found<'c>> {
    let (comes, goes) = (both.before.is_none(), both.removed);
    let wider = vec![(Reason::AccessWidened, None)];
    match kind.presence {
        Presence::Object | Presence::Grant if goes => return Vec::new(),
        Presence::Limit | Presence::Either if goes => return wider,
        Presence::Grant | Presence::Either if comes => return wider,
        _ => {}
    }
    let widened = shape::widened(kind.shape, both, steps).into_iter();
    let mut found: Vec<Found<'c>> = widened.map(|name| (Reason::AccessWidened, Some(name))).collect();
    for name in both.names() {
        let sides = both.attribute(name);
        if let Some(judge) = kind.judge(name) {
            if judge.widens(&sides, steps) {
                found.push((Reason::AccessWidened, Some(name)));
            }
        } else if !goes && !kind.is_target(name) && !kind.is_harmless(name) {
            let not_understood = if kind.closed {
                !sides.same()
            } else {
                names::differs(name, sides.before, sides.after, sides.unknown)
            };
            if not_understood {
                found.push((Reason::AccessNotUnderstood, Some(name)));
            }
        }
    }
    found
}

impl Judge {
    /// Whether the attribute may be wider afterwards. What is unknown or hidden is.
    pub(super) fn widens(self, sides: &Sides<'_, '_>, steps: &Steps) -> bool {
        let (before, after) = (sides.before, sides.after);
        let is = |side: Option<&Value<'_>>, flag| side == Some(&Value::Bool(flag));
        // What cannot get wider, whatever is not seen.
        match self {
            Self::Opens if is(before, true) => return false,
            Self::Closes => return is(before, true) && (sides.unseen || !is(after, true)),
            Self::Limit | Self::Document(Missing::Everything) if is_nothing(before) => return false,
            _ => {}
        }
        if sides.same() {
            return false;
        }
        if sides.unseen {
            return true;
        }
        match self {
            Self::Document(missing) => document(missing, before, after, steps).unwrap_or(true),
            Self::Documents => documents(before, after, steps).unwrap_or(true),
            Self::Limit | Self::Exact | Self::Closes => true,
            Self::Grant => !is_nothing(after),
            Self::Members => !members(before, after),
            Self::Groups => is_nothing(after) || !members(before, after),
            Self::Opens => !(is_nothing(after) || is(after, false)),
            Self::Closed(words) => {
                let word = if is_nothing(after) { Some("") } else { after.and_then(Value::text) };
                !word.is_some_and(|word| words.contains(&word))
            }
            Self::Ranges => ranges(before, after, steps).unwrap_or(true),
            Self::GroupRules => rules(before, after, &GROUP_RULE, read::group_rules, steps).unwrap_or(true),
            Self::AclRules => rules(before, after, &ACL_RULE, read::acl_rules, steps).unwrap_or(true),
        }
    }
}

fn document(
    missing: Missing,
    before: Option<&Value<'_>>,
    after: Option<&Value<'_>>,
    steps: &Steps,
) -> Result<bool, Unclear> {
    let parse = |side: Option<&Value<'_>>| match side.filter(|_| !is_nothing(side)) {
        None => Ok(Document::empty()),
        Some(value) => value.text().ok_or(Unclear).and_then(Document::parse),
    };
    // A policy taken away, where without one more may be permitted than nothing.
    if missing != Missing::Nothing && is_nothing(after) {
        return Ok(true);
    }
    Ok(iam::widens(&parse(before)?, &parse(after)?, steps))
}

/// Policies of one thing: they apply together.
fn documents(before: Option<&Value<'_>>, after: Option<&Value<'_>>, steps: &Steps) -> Result<bool, Unclear> {
    let all = |side: Option<&Value<'_>>| {
        blocks(side, &["name", "policy"])?.iter().try_fold(Document::empty(), |all, block| {
            match block.field("policy") {
                policy if is_nothing(policy) => Ok(all),
                policy => policy.and_then(Value::text).ok_or(Unclear).and_then(Document::parse).map(|one| all.and(one)),
            }
        })
    };
    Ok(iam::widens(&all(before)?, &all(after)?, steps))
}

/// What a block of a security group's rules holds.
const GROUP_RULE: [&str; 9] = [
    "cidr_blocks",
    "description",
    "from_port",
    "ipv6_cidr_blocks",
    "prefix_list_ids",
    "protocol",
    "security_groups",
    "self",
    "to_port",
];
/// What a block of a network's rules holds.
const ACL_RULE: [&str; 9] = [
    "action",
    "cidr_block",
    "from_port",
    "icmp_code",
    "icmp_type",
    "ipv6_cidr_block",
    "protocol",
    "rule_no",
    "to_port",
];

/// The blocks of an attribute, each an object in which nothing is said that is not `known` here.
fn blocks<'v, 'd>(side: Option<&'v Value<'d>>, known: &[&str]) -> Result<&'v [Value<'d>], Unclear> {
    let said = |(key, value): &(_, Value<'_>)| known.contains(&AsRef::<str>::as_ref(key)) || is_nothing(Some(value));
    match side {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items))
            if items.iter().all(|item| matches!(item, Value::Object(fields) if fields.iter().all(said))) =>
        {
            Ok(items)
        }
        Some(_) => Err(Unclear),
    }
}

/// Whether all that stand in a list afterwards stood in it before.
fn members(before: Option<&Value<'_>>, after: Option<&Value<'_>>) -> bool {
    let list = |side: Option<&Value<'_>>| is_nothing(side) || matches!(side, Some(Value::Array(_)));
    let known = before.map(Value::elements).unwrap_or_default();
    list(before) && list(after) && after.map(Value::elements).unwrap_or_default().iter().all(|one| known.contains(one))
}

fn ranges(before: Option<&Value<'_>>, after: Option<&Value<'_>>, steps: &Steps) -> Result<bool, Unclear> {
    let range = |block: &Value<'_>| block.field("cidr").and_then(Value::text).and_then(Range::parse).ok_or(Unclear);
    let all = |side| -> Result<Vec<Rule>, Unclear> {
        blocks(side, &["cidr", "description"])?.iter().map(|one| range(one).map(Rule::any_traffic)).collect()
    };
    Ok(admits_more(&all(before)?, &all(after)?, steps))
}

fn rules(
    before: Option<&Value<'_>>,
    after: Option<&Value<'_>>,
    known: &[&str],
    read: impl Fn(&Value<'_>) -> Option<Vec<Rule>>,
    steps: &Steps,
) -> Result<bool, Unclear> {
    let all = |side| -> Result<Vec<Rule>, Unclear> {
        let read: Option<Vec<Vec<Rule>>> = blocks(side, known)?.iter().map(&read).collect();
        Ok(read.ok_or(Unclear)?.concat())
    };
    Ok(admits_more(&all(before)?, &all(after)?, steps))
}
