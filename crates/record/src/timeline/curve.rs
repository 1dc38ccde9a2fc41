//! A quantity that was read now and then: what lies between two readings is taken as a straight line, where they are close enough.
//!
//! Invariant: time in which nobody looked is in no mean, no sum and no difference.

/// A value beyond this is no reading of anything; sums and areas of smaller ones are finite.
const MAX_READING: f64 = 1e15;

/// A quantity over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    /// Time (ns) and value; times rise.
    points: Vec<(u64, f64)>,
    /// Two readings further apart than this have nothing between them (ns).
    max_gap: u64,
}

impl Curve {
    /// The readings that there are; `max_gap` is how far apart two may be.
    pub fn new(max_gap: u64, points: impl Iterator<Item = (u64, Option<f64>)>) -> Curve {
        let points = points.filter_map(|(at, value)| Some((at, value.filter(|value| value.abs() <= MAX_READING)?)));
        Curve { points: points.collect(), max_gap }
    }

    /// Area below the quantity from `from` to `to`, and how much of that time is covered (ns both).
    pub fn area(&self, from: u64, to: u64) -> (f64, u64) {
        self.pieces(from, to).fold((0.0, 0), |(area, covered), (length, begin, end)| {
            (area + (begin + end) / 2.0 * length as f64, covered + length)
        })
    }

    /// The mean over that time, if at least half of it is covered.
    pub fn mean(&self, from: u64, to: u64) -> Option<f64> {
        let (area, covered) = self.area(from, to);
        (covered > 0 && covered * 2 >= to.saturating_sub(from)).then(|| area / covered as f64)
    }

    /// By how much a counter rose, if at least half of the time is covered; a counter that falls began anew.
    pub fn rise(&self, from: u64, to: u64) -> Option<f64> {
        let (rise, covered) = self
            .pieces(from, to)
            .fold((0.0, 0), |(rise, covered), (length, begin, end)| (rise + (end - begin).max(0.0), covered + length));
        (covered > 0 && covered * 2 >= to.saturating_sub(from)).then_some(rise)
    }

    /// The quantity as its readings within that time have it: beyond the first and the last of them it stays as they say, for as long as
    /// two readings may be apart. What was read before and after belongs to another load.
    pub fn within(&self, from: u64, to: u64) -> Curve {
        let begin = self.points.partition_point(|(at, _)| *at < from);
        let end = self.points.partition_point(|(at, _)| *at <= to);
        let mut points = self.points.get(begin..end).unwrap_or_default().to_vec();
        if let (Some(&first), Some(&last)) = (points.first(), points.last()) {
            points.insert(0, (from.max(first.0.saturating_sub(self.max_gap)), first.1));
            points.push((to.min(last.0.saturating_add(self.max_gap)), last.1));
        }
        Curve { points, max_gap: self.max_gap }
    }

    /// The readings themselves in that time.
    pub fn readings(&self, from: u64, to: u64) -> impl Iterator<Item = f64> + '_ {
        let begin = self.points.partition_point(|(at, _)| *at < from);
        self.points[begin..].iter().take_while(move |(at, _)| *at <= to).map(|(_, value)| *value)
    }

    /// The parts between two readings, cut at both ends: length and the values there.
    fn pieces(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, f64, f64)> + '_ {
        let first = self.points.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        self.points[first..].windows(2).take_while(move |pair| pair[0].0 < to).filter_map(move |pair| {
            let [(a, x), (b, y)] = [pair[0], pair[1]];
            let (begin, end) = (a.max(from), b.min(to));
            let is_close = b - a <= self.max_gap && b > a;
            let at = |tick: u64| x + (y - x) * (tick - a) as f64 / (b - a) as f64;
            (is_close && begin < end).then(|| (end - begin, at(begin), at(end)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_looked_at_is_in_no_sum() {
        let points =
            [(0, Some(10.0)), (10, Some(20.0)), (15, None), (20, Some(20.0)), (100, Some(0.0)), (110, Some(4.0))];
        let curve = Curve::new(10, points.into_iter());
        assert_eq!(curve.area(0, 20), (150.0 + 200.0, 20));
        assert_eq!(curve.area(5, 15), (17.5 * 5.0 + 100.0, 10));
        assert_eq!(curve.area(0, 110), (350.0 + 20.0, 30), "80 ns lie between two readings");
        assert_eq!((curve.mean(0, 20), curve.mean(0, 40), curve.mean(20, 100)), (Some(17.5), Some(17.5), None));
        assert_eq!((curve.mean(0, 41), curve.mean(200, 300)), (None, None));
        assert_eq!(curve.rise(0, 20), Some(10.0));
        assert_eq!(curve.rise(105, 110), Some(2.0));
        assert_eq!(curve.readings(0, 20).collect::<Vec<f64>>(), [10.0, 20.0, 20.0]);
        assert_eq!(Curve::default().area(0, 10), (0.0, 0));
        // Within a window the ends stay as the nearest reading has them: 15 at 10 and 20 is 20 from 5 on.
        assert_eq!(curve.within(5, 18).area(5, 18), (13.0 * 20.0, 13));
        assert_eq!(curve.within(30, 90).area(30, 90), (0.0, 0), "nothing was read");
    }
}
