//! What a page was asked to show: time range, filters, order, place in a list. All of it stands in the address, so that a link shows the
//! same to whoever opens it.
//!
//! Invariant: an address that cannot be read is rejected with what to write; what a link holds is encoded and escaped.

use crate::query::{self, DEFAULT_REPORT_SINCE, ParamError, QueryParams};
use std::fmt::Write as _;
use tokrate_charts::escape;
use tokrate_store::Query;

/// Ranges that a link leads to, with their names.
pub(super) const RANGES: [(&str, &str); 4] = [("15m", "15 min"), ("1h", "1 h"), ("24h", "24 h"), ("7d", "7 d")];

/// What to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct View {
    /// The beginning of the range, as it was written.
    pub since: String,
    /// Its end, as it was written.
    pub until: Option<String>,
    /// Which rows of the log.
    pub query: Query,
    /// How a list is sorted.
    pub sort: Option<&'static str>,
    /// The call after which a list goes on.
    pub after: Option<String>,
}

impl View {
    /// Reads an address. Which call is asked for stands in `query.call`. `sorts` are the orders that the page knows.
    pub fn of(query: Option<&str>, now_unix_ms: u64, sorts: &[&'static str]) -> Result<View, ParamError> {
        let mut params = QueryParams::of_form(query)?;
        // As they were written, for links; the filters read them again.
        let written = |name| QueryParams::of_form(query).map(|mut params| params.take(name));
        let (since, until) = (written("since")?, written("until")?);
        let query = query::filters(&mut params, Some(DEFAULT_REPORT_SINCE), now_unix_ms)?;
        let sort = params.take_named("sort", sorts, |name| name)?;
        let after = params.take("after");
        params.finish()?;
        Ok(View { since: since.unwrap_or_else(|| DEFAULT_REPORT_SINCE.to_owned()), until, query, sort, after })
    }

    /// The same view, if of the filters that not every page has only these are set: none is passed over in silence.
    pub fn with_only(self, names: &[&str]) -> Result<View, ParamError> {
        let query = &self.query;
        let set = [
            ("lane", query.lane.is_some()),
            ("end", query.end.is_some()),
            ("failure", query.failure.is_some()),
            ("provider", query.provider.is_some()),
            ("call", query.call.is_some()),
            ("after", self.after.is_some()),
        ];
        match set.iter().find(|(name, is_set)| *is_set && !names.contains(name)) {
            Some((name, _)) => Err(format!("`{name}`: this page has no such filter; leave it out")),
            None => Ok(self),
        }
    }

    /// What is shown by default.
    #[cfg(test)]
    pub fn default_at(now_unix_ms: u64) -> View {
        View::of(None, now_unix_ms, &[]).expect("every parameter has a default")
    }

    /// Whether the range ends now, so that the page changes.
    pub fn is_live(&self) -> bool {
        self.until.is_none()
    }

    /// A link within the same range and with the same key and alias, escaped for an attribute; `more` are further parameters.
    pub fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        self.link_without("", path, more)
    }

    /// The same with one of the parameters of the range or the filters left out.
    pub fn link_without(&self, without: &str, path: &str, more: &[(&str, &str)]) -> String {
        let common = self.common();
        let kept = common.iter().filter(|(name, _)| *name != without && !more.iter().any(|(other, _)| other == name));
        let mut link = path.to_owned();
        for (index, (name, value)) in kept.copied().chain(more.iter().copied()).enumerate() {
            let _ = write!(link, "{}{name}={}", if index == 0 { '?' } else { '&' }, percent_encoded(value));
        }
        escape(&link)
    }

    /// A link to the same with another range.
    pub fn link_of_range(&self, path: &str, since: &str, more: &[(&str, &str)]) -> String {
        let open = View { since: since.to_owned(), until: None, ..self.clone() };
        open.link(path, more)
    }

    /// What all pages have in common, as far as it is not the default.
    pub fn common(&self) -> Vec<(&'static str, &str)> {
        let mut common = Vec::new();
        if self.since != DEFAULT_REPORT_SINCE {
            common.push(("since", self.since.as_str()));
        }
        let filters = [("until", &self.until), ("key", &self.query.key), ("alias", &self.query.alias)];
        common.extend(filters.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))));
        common
    }

    /// The filters of the list of calls, as far as they are set.
    pub fn of_list(&self) -> Vec<(&'static str, &str)> {
        let query = &self.query;
        let filters = [
            ("lane", query.lane.as_deref()),
            ("end", query.end.map(tokrate_record::AttemptEnd::name)),
            ("failure", query.failure.map(tokrate_core::FailureKind::name)),
            ("sort", self.sort),
        ];
        filters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// The range in words.
    pub fn range_in_words(&self) -> String {
        match (&self.until, RANGES.iter().find(|(since, _)| *since == self.since)) {
            (None, Some((_, name))) => format!("last {name}"),
            (None, None) => format!("since {}", self.since),
            (Some(until), _) => format!("{} to {until}", self.since),
        }
    }
}

/// Encodes a value for a query string.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: u64 = 1_795_262_400_000;

    #[test]
    fn a_form_may_send_empty_fields_and_dates_as_browsers_write_them() {
        let view = View::of(Some("since=2026-11-20T10%3A00&until=2026-11-20T11%3A00%3A30&key=&alias=fast"), NOW, &[]);
        let view = view.expect("readable");
        assert_eq!(view.query.from_unix_ms, Some(1_795_168_800_000));
        assert_eq!(view.query.until_unix_ms, Some(1_795_172_430_000));
        assert_eq!((view.query.key.as_deref(), view.query.alias.as_deref()), (None, Some("fast")));
        assert!(!view.is_live());
        assert_eq!(
            view.link("/calls", &[("lane", "a b&c\"")]),
            "/calls?since=2026-11-20T10:00&amp;until=2026-11-20T11:00:30&amp;alias=fast&amp;lane=a%20b%26c%22"
        );
    }

    #[test]
    fn what_a_page_does_not_know_is_rejected() {
        for bad in ["sort=up", "colour=red", "since=yesterday", "key=a&key=b", "since=1h&until=2h", "alias=%ff"] {
            assert!(View::of(Some(bad), NOW, &["newest"]).is_err(), "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

        #[test]
        fn a_link_leads_back_to_the_same_view(
            key in "\\PC{1,20}", alias in proptest::option::of("[ -~]{1,20}"), since in "[1-9][0-9]{0,3}[smhd]"
        ) {
            let mut text = format!("since={since}&key={}", percent_encoded(&key));
            if let Some(alias) = &alias {
                text += &format!("&alias={}", percent_encoded(alias));
            }
            let view = View::of(Some(&text), NOW, &[]).expect("readable");
            let link = view.link("/", &[]).replace("&amp;", "&");
            let query = link.split_once('?').map(|(_, query)| query);
            prop_assert_eq!(View::of(query, NOW, &[]), Ok(view));
            prop_assert!(!link.contains(['<', '>', '"', '\'']));
        }
    }
}
