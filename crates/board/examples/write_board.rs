//! Writes the example board as files: `cargo run -p tokrate-board --example write_board -- FOLDER`. Its numbers are invented.

#[path = "../tests/fleet/mod.rs"]
mod fleet;

use tokrate_board::Site;

fn main() -> std::io::Result<()> {
    let folder = std::path::PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "board".to_owned()));
    for (path, bytes) in Site::new(fleet::data()).files() {
        let path = folder.join(path);
        path.parent().map(std::fs::create_dir_all).transpose()?;
        std::fs::write(path, bytes)?;
    }
    Ok(())
}
