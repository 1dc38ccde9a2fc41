//! `cargo xtask tour`: the command lines of `scripts/tour.txt`, one after the other, against simulated engines, with everything that
//! they print, for whoever changes what users see.
//!
//! The output is to be read by a person. Invariant: a command with another exit code than the file says, or that does not end,
//! fails the tour; servers listen on loopback and end with it.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use xtask::cargo::Cargo;

/// The file of command lines.
const LINES: &str = "scripts/tour.txt";
/// A command that runs longer hangs.
const MOST: Duration = Duration::from_secs(120);
/// Interval of polling a running command.
const STEP: Duration = Duration::from_millis(20);

/// A line of the file.
#[derive(PartialEq, Debug)]
enum Line<'a> {
    /// `# …`: a heading.
    Heading(&'a str),
    /// `serve NAME: ARGUMENTS`: a simulated engine, whose base URL stands for `$NAME` from here on, and its place for `@NAME`.
    Serve { name: &'a str, arguments: Vec<String> },
    /// `[CODE] ARGUMENTS`: what is typed after `tokrate`, and the exit code.
    Run { code: i32, arguments: Vec<String> },
}

/// Builds the program and takes the tour.
pub fn run(root: &Path) -> Result<()> {
    let cargo = Cargo::ready(root)?;
    cargo.run(&["build", "--quiet", "--workspace", "--bin", "tokrate"])?;
    let program = cargo.program("tokrate");
    let text = std::fs::read_to_string(root.join(LINES)).with_context(|| format!("read {LINES}"))?;
    let folder = std::env::temp_dir().join(format!("tokrate-tour-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut tour = Tour { program, folder, engines: Vec::new(), places: BTreeMap::new() };
    let mut wrong = Vec::new();
    for line in lines(&text)? {
        match line {
            Line::Heading(heading) => println!("\n## {heading}"),
            Line::Serve { name, arguments } => tour.serve(name, &arguments)?,
            Line::Run { code, arguments } => {
                let ended = tour.type_in(&arguments)?;
                if ended != Some(code) {
                    wrong.push(format!("tokrate {}: {ended:?} instead of {code}", arguments.join(" ")));
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "take the tour:\n{}", wrong.join("\n"));
    Ok(())
}

/// Every line of the file; empty ones are left out.
fn lines(text: &str) -> Result<Vec<Line<'_>>> {
    let numbered = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    numbered
        .map(|(number, line)| line_of(line).with_context(|| format!("read {LINES}, line {number}: `{line}`")))
        .collect()
}

fn line_of(line: &str) -> Option<Line<'_>> {
    if let Some(heading) = line.strip_prefix("# ") {
        return Some(Line::Heading(heading));
    }
    if let Some(rest) = line.strip_prefix("serve ") {
        let (name, arguments) = rest.split_once(':')?;
        return Some(Line::Serve { name, arguments: words(arguments) });
    }
    let (code, arguments) = line.strip_prefix('[')?.split_once("] ")?;
    Some(Line::Run { code: code.parse().ok()?, arguments: words(arguments) })
}

/// Words; `'` holds several together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (place, part) in line.split('\'').enumerate() {
        match place % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

struct Tour {
    program: PathBuf,
    folder: PathBuf,
    engines: Vec<Child>,
    /// The values of `$NAME` and `@NAME`.
    places: BTreeMap<String, String>,
}

impl Tour {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).env("HOME", &self.folder).env("XDG_CACHE_HOME", self.folder.join("cache"));
        command.stdin(Stdio::null());
        command
    }

    fn serve(&mut self, name: &str, arguments: &[String]) -> Result<()> {
        let mut command = self.command();
        let mut engine =
            command.args(["sim", "--listen", "127.0.0.1:0"]).args(arguments).stdout(Stdio::piped()).spawn()?;
        let output = engine.stdout.take().context("read the engine's output")?;
        self.engines.push(engine);
        let mut first = String::new();
        BufReader::new(output).read_line(&mut first)?;
        let place = first.split("http://").nth(1).and_then(|rest| rest.split(['/', ' ', '\n']).next());
        let place = place.with_context(|| format!("find the address of the engine in `{first}`"))?.to_owned();
        self.places.insert(format!("${name}"), format!("http://{place}/v1"));
        self.places.insert(format!("@{name}"), format!("@{place}"));
        Ok(())
    }

    /// Runs a command and shows it with what it printed; its exit code.
    fn type_in(&self, arguments: &[String]) -> Result<Option<i32>> {
        let replaced =
            |word: &String| self.places.iter().fold(word.clone(), |word, (name, place)| word.replace(name, place));
        println!("\n$ tokrate {}", arguments.join(" "));
        let started = Instant::now();
        let mut child = self
            .command()
            .args(arguments.iter().map(replaced))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let read = |output: Option<Box<dyn Read + Send>>| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let read = output.map(|mut output| output.read_to_end(&mut bytes));
                (read.is_some_and(|read| read.is_ok()), String::from_utf8_lossy(&bytes).into_owned())
            })
        };
        let stdout = read(child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>));
        let stderr = read(child.stderr.take().map(|output| Box::new(output) as Box<dyn Read + Send>));
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() > MOST {
                child.kill()?;
                bail!("take the tour: `tokrate {}` did not end within {} s", arguments.join(" "), MOST.as_secs());
            }
            std::thread::sleep(STEP);
        };
        for output in [stderr, stdout] {
            let (_, text) = output.join().map_err(|_| anyhow::anyhow!("read what the command printed"))?;
            print!("{text}");
        }
        let code = status.code();
        println!(
            "(exit code {}, {:.1} s)",
            code.map_or("none".to_owned(), |code| code.to_string()),
            started.elapsed().as_secs_f64()
        );
        Ok(code)
    }
}

impl Drop for Tour {
    fn drop(&mut self) {
        for engine in &mut self.engines {
            // An engine may have ended by itself already, and the folder is temporary.
            let _ = engine.kill();
            let _ = engine.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_served_and_what_is_typed() {
        let read = lines("# First\n\nserve slow: --speed 9\n[2] bench --slo 'ttft_ms < 3'\n").expect("three lines");
        let arguments = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            read,
            [
                Line::Heading("First"),
                Line::Serve { name: "slow", arguments: arguments(&["--speed", "9"]) },
                Line::Run { code: 2, arguments: arguments(&["bench", "--slo", "ttft_ms < 3"]) },
            ]
        );
        assert!(lines("bench").is_err() && lines("[x] bench").is_err());
    }

    #[test]
    fn the_file_can_be_read() {
        let text = std::fs::read_to_string(xtask::workspace_root().join(LINES)).expect("it is there");
        let runs = lines(&text).expect("every line is one").into_iter().filter(|line| matches!(line, Line::Run { .. }));
        assert!(runs.count() >= 100);
    }
}
