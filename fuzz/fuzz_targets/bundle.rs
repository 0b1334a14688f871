//! Whatever comes as a bundle: as an archive, as the tar inside one, and as the files inside that; bounded, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plangate_bundle::{Limits, check_configuration_file, inspect};

const BLOCK: usize = 512;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let _ = inspect(bytes, &limits);
    let mut tar = bytes.to_vec();
    sign(&mut tar);
    for stream in [bytes, &tar] {
        if let Ok(packed) = zstd::bulk::compress(stream, 1) {
            let _ = inspect(packed.as_slice(), &limits);
        }
    }
    for name in ["main.tf", "main.tf.json", ".terraform.lock.hcl"] {
        let _ = check_configuration_file(name, bytes, &limits);
    }
});

/// Writes the right checksum into every header of a tar: no fuzzer guesses those, and without them nothing is read.
fn sign(tar: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = tar.get_mut(at..at + BLOCK) {
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = std::str::from_utf8(&header[124..135]).ok();
        let size = size.and_then(|text| usize::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()).unwrap_or(0);
        at = at.saturating_add(BLOCK).saturating_add(size.next_multiple_of(BLOCK));
    }
}
