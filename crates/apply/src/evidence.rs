//! What speaks for and against a merge, in numbers that a decision can be fitted to.
//!
//! Invariant: each number but a few grows with doubt, or falls with it, all else being equal.

macro_rules! evidence {
    ($($name:ident),* $(,)?) => {
        /// What speaks for and against a choice.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Evidence { $(pub(crate) $name: i32),* }

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
);

impl Evidence {
    /// Whether a number speaks for a merge where it grows (1), against it (-1), or either (0).
    pub fn sign_of(name: &str) -> i32 {
        match name {
            "margin" | "margin_of_blanks" | "margin_of_lines" | "margin_elsewhere" | "worth" | "told_once"
            | "replaced" => 1,
            "gone" | "comes" | "parts" | "idle" | "hunks" | "applied" | "reindented" | "unmarked" => 0,
            _ => -1,
        }
    }

    /// Whether a merge may be sure at all: no other place would do, and the file is not yet as the update wants it.
    pub fn may_be_sure(&self) -> bool {
        self.open == 0 && (self.applied == 0 || self.idle == self.parts)
    }
}
