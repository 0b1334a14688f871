//! What is JSON, what is none, and what it costs to find out.

use super::*;

fn skips(text: &str) -> bool {
    Reader::new(text.as_bytes()).and_then(|mut r| r.skip().and_then(|()| r.end())).is_ok()
}

#[test]
fn what_is_skipped_must_still_be_json() {
    for good in ["null", " [ ] ", "{}", r#"{"a":[1,-0.5e+7,"\u00e9\n"],"b":{"c":true}}"#, "0", r#""\ud83d\ude00""#] {
        assert!(skips(good), "`{good}`");
    }
    for bad in [
        "",
        "nul",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        "-",
        "+1",
        "[1 2]",
        "{\"a\" 1}",
        "\"\t\"",
        "\"\\x\"",
        "\"",
        "[}",
        "1 1",
    ] {
        assert!(!skips(bad), "`{bad}`");
    }
}

#[test]
fn depth_costs_no_stack() {
    let deep = "[".repeat(2_000_000) + &"]".repeat(2_000_000);
    assert!(skips(&deep));
    assert!(!skips(&"{\"a\":".repeat(2_000_000)));
}

#[test]
fn strings_are_borrowed_unless_an_escape_forces_a_copy() {
    let mut reader = Reader::new(r#""plain and long enough" "es\u0063aped\ud83d\ude00""#.as_bytes()).unwrap();
    assert!(matches!(reader.string().unwrap(), Cow::Borrowed("plain and long enough")));
    assert_eq!(reader.string().unwrap(), "escaped😀");
    assert!(Reader::new(br#""\ud83d""#).unwrap().string().is_err());
}

#[test]
fn the_fast_scan_finds_what_the_slow_one_does() {
    for filler in 0..20 {
        for stop in ["\"", "\\n\"", "\u{1}"] {
            let text = format!("\"{}é{stop}", "x".repeat(filler));
            let mut reader = Reader::new(text.as_bytes()).unwrap();
            assert_eq!(reader.string().is_ok(), stop != "\u{1}", "{filler} {stop:?}");
        }
    }
}

#[test]
fn a_key_may_not_come_twice_however_it_is_spelt() {
    let read = |text: &str| Reader::new(text.as_bytes()).unwrap().object(|r, _| r.skip());
    assert!(read(r#"{"a":1,"b":2}"#).is_ok());
    assert_eq!(read(r#"{"a":1,"\u0061":2}"#).unwrap_err().problem, "a key stands twice in this object");
}
