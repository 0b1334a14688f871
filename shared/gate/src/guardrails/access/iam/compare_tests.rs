//! Edits of a policy as people make them, and whether they widen it.

use super::*;

/// A policy of the current version with these statements.
fn policy(statements: &str) -> Document {
    Document::parse(&format!(r#"{{"Version":"2012-10-17","Statement":{statements}}}"#)).unwrap()
}

fn wider(before: &str, after: &str) -> bool {
    widens(&policy(before), &policy(after), &Steps::new())
}

/// The statement that most edits start from.
const READ: &str = r#"{"Sid":"Read","Effect":"Allow","Action":["s3:GetObject","s3:ListBucket"],"Resource":["arn:aws:s3:::a","arn:aws:s3:::a/*"]}"#;

/// A denial beside it.
const TLS: &str =
    r#"{"Effect":"Deny","Action":"s3:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}"#;

#[test]
fn edits_that_permit_no_more_are_no_widening() {
    for (what, before, after) in [
        ("the same", READ.to_owned(), READ.to_owned()),
        ("a list of one", READ.to_owned(), format!("[{READ}]")),
        ("another order of statements", format!("[{READ},{TLS}]"), format!("[{TLS},{READ}]")),
        ("a statement twice", READ.to_owned(), format!("[{READ},{READ}]")),
        ("another name", READ.to_owned(), READ.replace("\"Read\"", "\"Other\"")),
        ("other case of actions", READ.to_owned(), READ.replace("s3:GetObject", "S3:getobject")),
        (
            "another order of actions",
            READ.to_owned(),
            READ.replace(r#""s3:GetObject","s3:ListBucket""#, r#""s3:ListBucket","s3:GetObject""#),
        ),
        (
            "split by action",
            READ.to_owned(),
            format!(
                "[{},{}]",
                READ.replace(r#","s3:ListBucket""#, ""),
                READ.replace(r#""s3:GetObject","#, "")
            ),
        ),
        (
            "merged from statements by action",
            format!(
                "[{},{}]",
                READ.replace(r#","s3:ListBucket""#, ""),
                READ.replace(r#""s3:GetObject","#, "")
            ),
            READ.to_owned(),
        ),
        (
            "split by resource",
            READ.to_owned(),
            format!("[{},{}]", READ.replace(r#","arn:aws:s3:::a/*""#, ""), READ.replace(r#""arn:aws:s3:::a","#, "")),
        ),
        ("an action removed", READ.to_owned(), READ.replace(r#","s3:ListBucket""#, "")),
        ("a resource removed", READ.to_owned(), READ.replace(r#"","arn:aws:s3:::a/*""#, "\"")),
        ("a narrower resource", READ.to_owned(), READ.replace("a/*", "a/b/*")),
        ("a narrower resource by a variable", READ.to_owned(), READ.replace("a/*", "a/${aws:username}/*")),
        ("narrower actions", r#"{"Effect":"Allow","Action":"s3:*","Resource":"*"}"#.to_owned(), READ.to_owned()),
        ("a statement removed", format!("[{READ},{TLS}]"), TLS.to_owned()),
        ("everything allowed removed", READ.to_owned(), "[]".to_owned()),
        ("a denial added", READ.to_owned(), format!("[{READ},{TLS}]")),
        ("a wider denial", TLS.to_owned(), r#"{"Effect":"Deny","Action":"*","Resource":"*"}"#.to_owned()),
        ("a condition added", READ.to_owned(), READ.replace(r#"/*"]"#, r#"/*"],"Condition":{"Bool":{"aws:SecureTransport":"true"}}"#)),
        (
            "an allowance that is denied at once",
            format!("[{READ},{TLS}]"),
            format!(
                "[{READ},{TLS},{}]",
                r#"{"Effect":"Allow","Action":"s3:Put*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}"#
            ),
        ),
        (
            "an exception less",
            r#"{"Effect":"Deny","NotAction":["iam:*","sts:*"],"Resource":"*"}"#.to_owned(),
            r#"{"Effect":"Deny","NotAction":["sts:*"],"Resource":"*"}"#.to_owned(),
        ),
        (
            "an exception more to what is allowed",
            r#"{"Effect":"Allow","NotAction":"iam:*","Resource":"*"}"#.to_owned(),
            r#"{"Effect":"Allow","NotAction":["iam:*","sts:*"],"Resource":"*"}"#.to_owned(),
        ),
        (
            "actions outside of the exception",
            r#"{"Effect":"Allow","NotAction":"iam:*","Resource":"*"}"#.to_owned(),
            r#"{"Effect":"Allow","Action":["s3:Get*","ec2:*"],"Resource":"*"}"#.to_owned(),
        ),
        (
            "one account fewer",
            r#"{"Effect":"Allow","Principal":{"AWS":["111122223333","arn:aws:iam::444455556666:root"]},"Action":"sts:AssumeRole"}"#.to_owned(),
            r#"{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:root"},"Action":"sts:AssumeRole"}"#.to_owned(),
        ),
        (
            "one account instead of everybody",
            r#"{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage","Resource":"*"}"#.to_owned(),
            r#"{"Effect":"Allow","Principal":{"AWS":"111122223333"},"Action":"sqs:SendMessage","Resource":"*"}"#.to_owned(),
        ),
    ] {
        assert!(!wider(&before, &after), "{what}");
    }
}

#[test]
fn edits_that_permit_more_are_widening() {
    for (what, before, after) in [
        ("one action more", READ.to_owned(), READ.replace("s3:ListBucket", "s3:ListBucket\",\"s3:PutObject")),
        ("a wider action", READ.to_owned(), READ.replace("s3:GetObject", "s3:Get*")),
        ("a wider resource", READ.to_owned(), READ.replace("a/*", "*")),
        ("another bucket", READ.to_owned(), READ.replace("s3:::a/", "s3:::A/")),
        ("a statement more", TLS.to_owned(), format!("[{READ},{TLS}]")),
        ("a denial less", format!("[{READ},{TLS}]"), READ.to_owned()),
        ("a denial less where nothing is allowed", TLS.to_owned(), "[]".to_owned()),
        ("a narrower denial", TLS.to_owned(), TLS.replace("s3:*", "s3:Get*")),
        ("a denial under one more condition", TLS.to_owned(), TLS.replace("\"false\"}", "\"false\"},\"StringEquals\":{\"aws:PrincipalTag/team\":\"a\"}")),
        ("a condition less", READ.replace(r#"/*"]"#, r#"/*"],"Condition":{"Bool":{"aws:SecureTransport":"true"}}"#), READ.to_owned()),
        ("actions and resources crossed", format!("[{},{}]", READ.replace(r#","s3:ListBucket""#, "").replace(r#""arn:aws:s3:::a","#, ""), READ.replace(r#""s3:GetObject","#, "").replace(r#","arn:aws:s3:::a/*""#, "")), READ.to_owned()),
        ("a denial turned round", TLS.to_owned(), TLS.replace("Deny", "Allow")),
        (
            "an exception more to a denial",
            r#"{"Effect":"Deny","NotAction":"sts:*","Resource":"*"}"#.to_owned(),
            r#"{"Effect":"Deny","NotAction":["iam:*","sts:*"],"Resource":"*"}"#.to_owned(),
        ),
        (
            "an exception less to what is allowed",
            r#"{"Effect":"Allow","NotAction":["iam:*","sts:*"],"Resource":"*"}"#.to_owned(),
            r#"{"Effect":"Allow","NotAction":"iam:*","Resource":"*"}"#.to_owned(),
        ),
        (
            "one account more",
            r#"{"Effect":"Allow","Principal":{"AWS":"111122223333"},"Action":"sts:AssumeRole"}"#.to_owned(),
            r#"{"Effect":"Allow","Principal":{"AWS":["111122223333","444455556666"]},"Action":"sts:AssumeRole"}"#.to_owned(),
        ),
        (
            "a role where its account decided",
            r#"{"Effect":"Allow","Principal":{"AWS":"111122223333"},"Action":"sts:AssumeRole"}"#.to_owned(),
            r#"{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:role/r"},"Action":"sts:AssumeRole"}"#.to_owned(),
        ),
        (
            "a service where it was every account",
            r#"{"Effect":"Allow","Principal":"*","Action":"sqs:SendMessage","Resource":"*"}"#.to_owned(),
            r#"{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage","Resource":"*"}"#.to_owned(),
        ),
    ] {
        assert!(wider(&before, &after), "{what}");
    }
}

/// What a condition on an allowance becomes.
fn condition(before: &str, after: &str) -> bool {
    let statement =
        |condition: &str| format!(r#"{{"Effect":"Allow","Action":"a:b","Resource":"*","Condition":{condition}}}"#);
    wider(&statement(before), &statement(after))
}

#[test]
fn conditions_are_compared_by_when_they_hold() {
    for (before, after) in [
        (r#"{"StringEquals":{"k":["a","b"]}}"#, r#"{"StringEquals":{"K":"a"}}"#),
        (r#"{"StringLike":{"k":"a*"}}"#, r#"{"StringLike":{"k":["ab*","a?"]}}"#),
        (r#"{"StringLike":{"k":"a*"}}"#, r#"{"StringEquals":{"k":"ab"}}"#),
        (r#"{"StringNotEquals":{"k":"a"}}"#, r#"{"StringNotEquals":{"k":["a","b"]}}"#),
        (r#"{"StringNotLike":{"k":"ab"}}"#, r#"{"StringNotLike":{"k":"a*"}}"#),
        (r#"{"StringEqualsIfExists":{"k":"a"}}"#, r#"{"StringEquals":{"k":"a"}}"#),
        (
            r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#,
            r#"{"IpAddress":{"aws:SourceIp":["10.1.0.0/16","10.2.3.4"]}}"#,
        ),
        (r#"{"NotIpAddress":{"aws:SourceIp":"10.1.0.0/16"}}"#, r#"{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#),
        (r#"{"ArnLike":{"k":"arn:aws:sns:*:1:*"}}"#, r#"{"ArnEquals":{"k":"arn:aws:sns:eu-west-1:1:t"}}"#),
        (r#"{"ArnLike":{"k":["arn:aws:sns","*"]}}"#, r#"{"ArnLike":{"k":"*"}}"#),
        (r#"{"Bool":{"k":"true"}}"#, r#"{"Bool":{"k":true}}"#),
        (r#"{"ForAllValues:StringEquals":{"k":["a","b"]}}"#, r#"{"ForAllValues:StringEquals":{"k":["b"]}}"#),
    ] {
        assert!(!condition(before, after), "{before} {after}");
    }
    for (before, after) in [
        (r#"{"StringEquals":{"k":"a"}}"#, r#"{"StringEquals":{"k":["a","b"]}}"#),
        (r#"{"StringEquals":{"k":"a"}}"#, r#"{"StringEquals":{"k":"A"}}"#),
        (r#"{"StringEquals":{"k":"a*"}}"#, r#"{"StringLike":{"k":"a*"}}"#),
        (r#"{"StringLike":{"k":"ab*"}}"#, r#"{"StringLike":{"k":"a*"}}"#),
        (r#"{"StringNotEquals":{"k":["a","b"]}}"#, r#"{"StringNotEquals":{"k":"a"}}"#),
        (r#"{"StringEquals":{"k":"a"}}"#, r#"{"StringEqualsIfExists":{"k":"a"}}"#),
        (r#"{"StringEquals":{"k":"a"}}"#, r#"{"ForAllValues:StringEquals":{"k":"a"}}"#),
        (r#"{"StringEquals":{"k":"a"}}"#, r#"{"StringEquals":{"l":"a"}}"#),
        (r#"{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#, r#"{"IpAddress":{"aws:SourceIp":"0.0.0.0/0"}}"#),
        // What an ARN without all its parts is like, nobody says.
        (r#"{"ArnLike":{"k":"arn:aws:sns"}}"#, r#"{"ArnLike":{"k":"arn:aws:sns:eu-west-1:1:t"}}"#),
        (r#"{"ArnLike":{"k":"*"}}"#, r#"{"ArnLike":{"k":"arn:aws:sns:eu-west-1:1:t"}}"#),
        (r#"{"ArnNotLike":{"k":"arn:aws:sns:eu-west-1:1:t"}}"#, r#"{"ArnNotLike":{"k":"arn:aws:sns"}}"#),
        (r#"{"NumericLessThan":{"k":"5"}}"#, r#"{"NumericLessThan":{"k":"6"}}"#),
        (r#"{"Null":{"k":"true"}}"#, r#"{"Null":{"k":"false"}}"#),
    ] {
        assert!(condition(before, after), "{before} {after}");
    }
}

#[test]
fn a_document_that_is_not_wholly_understood_is_none() {
    for text in [
        "",
        "{}",
        "[]",
        r#"{"Statement":[]} x"#,
        r#"{"Statement":[],"Statement":[]}"#,
        r#"{"Version":"2025-01-01","Statement":[]}"#,
        r#"{"Statement":[],"Extra":1}"#,
        r#"{"Statement":[{"Effect":"allow","Action":"a:b","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":[],"Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"a:b","NotAction":"c:d","Resource":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"a:b","Resource":"*","Resources":"*"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"a:b","Principal":{"Aws":"*"}}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"a:b","Principal":"everybody"}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"a:b","Resource":"*","Condition":{"StringIs":{"k":"v"}}}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"a:b","Resource":"*","Condition":{"StringEquals":{"k":"v","K":"w"}}}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"a:b","Resource":"*","Condition":{"IpAddress":{"k":"10.0.0.0/40"}}}]}"#,
        r#"{"Statement":[{"Effect":"Allow","Action":"a:b","Resource":"*","Condition":{"NullIfExists":{"k":"true"}}}]}"#,
    ] {
        assert_eq!(Document::parse(text), Err(super::super::Unclear), "{text}");
    }
    let long = format!(r#"{{"Statement":[],"Id":"{}"}}"#, "x".repeat(64 * 1024));
    assert_eq!(Document::parse(&long), Err(super::super::Unclear));
}

#[test]
fn a_comparison_that_would_take_too_long_is_a_widening() {
    let names: Vec<String> = (0..50).map(|n| format!("\"s:*a*b*c*d{n}\"")).collect();
    let list = |names: &[String]| format!(r#"{{"Effect":"Allow","Action":[{}],"Resource":"*"}}"#, names.join(","));
    let (before, after) = (policy(&list(&names)), policy(&list(&names[..40])));
    assert!(!widens(&before, &after, &Steps::new()));
    assert!(widens(&before, &after, &Steps::only(1000)));
    assert!(!widens(&before, &before, &Steps::only(0)), "what stands there as it was needs no comparing");
}
