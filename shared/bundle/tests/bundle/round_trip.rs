//! What is built is what is unpacked.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use plangate_bundle::{Bundle, Dialect, Limits, check_configuration_file, inspect};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::{build, folder, paths, unpack};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_folder_comes_back_as_it_was(
        files in btree_map("[a-z]{1,3}(/[A-Z]{1,3}(/[0-9é .~+-]{1,60}x)?)?", (vec(any::<u8>(), 0..2000), any::<bool>()), 0..12),
    ) {
        let dir = folder(&[("main.tf", "")]);
        let mut expected = BTreeMap::from([("main.tf".to_owned(), (Vec::new(), false))]);
        for (path, (content, executable)) in files {
            let disk = dir.path().join(&path);
            // The generator may give a name both to a file and to a folder; the first one has it.
            if fs::create_dir_all(disk.parent().unwrap()).is_err() || fs::write(&disk, &content).is_err() {
                continue;
            }
            fs::set_permissions(&disk, Permissions::from_mode(if executable { 0o755 } else { 0o644 })).unwrap();
            expected.insert(path, (content, executable));
        }
        let bundle = build(&dir).unwrap();
        let at = folder(&[]);
        let unpacked = unpack(&bundle, &at);
        prop_assert_eq!(paths(unpacked.root()), expected.keys().cloned().collect::<Vec<_>>());
        for (path, (content, executable)) in expected {
            let disk = unpacked.root().join(path);
            prop_assert_eq!(fs::read(&disk).unwrap(), content);
            let mode = fs::metadata(&disk).unwrap().mode() & 0o7777;
            prop_assert_eq!(mode, if executable { 0o700 } else { 0o600 });
        }
        let again = Bundle::build(unpacked.root(), &Limits::default()).unwrap();
        prop_assert_eq!(again.digest(), bundle.digest());
        prop_assert!(unpacked.check_configuration(Dialect::Terraform).is_ok());
    }

    #[test]
    fn no_bytes_make_the_readers_panic(bytes in vec(any::<u8>(), 0..4000), text in "[ -~\n]{0,400}") {
        let limits = Limits::default();
        let _ = inspect(bytes.as_slice(), &limits);
        let _ = inspect(zstd::encode_all(bytes.as_slice(), 1).unwrap().as_slice(), &limits);
        for name in ["a.tf", "a.tf.json"] {
            let _ = check_configuration_file(name, &bytes, &limits);
            let _ = check_configuration_file(name, text.as_bytes(), &limits);
        }
    }
}

#[test]
fn an_altered_archive_is_read_without_panic() {
    let dir = folder(&[("main.tf", "resource \"terraform_data\" \"a\" {}\n"), ("a/b.txt", "hello")]);
    let bundle = build(&dir).unwrap();
    let mut tar = zstd::decode_all(bundle.bytes()).unwrap();
    let limits = Limits::default();
    for at in 0..1536 {
        tar[at] ^= 0x41;
        let _ = inspect(zstd::encode_all(tar.as_slice(), 1).unwrap().as_slice(), &limits);
        tar[at] ^= 0x41;
    }
    assert_eq!(inspect(zstd::encode_all(tar.as_slice(), 1).unwrap().as_slice(), &limits).unwrap(), 3);
}
