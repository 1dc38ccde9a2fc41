//! Rewrites the tables of docs/targets.md: `cargo run -p tokrate-catalog --example presets -- docs/targets.md`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name the page, such as docs/targets.md")?;
    let page = std::fs::read_to_string(&path)?;
    let page = tokrate_catalog::markdown::with_presets(&page).ok_or("the page has no place for the tables")?;
    Ok(std::fs::write(path, page)?)
}
