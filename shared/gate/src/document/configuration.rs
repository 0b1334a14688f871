//! The part of `configuration` that guardrails look at: what runs programs, and which providers are used. Constants
//! and expressions, where secrets stand, are passed over.

use std::borrow::Cow;

use crate::document::facts::GuardFacts;
use crate::json::{Kind, Read, Reader};

/// Modules inside each other that are looked into; what is deeper is noted as not understood.
const MAX_MODULES: usize = 64;
const SECTION: &str = "configuration";

impl<'a> GuardFacts<'a> {
    /// Reads `configuration`.
    pub(crate) fn read_configuration(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        self.fields(reader, |facts, r, key| match key {
            "provider_config" => facts.fields(r, |facts, r, _| facts.read_provider(r)),
            "root_module" => facts.read_module(r, "", 0),
            _ => r.skip(),
        })
    }

    /// Reads the fields of an object; null is an empty one, anything else is noted.
    fn fields<F>(&mut self, reader: &mut Reader<'a>, mut each: F) -> Read<()>
    where
        F: FnMut(&mut Self, &mut Reader<'a>, &str) -> Read<()>,
    {
        match reader.kind()? {
            Kind::Object => reader.object(|r, key| each(self, r, &key)),
            Kind::Null => reader.null(),
            _ => self.puzzled(SECTION, reader),
        }
    }

    fn read_provider(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        let mut name = None;
        let mut full = None;
        self.fields(reader, |facts, r, key| match key {
            "name" => {
                name = facts.string(SECTION, r)?;
                Ok(())
            }
            "full_name" => {
                full = facts.string(SECTION, r)?;
                Ok(())
            }
            _ => r.skip(),
        })?;
        self.providers.extend(full.or(name));
        Ok(())
    }

    fn read_module(&mut self, reader: &mut Reader<'a>, prefix: &str, depth: usize) -> Read<()> {
        if depth > MAX_MODULES {
            return self.puzzled(SECTION, reader);
        }
        self.fields(reader, |facts, r, key| match key {
            "resources" => facts.list(SECTION, r, |facts, r| facts.read_block(r, prefix)),
            "module_calls" => facts.fields(r, |facts, r, name| {
                let below = format!("{prefix}module.{name}.");
                facts.fields(r, |facts, r, key| match key {
                    "module" => facts.read_module(r, &below, depth + 1),
                    _ => r.skip(),
                })
            }),
            _ => r.skip(),
        })
    }

    fn read_block(&mut self, reader: &mut Reader<'a>, prefix: &str) -> Read<()> {
        let mut address = None;
        let mut mode = None;
        let mut kind = None;
        let mut provisioners: Vec<Option<Cow<'a, str>>> = Vec::new();
        reader.object(|r, key| match key.as_ref() {
            "address" => {
                address = self.string(SECTION, r)?;
                Ok(())
            }
            "mode" => {
                mode = self.string(SECTION, r)?;
                Ok(())
            }
            "type" => {
                kind = self.string(SECTION, r)?;
                Ok(())
            }
            "provisioners" => self.list(SECTION, r, |facts, r| {
                let mut provisioner = None;
                facts.fields(r, |facts, r, key| match key {
                    "type" => {
                        provisioner = facts.string(SECTION, r)?;
                        Ok(())
                    }
                    _ => r.skip(),
                })?;
                provisioners.push(provisioner);
                Ok(())
            }),
            _ => r.skip(),
        })?;
        let address = format!("{prefix}{}", address.as_deref().unwrap_or_default());
        for provisioner in provisioners {
            self.provisioners.push((address.clone(), provisioner.unwrap_or(Cow::Borrowed("unknown"))));
        }
        match (mode.as_deref(), kind) {
            (Some("managed"), Some(_)) => {}
            (Some("data" | "ephemeral"), Some(kind)) => {
                self.sources.entry(kind).or_insert(address);
            }
            _ => self.note(SECTION),
        }
        Ok(())
    }
}
