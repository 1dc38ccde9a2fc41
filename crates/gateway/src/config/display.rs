//! Modes as text, spelled as in the settings file.

use tokrate_route::Mode;

/// A mode as the settings file spells it.
pub fn format_mode(mode: Mode) -> String {
    match mode {
        Mode::Off => "off".to_owned(),
        Mode::Hedge => "hedge".to_owned(),
        Mode::Race { lanes } => format!("race={lanes}"),
    }
}
