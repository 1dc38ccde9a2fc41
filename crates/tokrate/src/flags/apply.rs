//! The flags of `tokrate apply`. Nothing is resolved or checked here beyond its form.

use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// `tokrate apply`, as typed.
// What belongs to one of FILE, --patch, --batch and --serve conflicts with the others: that it requires the one would not be
// checked where another one is there.
#[derive(Args, Debug, Default)]
#[command(group(ArgGroup::new("what").required(true).args(["file", "patch", "batch", "serve"])))]
#[command(group(ArgGroup::new("how").args(["in_place", "diff", "check"]).conflicts_with_all(["batch", "serve"])))]
#[command(after_help = "\
Exit codes: 0 merged; 1 refused, and nothing was changed; 2 could not be tried (bad flags, no such file).

Examples:
  tokrate apply src/main.rs --update edit.txt            the merged file on standard output
  tokrate apply src/main.rs --in-place < edit.txt        the same, written into the file
  tokrate apply --patch changes.patch --root .           files of a diff or a V4A patch, all or none
  tokrate apply --batch cases.jsonl --output results.jsonl
  tokrate apply --serve 127.0.0.1:8410                   for clients of OpenAI, Morph and Relace

Updates are snippets with `... existing code ...`, SEARCH/REPLACE blocks, JSON with old_string and
new_string, unified diffs, V4A patches or whole files: docs/apply.md.")]
pub struct Flags {
    /// File to merge into
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// File with the update, `-` for standard input [default: -]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["patch", "batch", "serve"])]
    pub update: Option<PathBuf>,
    /// Write the merged text into the file, whole or not at all
    #[arg(long)]
    pub in_place: bool,
    /// Print what would change as a unified diff
    #[arg(long)]
    pub diff: bool,
    /// Say only whether it would merge
    #[arg(long)]
    pub check: bool,
    /// Language of the file [default: by its name]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["patch", "batch", "serve"])]
    pub language: Option<String>,
    /// What the update is written in: lazy (a snippet with markers), fragment, whole_file, search_replace, string_replace,
    /// unified_diff, v4a, text_editor or targets [default: by its text]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["patch", "batch", "serve"])]
    pub format: Option<String>,
    /// What the files are written in, if not in UTF-8: iso-8859-1, iso-8859-2, iso-8859-15, windows-1250, windows-1251, windows-1252 or
    /// koi8-r; without it, new text in a file that is not UTF-8 must be ASCII
    #[arg(long, value_name = "NAME", conflicts_with_all = ["batch", "serve"])]
    pub encoding: Option<String>,
    /// The file that the update was made for, as sha256:HEX or mtime:SECONDS; one that was changed since is refused
    #[arg(long, value_name = "STATE", conflicts_with_all = ["patch", "batch", "serve"])]
    pub expect: Option<String>,
    /// What the edit is for, in the words of who wrote it
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["patch", "batch", "serve"])]
    pub instruction: Option<String>,
    /// Leave syntax trees alone: neither to find the place nor to check the result
    #[arg(long)]
    pub no_tree: bool,
    /// Print the result as JSON; with --in-place it holds the diff
    #[arg(long, conflicts_with_all = ["batch", "serve"])]
    pub json: bool,
    /// Patch of several files to carry out, `-` for standard input: V4A, a unified diff, or SEARCH/REPLACE blocks below the
    /// names of files
    #[arg(long, value_name = "FILE")]
    pub patch: Option<PathBuf>,
    /// Folder that the files of the patch lie in; none outside is touched [default: .]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "batch", "serve"])]
    pub root: Option<PathBuf>,
    /// File or folder that the patch may touch although other programs take orders from it, such as .github or Jenkinsfile;
    /// relative to --root, repeatable
    #[arg(long, value_name = "PATH", conflicts_with_all = ["file", "batch", "serve"])]
    pub allow: Vec<String>,
    /// Cases to merge (JSONL with id, path, original, update, instruction), `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub batch: Option<PathBuf>,
    /// File for the results of --batch [default: standard output]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "patch", "serve"])]
    pub output: Option<PathBuf>,
    /// Address to serve at, until Ctrl-C
    #[arg(long, value_name = "ADDR")]
    pub serve: Option<String>,
    /// Name under which the server may be asked, beside the address that it listens on and `localhost`; repeatable
    #[arg(long = "allow-host", value_name = "NAME", conflicts_with_all = ["file", "patch", "batch"])]
    pub allow_hosts: Vec<String>,
    /// Environment variable that holds the key that the server asks for; elsewhere than on loopback it needs one
    #[arg(long, value_name = "VAR", conflicts_with_all = ["file", "patch", "batch", "serve_key_file", "serve_key_cmd"])]
    pub serve_key_env: Option<String>,
    /// File that holds the key that the server asks for
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "patch", "batch", "serve_key_cmd"])]
    pub serve_key_file: Option<PathBuf>,
    /// Command that prints the key that the server asks for
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["file", "patch", "batch"])]
    pub serve_key_cmd: Option<String>,
    /// What the server answers to a refused edit: `error` (status 422), or the `original` file with a header that says so
    /// [default: error]
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["file", "patch", "batch"])]
    pub on_refuse: Option<String>,
    /// Largest body of a request that the server reads [default: 33554432]
    #[arg(long, value_name = "N", conflicts_with_all = ["file", "patch", "batch"])]
    pub max_body_bytes: Option<usize>,
    #[command(flatten)]
    pub fallback: Fallback,
}

/// A model for what the engine refuses.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Fallback")]
pub struct Fallback {
    /// Ask this model when an edit is refused, such as http://127.0.0.1:8000/v1,qwen; its text counts only if it passes the
    /// same checks
    #[arg(long, value_name = "URL,MODEL")]
    pub fallback: Option<String>,
    /// Environment variable that holds the API key of the model
    #[arg(long, value_name = "VAR", requires = "fallback", conflicts_with_all = ["key_file", "key_cmd"])]
    pub key_env: Option<String>,
    /// File that holds the API key
    #[arg(long, value_name = "FILE", requires = "fallback", conflicts_with = "key_cmd")]
    pub key_file: Option<PathBuf>,
    /// Command that prints the API key
    #[arg(long, value_name = "COMMAND", requires = "fallback")]
    pub key_cmd: Option<String>,
}
