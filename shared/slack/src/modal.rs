//! The modal that asks why a run is rejected, and the answers to it.

use plangate_gate::documents::WORDS_LIMIT;
use serde_json::{Value, json};

use crate::interaction::{About, REASON, REASON_MODAL};
use crate::text::{plain, section};

/// The modal that asks for the reason to reject what `about` names.
#[must_use]
pub fn reason(about: &About) -> Value {
    json!({
        "type": "modal",
        "callback_id": REASON_MODAL,
        "private_metadata": about.to_string(),
        "title": plain("Reject this change"),
        "submit": plain("Reject"),
        "close": plain("Back"),
        "blocks": [
            section(&format!("{} will not be applied. The reason is kept in the run's record.", about.run)),
            {
                "type": "input",
                "block_id": REASON,
                "label": plain("Why?"),
                "element": {
                    "type": "plain_text_input", "action_id": REASON, "multiline": false, "min_length": 1,
                    "max_length": WORDS_LIMIT, "focus_on_load": true
                }
            }
        ]
    })
}

/// The answer that leaves the modal open and says beside the reason why nothing was rejected. Its sender alone sees it.
#[must_use]
pub fn refused(why: &str) -> Value {
    json!({ "response_action": "errors", "errors": { REASON: why } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plangate_gate::digest::Digest;

    #[test]
    fn the_modal_keeps_slacks_limits_and_carries_what_it_is_about() {
        let about =
            About { run: "run-01arz3ndektsv4rrffq69g5fav".parse().unwrap(), projection: Digest::of(b"projection") };
        let modal = reason(&about);
        for part in ["title", "submit", "close"] {
            assert!(modal[part]["text"].as_str().unwrap().chars().count() <= 24, "{part}");
        }
        assert_eq!(modal["private_metadata"], about.to_string());
        assert_eq!(modal["blocks"][1]["block_id"], REASON);
        assert_eq!(refused("no")["errors"][REASON], "no");
    }
}
