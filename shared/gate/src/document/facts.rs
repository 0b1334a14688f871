//! What guardrails may know of a plan document besides the projected fields. No attribute's value is among it.
//!
//! Reading facts never fails on their shape, so that nothing outside the allow-list can keep a projection from being
//! made. A fact that was not understood is counted, and the guardrails hold that against the plan (`R32`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::document::rows::actions;
use crate::json::{Kind, Read, Reader};

/// Facts about the whole plan.
#[derive(Debug, Default)]
pub(crate) struct GuardFacts<'a> {
    /// About each entry of `resource_changes`, in its order.
    pub(crate) rows: Vec<RowFacts<'a>>,
    /// Addresses of objects that were changed outside the configuration (`resource_drift`).
    pub(crate) drift: Vec<Cow<'a, str>>,
    /// Names of checks that failed or could not be evaluated.
    pub(crate) failed_checks: Vec<Cow<'a, str>>,
    /// Blocks with a provisioner: the block's address and the provisioner's type.
    pub(crate) provisioners: Vec<(String, Cow<'a, str>)>,
    /// Types of data sources and ephemeral resources in the configuration, each with the first address of its kind.
    pub(crate) sources: BTreeMap<Cow<'a, str>, String>,
    /// Full names of the providers in the configuration.
    pub(crate) providers: Vec<Cow<'a, str>>,
    /// Whether the engine says that the plan covers everything; not every engine says.
    pub(crate) complete: Option<bool>,
    /// Entries of `deferred_changes` and `deferred_action_invocations`.
    pub(crate) deferred: usize,
    /// Entries of `action_invocations`: programs of providers that run at apply beside the resources.
    pub(crate) invocations: usize,
    /// The first section in which something had not the expected shape.
    pub(crate) not_understood: Option<&'static str>,
}

/// Facts about one entry of `resource_changes`.
#[derive(Debug, Default)]
pub(crate) struct RowFacts<'a> {
    /// `provider_name`.
    pub(crate) provider: Option<Cow<'a, str>>,
    /// Whether the entry has a `previous_address`.
    pub(crate) moved: bool,
    /// That address: what is protected under it stays protected while it moves away.
    pub(crate) previous: Option<Cow<'a, str>>,
    /// Whether the entry brings an existing object into the state.
    pub(crate) imported: bool,
    /// Whether a field had not the expected shape.
    pub(crate) not_understood: bool,
}

impl<'a> RowFacts<'a> {
    /// Reads the field `name` of the entry, or passes over it.
    pub(crate) fn read_field(&mut self, name: &str, reader: &mut Reader<'a>) -> Read<()> {
        match name {
            "provider_name" => match string(reader)? {
                Ok(provider) => self.provider = provider,
                Err(NotUnderstood) => self.not_understood = true,
            },
            "previous_address" => {
                self.moved = reader.kind()? != Kind::Null;
                match string(reader)? {
                    Ok(address) => self.previous = address,
                    Err(NotUnderstood) => self.not_understood = true,
                }
            }
            _ => reader.skip()?,
        }
        Ok(())
    }

    /// Reads the field `name` of the entry's change, or passes over it.
    pub(crate) fn read_change_field(&mut self, name: &str, reader: &mut Reader<'a>) -> Read<()> {
        if name == "importing" {
            self.imported = present(reader)?;
            return Ok(());
        }
        reader.skip()
    }
}

impl<'a> GuardFacts<'a> {
    /// Reads the top-level section `name`, or passes over it.
    pub(crate) fn read_section(&mut self, name: &str, reader: &mut Reader<'a>) -> Read<()> {
        match name {
            "resource_drift" => self.list("resource_drift", reader, Self::read_drift),
            "checks" => self.list("checks", reader, Self::read_check),
            "deferred_changes" | "deferred_action_invocations" => self.list("deferred_changes", reader, |facts, r| {
                facts.deferred += 1;
                r.skip()
            }),
            "action_invocations" => self.list("action_invocations", reader, |facts, r| {
                facts.invocations += 1;
                r.skip()
            }),
            "complete" => match reader.kind()? {
                Kind::Bool => {
                    self.complete = Some(reader.bool()?);
                    Ok(())
                }
                Kind::Null => reader.null(),
                _ => self.puzzled("complete", reader),
            },
            "configuration" => self.read_configuration(reader),
            _ => reader.skip(),
        }
    }

    /// Passes over a value that has not the expected shape, and notes that.
    pub(crate) fn puzzled(&mut self, section: &'static str, reader: &mut Reader<'a>) -> Read<()> {
        self.note(section);
        reader.skip()
    }

    pub(crate) fn note(&mut self, section: &'static str) {
        self.not_understood.get_or_insert(section);
    }

    /// Reads a list whose elements are objects; null is an empty one.
    pub(crate) fn list<F>(&mut self, section: &'static str, reader: &mut Reader<'a>, mut each: F) -> Read<()>
    where
        F: FnMut(&mut Self, &mut Reader<'a>) -> Read<()>,
    {
        match reader.kind()? {
            Kind::Array => reader.array(|r, _| match r.kind()? {
                Kind::Object => each(self, r),
                _ => self.puzzled(section, r),
            }),
            Kind::Null => reader.null(),
            _ => self.puzzled(section, reader),
        }
    }

    /// Reads a string; null is none. Anything else is noted.
    pub(crate) fn string(&mut self, section: &'static str, reader: &mut Reader<'a>) -> Read<Option<Cow<'a, str>>> {
        Ok(string(reader)?.unwrap_or_else(|NotUnderstood| {
            self.note(section);
            None
        }))
    }

    fn read_drift(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        const SECTION: &str = "resource_drift";
        let mut address = None;
        let mut unchanged = false;
        reader.object(|r, key| match key.as_ref() {
            "address" => {
                address = self.string(SECTION, r)?;
                Ok(())
            }
            "change" if r.kind()? == Kind::Object => r.object(|r, key| match key.as_ref() {
                "actions" if r.kind()? == Kind::Array => {
                    unchanged = actions(r)?.is_no_op();
                    Ok(())
                }
                _ => r.skip(),
            }),
            _ => r.skip(),
        })?;
        // An entry that does not say that nothing changed counts as drift.
        match address {
            _ if unchanged => {}
            Some(address) => self.drift.push(address),
            None => self.note(SECTION),
        }
        Ok(())
    }

    fn read_check(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        const SECTION: &str = "checks";
        let mut name = None;
        let mut status = None;
        reader.object(|r, key| match key.as_ref() {
            "address" if r.kind()? == Kind::Object => r.object(|r, key| match key.as_ref() {
                "to_display" => {
                    name = self.string(SECTION, r)?;
                    Ok(())
                }
                _ => r.skip(),
            }),
            "status" => {
                status = self.string(SECTION, r)?;
                Ok(())
            }
            _ => r.skip(),
        })?;
        match (status.as_deref(), name) {
            // What depends on values that the apply will bring is unknown until then.
            (Some("pass" | "unknown"), _) => {}
            (Some("fail" | "error"), Some(name)) => self.failed_checks.push(name),
            _ => self.note(SECTION),
        }
        Ok(())
    }
}

struct NotUnderstood;

/// A string, or null as none; the inner error stands for anything else, which has been passed over.
fn string<'a>(reader: &mut Reader<'a>) -> Read<Result<Option<Cow<'a, str>>, NotUnderstood>> {
    Ok(match reader.kind()? {
        Kind::String => Ok(Some(reader.string()?)),
        Kind::Null => {
            reader.null()?;
            Ok(None)
        }
        _ => {
            reader.skip()?;
            Err(NotUnderstood)
        }
    })
}

/// Whether a value is there and not null.
fn present(reader: &mut Reader<'_>) -> Read<bool> {
    let there = reader.kind()? != Kind::Null;
    reader.skip()?;
    Ok(there)
}
