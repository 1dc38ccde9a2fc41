//! Which settings count for which target.

use super::*;

#[test]
fn the_socket_of_the_file_is_that_of_its_own_endpoint_only() {
    let file = "[bench]\nunix_socket = \"engine.sock\"\nmodel = \"m\"\nurl = \"http://localhost/v1\"\n";
    let file = File::parse(std::path::Path::new("t.toml"), file).expect("settings");
    let socket = |flags: flags::Target, environment: &Environment| {
        let found = targets(&flags, false, environment, &file).expect("one target").remove(0);
        found.target.remote().and_then(|remote| remote.unix_socket.clone())
    };
    let plain = Environment::default();
    assert_eq!(socket(flags::Target::default(), &plain), Some(PathBuf::from("engine.sock")));
    let typed = flags::Target { unix_socket: Some("typed.sock".into()), ..flags::Target::default() };
    assert_eq!(socket(typed, &plain), Some(PathBuf::from("typed.sock")));
    let elsewhere = || Some("http://127.0.0.1:9/v1".to_owned());
    assert_eq!(socket(flags::Target { url: elsewhere(), ..flags::Target::default() }, &plain), None);
    let named = flags::Target { targets: vec!["vllm/m".to_owned()], ..flags::Target::default() };
    assert_eq!(socket(named, &plain), None);
    assert_eq!(socket(flags::Target::default(), &Environment { url: elsewhere(), ..plain }), None);
}
