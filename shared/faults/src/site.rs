//! The name of a call's place: which service, which operation, on which things, without the ids in them.

use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use serde_json::Value;

/// How much of a request is looked through for ids and keys, in bytes.
const LOOKED_AT: usize = 1 << 20;

/// A call: what it is called, and which run and workspace it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The service's name in signatures.
    pub(crate) service: String,
    /// The site's name, without the process.
    pub(crate) name: String,
    /// The first run's id in it.
    pub(crate) run: Option<String>,
    /// The first workspace's id in it.
    pub(crate) workspace: Option<String>,
}

impl Call {
    /// Reads a signed request.
    pub(crate) fn of(request: &HttpRequest) -> Self {
        let header = |name: &str| request.headers().get(name).unwrap_or_default();
        // `Credential=KEY/20261130/region/service/aws4_request`
        let service = header("authorization").split('/').nth(3).unwrap_or("unsigned").to_owned();
        let uri: http::Uri = request.uri().parse().unwrap_or_default();
        let small = request.body().bytes().filter(|bytes| bytes.len() <= LOOKED_AT);
        let body = if service == "s3" { None } else { small };
        let text = body.map(String::from_utf8_lossy).unwrap_or_default();
        let operation = match (header("x-amz-target").rsplit_once('.'), uri.query()) {
            (Some((_, operation)), _) => operation.to_owned(),
            (None, Some(query)) if query.contains("x-id=") => {
                query.split('&').find_map(|part| part.strip_prefix("x-id=")).unwrap_or_default().to_owned()
            }
            _ => form(&text, "Action").unwrap_or_else(|| request.method().to_owned()),
        };
        let things = match service.as_str() {
            "dynamodb" => keys(&text),
            "s3" => vec![key(uri.path())],
            _ => Vec::new(),
        };
        let mut name = format!("{service}.{operation}");
        for thing in things {
            name.push(' ');
            name.push_str(&without_ids(&thing));
        }
        let all = format!("{} {text}", uri.path());
        Self {
            service,
            name,
            run: id(&all, "run-", 26).map(str::to_owned),
            workspace: id(&all, "ws-", 16).map(str::to_owned),
        }
    }
}

/// The value of a field of a form.
fn form(text: &str, name: &str) -> Option<String> {
    text.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
}

/// An object's key: the path, without the bucket where it stands in front.
fn key(path: &str) -> String {
    let path = path.trim_start_matches('/');
    match path.split_once('/') {
        Some((bucket, key)) if bucket.starts_with("plangate-") => key.to_owned(),
        _ => path.to_owned(),
    }
}

/// The keys that a request of DynamoDB names, in its order.
fn keys(text: &str) -> Vec<String> {
    let Ok(body) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let part = |of: &Value, name: &str| Some(of.get(name)?.get("S")?.as_str()?.to_owned());
    let named = |of: &Value| match (part(of, "pk"), part(of, "sk")) {
        (Some(pk), Some(sk)) if sk.is_empty() || pk.starts_with(&sk) => Some(pk),
        (Some(pk), Some(sk)) => Some(format!("{pk}/{sk}")),
        _ => None,
    };
    if let Some(writes) = body.get("TransactItems").and_then(Value::as_array) {
        let what = |write: &Value| {
            let (kind, write) = write.as_object()?.iter().next()?;
            let key = write.get("Key").or_else(|| write.get("Item")).and_then(named)?;
            Some(format!("{}({key})", kind.to_ascii_lowercase()))
        };
        return writes.iter().filter_map(what).collect();
    }
    if let Some(tables) = body.get("RequestItems").and_then(Value::as_object) {
        let keys = tables.values().filter_map(|table| table.get("Keys")?.as_array()).flatten();
        return keys.filter_map(named).collect();
    }
    if let Some(values) = body.get("ExpressionAttributeValues") {
        let index = body.get("IndexName").and_then(Value::as_str).map(str::to_owned);
        let partition = [":pk", ":p", ":chain", ":open", ":list"].iter().find_map(|name| part(values, name));
        return index.into_iter().chain(partition).collect();
    }
    body.get("Key").or_else(|| body.get("Item")).and_then(named).into_iter().collect()
}

/// The first id of a kind in a text.
pub(crate) fn id<'a>(text: &'a str, kind: &str, length: usize) -> Option<&'a str> {
    text.match_indices(kind).find_map(|(start, _)| {
        let found = text.get(start..start + kind.len() + length)?;
        let rest = found.get(kind.len()..)?;
        let before = text.get(..start)?;
        let boundary = !before.ends_with(|before: char| before.is_ascii_alphanumeric());
        (boundary && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())).then_some(found)
    })
}

/// A text with `run`, `ws`, `N` and `digest` in the place of ids, long numbers and digests.
fn without_ids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(rest.len());
        let (token, after) = rest.split_at(word);
        out.push_str(match token {
            token if id(token, "run-", 26) == Some(token) => "run",
            token if id(token, "ws-", 16) == Some(token) => "ws",
            token if token.len() >= 6 && token.bytes().all(|byte| byte.is_ascii_digit()) => "N",
            token if token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()) => "digest",
            token => token,
        });
        let next = after.chars().next().map_or(0, char::len_utf8);
        let (between, after) = after.split_at(next);
        out.push_str(between);
        rest = after;
    }
    out
}
