//! `tokrate init --from`: the settings of a LiteLLM proxy as ours, as a user moves.

use crate::folder::Folder;
use crate::tool::{finish, run, start, tokrate};

const SETTINGS: &str = "\
model_list:
  - model_name: fast
    litellm_params: {model: groq/llama-3.3-70b-versatile, api_key: os.environ/GROQ_API_KEY, rpm: 60}
  - model_name: fast
    litellm_params: {model: cerebras/llama-3.3-70b}
  - model_name: own
    litellm_params: {model: openai/mine, api_base: 'http://127.0.0.1:9/v1', api_key: sk-secret-of-the-lane}
  - model_name: nova
    litellm_params: {model: bedrock/nova}
router_settings: {num_retries: 1, fallbacks: [{own: [fast]}]}
general_settings: {master_key: sk-secret-of-clients}
";

#[test]
fn a_litellm_file_becomes_settings_that_are_accepted_and_hold_no_key() {
    let folder = Folder::new("from-litellm");
    folder.write("config.yaml", SETTINGS);
    let wrote = run(&folder, &["init", "--from", "config.yaml"]);
    assert_eq!(wrote.code, Some(0), "{}", wrote.stderr);
    let settings = folder.read("tokrate.toml");
    let keys = ["GROQ_API_KEY", "CEREBRAS_API_KEY", "OWN_OPENAI_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let checked = |arguments: &[&str]| {
        let mut command = tokrate(&folder, arguments);
        command.envs(keys.map(|key| (key, "not-a-key"))).env("AWS_REGION", "us-east-1");
        finish(start(&mut command))
    };
    let untrusted = checked(&["gateway", "--check"]);
    assert!(untrusted.stderr.contains("tokrate trust"), "its addresses are looked through first: {}", untrusted.stderr);
    let accepted = checked(&["gateway", "--config", "tokrate.toml", "--check"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    for text in [&settings, &wrote.stdout, &wrote.stderr, &accepted.stdout, &accepted.stderr] {
        assert!(!text.contains("secret"), "{text}");
    }
    let aliases: Vec<&str> = accepted.stdout.lines().filter(|line| line.starts_with("gateway.aliases.")).collect();
    insta::assert_snapshot!(format!("{}\n{}", wrote.stdout, aliases.join("\n")));
    let again = run(&folder, &["init", "--from", "config.yaml"]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("it is there already; add --force"), "{}", again.stderr);
}

#[test]
fn a_file_that_is_none_of_litellm_is_refused_with_its_name_and_writes_nothing() {
    let folder = Folder::new("from-nothing");
    folder.write("list.yaml", "- a\n");
    for (name, reason) in [("list.yaml", "no mapping with model_list"), ("absent.yaml", "No such file")] {
        let refused = run(&folder, &["init", "--from", name]);
        assert_eq!(refused.code, Some(2), "{}", refused.stdout);
        assert!(refused.stderr.contains(name) && refused.stderr.contains(reason), "{}", refused.stderr);
        assert!(!folder.join("tokrate.toml").exists());
    }
}
