//! Requests are signed (SigV4) as another implementation of the rules would sign them.

use hmac::{Hmac, KeyInit as _, Mac as _};
use plangate_wire::RunsAnswer;
use sha2::{Digest as _, Sha256};

use crate::gate::{ACCESS_KEY, Gate, Reply, Request, SECRET_KEY, ok, run};
use crate::runs::workspace_id;

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex_of(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The `authorization` header that `request` must have; its path has nothing that would be encoded.
fn expected(request: &Request) -> String {
    let given = request.header("authorization").unwrap();
    let signed = given.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    let moment = request.header("x-amz-date").unwrap();
    let scope = format!("{}/eu-central-1/execute-api/aws4_request", &moment[..8]);
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let mut query: Vec<&str> = query.split('&').collect();
    query.sort_unstable();
    let headers: String = signed.split(';').map(|name| format!("{name}:{}\n", request.header(name).unwrap())).collect();
    let canonical =
        format!("{}\n{path}\n{}\n{headers}\n{signed}\n{}", request.method, query.join("&"), hex_of(&request.body));
    let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hex_of(canonical.as_bytes()));
    let key = scope.split('/').fold(format!("AWS4{SECRET_KEY}").into_bytes(), |key, part| hmac(&key, part));
    let signature = hex::encode(hmac(&key, &text));
    format!("AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={signed}, Signature={signature}")
}

#[test]
fn path_query_host_and_body_are_signed() {
    let gate = Gate::answering(|request, _| {
        let cursor = (!request.target.contains("cursor")).then(|| "next/page+of=1".to_owned());
        ok(&RunsAnswer { runs: Vec::new(), cursor })
    });
    let said = gate.run(&["runs", "--workspace", workspace_id().as_str()]);
    assert_eq!(said.code, 0, "{said:?}");
    let seen = gate.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[1].target.ends_with("&cursor=next%2Fpage%2Bof%3D1"), "{}", seen[1].target);
    for request in &seen {
        assert_eq!(request.header("authorization").unwrap(), expected(request));
        assert_eq!(request.header("host"), Some(format!("127.0.0.1:{}", gate.port()).as_str()));
    }
}

#[test]
fn a_name_below_localhost_is_this_machine_and_keeps_its_name() {
    let gate = Gate::answering(|_, _| ok(&RunsAnswer { runs: Vec::new(), cursor: None }));
    let host = format!("abc123.execute-api.localhost:{}", gate.port());
    let said = run(Some(&format!("http://{host}/")), &["runs"], &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(gate.seen()[0].header("host"), Some(host.as_str()));
    assert_eq!(gate.seen()[0].header("authorization").unwrap(), expected(&gate.seen()[0]));
}

#[test]
fn without_credentials_nothing_is_sent_and_it_is_said_what_to_do() {
    let gate = Gate::answering(|_, _| Reply::HangUp);
    let none = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
    let said = run(Some(&gate.address()), &["runs"], &none);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("no AWS credentials") && said.err.contains("aws sso login"), "{said:?}");
    assert!(gate.seen().is_empty());
}

#[test]
fn no_credential_is_ever_printed() {
    let gate = Gate::answering(|_, _| Reply::Answer(403, r#"{"message":"Forbidden"}"#.to_owned()));
    let token = [("AWS_SESSION_TOKEN", "session-token-of-ana")];
    let said = run(Some(&gate.address()), &["runs", "--json"], &token);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("status 403 (`Forbidden`)"), "{said:?}");
    assert_eq!(gate.seen()[0].header("x-amz-security-token"), Some("session-token-of-ana"));
    for secret in [SECRET_KEY, "session-token-of-ana", ACCESS_KEY] {
        assert!(!said.out.contains(secret) && !said.err.contains(secret), "{said:?}");
    }
}
