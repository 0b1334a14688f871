//! The allow-listed fields of the plan document: the only ones that a projection is made of (`R23`).

use std::borrow::Cow;

use crate::actions::Actions;
use crate::document::facts::{GuardFacts, RowFacts};
use crate::json::{Kind, Read, Reader};
use crate::mask::Mask;
use crate::value::{Unread, Value};

/// What a plan wants to do, in document order.
#[derive(Default)]
pub(crate) struct Planned<'a> {
    /// `resource_changes[]`.
    pub(crate) rows: Vec<Row<'a>>,
    /// `output_changes`, sorted by name.
    pub(crate) outputs: Vec<Output<'a>>,
}

/// One entry of `resource_changes`.
pub(crate) struct Row<'a> {
    pub(crate) address: Cow<'a, str>,
    pub(crate) kind: Cow<'a, str>,
    /// The change. Of an entry at rest it holds no values: nothing but [`Row::with_values`] gives them.
    pub(crate) change: Change<'a>,
    at_rest: Option<Sides<'a>>,
}

/// The values on both sides of a change, checked and not yet read.
#[derive(Clone, Copy, Default)]
struct Sides<'a> {
    before: Option<Unread<'a>>,
    after: Option<Unread<'a>>,
}

impl<'a> Sides<'a> {
    /// Reads both sides into `change`.
    fn put_into(self, change: &mut Change<'a>, read: impl Fn(Unread<'a>) -> Read<Value<'a>>) -> Read<()> {
        change.before = self.before.map(&read).transpose()?;
        change.after = self.after.map(&read).transpose()?;
        Ok(())
    }
}

impl<'a> Row<'a> {
    /// The change with all that sensitivity masks can hide, and, if `all` is set, with all of its values. Of an entry at
    /// rest this is read now: most of a large plan is at rest, and held it would take more memory than the document.
    pub(crate) fn with_values(&self, all: bool) -> Cow<'_, Change<'a>> {
        let Some(sides) = self.at_rest else { return Cow::Borrowed(&self.change) };
        let mut change = self.change.clone();
        let masks = [&self.change.before_sensitive, &self.change.after_sensitive];
        let marked = |key: &str| all || masks.iter().any(|mask| mask.marks_field(key));
        match sides.put_into(&mut change, |side| side.fields(marked)) {
            Ok(()) => Cow::Owned(change),
            // The text was checked, so that reading it cannot fail; and what is at rest is never shown.
            Err(_) => Cow::Borrowed(&self.change),
        }
    }

    /// Whether a sensitivity mask marks anything in this entry.
    pub(crate) const fn is_masked(&self) -> bool {
        !(self.change.before_sensitive.is_clear() && self.change.after_sensitive.is_clear())
    }
}

/// A `change` object. A value that is null or missing is `None` at the root.
#[derive(Clone)]
pub(crate) struct Change<'a> {
    pub(crate) actions: Actions,
    pub(crate) before: Option<Value<'a>>,
    pub(crate) after: Option<Value<'a>>,
    pub(crate) before_sensitive: Mask<'a>,
    pub(crate) after_sensitive: Mask<'a>,
    pub(crate) after_unknown: Mask<'a>,
}

/// One entry of `output_changes`. What an output was before is not on the allow-list.
pub(crate) struct Output<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) actions: Actions,
    pub(crate) after: Option<Value<'a>>,
    pub(crate) after_sensitive: Mask<'a>,
    pub(crate) after_unknown: Mask<'a>,
}

impl<'a> Planned<'a> {
    /// Reads `resource_changes`; what guardrails may know of each row goes to `facts`.
    pub(crate) fn read_rows(&mut self, reader: &mut Reader<'a>, facts: &mut GuardFacts<'a>) -> Read<()> {
        reader.array(|r, _| {
            let (row, row_facts) = read_row(r)?;
            self.rows.push(row);
            facts.rows.push(row_facts);
            Ok(())
        })
    }

    /// Reads `output_changes`.
    pub(crate) fn read_outputs(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        reader.object(|r, name| {
            // The name is the proposer's own: an error says that it was an output, and the offset says which.
            let output = read_output(r, name).map_err(|error| error.within("*"))?;
            self.outputs.push(output);
            Ok(())
        })?;
        self.outputs.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(())
    }
}

fn read_row<'a>(reader: &mut Reader<'a>) -> Read<(Row<'a>, RowFacts<'a>)> {
    let mut address = None;
    let mut kind = None;
    let mut change = None;
    let mut facts = RowFacts::default();
    let mut sides = Sides::default();
    reader.object(|r, key| match key.as_ref() {
        "address" => text(r, "address", &mut address),
        "type" => text(r, "type", &mut kind),
        "change" => {
            change = Some(read_change(r, &mut facts, &mut sides).map_err(|error| error.within("change"))?);
            Ok(())
        }
        other => facts.read_field(other, r),
    })?;
    let missing = |problem| reader.error(problem);
    let mut change = change.ok_or_else(|| missing("an entry without a change ends here"))?;
    let at_rest = change.actions.is_no_op() && !facts.moved && !facts.imported;
    if !at_rest {
        sides.put_into(&mut change, Unread::value)?;
    }
    let row = Row {
        address: address.ok_or_else(|| missing("an entry without an address ends here"))?,
        kind: kind.ok_or_else(|| missing("an entry without a type ends here"))?,
        change,
        at_rest: at_rest.then_some(sides),
    };
    Ok((row, facts))
}

/// Reads a change; its values go to `sides`.
fn read_change<'a>(reader: &mut Reader<'a>, facts: &mut RowFacts<'a>, sides: &mut Sides<'a>) -> Read<Change<'a>> {
    let mut actions = None;
    let mut before_sensitive = Mask::Clear;
    let mut after_sensitive = Mask::Clear;
    let mut after_unknown = Mask::Clear;
    reader.object(|r, key| match key.as_ref() {
        "actions" => read_actions(r, &mut actions),
        "before" => read_side(r, "before", &mut sides.before),
        "after" => read_side(r, "after", &mut sides.after),
        "before_sensitive" => read_mask(r, "before_sensitive", &mut before_sensitive),
        "after_sensitive" => read_mask(r, "after_sensitive", &mut after_sensitive),
        "after_unknown" => read_mask(r, "after_unknown", &mut after_unknown),
        other => facts.read_change_field(other, r),
    })?;
    let actions = actions.ok_or_else(|| reader.error("a change without actions ends here"))?;
    Ok(Change { actions, before: None, after: None, before_sensitive, after_sensitive, after_unknown })
}

fn read_output<'a>(reader: &mut Reader<'a>, name: Cow<'a, str>) -> Read<Output<'a>> {
    let mut actions = None;
    let mut after = None;
    let mut after_sensitive = Mask::Clear;
    let mut after_unknown = Mask::Clear;
    reader.object(|r, key| match key.as_ref() {
        "actions" => read_actions(r, &mut actions),
        "after" => read_value(r, "after", &mut after),
        "after_sensitive" => read_mask(r, "after_sensitive", &mut after_sensitive),
        "after_unknown" => read_mask(r, "after_unknown", &mut after_unknown),
        _ => r.skip(),
    })?;
    let actions = actions.ok_or_else(|| reader.error("a change without actions ends here"))?;
    Ok(Output { name, actions, after, after_sensitive, after_unknown })
}

fn text<'a>(reader: &mut Reader<'a>, name: &'static str, slot: &mut Option<Cow<'a, str>>) -> Read<()> {
    *slot = Some(reader.string().map_err(|error| error.within(name))?);
    Ok(())
}

fn read_value<'a>(reader: &mut Reader<'a>, name: &'static str, slot: &mut Option<Value<'a>>) -> Read<()> {
    let value = Value::read(reader).map_err(|error| error.within(name))?;
    *slot = (value != Value::Null).then_some(value);
    Ok(())
}

fn read_side<'a>(reader: &mut Reader<'a>, name: &'static str, slot: &mut Option<Unread<'a>>) -> Read<()> {
    *slot = Unread::read(reader).map_err(|error| error.within(name))?;
    Ok(())
}

fn read_mask<'a>(reader: &mut Reader<'a>, name: &'static str, slot: &mut Mask<'a>) -> Read<()> {
    *slot = Mask::read(reader).map_err(|error| error.within(name))?;
    Ok(())
}

fn read_actions(reader: &mut Reader<'_>, slot: &mut Option<Actions>) -> Read<()> {
    *slot = Some(actions(reader).map_err(|error| error.within("actions"))?);
    Ok(())
}

/// Reads an action set: a list of strings.
pub(crate) fn actions(reader: &mut Reader<'_>) -> Read<Actions> {
    let mut names = Vec::new();
    reader.array(|r, _| {
        if r.kind()? != Kind::String {
            return Err(r.error("an action that is not a string"));
        }
        names.push(r.string()?);
        Ok(())
    })?;
    Ok(Actions::of(&names))
}
