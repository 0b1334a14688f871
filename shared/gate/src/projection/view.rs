//! A projection read back from its bytes, strictly, for those who show it to people.

use std::borrow::Cow;

use crate::actions::Actions;
use crate::json::{Kind, Read, ReadError, Reader};
use crate::projection::shape::{Attribute, Counts, OutputChange, ResourceChange, Shown, count};
use crate::projection::write;
use crate::value::Value;

/// Bytes that are no projection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a projection: {problem} at byte {offset}")]
pub struct ViewError {
    /// What is wrong.
    pub problem: &'static str,
    /// Byte offset from the start.
    pub offset: usize,
}

impl From<ReadError> for ViewError {
    fn from(error: ReadError) -> Self {
        Self { problem: error.problem, offset: error.offset }
    }
}

/// What a projection says. It borrows from the bytes it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectionView<'a> {
    /// How many resources are touched, by kind of change.
    pub counts: Counts,
    /// The resources, in the order of the plan document.
    pub resources: Vec<ResourceChange<'a, Value<'a>>>,
    /// The outputs, sorted by name.
    pub outputs: Vec<OutputChange<'a, Value<'a>>>,
}

impl<'a> ProjectionView<'a> {
    /// Reads the canonical bytes of a projection.
    ///
    /// # Errors
    /// If they are not exactly what [`crate::projection::Projection`] writes: another format, a field more or less,
    /// counts that do not add up, bytes that are not canonical.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ViewError> {
        let mut reader = Reader::new(bytes)?;
        let mut counts = None;
        let mut format = false;
        let mut resources = Vec::new();
        let mut outputs = Vec::new();
        reader.object(|r, key| match key.as_ref() {
            "counts" => {
                counts = Some(read_counts(r)?);
                Ok(())
            }
            "format" => {
                format = r.number()? == "1";
                if format { Ok(()) } else { Err(r.error("another format than 1")) }
            }
            "outputs" => r.array(|r, _| {
                outputs.push(read_output(r)?);
                Ok(())
            }),
            "resources" => r.array(|r, _| {
                resources.push(read_resource(r)?);
                Ok(())
            }),
            _ => Err(r.error("an unknown field")),
        })?;
        reader.end()?;
        let counts = counts.filter(|_| format).ok_or_else(|| reader.error("a field is missing"))?;
        if counts != count(resources.iter().map(|resource| &resource.actions)) {
            return Err(ViewError { problem: "counts that do not add up", offset: 0 });
        }
        let view = Self { counts, resources, outputs };
        let written = view.to_bytes();
        if written == bytes {
            return Ok(view);
        }
        let offset = written.iter().zip(bytes).take_while(|(one, other)| one == other).count();
        Err(ViewError { problem: "bytes that are not canonical", offset })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write::open(&mut out, self.counts);
        write::outputs(&mut out, self.outputs.iter().cloned());
        write::resources(&mut out, self.resources.iter().cloned());
        write::close(&mut out);
        out
    }
}

fn read_counts(reader: &mut Reader<'_>) -> Read<Counts> {
    let mut counts = Counts::default();
    reader.object(|r, key| {
        let slot = match key.as_ref() {
            "create" => &mut counts.create,
            "update" => &mut counts.update,
            "delete" => &mut counts.delete,
            "replace" => &mut counts.replace,
            _ => return Err(r.error("an unknown field")),
        };
        *slot = r.number()?.parse().map_err(|_| r.error("a count that is no natural number"))?;
        Ok(())
    })?;
    Ok(counts)
}

fn read_resource<'a>(reader: &mut Reader<'a>) -> Read<ResourceChange<'a, Value<'a>>> {
    let mut address = None;
    let mut kind = None;
    let mut actions = None;
    let mut attributes = Vec::new();
    reader.object(|r, key| {
        match key.as_ref() {
            "actions" => actions = Some(read_actions(r)?),
            "address" => address = Some(r.string()?),
            "type" => kind = Some(r.string()?),
            "attributes" => r.object(|r, path| {
                attributes.push(read_attribute(r, path)?);
                Ok(())
            })?,
            _ => return Err(r.error("an unknown field")),
        }
        Ok(())
    })?;
    match (address, kind, actions) {
        (Some(address), Some(kind), Some(actions)) => Ok(ResourceChange { address, kind, actions, attributes }),
        _ => Err(reader.error("a field is missing")),
    }
}

fn read_attribute<'a>(reader: &mut Reader<'a>, path: Cow<'a, str>) -> Read<Attribute<Value<'a>>> {
    let mut before = None;
    let mut after = None;
    reader.object(|r, key| {
        match key.as_ref() {
            "before" => before = Some(read_shown(r)?),
            "after" => after = Some(read_shown(r)?),
            _ => return Err(r.error("an unknown field")),
        }
        Ok(())
    })?;
    if before.is_none() && after.is_none() {
        return Err(reader.error("a field is missing"));
    }
    Ok(Attribute { path: path.into_owned(), before, after })
}

fn read_output<'a>(reader: &mut Reader<'a>) -> Read<OutputChange<'a, Value<'a>>> {
    let mut name = None;
    let mut actions = None;
    let mut after = None;
    reader.object(|r, key| {
        match key.as_ref() {
            "actions" => actions = Some(read_actions(r)?),
            "after" => after = Some(read_shown(r)?),
            "name" => name = Some(r.string()?),
            _ => return Err(r.error("an unknown field")),
        }
        Ok(())
    })?;
    match (name, actions, after) {
        (Some(name), Some(actions), Some(after)) => Ok(OutputChange { name, actions, after }),
        _ => Err(reader.error("a field is missing")),
    }
}

fn read_shown<'a>(reader: &mut Reader<'a>) -> Read<Shown<Value<'a>>> {
    let mut shown = None;
    reader.object(|r, key| {
        if shown.is_some() {
            return Err(r.error("a value that is more than one of known, unknown and sensitive"));
        }
        shown = Some(match key.as_ref() {
            "known" => Shown::Known(Value::read(r)?),
            "unknown" if r.bool()? => Shown::Unknown,
            "sensitive" if r.bool()? => Shown::Sensitive,
            _ => return Err(r.error("a value that is none of known, unknown and sensitive")),
        });
        Ok(())
    })?;
    shown.ok_or_else(|| reader.error("a value that is none of known, unknown and sensitive"))
}

fn read_actions(reader: &mut Reader<'_>) -> Read<Actions> {
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
