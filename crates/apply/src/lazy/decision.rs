//! Whether what speaks for a choice of ranges is enough to answer with it: a card of points, fitted to true changes.
//!
//! Each row of the card looks at three numbers, one after the other, and adds points for what they say together. A number that grows with doubt never adds points
//! by growing. Invariant: what several places would do is never sure, whatever the points.

mod card;

use super::lines::UNIT;
use super::weighed::WIDE;
use crate::evidence::{Evidence, Number};

/// Splits of a row, and the points that it may add.
const SPLITS: usize = 7;
const LEAVES: usize = 8;

/// A row of the card: whether a number is above a bound, then whether one of two others is, then one of four. The two that follow the split
/// at place `n` are at `2n + 1` and `2n + 2`.
struct Row {
    splits: [(Number, i32); SPLITS],
    points: [i32; LEAVES],
}

impl Row {
    fn points(&self, values: &[i32]) -> i32 {
        let mut at = 0;
        while at < SPLITS {
            let (number, above) = self.splits[at];
            at = 2 * at + 1 + usize::from(values[number as usize] > above);
        }
        self.points[at - SPLITS]
    }
}

/// The points of a choice.
fn points(evidence: &Evidence) -> i32 {
    let values = evidence.values();
    card::CARD.iter().map(|row| row.points(&values)).sum()
}

/// The points that are enough where the choice is clear and where it is not, each where no line goes for which nothing stands and where one
/// does. They are set by cards that were fitted to other repositories than those which they judge, so that what is wrong there is half of what
/// may be: on repositories that nobody has looked at it is more.
const ENOUGH: [[i32; 2]; 2] = [[4_250, 5_400], [4_600, 4_600]];
/// The most that is asked for where as many unchanged lines are shown at every end, and at least `REGULAR`: a change beyond an end would have
/// as many on its other side, so that one which was missed would make the ends differ.
const ENOUGH_REGULAR: i32 = 3_000;
/// The most that is asked for where the outermost line at every end stands once in the file: no other range begins or ends with it.
const ENOUGH_TOLD: i32 = 4_400;
/// The least that is asked for where new lines are at an end, and else where one unchanged line is shown at an end and may be another.
const ENOUGH_NEW: i32 = 4_600;
const ENOUGH_THIN: i32 = 5_400;
/// One unchanged line at each end may be the outer one of more.
const REGULAR: i32 = 2;

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
        let usual = ENOUGH[usize::from(!self.is_clear())][usize::from(self.lost_all > 0)];
        let asked = match () {
            () if self.is_regular() => usual.min(ENOUGH_REGULAR),
            () if self.is_told() => usual.min(ENOUGH_TOLD),
            () if self.new_ends > 0 => usual.max(ENOUGH_NEW),
            () if self.width < REGULAR => usual.max(ENOUGH_THIN),
            () => usual,
        };
        self.may_be_sure().then_some(asked)
    }

    /// Whether the outermost line at every end stands once in the file.
    fn is_told(&self) -> bool {
        self.width > 0 && self.new_ends == 0 && self.ends_untold == 0 && self.idle_again == 0
    }

    /// Whether as many unchanged lines are shown at every end, and more than one, none of them of a part that changes
    /// nothing, and none that says little and stands again beyond the end.
    fn is_regular(&self) -> bool {
        let is_shown = self.new_ends == 0 && self.idle_lines == 0 && self.weak_ends == 0;
        self.width >= REGULAR && self.uneven == 0 && is_shown
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
    evidence.enough().is_some_and(|enough| points(evidence) >= enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points_of(values: &[i32]) -> i32 {
        points(&Evidence::of_values(values))
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
                1 => prop_assert!(points_of(&grown) >= points_of(&values), "{}", Evidence::NAMES[at]),
                -1 => prop_assert!(points_of(&grown) <= points_of(&values), "{}", Evidence::NAMES[at]),
                _ => {}
            }
        }
    }
}
