//! Reads rules of networks as the provider's attributes hold them. None: not understood.

use crate::guardrails::access::network::{Family, Peer, Range, Rule};
use crate::guardrails::access::sides::is_nothing;
use crate::value::Value;

/// A whole number. Numbers that are not written as one are not understood.
fn number(block: &Value<'_>, name: &str) -> Option<i64> {
    match block.field(name) {
        Some(Value::Number(digits)) => digits.parse().ok(),
        _ => None,
    }
}

/// A number that means nothing where it is not said.
fn number_or(block: &Value<'_>, name: &str, otherwise: i64) -> Option<i64> {
    if is_nothing(block.field(name)) { Some(otherwise) } else { number(block, name) }
}

/// The texts of a list; none where nothing is said.
fn list<'v>(block: &'v Value<'_>, name: &str) -> Option<Vec<&'v str>> {
    match block.field(name) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(Value::text).collect(),
        Some(_) => None,
    }
}

/// A text; none where nothing is said.
fn text<'v>(block: &'v Value<'_>, name: &str) -> Option<Option<&'v str>> {
    match block.field(name) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) => Some(Some(text.as_ref()).filter(|text| !text.is_empty())),
        Some(_) => None,
    }
}

/// A range of the one family or the other.
fn range(text: &str, six: bool) -> Option<Peer> {
    Range::parse(text).filter(|range| range.is_six() == six).map(Peer::Addresses)
}

fn admitting((protocol, ports): (Family, (u32, u32)), peers: Vec<Peer>) -> Vec<Rule> {
    let rule = |peer| Rule { order: 0, admits: true, protocol: protocol.clone(), ports, peer };
    peers.into_iter().map(rule).collect()
}

/// A block of `ingress` or `egress` of a security group, or a rule of the older form, whose one group has another name.
pub(super) fn group_rules(block: &Value<'_>) -> Option<Vec<Rule>> {
    let mut peers = Vec::new();
    for cidr in list(block, "cidr_blocks")? {
        peers.push(range(cidr, false)?);
    }
    for cidr in list(block, "ipv6_cidr_blocks")? {
        peers.push(range(cidr, true)?);
    }
    let named = [list(block, "prefix_list_ids")?, list(block, "security_groups")?].concat();
    peers.extend(
        named.into_iter().chain(text(block, "source_security_group_id")?).map(|name| Peer::Named(name.to_owned())),
    );
    match block.field("self") {
        Some(Value::Bool(true)) => peers.push(Peer::Named("self".to_owned())),
        None | Some(Value::Null | Value::Bool(false)) => {}
        Some(_) => return None,
    }
    let protocol = Family::read(text(block, "protocol")??, number(block, "from_port")?, number(block, "to_port")?)?;
    Some(admitting(protocol, peers))
}

/// A rule of a security group in the newer form: one peer.
pub(super) fn single_rule(block: &Value<'_>) -> Option<Vec<Rule>> {
    let mut peers = Vec::new();
    if let Some(cidr) = text(block, "cidr_ipv4")? {
        peers.push(range(cidr, false)?);
    }
    if let Some(cidr) = text(block, "cidr_ipv6")? {
        peers.push(range(cidr, true)?);
    }
    let named = [text(block, "prefix_list_id")?, text(block, "referenced_security_group_id")?];
    peers.extend(named.into_iter().flatten().map(|name| Peer::Named(name.to_owned())));
    // For all protocols no ports are said.
    let (from, to) = (number_or(block, "from_port", -1)?, number_or(block, "to_port", -1)?);
    Some(admitting(Family::read(text(block, "ip_protocol")??, from, to)?, peers))
}

/// A block of `ingress` or `egress` of a network's rules, or a rule of its own, whose names are a little different.
pub(super) fn acl_rules(block: &Value<'_>) -> Option<Vec<Rule>> {
    let either = |one, other| if is_nothing(block.field(one)) { other } else { one };
    let order = u64::try_from(number(block, either("rule_no", "rule_number"))?).ok()?;
    let admits = match text(block, either("action", "rule_action"))??.to_ascii_lowercase().as_str() {
        "allow" => true,
        "deny" => false,
        _ => return None,
    };
    let name = text(block, "protocol")??;
    let icmp = matches!(name.to_ascii_lowercase().as_str(), "icmp" | "1" | "icmpv6" | "58");
    let (from, to) = if icmp { ("icmp_type", "icmp_code") } else { ("from_port", "to_port") };
    // A port that is not said is zero to the provider, a type or a code that is not said is zero too.
    let (protocol, ports) = Family::read(name, number_or(block, from, 0)?, number_or(block, to, 0)?)?;
    let mut peers = Vec::new();
    if let Some(cidr) = text(block, "cidr_block")? {
        peers.push(range(cidr, false)?);
    }
    if let Some(cidr) = text(block, "ipv6_cidr_block")? {
        peers.push(range(cidr, true)?);
    }
    let rule = |peer| Rule { order, admits, protocol: protocol.clone(), ports, peer };
    Some(peers.into_iter().map(rule).collect())
}
