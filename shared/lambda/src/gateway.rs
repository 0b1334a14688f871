//! What all functions behind API Gateway read of its events (HTTP API, payload 2.0).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The raw bytes of a request's `body`, which may be encoded; none where it is not what its encoding says.
#[must_use]
pub fn body(body: Option<&str>, is_base64_encoded: bool) -> Option<Cow<'_, [u8]>> {
    let text = body.unwrap_or_default();
    if is_base64_encoded { STANDARD.decode(text).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(text.as_bytes())) }
}
