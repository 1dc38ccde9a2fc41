//! Whether what speaks for a choice of ranges is enough to answer with it: a card of points, fitted to true changes.
//!
//! Each row of the card looks at two numbers and adds points for what they say together. A number that grows with doubt never adds points
//! by growing. Invariant: what several places would do is never sure, whatever the points.

mod card;

use super::lines::UNIT;
use super::weighed::WIDE;
use crate::evidence::Evidence;

/// A number of the evidence.
type Number = fn(&Evidence) -> i32;

/// A row of the card: whether a number is above a bound, then whether a second one is, which depends on the first.
struct Row {
    first: (Number, i32),
    second: [(Number, i32); 2],
    points: [i32; 4],
}

impl Row {
    const fn of(
        first: Number,
        above: i32,
        if_low: Number,
        low_above: i32,
        if_high: Number,
        high_above: i32,
        points: [i32; 4],
    ) -> Row {
        Row { first: (first, above), second: [(if_low, low_above), (if_high, high_above)], points }
    }

    fn points(&self, evidence: &Evidence) -> i32 {
        let is_above = |(number, above): (Number, i32)| usize::from(number(evidence) > above);
        let first = is_above(self.first);
        self.points[2 * first + is_above(self.second[first])]
    }
}

/// The points that are enough where the choice is clear and where it is not, each where no line goes for which nothing stands and where one
/// does. They are set by cards that were fitted to other repositories than those which they judge.
const ENOUGH: [[i32; 2]; 2] = [[0, 2_750], [3_250, 3_750]];

/// A choice whose rivals are all worse by this much is clear; it is one of more if they leave a line that goes, of less if they differ in
/// blank lines only.
const MARGIN: i32 = UNIT;
const MARGIN_OF_LINES: i32 = 2 * UNIT;
const MARGIN_OF_BLANKS: i32 = UNIT / 4;
/// So many lines of those next to a new end may look like one of the new ones by chance.
const FEW_ALIKE: i32 = 2;
/// The margin that needs no other reading.
const CERTAIN: i32 = 4 * UNIT;

impl Evidence {
    /// The points that are enough to answer with a choice, if any are.
    pub fn enough(&self) -> Option<i32> {
        self.may_be_sure().then(|| ENOUGH[usize::from(!self.is_clear())][usize::from(self.lost_all > 0)])
    }

    /// Whether both readings agree, or one gives nothing and the other has no rival, every other text is worse by a margin, and nothing that
    /// is hidden is like what is new at an end.
    fn is_clear(&self) -> bool {
        let doubts = [self.weak_above, self.weak_below, self.doubled, self.set_off, self.unanchored, self.idle_weak];
        // What stands at the end of a block, with no line of the file in it, is held to more where it is placed.
        let is_whole = self.kept == 0 && self.gone == 0 && self.new_ends > 1;
        let is_like_hidden = self.known_told + self.stands_told > 0 || self.alike_beyond > FEW_ALIKE;
        let is_weak = self.weak_ends > 0;
        let is_apart = self.margin >= if is_weak { WIDE } else { MARGIN }
            && self.margin_of_lines >= MARGIN_OF_LINES
            && self.margin_of_blanks >= MARGIN_OF_BLANKS;
        let agrees = self.no_anchor + self.ambiguous + self.deletion + self.other + self.differs == 0;
        let is_certain = self.deletion + self.differs == 0 && self.margin >= CERTAIN && !is_weak;
        doubts == [0; 6] && (is_whole || !is_like_hidden) && is_apart && (agrees || is_certain)
    }
}

/// Whether a choice is sure.
pub(super) fn is_sure(evidence: &Evidence) -> bool {
    let points: i32 = card::CARD.iter().map(|row| row.points(evidence)).sum();
    evidence.enough().is_some_and(|enough| points >= enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(values: &[i32]) -> i32 {
        let evidence = Evidence::of_values(values);
        card::CARD.iter().map(|row| row.points(&evidence)).sum()
    }

    #[test]
    fn what_several_places_would_do_is_never_sure() {
        let clear = |name: &&str| i32::from(Evidence::sign_of(name) > 0) * 600;
        let values: Vec<i32> = Evidence::NAMES.iter().map(clear).collect();
        assert!(is_sure(&Evidence::of_values(&values)));
        let open = Evidence::NAMES.iter().position(|name| *name == "open").expect("one of them");
        let values: Vec<i32> = (0..values.len()).map(|at| if at == open { 1 } else { values[at] }).collect();
        assert!(!is_sure(&Evidence::of_values(&values)));
    }

    proptest! {
        #[test]
        fn doubt_never_makes_a_merge_surer(
            values in prop::collection::vec(prop_oneof![0..4_i32, 0..600_i32], Evidence::NAMES.len()),
            at in 0..Evidence::NAMES.len(),
            by in 1..300_i32,
        ) {
            let mut grown = values.clone();
            grown[at] += by;
            match Evidence::sign_of(Evidence::NAMES[at]) {
                1 => prop_assert!(points(&grown) >= points(&values), "{}", Evidence::NAMES[at]),
                -1 => prop_assert!(points(&grown) <= points(&values), "{}", Evidence::NAMES[at]),
                _ => {}
            }
        }
    }
}
