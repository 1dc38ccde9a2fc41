//! `tokrate init` makes the gateway ask for a key, and says nowhere what it is.

use crate::folder::Folder;
use crate::tool::run;

#[test]
fn init_makes_a_key_that_the_gateway_asks_for_and_that_is_shown_nowhere() {
    let folder = Folder::new("init-key");
    let init = run(&folder, &["init"]);
    assert_eq!(init.code, Some(0), "{}", init.stderr);
    let file = folder.join("data/tokrate/gateway.key");
    let key = std::fs::read_to_string(&file).expect("a key");
    let key = key.trim();
    assert!(key.len() > 60, "256 bits");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    }
    let settings = std::fs::read_to_string(folder.join("tokrate.toml")).expect("settings");
    assert!(settings.contains(&file.display().to_string()), "{settings}");
    assert!(init.stdout.contains(&file.display().to_string()), "{}", init.stdout);
    let checked = run(&folder, &["gateway", "--config", "tokrate.toml", "--check"]);
    assert!(
        checked.stdout.contains("gateway.keys.local") && checked.stdout.contains("*** for all"),
        "{}",
        checked.stdout
    );
    for text in [&settings, &init.stdout, &init.stderr, &checked.stdout, &checked.stderr] {
        assert!(!text.contains(key), "{text}");
    }
    let again = run(&folder, &["init", "--force"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("a key").trim(), key, "clients that have it go on");
}
