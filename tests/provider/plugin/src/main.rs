//! `plangate/sample`, the provider of plangate's tests: one resource that lives in the state alone, unless a test asks
//! for more.

mod thing;

use std::collections::HashMap;
use std::os::unix::process::parent_id;
use std::time::Duration;

use async_trait::async_trait;
use tf_provider::schema::{Block, Description, Schema};
use tf_provider::value::ValueEmpty;
use tf_provider::{Diagnostics, DynamicResource, Provider, map, serve};

use crate::thing::Thing;

/// The provider; it has no settings.
struct Sample;

#[async_trait]
impl Provider for Sample {
    type Config<'a> = ValueEmpty;
    type MetaState<'a> = ValueEmpty;

    fn schema(&self, _: &mut Diagnostics) -> Option<Schema> {
        let description = Description::plain("The provider of plangate's tests.");
        Some(Schema { version: 1, block: Block { description, ..Block::default() } })
    }

    fn get_resources(&self, _: &mut Diagnostics) -> Option<HashMap<String, Box<dyn DynamicResource>>> {
        Some(map! { "thing" => Thing })
    }
}

/// How often the provider looks whether its engine is still there.
const WATCH: Duration = Duration::from_millis(100);

/// Ends when the engine is gone: tests kill engines, and nothing may be left behind.
async fn engine_gone(engine: u32) {
    while parent_id() == engine {
        tokio::time::sleep(WATCH).await;
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let engine = parent_id();
    tokio::select! {
        served = serve("sample", Sample) => served,
        () = engine_gone(engine) => Ok(()),
    }
}
