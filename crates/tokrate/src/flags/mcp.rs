//! The flags of `tokrate mcp`. Nothing is resolved or checked here beyond its form.

use super::apply::Fallback;
use clap::Args;
use std::path::PathBuf;

/// `tokrate mcp`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
The server speaks the Model Context Protocol on standard input and output. Its tools are edit_file and
str_replace_based_edit_tool, the text editor that Claude knows.

In the settings of an MCP client:
  {\"mcpServers\": {\"tokrate\": {\"command\": \"tokrate\", \"args\": [\"mcp\", \"--root\", \"/path/of/the/project\"]}}}")]
pub struct Flags {
    /// Folder whose files may be edited, and none outside; repeatable [default: .]
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<PathBuf>,
    /// File or folder that may be edited although other programs take orders from it, such as .github or Jenkinsfile;
    /// relative to its root, repeatable
    #[arg(long, value_name = "PATH")]
    pub allow: Vec<String>,
    /// Leave syntax trees alone: neither to find the place nor to check the result
    #[arg(long)]
    pub no_tree: bool,
    #[command(flatten)]
    pub fallback: Fallback,
}
