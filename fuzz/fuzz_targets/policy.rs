//! Whatever comes as a policy: it is refused, or it reads back from its canonical bytes as the same policy.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plangate_gate::policy::Policy;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(policy) = Policy::parse_untrusted(bytes) {
        let written = policy.to_bytes().expect("a policy can be written");
        let again = Policy::parse_untrusted(&written).expect("what was written is a policy");
        assert_eq!(again, policy);
        assert_eq!(again.digest(), policy.digest());
        assert!(policy.withhold().is_ok());
    }
});
