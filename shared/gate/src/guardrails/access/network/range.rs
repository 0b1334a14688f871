//! Ranges of addresses.

use std::net::IpAddr;

/// Addresses of one family, from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::guardrails::access) struct Range {
    /// Whether they are of IPv6.
    pub(super) six: bool,
    pub(super) first: u128,
    pub(super) last: u128,
}

impl Range {
    /// Reads an address or a range in the form `10.0.0.0/8`. Bits behind the prefix count for nothing.
    pub(in crate::guardrails::access) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                (address, Some(bits.parse::<u32>().ok()?))
            }
            Some(_) => return None,
            None => (text, None),
        };
        let (six, number, width) = match address.parse().ok()? {
            IpAddr::V4(address) => (false, u128::from(u32::from(address)), 32),
            IpAddr::V6(address) => (true, u128::from(address), 128),
        };
        let free = width - bits.filter(|bits| *bits <= width).or(bits.is_none().then_some(width))?;
        let rest = if free == 0 { 0 } else { u128::MAX >> (128 - free) };
        Some(Self { six, first: number & !rest, last: number | rest })
    }

    /// Whether its addresses are of IPv6.
    pub(in crate::guardrails::access) const fn is_six(&self) -> bool {
        self.six
    }

    /// Whether all addresses of `other` are in it.
    pub(in crate::guardrails::access) const fn covers(&self, other: &Self) -> bool {
        self.six == other.six && self.first <= other.first && other.last <= self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_however_they_are_written() {
        let range = |text| Range::parse(text).unwrap();
        assert_eq!(range("10.1.2.3/8"), range("10.0.0.0/8"));
        assert_eq!(range("0::0/00"), range("::/0"));
        assert_eq!(range("192.0.2.1"), range("192.0.2.1/32"));
        assert!(range("::/0").covers(&range("2001:db8::/32")));
        assert!(range("0.0.0.0/0").covers(&range("255.255.255.255")));
        assert!(!range("::/0").covers(&range("0.0.0.0/0")), "families are apart");
        assert!(!range("10.0.0.0/9").covers(&range("10.0.0.0/8")));
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "pl-1", "1.2.3.4/8/8"] {
            assert_eq!(Range::parse(text), None, "{text}");
        }
    }
}
