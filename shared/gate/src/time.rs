//! Moments, to the second, in UTC. The clock is always a parameter; this module only writes and reads.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const FORMAT: &[BorrowedFormatItem<'static>] = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");

/// A moment in UTC with whole seconds, written as `2026-11-30T05:00:00Z`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A text or number that is no moment between the years 1970 and 9999.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a time: expected the form `2026-11-30T05:00:00Z`")]
pub struct TimestampError;

impl Timestamp {
    /// The moment that many seconds after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    /// A moment before 1970 or after 9999.
    pub fn from_unix_seconds(seconds: i64) -> Result<Self, TimestampError> {
        match OffsetDateTime::from_unix_timestamp(seconds) {
            Ok(moment) if seconds >= 0 && moment.year() <= 9999 => Ok(Self(seconds)),
            _ => Err(TimestampError),
        }
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn unix_seconds(self) -> i64 {
        self.0
    }

    /// The moment `seconds` later; the last second of the year 9999 where that lies beyond it.
    #[must_use]
    pub fn plus_seconds(self, seconds: u32) -> Self {
        Self::from_unix_seconds(self.0 + i64::from(seconds)).unwrap_or(Self(253_402_300_799))
    }

    /// The moment `seconds` earlier; `self` where that is before 1970.
    #[must_use]
    pub fn minus_seconds(self, seconds: u32) -> Self {
        Self::from_unix_seconds(self.0 - i64::from(seconds)).unwrap_or(self)
    }

    /// Whole seconds from `self` until `later`, 0 where that is past.
    #[must_use]
    pub fn seconds_until(self, later: Self) -> u32 {
        u32::try_from((later.0 - self.0).max(0)).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = OffsetDateTime::from_unix_timestamp(self.0)
            .ok()
            .and_then(|moment| moment.format(FORMAT).ok())
            .ok_or(fmt::Error)?;
        f.write_str(&text)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let moment = time::PrimitiveDateTime::parse(text, FORMAT).map_err(|_| TimestampError)?;
        Self::from_unix_seconds(moment.assume_utc().unix_timestamp())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_reads_back_what_it_wrote() {
        let moment: Timestamp = "2026-11-30T05:09:21Z".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-11-30T05:09:21Z");
        assert_eq!(moment.plus_seconds(60).to_string(), "2026-11-30T05:10:21Z");
        assert_eq!(moment.seconds_until(moment.plus_seconds(9)), 9);
        assert_eq!(moment.plus_seconds(9).seconds_until(moment), 0);
        for bad in ["", "2026-11-30", "2026-11-30T05:09:21+01:00", "2026-11-30T05:09:61Z", "1969-12-31T23:59:59Z"] {
            assert!(bad.parse::<Timestamp>().is_err(), "`{bad}`");
        }
    }
}
