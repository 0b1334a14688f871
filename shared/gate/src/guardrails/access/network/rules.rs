//! Whether rules admit traffic that other rules did not.

use std::collections::BTreeSet;

use crate::guardrails::access::network::range::Range;
use crate::guardrails::access::steps::Steps;

/// Who is on the other side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::guardrails::access) enum Peer {
    /// Addresses.
    Addresses(Range),
    /// A group, a prefix list, or the group itself, by name.
    Named(String),
}

/// What kind of traffic a protocol's ports speak of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::guardrails::access) enum Family {
    /// All protocols.
    All,
    /// One, by its number, or by its name where it has no number here.
    One(String),
}

/// One rule: what it admits or refuses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::guardrails::access) struct Rule {
    /// The first rule that speaks of a packet decides, by this number.
    pub(in crate::guardrails::access) order: u64,
    /// Whether it admits.
    pub(in crate::guardrails::access) admits: bool,
    pub(in crate::guardrails::access) protocol: Family,
    /// The first and the last port; for ICMP the type times 256 plus the code.
    pub(in crate::guardrails::access) ports: (u32, u32),
    pub(in crate::guardrails::access) peer: Peer,
}

/// The last of the numbers that stand for ports.
const LAST_PORT: u32 = 0xffff;

impl Rule {
    /// A rule that admits everything from a range.
    pub(in crate::guardrails::access) const fn any_traffic(range: Range) -> Self {
        let (protocol, ports) = (Family::All, (0, LAST_PORT));
        Self { order: 0, admits: true, protocol, ports, peer: Peer::Addresses(range) }
    }
}

impl Family {
    /// Reads a protocol and its two numbers as the provider writes them: ports, or type and code.
    pub(in crate::guardrails::access) fn read(protocol: &str, from: i64, to: i64) -> Option<(Self, (u32, u32))> {
        let name = protocol.to_ascii_lowercase();
        let every = (0, LAST_PORT);
        match name.as_str() {
            "-1" | "all" => Some((Self::All, every)),
            "tcp" | "6" => ports(from, to).map(|ports| (Self::One("6".to_owned()), ports)),
            "udp" | "17" => ports(from, to).map(|ports| (Self::One("17".to_owned()), ports)),
            "icmp" | "1" => icmp(from, to).map(|ports| (Self::One("1".to_owned()), ports)),
            "icmpv6" | "58" => icmp(from, to).map(|ports| (Self::One("58".to_owned()), ports)),
            // Of other protocols rules admit everything, whatever the numbers say.
            other if !other.is_empty() => Some((Self::One(other.to_owned()), every)),
            _ => None,
        }
    }

    fn speaks_of(&self, protocol: &Self) -> bool {
        *self == Self::All || self == protocol
    }
}

fn ports(from: i64, to: i64) -> Option<(u32, u32)> {
    let port = |number: i64| u32::try_from(number).ok().filter(|port| *port <= LAST_PORT);
    let (from, to) = (port(from)?, port(to)?);
    (from <= to).then_some((from, to))
}

fn icmp(kind: i64, code: i64) -> Option<(u32, u32)> {
    match (u8::try_from(kind), u8::try_from(code)) {
        (Ok(kind), Ok(code)) => {
            Some((u32::from(kind) * 256 + u32::from(code), u32::from(kind) * 256 + u32::from(code)))
        }
        (Ok(kind), Err(_)) if code == -1 => Some((u32::from(kind) * 256, u32::from(kind) * 256 + 255)),
        (Err(_), _) if kind == -1 && code == -1 => Some((0, LAST_PORT)),
        _ => None,
    }
}

/// Whether `after` admits any traffic that `before` does not.
///
/// Ports and addresses are cut where any rule begins or ends; between two cuts all traffic is treated alike, so that
/// one packet of each piece tells all. What takes too long to tell counts as more.
pub(in crate::guardrails::access) fn admits_more(before: &[Rule], after: &[Rule], steps: &Steps) -> bool {
    let mut before = before.to_vec();
    let mut after = after.to_vec();
    before.sort();
    after.sort();
    before.dedup();
    after.dedup();
    if before == after {
        return false;
    }
    let ordered = before.iter().chain(&after).any(|rule| !rule.admits);
    // Where nothing is refused, a rule that was there before admits nothing new.
    let news: Vec<&Rule> =
        after.iter().filter(|rule| rule.admits && (ordered || before.binary_search(rule).is_err())).collect();
    let known: BTreeSet<&Family> = before.iter().chain(&after).map(|rule| &rule.protocol).collect();
    let other = Family::One(String::new());
    for rule in news {
        // Every protocol that any rule names, and one that none does.
        let protocols = known.iter().copied().filter(|one| **one != Family::All).chain([&other]);
        for protocol in protocols.filter(|one| rule.protocol.speaks_of(one)) {
            if piece_admits_more(&before, &after, rule, protocol, steps) {
                return true;
            }
        }
    }
    false
}

fn piece_admits_more(before: &[Rule], after: &[Rule], rule: &Rule, protocol: &Family, steps: &Steps) -> bool {
    if !steps.take_many(before.len() + after.len()) {
        return true;
    }
    let near = |other: &&Rule| other.protocol.speaks_of(protocol);
    let before: Vec<&Rule> = before.iter().filter(near).collect();
    let after: Vec<&Rule> = after.iter().filter(near).collect();
    let (first, last) = rule.ports;
    let mut ports = BTreeSet::from([first]);
    for other in before.iter().chain(&after) {
        ports.extend([other.ports.0, other.ports.1.saturating_add(1)]);
    }
    for port in ports.range(first..=last) {
        if !steps.take_many(before.len() + after.len()) {
            return true;
        }
        for peer in starts(&rule.peer, before.iter().chain(&after).map(|other| &other.peer)) {
            let admitted = |rules: &[&Rule]| {
                let speaks = |rule: &&&Rule| {
                    steps.take() && rule.ports.0 <= *port && *port <= rule.ports.1 && includes(&rule.peer, &peer)
                };
                rules.iter().find(speaks).is_some_and(|rule| rule.admits)
            };
            if !admitted(&before) && (admitted(&after) || !steps.take()) {
                return true;
            }
        }
    }
    false
}

/// One peer of each piece into which `peer` is cut by the others.
fn starts<'r>(peer: &Peer, others: impl Iterator<Item = &'r Peer>) -> Vec<Peer> {
    let Peer::Addresses(range) = peer else { return vec![peer.clone()] };
    let mut cuts = BTreeSet::from([range.first]);
    for other in others {
        if let Peer::Addresses(other) = other
            && other.six == range.six
        {
            cuts.insert(other.first);
            cuts.extend(other.last.checked_add(1));
        }
    }
    let single = |at: &u128| Peer::Addresses(Range { six: range.six, first: *at, last: *at });
    cuts.range(range.first..=range.last).map(single).collect()
}

fn includes(wide: &Peer, narrow: &Peer) -> bool {
    match (wide, narrow) {
        (Peer::Addresses(wide), Peer::Addresses(narrow)) => wide.covers(narrow),
        (wide, narrow) => wide == narrow,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(order: u64, admits: bool, protocol: &str, ports: (i64, i64), peer: &str) -> Rule {
        let (protocol, ports) = Family::read(protocol, ports.0, ports.1).unwrap();
        let peer = Range::parse(peer).map_or_else(|| Peer::Named(peer.to_owned()), Peer::Addresses);
        Rule { order, admits, protocol, ports, peer }
    }

    fn more(before: &[Rule], after: &[Rule]) -> bool {
        admits_more(before, after, &Steps::new())
    }

    #[test]
    fn rules_are_sets_of_ports_and_addresses_however_they_are_cut() {
        let one = |protocol, ports, peer| rule(0, true, protocol, ports, peer);
        let whole = [one("tcp", (80, 443), "10.0.0.0/8")];
        let cut = [
            one("6", (80, 100), "10.0.0.0/9"),
            one("tcp", (101, 443), "10.0.0.0/9"),
            one("tcp", (80, 443), "10.128.0.0/9"),
        ];
        assert!(!more(&whole, &cut) && !more(&cut, &whole), "the same, cut");
        assert!(more(&cut[1..], &whole), "a part is missing");
        assert!(!more(&[one("-1", (0, 0), "10.0.0.0/8")], &whole), "all protocols");
        assert!(more(&whole, &[one("-1", (0, 0), "10.0.0.0/32")]));
        assert!(more(&whole, &[one("udp", (80, 80), "10.0.0.0/32")]));
        assert!(more(&whole, &[one("tcp", (80, 444), "10.0.0.0/32")]));
        assert!(more(&whole, &[one("tcp", (80, 80), "::/128")]));
        let halves = [one("tcp", (1, 1), "0.0.0.0/1"), one("tcp", (1, 1), "128.0.0.0/1")];
        assert!(!more(&halves, &[one("tcp", (1, 1), "0.0.0.0/0")]));
        assert!(more(&[], &whole) && !more(&whole, &[]));
        let group = [one("tcp", (1, 9), "sg-1")];
        assert!(!more(&group, &[one("tcp", (2, 3), "sg-1")]));
        assert!(more(&group, &[one("tcp", (2, 3), "sg-2")]));
        assert!(!more(&[one("icmp", (-1, -1), "::/0")], &[one("1", (8, 0), "::/0")]));
        assert!(more(&[one("icmp", (8, 0), "::/0")], &[one("icmp", (8, -1), "::/0")]));
    }

    #[test]
    fn the_first_rule_that_speaks_of_a_packet_decides() {
        let deny = rule(1, false, "tcp", (22, 22), "0.0.0.0/0");
        let allow = rule(2, true, "-1", (0, 0), "0.0.0.0/0");
        let both = [deny.clone(), allow.clone()];
        assert!(more(&both, std::slice::from_ref(&allow)), "a refusal less");
        assert!(!more(std::slice::from_ref(&allow), &both), "a refusal more");
        assert!(more(&both, &[Rule { order: 3, ..deny.clone() }, allow.clone()]), "a refusal that comes too late");
        assert!(!more(&both, &[Rule { order: 0, ..deny }, allow]));
    }

    /// Rules over a world of two protocols, eight ports, eight addresses and a group.
    fn rules(refusals: bool) -> impl Strategy<Value = Vec<Rule>> {
        let peer = prop_oneof![
            4 => (0..8_u8, 29..=32_u8).prop_map(|(host, bits)| format!("10.0.0.{host}/{bits}")),
            1 => Just("sg-1".to_owned()),
        ];
        let protocol = prop::sample::select(vec!["6", "17", "-1"]);
        let one = (0..4_u64, any::<bool>(), protocol, 0..8_i64, 0..8_i64, peer).prop_map(
            move |(order, admits, protocol, one, other, peer)| {
                rule(order, admits || !refusals, protocol, (one.min(other), one.max(other)), &peer)
            },
        );
        prop::collection::vec(one, 0..5).prop_map(|mut rules| {
            // Rules of one number cannot be told apart.
            rules.sort_by_key(|rule| rule.order);
            rules.dedup_by_key(|rule| rule.order);
            rules
        })
    }

    fn admitted(rules: &[Rule], protocol: &str, port: u32, peer: &Peer) -> bool {
        let speaks = |rule: &&Rule| {
            let within = match (&rule.peer, peer) {
                (Peer::Addresses(range), Peer::Addresses(one)) => range.first <= one.first && one.first <= range.last,
                (Peer::Named(name), Peer::Named(one)) => name == one,
                _ => false,
            };
            let named = rule.protocol == Family::All || rule.protocol == Family::One(protocol.to_owned());
            named && (rule.ports.0..=rule.ports.1).contains(&port) && within
        };
        rules.iter().find(speaks).is_some_and(|rule| rule.admits)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(9), ..ProptestConfig::default() })]

        #[test]
        fn more_is_admitted_exactly_if_some_packet_says_so(
            (before, after) in any::<bool>().prop_flat_map(|refusals| (rules(refusals), rules(refusals))),
        ) {
            let mut peers: Vec<Peer> =
                (0..8).map(|host| Peer::Addresses(Range::parse(&format!("10.0.0.{host}")).unwrap())).collect();
            peers.push(Peer::Named("sg-1".to_owned()));
            let tried = ["6", "17", "50"].iter().any(|protocol| {
                (0..9).any(|port| {
                    peers.iter().any(|peer| {
                        !admitted(&before, protocol, port, peer) && admitted(&after, protocol, port, peer)
                    })
                })
            });
            prop_assert_eq!(more(&before, &after), tried, "{:?} {:?}", before, after);
        }
    }
}
