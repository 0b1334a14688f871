//! Whatever a reviewer answers: it is refused, or it is exactly a verdict, and it approves only if it says so.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plangate_gate::verdict::{Judgement, Verdict};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(verdict) = Verdict::parse_untrusted(bytes, ["random_pet.name"]) {
        let json: serde_json::Value = serde_json::from_slice(bytes).expect("a verdict is JSON");
        let said = json["decision"].as_str().expect("a verdict has a decision");
        assert_eq!(verdict.decision() == Judgement::Approve, said == "approve");
        assert_eq!(json.as_object().map(serde_json::Map::len), Some(3), "no field more");
    }
});
