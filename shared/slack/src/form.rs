//! The form that Slack sends: one field, `payload`.

use crate::interaction::InteractionError;

/// The value of the one field `payload` of a form in `application/x-www-form-urlencoded`.
pub(crate) fn payload(body: &[u8]) -> Result<Vec<u8>, InteractionError> {
    let malformed = || InteractionError::Malformed("the form is not one field `payload`".to_owned());
    let value = body.strip_prefix(b"payload=").ok_or_else(malformed)?;
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
                let (high, low) = (digit(bytes.next()), digit(bytes.next()));
                let (Some(high), Some(low)) = (high, low) else { return Err(malformed()) };
                out.push(u8::try_from(high * 16 + low).map_err(|_| malformed())?);
            }
            b'&' | b'=' => return Err(malformed()),
            byte if byte.is_ascii_graphic() => out.push(*byte),
            _ => return Err(malformed()),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_field_is_decoded_and_anything_else_is_refused() {
        assert_eq!(payload(b"payload=%7B%22a%22%3A+1%7d").unwrap(), br#"{"a": 1}"#);
        assert_eq!(payload(b"payload=").unwrap(), b"");
        for bad in
            ["", "payload", "other=1", "payload=1&payload=2", "payload=%7", "payload=%zz", "payload=a b", "x&payload=1"]
        {
            assert!(payload(bad.as_bytes()).is_err(), "`{bad}`");
        }
    }
}
