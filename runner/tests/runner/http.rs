//! A small S3, STS and SSM over HTTP, for the engine's own client and for the runner's: the memory behind an address.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use plangate_gate::digest::Digest;

use crate::memory::Memory;

/// What keys hold in their name whose first request is carried out and never answered.
pub(crate) const LOST_ANSWER: &str = "lost-answer";

/// What keys hold in their name that nobody may read.
pub(crate) const NOT_TO_BE_READ: &str = "not-to-be-read";

/// The header with the name of a writer.
const WRITER: &str = "x-amz-meta-plangate-writer";

/// Starts serving and gives the address. It serves as long as the process lives.
pub(crate) fn serve(memory: &Arc<Memory>) -> String {
    let lost = Arc::new(Mutex::new(BTreeSet::new()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let memory = Arc::clone(memory);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (memory, lost) = (Arc::clone(&memory), Arc::clone(&lost));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(connection);
                while let Some(request) = Request::read(&mut reader) {
                    let answer = answer(&memory, &request);
                    if request.path.contains(LOST_ANSWER) && lost.lock().unwrap().insert(request.path.clone()) {
                        return;
                    }
                    if answer.write(reader.get_mut(), request.method == "HEAD").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut request = Self { method, path: unescape(path), query: query.to_owned(), headers, body: Vec::new() };
        if request.header("expect").is_some() {
            reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        if let Some(length) = request.header("content-length") {
            request.body = vec![0; length.parse().ok()?];
            reader.read_exact(&mut request.body).ok()?;
        }
        if request.header("content-encoding").is_some_and(|encoding| encoding.contains("aws-chunked")) {
            request.body = unchunk(&request.body)?;
        }
        Some(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

fn unescape(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| u8::from_str_radix(path.get(at + 1..at + 3)?, 16).ok()).flatten();
        out.push(hex.unwrap_or(bytes[at]));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).unwrap()
}

/// The content of a body in signed chunks: each begins with its length in hex, and the last has none.
fn unchunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n")?;
        let head = std::str::from_utf8(&body[..end]).ok()?;
        let length = usize::from_str_radix(head.split(';').next()?, 16).ok()?;
        if length == 0 {
            return Some(out);
        }
        out.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 4 + length..];
    }
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: vec![("content-type", "application/xml".to_owned())], body: body.into() }
    }

    fn error(status: u16, code: &str) -> Self {
        Self::of(status, format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{code}</Message></Error>"))
    }

    fn write(&self, to: &mut TcpStream, head: bool) -> std::io::Result<()> {
        let mut text = format!("HTTP/1.1 {} X\r\nx-amz-request-id: 1\r\n", self.status);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.status != 204 {
            text.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        to.write_all(text.as_bytes())?;
        if !head {
            to.write_all(&self.body)?;
        }
        to.flush()
    }
}

fn answer(memory: &Memory, request: &Request) -> Answer {
    if let Some(target) = request.header("x-amz-target") {
        assert_eq!(target, "AmazonSSM.GetParameters");
        return parameters(memory, &request.body);
    }
    if request.method == "POST" && request.body.starts_with(b"Action=GetCallerIdentity") {
        let arn = memory.caller.lock().unwrap().clone();
        return Answer::of(
            200,
            format!(
                "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>\
                 <Arn>{arn}</Arn><UserId>AROA:x</UserId><Account>123456789012</Account></GetCallerIdentityResult>\
                 <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></GetCallerIdentityResponse>"
            ),
        );
    }
    if request.path == "/container/credentials" {
        assert_eq!(request.header("authorization"), Some("container-token"));
        let session = serde_json::json!({"AccessKeyId": "ASIAEXAMPLE", "SecretAccessKey": "session", "Token": "token",
                                         "Expiration": "2100-01-01T00:00:00Z"});
        return Answer::of(200, session.to_string());
    }
    let (bucket, key) = request.path.trim_start_matches('/').split_once('/').unwrap_or((&request.path[1..], ""));
    match (request.method.as_str(), key) {
        ("GET", "") if request.query.contains("list-type=2") => Answer::of(
            200,
            format!(
                "<ListBucketResult><Name>{bucket}</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"
            ),
        ),
        ("HEAD", "") => Answer::of(200, ""),
        ("GET" | "HEAD", key) if key.contains(NOT_TO_BE_READ) => Answer::error(403, "AccessDenied"),
        ("GET" | "HEAD", key) => match memory.get(bucket, key) {
            Some(version) => {
                let mut answer = Answer::of(200, version.bytes.clone());
                answer.headers = vec![
                    ("x-amz-version-id", version.id),
                    ("etag", format!("\"{}\"", &Digest::of(&version.bytes).hex()[..32])),
                    ("last-modified", "Mon, 30 Nov 2026 05:00:00 GMT".to_owned()),
                ];
                answer.headers.extend(version.writer.map(|writer| (WRITER, writer)));
                answer
            }
            None => Answer::error(404, "NoSuchKey"),
        },
        ("PUT", key) if memory.check("put", key).is_err() => Answer::error(403, "AccessDenied"),
        ("PUT", key) => {
            if request.header("if-none-match") == Some("*") && memory.get(bucket, key).is_some() {
                return Answer::error(412, "PreconditionFailed");
            }
            let key_arn = request.header("x-amz-server-side-encryption-aws-kms-key-id");
            let id = memory.put_by(bucket, key, &request.body, key_arn, request.header(WRITER));
            let mut answer = Answer::of(200, "");
            answer.headers.push(("x-amz-version-id", id));
            answer.headers.push(("etag", format!("\"{}\"", &Digest::of(&request.body).hex()[..32])));
            answer
        }
        ("DELETE", key) => {
            memory.delete(bucket, key);
            Answer::of(204, "")
        }
        _ => Answer::error(501, "NotImplemented"),
    }
}

fn parameters(memory: &Memory, body: &[u8]) -> Answer {
    let asked: serde_json::Value = serde_json::from_slice(body).unwrap();
    assert_eq!(asked["WithDecryption"], true);
    assert!(asked["Names"].as_array().unwrap().len() <= 10, "the service takes ten names at most");
    let known = memory.parameters.lock().unwrap();
    let names = asked["Names"].as_array().unwrap().iter().filter_map(serde_json::Value::as_str);
    let (found, unknown): (Vec<_>, Vec<_>) = names.partition(|name| known.contains_key(*name));
    let found: Vec<_> = found
        .iter()
        .map(|name| serde_json::json!({"Name": name, "Type": "SecureString", "Value": known[*name]}))
        .collect();
    let answer = serde_json::json!({"Parameters": found, "InvalidParameters": unknown});
    let mut answer = Answer::of(200, answer.to_string());
    answer.headers = vec![("content-type", "application/x-amz-json-1.1".to_owned())];
    answer
}
