//! Comfort bands: how an output speed reads.
//!
//! Invariant: every speed lies in exactly one band.

/// A band of output speeds of one request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Comfort {
    /// Below 10 tok/s.
    Slow,
    /// From 10 to below 15 tok/s.
    Hesitant,
    /// From 15 to below 30 tok/s.
    Comfortable,
    /// From 30 to 50 tok/s.
    Fluid,
    /// Above 50 tok/s.
    FasterThanReading,
}

impl Comfort {
    /// All bands, from slow to fast.
    pub const ALL: [Comfort; 5] =
        [Comfort::Slow, Comfort::Hesitant, Comfort::Comfortable, Comfort::Fluid, Comfort::FasterThanReading];

    /// The band of a speed in tok/s.
    pub fn of(output_speed: f64) -> Comfort {
        match output_speed {
            speed if speed < 10.0 => Comfort::Slow,
            speed if speed < 15.0 => Comfort::Hesitant,
            speed if speed < 30.0 => Comfort::Comfortable,
            speed if speed <= 50.0 => Comfort::Fluid,
            _ => Comfort::FasterThanReading,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Comfort::Slow => "slow",
            Comfort::Hesitant => "hesitant",
            Comfort::Comfortable => "comfortable to read",
            Comfort::Fluid => "fluid",
            Comfort::FasterThanReading => "faster than reading",
        }
    }

    /// Its range in words (tok/s).
    pub const fn range(self) -> &'static str {
        match self {
            Comfort::Slow => "below 10",
            Comfort::Hesitant => "10 to 15",
            Comfort::Comfortable => "15 to 30",
            Comfort::Fluid => "30 to 50",
            Comfort::FasterThanReading => "above 50",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_belong_to_the_band_that_the_glossary_says() {
        let names: Vec<&str> =
            [9.99, 10.0, 15.0, 30.0, 50.0, 50.01].map(|speed| Comfort::of(speed).name()).into_iter().collect();
        assert_eq!(names, ["slow", "hesitant", "comfortable to read", "fluid", "fluid", "faster than reading"]);
    }
}
