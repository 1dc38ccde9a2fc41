//! A headless Chromium, driven by the DevTools protocol over two pipes.
//!
//! Invariant: browser and profile are removed with the handle.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// One browser with one page.
pub(super) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    folder: PathBuf,
    session: String,
    requests: u64,
    complaints: Vec<String>,
    loaded: u32,
}

/// Path of the browser. Without one these tests cannot check anything, so they fail.
fn program() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no Chromium on PATH; run `cargo xtask test`, which installs it"))
}

impl Browser {
    pub fn start() -> Browser {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("tokrate-admin-browser-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        let [to, from] = ["to", "from"].map(|name| folder.join(name));
        assert!(Command::new("mkfifo").arg(&to).arg(&from).status().expect("mkfifo runs").success());
        // The browser uses file descriptors 3 and 4, which only a shell opens without unsafe code.
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$0" "$@" 3<to 4>from"#]).arg(program());
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        command.args(["--disable-breakpad", "--disable-dev-shm-usage", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
        command.current_dir(&folder).env("HOME", &folder).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("a shell");
        // Opened for both directions, so that opening does not block.
        let to = OpenOptions::new().read(true).write(true).open(&to).expect("a pipe");
        let from = BufReader::new(File::open(&from).expect("a pipe"));
        let (requests, complaints, session) = (0, Vec::new(), String::new());
        let mut browser = Browser { child, to, from, folder, session, requests, complaints, loaded: 0 };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sets the window's size and colour scheme, and enables or disables scripts.
    pub fn window(&mut self, width: u32, height: u32, scheme: &str, scripts: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": scheme }));
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": !scripts }));
    }

    /// Opens a page and waits until it is loaded.
    pub fn open(&mut self, url: &str) {
        let before = self.loaded;
        let answer = self.call("Page.navigate", json!({ "url": url }));
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
        while self.loaded == before {
            self.read(None);
        }
    }

    /// Width and height of the page's content (CSS px).
    pub fn content(&mut self) -> (f64, f64) {
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        (size["width"].as_f64().expect("a width"), size["height"].as_f64().expect("a height"))
    }

    /// Evaluates a JavaScript expression, and awaits its promise.
    pub fn ask(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Evaluates an expression that leads to another page, and waits until that is loaded.
    pub fn follow(&mut self, expression: &str) {
        let before = self.loaded;
        self.ask(expression);
        while self.loaded == before {
            self.read(None);
        }
    }

    /// A screenshot from the top of the page.
    pub fn picture(&mut self, width: u32, height: f64) -> Vec<u8> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let answer = self.call("Page.captureScreenshot", asked);
        BASE64_STANDARD.decode(answer["data"].as_str().expect("a picture")).expect("base64")
    }

    /// What the browser blocked, and exceptions of scripts, so far.
    pub fn complaints(&self) -> Vec<String> {
        self.complaints.clone()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.requests += 1;
        let number = self.requests;
        let mut request = json!({ "id": number, "method": method, "params": parameters });
        if !self.session.is_empty() {
            request["sessionId"] = self.session.clone().into();
        }
        self.to.write_all(format!("{request}\0").as_bytes()).expect("the browser reads");
        loop {
            if let Some(answer) = self.read(Some(number)) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Reads one message; returns it if it responds to that request.
    fn read(&mut self, number: Option<u64>) -> Option<Value> {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).expect("the browser writes");
        assert_eq!(message.pop(), Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&message).expect("a message");
        match message["method"].as_str() {
            Some("Page.loadEventFired") => self.loaded += 1,
            Some("Log.entryAdded") => self.complaints.push(message["params"]["entry"].to_string()),
            Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled") => {
                self.complaints.push(message["params"].to_string());
            }
            _ => {}
        }
        (number.is_some() && message["id"].as_u64() == number).then_some(message)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
