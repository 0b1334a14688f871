//! The parts of a projection.

use std::borrow::Cow;

use crate::actions::{Actions, Counted};
pub use crate::run::Counts;

/// How one value is shown: exactly one of three, and never two of them collapsed (`R26`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown<V> {
    /// `{"known": ...}`
    Known(V),
    /// `{"unknown": true}`: it will be known after the apply.
    Unknown,
    /// `{"sensitive": true}`: it exists and may not be shown.
    Sensitive,
}

/// One path of a resource, before and after. A side on which the path does not exist is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute<V> {
    /// Where: `config.user`, `ingress[0].cidr`, `tags["a.b"]`; empty for the resource as a whole.
    pub path: String,
    /// The value that the change starts from.
    pub before: Option<Shown<V>>,
    /// The value that the change leads to.
    pub after: Option<Shown<V>>,
}

/// One resource that is to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceChange<'a, V> {
    /// The address in the configuration.
    pub address: Cow<'a, str>,
    /// The resource type.
    pub kind: Cow<'a, str>,
    /// What is to be done.
    pub actions: Actions,
    /// Its paths, sorted by their bytes.
    pub attributes: Vec<Attribute<V>>,
}

/// One output. It has one representation as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChange<'a, V> {
    /// The output's name.
    pub name: Cow<'a, str>,
    /// What is to be done.
    pub actions: Actions,
    /// Its value after the apply.
    pub after: Shown<V>,
}

/// Counts action sets; a replacement counts once (V6).
pub(crate) fn count<'x>(actions: impl Iterator<Item = &'x Actions>) -> Counts {
    let mut counts = Counts::default();
    for counted in actions.filter_map(Actions::counted) {
        match counted {
            Counted::Create => counts.create += 1,
            Counted::Update => counts.update += 1,
            Counted::Delete => counts.delete += 1,
            Counted::Replace => counts.replace += 1,
        }
    }
    counts
}
