//! What a plan says will be done with a resource or an output: a closed set, everything else kept apart.

/// The action set of one entry of a plan. Sets that no engine was known to write stay verbatim in
/// [`Actions::Unknown`], are shown as they are and are never eligible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actions {
    /// Nothing happens to the object. It may still be moved or imported.
    NoOp,
    /// A new object.
    Create,
    /// A data source is read during the apply.
    Read,
    /// An object is changed in place.
    Update,
    /// An object is destroyed.
    Delete,
    /// An object is destroyed and made anew.
    DeleteThenCreate,
    /// A new object is made before the old one is destroyed.
    CreateThenDelete,
    /// An object leaves the state and goes on existing.
    Forget,
    /// An object leaves the state, goes on existing, and another is made.
    ForgetThenCreate,
    /// Another object is made, and the old one leaves the state and goes on existing.
    CreateThenForget,
    /// An ephemeral object is opened during the apply.
    Open,
    /// Anything else, verbatim.
    Unknown(Vec<String>),
}

/// The count that an entry of a projection adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// `counts.create`.
    Create,
    /// `counts.update`.
    Update,
    /// `counts.delete`.
    Delete,
    /// `counts.replace`.
    Replace,
}

impl Actions {
    /// The set of the given names, in their order.
    #[must_use]
    pub fn of<S: AsRef<str>>(names: &[S]) -> Self {
        let held: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        match held.as_slice() {
            ["no-op"] => Self::NoOp,
            ["create"] => Self::Create,
            ["read"] => Self::Read,
            ["update"] => Self::Update,
            ["delete"] => Self::Delete,
            ["delete", "create"] => Self::DeleteThenCreate,
            ["create", "delete"] => Self::CreateThenDelete,
            ["forget"] => Self::Forget,
            ["forget", "create"] => Self::ForgetThenCreate,
            ["create", "forget"] => Self::CreateThenForget,
            ["open"] => Self::Open,
            _ => Self::Unknown(held.into_iter().map(str::to_owned).collect()),
        }
    }

    /// The names in their order, as they stood in the plan.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::NoOp => vec!["no-op"],
            Self::Create => vec!["create"],
            Self::Read => vec!["read"],
            Self::Update => vec!["update"],
            Self::Delete => vec!["delete"],
            Self::DeleteThenCreate => vec!["delete", "create"],
            Self::CreateThenDelete => vec!["create", "delete"],
            Self::Forget => vec!["forget"],
            Self::ForgetThenCreate => vec!["forget", "create"],
            Self::CreateThenForget => vec!["create", "forget"],
            Self::Open => vec!["open"],
            Self::Unknown(names) => names.iter().map(String::as_str).collect(),
        }
    }

    /// Whether this is `["no-op"]`.
    #[must_use]
    pub fn is_no_op(&self) -> bool {
        *self == Self::NoOp
    }

    /// The count that this adds to; reads, forgets and unknown sets add to none. A replacement is one change (V6).
    #[must_use]
    pub fn counted(&self) -> Option<Counted> {
        match self {
            Self::Create => Some(Counted::Create),
            Self::Update => Some(Counted::Update),
            Self::Delete => Some(Counted::Delete),
            Self::DeleteThenCreate | Self::CreateThenDelete => Some(Counted::Replace),
            _ => None,
        }
    }

    /// Whether an object is destroyed, alone or as part of a replacement.
    #[must_use]
    pub fn destroys(&self) -> bool {
        matches!(self, Self::Delete | Self::DeleteThenCreate | Self::CreateThenDelete)
    }

    /// Whether an object takes the place of another.
    #[must_use]
    pub fn replaces(&self) -> bool {
        matches!(
            self,
            Self::DeleteThenCreate | Self::CreateThenDelete | Self::ForgetThenCreate | Self::CreateThenForget
        )
    }

    /// Whether an object leaves the state without being destroyed.
    #[must_use]
    pub fn forgets(&self) -> bool {
        matches!(self, Self::Forget | Self::ForgetThenCreate | Self::CreateThenForget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_reads_back_as_itself() {
        let sets: [&[&str]; 14] = [
            &["no-op"],
            &["create"],
            &["read"],
            &["update"],
            &["delete"],
            &["delete", "create"],
            &["create", "delete"],
            &["forget"],
            &["forget", "create"],
            &["create", "forget"],
            &["open"],
            &["defer"],
            &["create", "no-op"],
            &[],
        ];
        for names in sets {
            assert_eq!(Actions::of(names).names(), names);
        }
        assert_eq!(Actions::of(&["Create"]), Actions::Unknown(vec!["Create".to_owned()]));
    }
}
