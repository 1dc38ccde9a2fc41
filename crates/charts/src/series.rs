//! What a line chart is made of: points, series and their kinds, marked values and ranges.

/// One point of a series.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Point {
    /// Position on the x-axis.
    pub x: f64,
    /// The value; `None` leaves a gap.
    pub y: Option<f64>,
    /// Lower end of the interval of `y`.
    pub low: Option<f64>,
    /// Upper end of the interval of `y`.
    pub high: Option<f64>,
    /// Label next to the point, such as its load; empty for none.
    pub label: String,
}

/// The kind of a series, which determines how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SeriesStyle {
    /// Measured: marks, intervals as error bars, joined by a thin line.
    #[default]
    Measured,
    /// A time series: a line without marks, with a band for its interval; an isolated point is drawn as a measured one.
    Course,
    /// Fitted: a line without marks, with a band for its interval.
    Fit,
    /// Reference: a dashed grey line.
    Reference,
    /// Single measurements behind the course that follows them: small dots in its colour, not listed in the table.
    Dots,
    /// Single measurements that count for nothing: small grey dots, not listed in the table.
    Grey,
}

impl SeriesStyle {
    pub(crate) fn is_dots(self) -> bool {
        matches!(self, SeriesStyle::Dots | SeriesStyle::Grey)
    }
}

/// A named series of points; sorted by `x` when drawn.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Series {
    /// Its name, printed at the end of its line.
    pub name: String,
    /// Its points.
    pub points: Vec<Point>,
    /// Its kind.
    pub style: SeriesStyle,
}

/// Orientation of a marked value or band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A value of the x-axis: a vertical line.
    Vertical,
    /// A value of the y-axis: a horizontal line.
    Horizontal,
}

/// A marked value, with an interval if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Orientation.
    pub direction: Direction,
    /// The value.
    pub at: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
    /// Its label, such as "knee at 31 in flight".
    pub label: String,
}

/// A named range of the y-axis (horizontal) or x-axis (vertical), tinted behind the lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Which axis the range belongs to.
    pub direction: Direction,
    /// Lower end; values off the axis end at its edge.
    pub from: f64,
    /// Upper end; infinity for "and above".
    pub to: f64,
    /// Its name.
    pub name: String,
}
