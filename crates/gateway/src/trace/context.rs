//! The W3C trace context (`traceparent`, `tracestate`), as it comes from clients and goes to lanes.
//!
//! Invariant: what does not follow the recommendation is ignored as a whole, for any bytes; what is sent on does follow it.

use http::{HeaderMap, HeaderName, HeaderValue};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// `00-`, 32 digits, `-`, 16 digits, `-`, 2 digits.
const PARENT_BYTES: usize = 55;
/// The size that the recommendation asks everybody to hand on.
const MAX_STATE_BYTES: usize = 512;
/// Entries of `tracestate`, by the recommendation.
const MAX_STATE_ENTRIES: usize = 32;
/// The flag by which a caller says that it may have recorded its part of the trace.
const SAMPLED: u8 = 1;

/// Where in which trace a call was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TraceContext {
    pub trace_id: [u8; 16],
    /// The span of the caller.
    pub span_id: [u8; 8],
    pub is_sampled: bool,
    /// What the systems on the way have added, in their own forms.
    pub state: Option<Box<str>>,
}

impl TraceContext {
    /// The context in a request's headers; `None` without one that is valid.
    pub fn of(headers: &HeaderMap) -> Option<TraceContext> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = parents.next()?;
        // Two say nothing.
        if parents.next().is_some() {
            return None;
        }
        let (trace_id, span_id, flags) = parse_parent(parent.as_bytes())?;
        let state = state_of(headers);
        Some(TraceContext { trace_id, span_id, is_sampled: flags & SAMPLED != 0, state })
    }

    /// Writes it into the headers of a request, in place of any that are there.
    pub fn write_to(&self, headers: &mut HeaderMap) {
        let mut parent = String::with_capacity(PARENT_BYTES);
        parent.push_str("00-");
        push_hex(&mut parent, &self.trace_id);
        parent.push('-');
        push_hex(&mut parent, &self.span_id);
        parent.push_str(if self.is_sampled { "-01" } else { "-00" });
        headers.remove(TRACESTATE);
        if let Ok(parent) = HeaderValue::from_str(&parent) {
            headers.insert(TRACEPARENT, parent);
        }
        if let Some(state) = self.state.as_deref().and_then(|state| HeaderValue::from_str(state).ok()) {
            headers.insert(TRACESTATE, state);
        }
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Trace, span and flags of a `traceparent`.
fn parse_parent(value: &[u8]) -> Option<([u8; 16], [u8; 8], u8)> {
    let (known, rest) = value.split_at_checked(PARENT_BYTES)?;
    let [version] = hex(known.get(..2)?)?;
    // A later version may say more behind another dash; this one says no more, and ff is none.
    let is_whole = match version {
        0 => rest.is_empty(),
        0xff => false,
        _ => rest.is_empty() || rest.starts_with(b"-"),
    };
    let has_dashes = [2, 35, 52].iter().all(|place| known[*place] == b'-');
    let trace_id: [u8; 16] = hex(&known[3..35])?;
    let span_id: [u8; 8] = hex(&known[36..52])?;
    let [flags] = hex(&known[53..])?;
    let is_named = trace_id != [0; 16] && span_id != [0; 8];
    (is_whole && has_dashes && is_named).then_some((trace_id, span_id, flags))
}

/// Lower-case hexadecimal digits as bytes.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

/// The list in all `tracestate` headers together; `None` if it is empty, too long, or not of the recommendation's letters.
fn state_of(headers: &HeaderMap) -> Option<Box<str>> {
    let mut state = String::new();
    for value in headers.get_all(TRACESTATE) {
        for entry in value.to_str().ok()?.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if !is_entry(entry) {
                return None;
            }
            if !state.is_empty() {
                state.push(',');
            }
            state.push_str(entry);
        }
    }
    let is_bounded = state.len() <= MAX_STATE_BYTES && state.split(',').count() <= MAX_STATE_ENTRIES;
    (!state.is_empty() && is_bounded).then(|| state.into_boxed_str())
}

/// Whether it is `key=value` of the letters that the recommendation allows.
fn is_entry(entry: &str) -> bool {
    let is_of_key = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_of_value = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b',' && byte != b'=';
    let Some((key, value)) = entry.split_once('=') else { return false };
    !key.is_empty()
        && key.len() <= 256
        && key.bytes().all(is_of_key)
        && !value.is_empty()
        && value.len() <= 256
        && value.bytes().all(is_of_value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(parents: &[&[u8]], states: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for parent in parents {
            headers.append(TRACEPARENT, HeaderValue::from_bytes(parent).expect("bytes of a header"));
        }
        for state in states {
            headers.append(TRACESTATE, HeaderValue::from_str(state).expect("bytes of a header"));
        }
        headers
    }

    #[test]
    fn the_example_of_the_recommendation_is_read_and_written_as_it_is() {
        let received = headers(&[PARENT.as_bytes()], &["congo=t61rcWkgMzE, rojo=00f067aa0ba902b7", "a@b=1"]);
        let context = TraceContext::of(&received).expect("a context");
        assert_eq!((context.trace_id[0], context.span_id[7], context.is_sampled), (0x4b, 0xb7, true));
        let mut sent = headers(&[b"another"], &["an=other"]);
        context.write_to(&mut sent);
        assert_eq!(sent.get_all(TRACEPARENT).iter().collect::<Vec<_>>(), [PARENT]);
        assert_eq!(sent[TRACESTATE], "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7,a@b=1");
        assert_eq!(TraceContext::of(&sent), Some(context));
    }

    #[test]
    fn a_later_version_may_say_more_and_what_is_malformed_is_no_context() {
        let is_read = |parent: &str| TraceContext::of(&headers(&[parent.as_bytes()], &[])).is_some();
        for valid in [PARENT, &PARENT.replacen("00", "cc", 1), &(PARENT.replacen("00", "01", 1) + "-more")] {
            assert!(is_read(valid), "{valid}");
        }
        let zeros = |digits: &str| PARENT.replace(digits, &"0".repeat(digits.len()));
        for invalid in [
            "",
            &PARENT[..54],
            &format!("{PARENT}-more"),
            &format!("{PARENT}0"),
            &PARENT.replacen("00", "ff", 1),
            &PARENT.to_uppercase(),
            &PARENT.replace('-', "_"),
            &PARENT.replace("4bf9", "4bg9"),
            &zeros("4bf92f3577b34da6a3ce929d0e0e4736"),
            &zeros("00f067aa0ba902b7"),
        ] {
            assert!(!is_read(invalid), "{invalid}");
        }
        assert_eq!(TraceContext::of(&headers(&[PARENT.as_bytes(), PARENT.as_bytes()], &[])), None, "which of them?");
    }

    #[test]
    fn a_state_that_is_malformed_or_too_long_is_left_out_and_the_parent_kept() {
        let long = format!("a={}", "b".repeat(600));
        let many = (0..33).map(|number| format!("k{number}=v")).collect::<Vec<_>>().join(",");
        for state in ["", ",", "a", "=a", "a=", "A=b", "a=b=c", &long, &many] {
            let context = TraceContext::of(&headers(&[PARENT.as_bytes()], &[state])).expect("the parent is valid");
            assert_eq!(context.state, None, "{state}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_bytes_are_no_context_or_one_that_is_sent_on_as_a_valid_one(
            parent in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..80),
                "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]{0,4})?".prop_map(String::into_bytes),
            ],
            state in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut received = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&parent) {
                received.append(TRACEPARENT, value);
            }
            if let Ok(value) = HeaderValue::from_bytes(&state) {
                received.append(TRACESTATE, value);
            }
            if let Some(context) = TraceContext::of(&received) {
                let mut sent = HeaderMap::new();
                context.write_to(&mut sent);
                prop_assert_eq!(TraceContext::of(&sent), Some(context));
            }
        }
    }
}
