//! Witnesses: where the chains end, written from time to time where nobody can change it (`R52`).

use plangate_gate::audit::archive::witness_key;
use plangate_gate::audit::witness::{WITNESS_LIMIT, Witness, WitnessedHead};
use plangate_gate::digest::Digest;
use plangate_gate::run::ChainHead;
use plangate_gate::time::Timestamp;
use serde::Serialize;

use crate::error::Error;
use crate::heads::moved_since;
use crate::objects::{Objects, PutOutcome};
use crate::store::Store;

/// How far before the last witness is looked back, in seconds: the index lags, and clocks differ.
const OVERLAP: u32 = 3600;
/// How far the first witness looks back, in seconds: a year.
const FIRST: u32 = 366 * 86_400;

/// A witness that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Witnessed {
    /// Its place among the witnesses.
    pub seq: u64,
    /// How many ends it holds.
    pub heads: usize,
    /// Whether it was written now; otherwise somebody else was quicker.
    pub written: bool,
}

/// Writes the next witness: the ends of all chains that have moved since the last one.
///
/// # Errors
/// AWS does not answer, or an end is damaged.
pub async fn witness(store: &dyn Store, objects: &dyn Objects, now: Timestamp) -> Result<Witnessed, Error> {
    let (before, since) = match last(objects).await? {
        0 => (None, now.minus_seconds(FIRST)),
        seq => {
            let bytes = objects.get(&witness_key(seq), None, WITNESS_LIMIT as u64).await?;
            let bytes = bytes.map(|object| object.bytes).unwrap_or_default();
            // One that cannot be read is not a reason to write no more; whoever verifies will find it.
            let at = Witness::parse(&bytes).map_or(now.minus_seconds(FIRST), |witness| witness.at);
            (Some(ChainHead { seq, digest: Digest::of(&bytes) }), at.minus_seconds(OVERLAP))
        }
    };
    let moved = moved_since(store, since, now).await?;
    let heads = moved.into_iter().map(|(chain, head)| WitnessedHead { chain, seq: head.seq, digest: head.digest });
    let witness = Witness::next(before.as_ref(), now, heads.collect());
    let outcome = objects.put_new(&witness_key(witness.seq), witness.to_bytes()?.into_bytes()).await?;
    let written = matches!(outcome, PutOutcome::Written { .. });
    Ok(Witnessed { seq: witness.seq, heads: witness.heads.len(), written })
}

/// The place of the last witness; 0 if there is none. They stand without a gap, so it is looked for by halves.
async fn last(objects: &dyn Objects) -> Result<u64, Error> {
    let (mut there, mut absent) = (0, 1);
    while objects.head(&witness_key(absent)).await?.is_some() {
        there = absent;
        absent *= 2;
    }
    while absent - there > 1 {
        let middle = there + (absent - there) / 2;
        if objects.head(&witness_key(middle)).await?.is_some() {
            there = middle;
        } else {
            absent = middle;
        }
    }
    Ok(there)
}
