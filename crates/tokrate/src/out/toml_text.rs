//! Names and values as they stand in a settings file (TOML).

/// A name as a key of TOML.
pub fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// Text as a value of TOML, on one line whatever it holds: JSON's escapes are TOML's, which has one more for DEL.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
