//! Which chains have moved: the index of their ends by day.

use std::collections::BTreeMap;

use plangate_gate::audit::Chain;
use plangate_gate::run::ChainHead;
use plangate_gate::time::Timestamp;

use crate::error::Error;
use crate::rows::{self, head_key};
use crate::store::{Store, StoreError};

/// How many ends are read at a time.
const PAGE: usize = 500;
/// One day, in seconds.
const DAY: u32 = 86_400;

/// The day of a moment, as `2026-11-30`.
fn day(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

/// The place of a chain's end in the listing index, when it moved at `at`.
pub(crate) fn place(chain: &Chain, at: Timestamp) -> (String, String) {
    (format!("HEADS#{}", day(at)), format!("{at}#{chain}"))
}

/// The chains that have moved from `since` on, and where each ends now. The index may lag a little behind, so ask for
/// some time more than you need.
///
/// # Errors
/// The table does not answer, or an end is damaged.
pub(crate) async fn moved_since(
    store: &dyn Store,
    since: Timestamp,
    now: Timestamp,
) -> Result<Vec<(Chain, ChainHead)>, Error> {
    let mut chains = BTreeMap::new();
    let mut at = since;
    // A clock may be ahead of ours.
    let end = now.plus_seconds(DAY);
    while day(at) <= day(end) {
        let list = format!("HEADS#{}", day(at));
        let mut after = if at == since { Some(since.to_string()) } else { None };
        loop {
            let page = store.list(&list, after.as_deref(), false, PAGE).await?;
            let more = page.len() == PAGE;
            for item in page {
                after = item.lists.map(|(_, place)| place).or(after);
                let name = item.key.pk.strip_prefix("CHAIN#").unwrap_or_default();
                let corrupt = || StoreError::Corrupt(format!("{}/{}", item.key.pk, item.key.sk));
                let chain: Chain = name.parse().map_err(|_| corrupt())?;
                chains.insert(name.to_owned(), chain);
            }
            if !more {
                break;
            }
        }
        at = at.plus_seconds(DAY);
    }
    let mut found = Vec::new();
    for chain in chains.into_values() {
        // The index told that it moved; where it ends is read from the end itself.
        if let Some(item) = store.get(&head_key(&chain)).await? {
            found.push((chain, rows::read(&item)?));
        }
    }
    Ok(found)
}
