//! The shared files of AWS's tools: `~/.aws/config` and `~/.aws/credentials`.
//!
//! Facts: docs.aws.amazon.com/sdkref/latest/guide/file-format.html. Invariant: any text is read; what is not understood is passed over.

use std::collections::BTreeMap;

/// A section of both files together: names of settings and their values.
pub(crate) type Section = BTreeMap<String, String>;

/// Profiles and SSO sessions.
#[derive(Clone, Default)]
pub(crate) struct Profiles {
    profiles: BTreeMap<String, Section>,
    sessions: BTreeMap<String, Section>,
}

impl Profiles {
    /// Reads both files; a setting of the credentials' wins.
    pub fn read(config: &str, credentials: &str) -> Profiles {
        let mut read = Profiles::default();
        sections(config, |header, name, value| {
            let (map, section) = match header.split_once(char::is_whitespace) {
                Some(("profile", section)) => (&mut read.profiles, section.trim()),
                Some(("sso-session", section)) => (&mut read.sessions, section.trim()),
                None if header == "default" => (&mut read.profiles, header),
                _ => return,
            };
            map.entry(section.to_owned()).or_default().insert(name, value);
        });
        sections(credentials, |header, name, value| {
            read.profiles.entry(header.to_owned()).or_default().insert(name, value);
        });
        read
    }

    pub fn profile(&self, name: &str) -> Option<&Section> {
        self.profiles.get(name)
    }

    pub fn session(&self, name: &str) -> Option<&Section> {
        self.sessions.get(name)
    }
}

/// Calls with the section, the name and the value of each setting. Indented lines belong to a setting of several lines.
fn sections(text: &str, mut found: impl FnMut(&str, String, String)) {
    let mut header = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(inside) = trimmed.strip_prefix('[') {
            header = inside.split_once(']').map(|(inside, _)| inside.trim());
        } else if !line.starts_with([' ', '\t'])
            && let (Some(header), Some((name, value))) = (header, trimmed.split_once('='))
        {
            // A comment behind a value begins with white space and a sign.
            let value = value.split(" #").next().unwrap_or_default().split(" ;").next().unwrap_or_default();
            found(header, name.trim().to_ascii_lowercase(), value.trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "# mine\n[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n\n[profile  dev ]\nrole_arn=arn:aws:iam::1:role/x\n\
        source_profile = default # the usual\n[sso-session corp]\nsso_start_url = https://x\n[services y]\nz = 1\n";

    #[test]
    fn profiles_are_read_of_both_files_and_those_of_the_credentials_win() {
        let read = Profiles::read(CONFIG, "[default]\nAWS_ACCESS_KEY_ID = AKID\nregion=us-east-1\n[dev]\nx = y = z");
        let default = read.profile("default").expect("it is there");
        assert_eq!((default["region"].as_str(), default["aws_access_key_id"].as_str()), ("us-east-1", "AKID"));
        assert!(!default.contains_key("addressing_style"));
        let dev = read.profile("dev").expect("it is there");
        assert_eq!((dev["source_profile"].as_str(), dev["x"].as_str()), ("default", "y = z"));
        assert_eq!(read.session("corp").expect("it is there")["sso_start_url"], "https://x");
        assert!(read.profile("services y").is_none() && read.profile("y").is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(config in "(?s).{0,200}", credentials in "[\\[\\]a=# \n;]{0,80}") {
            let _ = Profiles::read(&config, &credentials);
        }
    }
}
