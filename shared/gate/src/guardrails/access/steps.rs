//! A bound on how long a comparison may take. Policies come from proposers; one that is made to be compared for hours
//! is not decided, which is never taken for harmless.

use std::cell::Cell;

/// How many steps the comparisons of one plan may take: far more than policies that AWS would store need.
const MOST: u64 = 50_000_000;

/// The steps that are left.
pub(super) struct Steps(Cell<u64>);

impl Steps {
    /// All of them.
    pub(super) const fn new() -> Self {
        Self(Cell::new(MOST))
    }

    /// Only so many.
    #[cfg(test)]
    pub(super) const fn only(many: u64) -> Self {
        Self(Cell::new(many))
    }

    /// Takes one. False if there are none left: then whatever was to be shown is not shown.
    pub(super) fn take(&self) -> bool {
        self.take_many(1)
    }

    /// Takes as many. False if there are not that many left, and then none are.
    pub(super) fn take_many(&self, many: usize) -> bool {
        let left = u64::try_from(many).ok().and_then(|many| self.0.get().checked_sub(many));
        self.0.set(left.unwrap_or_default());
        left.is_some()
    }
}
