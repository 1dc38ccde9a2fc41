//! Modes as text, spelled as in the settings file.

use tokrate_route::{Mode, WinRule};

/// A mode as the settings file spells it.
pub fn format_mode(mode: Mode) -> String {
    match mode {
        Mode::Off => "off".to_owned(),
        Mode::Hedge => "hedge".to_owned(),
        Mode::Race { lanes } => format!("race={lanes}"),
    }
}

/// A mode, and by which rule one of several lanes wins, where there can be several.
pub fn format_race(mode: Mode, win: WinRule) -> String {
    let rule = match (mode, win) {
        (Mode::Off | Mode::Race { lanes: 1 }, _) => "",
        (_, WinRule::Completion { .. }) => ", won by completion",
        (_, WinRule::FirstToken) => ", won by the first token",
    };
    format!("{}{rule}", format_mode(mode))
}
