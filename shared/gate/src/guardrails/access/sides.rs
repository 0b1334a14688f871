//! The two sides of a change, attribute by attribute.

use crate::actions::Actions;
use crate::document::Change;
use crate::mask::Mask;
use crate::value::Value;

/// A change of one thing, or one half of a change from one thing to another.
#[derive(Clone, Copy)]
pub(super) struct Both<'c, 'd> {
    pub(super) before: Option<&'c Value<'d>>,
    pub(super) after: Option<&'c Value<'d>>,
    /// Whether nothing is meant to be left.
    pub(super) removed: bool,
    change: &'c Change<'d>,
}

/// One attribute on both sides of a change.
pub(super) struct Sides<'c, 'd> {
    pub(super) before: Option<&'c Value<'d>>,
    pub(super) after: Option<&'c Value<'d>>,
    /// What of it is unknown afterwards.
    pub(super) unknown: &'c Mask<'d>,
    /// Whether it is unknown or hidden, in part or as a whole.
    pub(super) unseen: bool,
}

impl<'c, 'd> Both<'c, 'd> {
    /// Both sides as the plan gives them. A thing that is new, or goes on existing beside its successor, has no before;
    /// one that is deleted has no after.
    pub(super) fn of(change: &'c Change<'d>) -> Self {
        let fresh = matches!(change.actions, Actions::Create | Actions::ForgetThenCreate | Actions::CreateThenForget);
        let gone = change.actions == Actions::Delete;
        Self {
            before: change.before.as_ref().filter(|_| !fresh),
            after: change.after.as_ref().filter(|_| !gone),
            removed: gone,
            change,
        }
    }

    /// Only what goes.
    pub(super) const fn removal(self) -> Self {
        Self { after: None, removed: true, ..self }
    }

    /// Only what comes.
    pub(super) const fn arrival(self) -> Self {
        Self { before: None, ..self }
    }

    /// Whether both sides are objects, where they are there, and the one afterwards is not unknown as a whole.
    pub(super) fn is_readable(&self) -> bool {
        let object = |side: Option<&Value<'_>>| side.is_none_or(|value| matches!(value, Value::Object(_)));
        let known = self.removed || !self.change.after_unknown.obscures(self.after);
        object(self.before) && object(self.after) && known
    }

    /// The names of all attributes that either side has, or will have.
    pub(super) fn names(&self) -> Vec<&'c str> {
        let fields = [self.before, self.after].into_iter().flatten().flat_map(Value::fields);
        let unknown = self.change.after_unknown.keys().iter().map(|(key, _)| key.as_ref());
        let mut names: Vec<&str> = fields.map(|(key, _)| key.as_ref()).chain(unknown).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The attribute `name`.
    pub(super) fn attribute(&self, name: &str) -> Sides<'c, 'd> {
        let change = self.change;
        let hidden = [(&change.before_sensitive, self.before), (&change.after_sensitive, self.after)]
            .into_iter()
            .any(|(mask, value)| mask.hides(value) || !mask.field(name).is_clear());
        let unknown = change.after_unknown.field(name);
        Sides {
            before: self.before.and_then(|value| value.field(name)),
            after: self.after.and_then(|value| value.field(name)),
            unknown,
            unseen: hidden || (self.after.is_some() && !unknown.is_clear()),
        }
    }
}

impl Sides<'_, '_> {
    /// Whether it is seen and the same on both sides, as far as a schema tells nothing from an empty value.
    pub(super) fn same(&self) -> bool {
        !self.unseen && (self.before == self.after || is_nothing(self.before) && is_nothing(self.after))
    }
}

/// Absent, null or empty: what a schema gives where nothing was said.
pub(super) fn is_nothing(value: Option<&Value<'_>>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Number(_) | Value::Bool(_)) => false,
        Some(container) => container.elements().is_empty() && container.fields().is_empty(),
    }
}
