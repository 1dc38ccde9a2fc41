//! What speaks for and against a merge, in numbers that a decision can be fitted to.
//!
//! Invariant: each number but a few grows with doubt, or falls with it, all else being equal.

/// A reading that leaves a line which goes is nearly as good if it is worse by less.
const STAYING: i32 = 120;

/// Where a larger share of an update's words is foreign to the file (percent), and nothing that it shows of it has words, it may be one of another
/// file. Of genuine updates that show no more half have less than a third, of those of other files half have more than 70 (docs/apply.md, seed 601).
const FOREIGN: i32 = 40;

/// Of so many lines that go for none in one place, where others come, the block may be another one that begins and ends alike. With
/// four, a tenth more lines are lost on repositories that the card was not fitted to.
const REWRITTEN: i32 = 2;

macro_rules! evidence {
    ($($name:ident),* $(,)?) => {
        /// What speaks for and against a choice.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Evidence { $(pub(crate) $name: i32),* }

        /// A number of the evidence, by its name.
        #[derive(Clone, Copy, Debug)]
        #[allow(non_camel_case_types, dead_code, reason = "the names are those of the fields, and a card may look at some of them only")]
        pub(crate) enum Number { $($name),* }

        impl Evidence {
            /// The names of the numbers, in their order.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            /// The numbers.
            pub fn values(&self) -> Vec<i32> {
                vec![$(self.$name),*]
            }

            /// That of these numbers.
            #[cfg(test)]
            pub(crate) fn of_values(values: &[i32]) -> Evidence {
                let mut values = values.iter().copied();
                Evidence { $($name: values.next().unwrap_or_default()),* }
            }
        }
    };
}

evidence!(
    margin,
    margin_of_blanks,
    margin_of_lines,
    margin_elsewhere,
    rivals,
    weak_ends,
    weak_above,
    weak_below,
    doubled,
    set_off,
    unanchored,
    idle_weak,
    open,
    applied,
    deleted,
    lost,
    lost_unheld,
    declaration_lost,
    cost,
    new_ends,
    known_ends,
    unbalanced,
    copies,
    known,
    twice,
    unheld_ends,
    parts,
    idle,
    kin_beyond,
    worth,
    gone,
    comes,
    replaced,
    reindented,
    unmarked,
    no_anchor,
    ambiguous,
    deletion,
    other,
    differs,
    cut_off,
    again,
    again_far,
    indented_apart,
    hunks,
    lost_all,
    copies_near,
    told_once,
    new_marked,
    blank_apart,
    alike_beyond,
    stands_beyond,
    thin,
    thin_kin,
    marker_deeper,
    splits,
    ragged,
    kept,
    thin_ends,
    enclosed,
    not_enclosed,
    blank_comes,
    next_out,
    new_declares,
    new_brings,
    set_apart,
    new_most,
    at_file_end,
    beside_head,
    bare_deletion,
    lost_open,
    alike_weak,
    stands_weak,
    void_markers,
    known_told,
    stands_told,
    head_off,
    lost_bare,
    slack,
    blank_ends,
    blank_twice,
    idle_lines,
    idle_again,
    ends_untold,
    ends_again,
    width,
    uneven,
    untold_wide,
    changed_ends,
    changed_share,
    siblings,
    share_beyond,
    foreign_words,
    made_after,
    like_elsewhere,
);

impl Evidence {
    /// Whether a number speaks for a merge where it grows (1), against it (-1), or either (0).
    pub fn sign_of(name: &str) -> i32 {
        match name {
            "margin" | "margin_of_blanks" | "margin_of_lines" | "margin_elsewhere" | "worth" | "told_once"
            | "replaced" | "kept" | "enclosed" | "at_file_end" | "changed_share" => 1,
            "gone" | "comes" | "parts" | "idle" | "hunks" | "applied" | "reindented" | "unmarked" | "marker_deeper"
            | "width" | "siblings" | "next_out" | "new_declares" | "new_brings" | "set_apart" | "new_most"
            | "beside_head" => 0,
            _ => -1,
        }
    }

    /// Whether a merge may be sure at all: no other place would do, the file is not yet as the update wants it, each marker beside new lines
    /// stands for something, no more may be meant to go than what goes, and what is shown of the file says where the new lines belong.
    pub fn may_be_sure(&self) -> bool {
        let is_read = self.void_markers == 0 && (self.applied == 0 || self.idle == self.parts);
        self.open == 0 && is_read && !self.may_be_less() && !self.may_be_meant_elsewhere()
    }

    /// Whether nothing that is shown of the file has words, its brackets say too little, or new lines are put behind all others, and it may be
    /// another file or place that is meant: most words of the update stand nowhere in the file, a line beyond an end may be what a new one
    /// stands for, or a line goes and not even a bracket that stays is shown.
    fn may_be_meant_elsewhere(&self) -> bool {
        let is_untold = self.shows_no_words() && (self.unanchored > 0 || self.at_file_end > 0);
        is_untold && (self.foreign_words > FOREIGN || self.kin_beyond > 0 || self.gone > 0 && self.worth == 0)
    }

    /// Whether nothing that is shown of the file has words.
    pub(crate) fn shows_no_words(&self) -> bool {
        self.kept == 0 && self.told_once == 0
    }

    /// Whether more may be meant to go than what goes: the annotation or comment above a line that is shown below a blank one; or, where nothing
    /// but a blank line goes or comes, whatever lies between the lines that are shown, if none of them has words.
    fn may_be_less(&self) -> bool {
        let is_bare = self.hunks > 0 && self.gone + self.comes == 0 && self.kept == 0;
        self.head_off > 0 || is_bare
    }

    /// Whether new lines at an end may belong further out: the other reading says that lines beyond them may have to go for them.
    pub(crate) fn may_be_moved(&self) -> bool {
        self.deletion > 0 && self.new_ends > 0
    }

    /// Whether a line goes for which nothing stands, and another reading is nearly as good.
    pub(crate) fn may_leave(&self) -> bool {
        self.lost_all > 0 && self.margin < STAYING
    }

    /// Whether so many lines go in one place where others come that these may be another block, whose head and end the file has as well.
    pub(crate) fn may_be_rewritten(&self) -> bool {
        self.lost >= REWRITTEN && self.comes > 0
    }

    /// Whether nothing says that lines which go may be meant to stay: that others come which the file has near by, so that the update may be
    /// read with the wrong ones of them; that so many go in one place where others come that these may be another block, whose head and end the
    /// file has as well; that of a mere deletion one line alone is shown on each side, which may as well be a new one that is
    /// equal to one further on; or that a reading which leaves a line is nearly as good, where one goes for which nothing stands, or where one
    /// line alone, and not one that stands once, is shown at an end.
    pub(crate) fn holds_what_goes(&self) -> bool {
        let is_held = self.lost_all == 0 || self.copies_near == 0 && self.bare_deletion == 0;
        let is_thin = self.unheld_ends > 0 && self.thin_ends > 0;
        is_held
            && !self.may_be_rewritten()
            && !((is_thin && self.gone > 0 || self.lost_all > 0) && self.margin_of_lines < STAYING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_alone_place_an_update_only_if_most_of_its_words_are_those_of_the_file() {
        let brackets = Evidence { parts: 1, hunks: 1, comes: 3, unanchored: 1, worth: 100, ..Evidence::default() };
        assert!(Evidence { foreign_words: FOREIGN, ..brackets }.may_be_sure());
        assert!(!Evidence { foreign_words: FOREIGN + 1, ..brackets }.may_be_sure());
        assert!(!Evidence { kin_beyond: 1, ..brackets }.may_be_sure());
        assert!(Evidence { foreign_words: 100, told_once: 1, ..brackets }.may_be_sure());
        let changed = Evidence { gone: 1, ..brackets };
        assert!(changed.may_be_sure() && !Evidence { worth: 0, ..changed }.may_be_sure());
    }
}
