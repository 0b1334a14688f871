//! The allow-listed fields of the plan document: the only ones that a projection is made of (`R23`).

use std::borrow::Cow;

use crate::actions::Actions;
use crate::document::facts::{GuardFacts, RowFacts};
use crate::json::{Kind, Read, Reader};
use crate::mask::Mask;
use crate::value::Value;

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
    pub(crate) change: Change<'a>,
}

/// A `change` object. A value that is null or missing is `None` at the root.
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
    reader.object(|r, key| match key.as_ref() {
        "address" => text(r, "address", &mut address),
        "type" => text(r, "type", &mut kind),
        "change" => {
            change = Some(read_change(r, &mut facts).map_err(|error| error.within("change"))?);
            Ok(())
        }
        other => facts.read_field(other, r),
    })?;
    let missing = |problem| reader.error(problem);
    Ok((
        Row {
            address: address.ok_or_else(|| missing("an entry without an address ends here"))?,
            kind: kind.ok_or_else(|| missing("an entry without a type ends here"))?,
            change: change.ok_or_else(|| missing("an entry without a change ends here"))?,
        },
        facts,
    ))
}

fn read_change<'a>(reader: &mut Reader<'a>, facts: &mut RowFacts<'a>) -> Read<Change<'a>> {
    let mut actions = None;
    let mut before = None;
    let mut after = None;
    let mut before_sensitive = Mask::Clear;
    let mut after_sensitive = Mask::Clear;
    let mut after_unknown = Mask::Clear;
    reader.object(|r, key| match key.as_ref() {
        "actions" => read_actions(r, &mut actions),
        "before" => read_value(r, "before", &mut before),
        "after" => read_value(r, "after", &mut after),
        "before_sensitive" => read_mask(r, "before_sensitive", &mut before_sensitive),
        "after_sensitive" => read_mask(r, "after_sensitive", &mut after_sensitive),
        "after_unknown" => read_mask(r, "after_unknown", &mut after_unknown),
        other => facts.read_change_field(other, r),
    })?;
    let actions = actions.ok_or_else(|| reader.error("a change without actions ends here"))?;
    Ok(Change { actions, before, after, before_sensitive, after_sensitive, after_unknown })
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
