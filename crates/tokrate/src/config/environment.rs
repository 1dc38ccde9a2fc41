//! The only place that reads the environment, the machine's name and its folders.

use std::path::PathBuf;
use tokrate_net::ProxySettings;

/// What the terminal is said to be able to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terminal {
    /// It can be drawn on: `TERM` names one that is not `dumb`.
    pub draws: bool,
    /// It reads UTF-8, by `LC_ALL`, `LC_CTYPE` or `LANG`; where none of them is set, it does.
    pub unicode: bool,
}

impl Terminal {
    /// Reads it.
    pub fn read() -> Terminal {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable).map(|it| it.to_ascii_lowercase());
        Terminal {
            draws: variable("TERM").is_some_and(|term| term != "dumb"),
            unicode: locale.is_none_or(|locale| locale.contains("utf-8") || locale.contains("utf8")),
        }
    }
}

/// What the process was started with, read once.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `TOKRATE_URL`.
    pub url: Option<String>,
    /// `TOKRATE_MODEL`.
    pub model: Option<String>,
    /// `TOKRATE_REGION`.
    pub region: Option<String>,
    /// `HTTP_PROXY` (lower case first, as curl reads it).
    pub http_proxy: Option<String>,
    /// `HTTPS_PROXY`.
    pub https_proxy: Option<String>,
    /// `ALL_PROXY`.
    pub all_proxy: Option<String>,
    /// `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// Folder for what may be thrown away: `XDG_CACHE_HOME` or `~/.cache`, with `tokrate` below it.
    pub cache_folder: Option<PathBuf>,
    /// Name of this machine.
    pub host: String,
    /// What kind of machine it is: system, processor architecture, cores that may be used.
    pub machine: String,
    /// Of no other process: what must not be the same in two runs is drawn from it.
    pub entropy: u64,
}

impl Environment {
    /// The proxies that it names, if any.
    pub fn proxies(&self) -> Option<ProxySettings> {
        ProxySettings::from_values(
            self.http_proxy.as_deref(),
            self.https_proxy.as_deref(),
            self.all_proxy.as_deref(),
            self.no_proxy.as_deref(),
        )
    }

    /// Reads everything but keys, which are read by name when they are needed.
    pub fn read() -> Environment {
        let proxy = |name: &str| variable(&name.to_lowercase()).or_else(|| variable(name));
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        Environment {
            url: variable("TOKRATE_URL"),
            model: variable("TOKRATE_MODEL"),
            region: variable("TOKRATE_REGION"),
            // CGI servers pass a request's `Proxy` header as HTTP_PROXY; tokrate is never started by one, so both
            // spellings are read.
            http_proxy: proxy("HTTP_PROXY"),
            https_proxy: proxy("HTTPS_PROXY"),
            all_proxy: proxy("ALL_PROXY"),
            no_proxy: proxy("NO_PROXY"),
            cache_folder: cache.map(|folder| folder.join("tokrate")),
            host: host_name(),
            machine: machine_kind(),
            entropy: tokrate_net::random_bytes().map_or_else(|_| u64::from(std::process::id()), u64::from_le_bytes),
        }
    }
}

/// Folder for what is to stay: `XDG_DATA_HOME` or `~/.local/share`, with `tokrate` below it. A path that is relative is none, as
/// the folder would be another one each time.
pub fn data_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join("tokrate"))
}

/// An environment variable, if it is set, not empty and UTF-8.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What bears on the measuring and stays the same from one machine of a kind to the next. The processor's model does not: CI systems
/// give out several under one name.
fn machine_kind() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let plural = if cores == 1 { "" } else { "s" };
    format!("{} {}, {cores} core{plural}", std::env::consts::OS, std::env::consts::ARCH)
}

/// Name of this machine.
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .or_else(|| variable("HOSTNAME"))
        .unwrap_or_else(|| "unknown".to_owned())
}
