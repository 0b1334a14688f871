//! Decides for every path of a change whether it is known, unknown or sensitive, and where values are split.

use crate::document::{Change, Output};
use crate::echo::{Echoes, Masked};
use crate::mask::{CLEAR, Mask};
use crate::path::{self, Step};
use crate::pattern::Pattern;
use crate::projection::shape::{Attribute, OutputChange, Shown};
use crate::value::Value;

type Side<'m, 'd> = Option<&'m Value<'d>>;
static NULL: Value<'static> = Value::Null;

/// One place in a change, seen on both sides, with the masks that lie on it.
#[derive(Clone, Copy)]
struct Place<'m, 'd> {
    before: Side<'m, 'd>,
    after: Side<'m, 'd>,
    before_sensitive: &'m Mask<'d>,
    after_sensitive: &'m Mask<'d>,
    unknown: &'m Mask<'d>,
}

impl<'m, 'd> Place<'m, 'd> {
    const fn root(change: &'m Change<'d>) -> Self {
        Self {
            before: change.before.as_ref(),
            after: change.after.as_ref(),
            before_sensitive: &change.before_sensitive,
            after_sensitive: &change.after_sensitive,
            unknown: &change.after_unknown,
        }
    }

    /// Whether a sensitivity mask hides the whole place. A mark on one side hides both: a value that is newly marked
    /// must not be shown as what it was.
    fn hidden(&self) -> bool {
        self.before_sensitive.hides(self.before)
            || self.after_sensitive.hides(self.after)
            || self.before_sensitive.hides_across(self.after, self.after_sensitive)
            || self.after_sensitive.hides_across(self.before, self.before_sensitive)
    }

    /// Whether no mask says anything about this place.
    const fn unmasked(&self) -> bool {
        self.before_sensitive.is_clear() && self.after_sensitive.is_clear() && self.unknown.is_clear()
    }

    /// Whether there is anything to say about the side after.
    const fn has_after(&self) -> bool {
        self.after.is_some() || !self.unknown.is_clear()
    }

    /// The same place without the side after, whose masks go on counting for the side before.
    fn before_alone(&self) -> Self {
        Self { after: None, unknown: &CLEAR, ..*self }
    }

    /// What stands directly below, on either side, fields first.
    fn below(&self) -> Vec<(Step<'m>, Self)> {
        let sides = || [self.before, self.after].into_iter().flatten();
        let mut keys: Vec<&'m str> = sides().flat_map(Value::fields).map(|(key, _)| key.as_ref()).collect();
        keys.extend(self.unknown.keys().iter().map(|(key, _)| key.as_ref()));
        // Runs that are sorted already are merged, which the unstable sort would not see.
        keys.sort();
        keys.dedup();
        let fields = keys.into_iter().map(|key| {
            let place = Self {
                before: self.before.and_then(|value| value.field(key)),
                after: self.after.and_then(|value| value.field(key)),
                before_sensitive: self.before_sensitive.field(key),
                after_sensitive: self.after_sensitive.field(key),
                unknown: self.unknown.field(key),
            };
            (Step::Key(key), place)
        });
        let longest = sides().map(|value| value.elements().len()).max().unwrap_or_default();
        let elements = (0..longest).map(|position| {
            let place = Self {
                before: self.before.and_then(|value| value.element(position)),
                after: self.after.and_then(|value| value.element(position)),
                before_sensitive: self.before_sensitive.element(position),
                after_sensitive: self.after_sensitive.element(position),
                unknown: self.unknown.element(position),
            };
            (Step::Position(position), place)
        });
        fields.chain(elements).collect()
    }
}

/// Takes every string that stands at or under a sensitive node of `change`, shown or not.
pub(super) fn collect<'d>(change: &Change<'d>, withheld: &[&Pattern], masked: &mut Masked<'d>) {
    collect_below(Place::root(change), withheld, &mut String::new(), masked);
}

fn collect_below<'d>(place: Place<'_, 'd>, withheld: &[&Pattern], path: &mut String, masked: &mut Masked<'d>) {
    if place.hidden() || is_withheld(withheld, path) {
        place.before.into_iter().chain(place.after).for_each(|value| masked.take(value));
    } else if !(withheld.is_empty() && place.before_sensitive.is_clear() && place.after_sensitive.is_clear()) {
        let length = path.len();
        for (step, below) in place.below() {
            path::push(path, step);
            collect_below(below, withheld, path, masked);
            path.truncate(length);
        }
    }
}

/// Patterns speak of paths inside a resource, never of the resource as a whole.
fn is_withheld(withheld: &[&Pattern], path: &str) -> bool {
    !path.is_empty() && withheld.iter().any(|pattern| pattern.matches(path))
}

/// Looks at the changes of one resource type.
pub(super) struct Lens<'l> {
    echoes: &'l Echoes,
    withheld: &'l [&'l Pattern],
}

/// What everything at or under a place has in common on one side; `None` where the side has nothing there.
type Alike = Option<Shown<()>>;

impl<'l> Lens<'l> {
    pub(super) const fn new(echoes: &'l Echoes, withheld: &'l [&'l Pattern]) -> Self {
        Self { echoes, withheld }
    }

    /// The attributes of a change, sorted by path.
    pub(super) fn attributes<'m, 'd>(&self, change: &'m Change<'d>) -> Vec<Attribute<&'m Value<'d>>> {
        let place = Place::root(change);
        let mut out = Vec::new();
        let mut path = String::new();
        let objects = [place.before, place.after].into_iter().flatten().all(|value| matches!(value, Value::Object(_)));
        if !objects {
            self.mark(place, &mut path, &mut out);
        } else if self.hides(&place, "") {
            push(&mut out, "", place.before.map(|_| Shown::Sensitive), place.has_after().then_some(Shown::Sensitive));
        } else {
            // A resource is always split into its attributes, even where all of them are alike. Where there is no
            // value at all after, the mask alone names what will be known.
            let unknown =
                *place.unknown == Mask::Whole || (place.after.is_some() && place.unknown.obscures(place.after));
            if unknown {
                push(&mut out, "", None, Some(Shown::Unknown));
            }
            for (step, below) in if unknown { place.before_alone() } else { place }.below() {
                path::push(&mut path, step);
                if self.plain(&below) {
                    push(&mut out, &path, below.before.map(Shown::Known), below.after.map(Shown::Known));
                } else {
                    self.mark(below, &mut path, &mut out);
                }
                path.clear();
            }
        }
        out.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        out
    }

    fn hides(&self, place: &Place<'_, '_>, path: &str) -> bool {
        place.hidden()
            || is_withheld(self.withheld, path)
            || [place.before, place.after].into_iter().flatten().any(|value| self.echoes.at(value))
            || self.echoes.in_keys(place.unknown)
    }

    /// Appends the entries for one place and everything below it. Gives what all of it has in common, if anything.
    fn mark<'m, 'd>(
        &self,
        place: Place<'m, 'd>,
        path: &mut String,
        out: &mut Vec<Attribute<&'m Value<'d>>>,
    ) -> Option<(Alike, Alike)> {
        let has_after = place.has_after();
        if self.hides(&place, path) {
            push(out, path, place.before.map(|_| Shown::Sensitive), has_after.then_some(Shown::Sensitive));
            return Some((place.before.map(|_| Shown::Sensitive), has_after.then_some(Shown::Sensitive)));
        }
        let unknown = place.unknown.obscures(place.after);
        let visited = if unknown { place.before_alone() } else { place };
        let below = visited.below();

        // What each side is where it is not made of what stands below: a scalar, an empty container, unknown.
        let before = place.before.filter(|value| below.is_empty() || is_leaf(value));
        let after = visited.after.filter(|value| below.is_empty() || is_leaf(value));
        let before_kind = before.map(|_| Shown::Known(()));
        let after_kind = if unknown { Some(Shown::Unknown) } else { after.map(|_| Shown::Known(())) };
        let start = out.len();
        push(out, path, before.map(Shown::Known), after_kind.and_then(|kind| kind.over(after)));
        if below.is_empty() {
            return Some((before_kind, after_kind));
        }
        let mut kinds = Kinds::default();
        kinds.add(before_kind, after_kind);
        let length = path.len();
        for (step, place) in below {
            path::push(path, step);
            match self.mark(place, path, out) {
                Some((before, after)) => kinds.add(before, after),
                None => kinds.mixed = true,
            }
            path.truncate(length);
        }
        let (before, after) = kinds.common()?;
        out.truncate(start);
        push(out, path, before.and_then(|kind| kind.over(place.before)), after.and_then(|kind| kind.over(place.after)));
        Some((before, after))
    }

    /// Whether a place is known as a whole, seen without taking it apart: the ordinary case.
    fn plain(&self, place: &Place<'_, '_>) -> bool {
        place.unmasked()
            && self.withheld.is_empty()
            && ![place.before, place.after].into_iter().flatten().any(|value| self.echoes.anywhere(value))
    }
}

/// Whether a value has nothing below it.
fn is_leaf(value: &Value<'_>) -> bool {
    value.elements().is_empty() && value.fields().is_empty()
}

fn push<'m, 'd>(
    out: &mut Vec<Attribute<&'m Value<'d>>>,
    path: &str,
    before: Option<Shown<&'m Value<'d>>>,
    after: Option<Shown<&'m Value<'d>>>,
) {
    // Where there is nothing on either side there is nothing to say: both roots null under a mask.
    if before.is_some() || after.is_some() {
        out.push(Attribute { path: path.to_owned(), before, after });
    }
}

impl Shown<()> {
    /// This kind of representation over a value.
    fn over<'m, 'd>(self, value: Side<'m, 'd>) -> Option<Shown<&'m Value<'d>>> {
        Some(match self {
            Self::Known(()) => Shown::Known(value?),
            Self::Unknown => Shown::Unknown,
            Self::Sensitive => Shown::Sensitive,
        })
    }
}

/// Gathers what the parts of a place are.
#[derive(Default)]
struct Kinds {
    before: Alike,
    after: Alike,
    mixed: bool,
}

impl Kinds {
    fn add(&mut self, before: Alike, after: Alike) {
        for (held, new) in [(&mut self.before, before), (&mut self.after, after)] {
            match (*held, new) {
                (None, _) => *held = new,
                (Some(one), Some(other)) if one != other => self.mixed = true,
                _ => {}
            }
        }
    }

    /// What all parts have in common, side by side. Sensitive on one side and shown on the other is nothing in
    /// common: both sides are split, so that no path is hidden on one side and shown on the other.
    fn common(&self) -> Option<(Alike, Alike)> {
        let is_sensitive = |side: Alike| side.map(|kind| kind == Shown::Sensitive);
        let torn = matches!((is_sensitive(self.before), is_sensitive(self.after)), (Some(b), Some(a)) if a != b);
        (!self.mixed && !torn).then_some((self.before, self.after))
    }
}

/// The one representation of an output: sensitive if any part is, else unknown if any part is.
pub(super) fn output<'m, 'd>(output: &'m Output<'d>, echoes: &Echoes) -> OutputChange<'m, &'m Value<'d>> {
    let after: &'m Value<'d> = output.after.as_ref().unwrap_or(&NULL);
    let shown = if !output.after_sensitive.is_clear() || echoes.anywhere(after) {
        Shown::Sensitive
    } else if !output.after_unknown.is_clear() {
        Shown::Unknown
    } else {
        Shown::Known(after)
    };
    OutputChange { name: output.name.as_ref().into(), actions: output.actions.clone(), after: shown }
}
