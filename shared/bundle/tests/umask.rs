//! The umask is one for a whole process, so this test has a binary of its own.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use plangate_bundle::{Bundle, Limits, unpack_verified};
use rustix::fs::Mode;
use rustix::process::umask;

#[test]
fn modes_do_not_depend_on_the_umask() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("main.tf"), "").unwrap();
    fs::write(dir.path().join("d/run.sh"), "").unwrap();
    fs::set_permissions(dir.path().join("d/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let at = tempfile::tempdir().unwrap();
    let bundle = Bundle::build(dir.path(), &Limits::default()).unwrap();
    for (name, mask) in [("open", 0o000), ("usual", 0o022), ("closed", 0o277)] {
        umask(Mode::from_raw_mode(mask));
        assert_eq!(Bundle::build(dir.path(), &Limits::default()).unwrap().digest(), bundle.digest());
        let into = at.path().join(name);
        unpack_verified(bundle.bytes(), &bundle.digest(), &into, &Limits::default()).unwrap();
        for (path, mode) in [("", 0o700), ("d", 0o700), ("main.tf", 0o600), ("d/run.sh", 0o700)] {
            let found = fs::metadata(into.join(path)).unwrap().permissions().mode() & 0o7777;
            assert_eq!(found, mode, "`{path}` under umask {mask:o}");
        }
    }
}
