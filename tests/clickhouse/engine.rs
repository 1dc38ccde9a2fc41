//! ClickHouse's engine behind the shim of this folder, as the tests of several crates start it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The shim; killed when dropped.
pub struct Shim {
    child: Child,
    /// Where it listens on loopback.
    pub port: u16,
}

impl Shim {
    /// Starts it on the data in a folder.
    pub fn start(data: &Path, password: &str) -> Shim {
        let python = std::env::var_os("TOKRATE_CHDB_PYTHON").expect("run by `cargo xtask clickhouse`");
        let shim = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clickhouse/shim.py");
        let mut command = Command::new(python);
        command.arg(shim).arg("--data").arg(data).args(["--password", password]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the engine");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its port");
        Shim { child, port: line.trim().parse().expect("a port") }
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
