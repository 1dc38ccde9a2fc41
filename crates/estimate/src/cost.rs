//! What tokens cost on own hardware and over an API, and from which load on own hardware is the cheaper.
//!
//! Invariant: prices and speeds are positive; dollars are exact to rounding, as they are sums and quotients only.

/// A price over an API, dollars a million tokens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ApiPrice {
    /// Of prompts.
    pub input: f64,
    /// Of answers.
    pub output: f64,
    /// Of tokens of a prompt that the provider has in its cache; the price of prompts where it does not say.
    pub cached: f64,
}

impl ApiPrice {
    /// Dollars of a request of `isl` tokens, of which `cached` are known to the provider, and an answer of `osl`.
    pub fn request(&self, isl: f64, cached: f64, osl: f64) -> f64 {
        ((isl - cached) * self.input + cached * self.cached + osl * self.output) / 1e6
    }
}

/// Own hardware under the most load that it carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Own {
    /// Dollars an hour of all devices.
    pub dollars_hour: f64,
    /// Requests a second that it carries.
    pub requests_a_second: f64,
    /// Output tokens/s at that.
    pub tokens_a_second: f64,
}

impl Own {
    /// Dollars a million output tokens at full load: $/hour / (3600 tok/s) 10^6.
    pub fn dollars_mtok(&self) -> f64 {
        self.dollars_hour / (3600.0 * self.tokens_a_second) * 1e6
    }

    /// Dollars a request at full load.
    pub fn dollars_request(&self) -> f64 {
        self.dollars_hour / (3600.0 * self.requests_a_second)
    }

    /// Requests an hour from which it costs less than an API at so many dollars a request; `None` if it carries fewer.
    pub fn breaks_even_at(&self, dollars_request: f64) -> Option<f64> {
        let requests = self.dollars_hour / dollars_request;
        (requests <= self.requests_a_second * 3600.0).then_some(requests)
    }

    /// Sets of such hardware that `requests` a month need whose busiest hour has `peak` times the mean, and dollars a month.
    pub fn month(&self, requests: f64, peak: f64) -> (f64, f64) {
        let busiest = requests / (HOURS_A_MONTH * 3600.0) * peak;
        let sets = (busiest / self.requests_a_second).ceil().max(1.0);
        (sets, sets * self.dollars_hour * HOURS_A_MONTH)
    }
}

/// Hours of a mean month.
pub const HOURS_A_MONTH: f64 = 730.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_those_computed_by_hand() {
        let own = Own { dollars_hour: 7.2, requests_a_second: 2.0, tokens_a_second: 1000.0 };
        // 7.2 / 3.6e6 tokens; 7.2 / 7,200 requests.
        assert!((own.dollars_mtok() - 2.0).abs() < 1e-12);
        assert!((own.dollars_request() - 0.001).abs() < 1e-15);
        let api = ApiPrice { input: 1.0, output: 2.0, cached: 0.5 };
        // 600 · 1 + 400 · 0.5 + 500 · 2 = 1,800 millionths.
        assert!((api.request(1000.0, 400.0, 500.0) - 0.0018).abs() < 1e-15);
        assert_eq!(own.breaks_even_at(0.0018), Some(7.2 / 0.0018));
        assert_eq!(own.breaks_even_at(0.0009), None, "8,000 an hour, and it carries 7,200");
        // 10 million a month are 3.80 a second, at a peak of three 11.4: six sets.
        assert_eq!(own.month(10e6, 3.0), (6.0, 6.0 * 7.2 * HOURS_A_MONTH));
    }
}
