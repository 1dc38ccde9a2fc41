//! A report page: one self-contained HTML file for desktop, phone, dark mode and print.
//!
//! There are no scripts and no external references, and a content security policy forbids both. Invariant: every chart is
//! followed by its table; every text is escaped; the same page gives the same bytes.

use std::fmt::Write as _;

use crate::sheet::{Chart, Size};
use crate::svg::STYLE;
use crate::table::Table;
use crate::text::{escape, escape_lines, prose};

/// Severity of a notice. It is printed as a word, so that colour is not the only information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// Good news.
    Good,
    /// Information.
    #[default]
    Info,
    /// Interpret the numbers with care.
    Warning,
    /// The numbers must not be used.
    Bad,
}

/// A verdict or warning above the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Notice {
    /// Its severity.
    pub level: Level,
    /// Its text.
    pub text: String,
}

/// A headline number.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Figure {
    /// Its label; for speeds it says which one.
    pub label: String,
    /// The number, formatted.
    pub value: String,
    /// Its unit; empty if the value includes it.
    pub unit: String,
    /// Its interval, such as "95 % interval 31.2 to 35.6"; empty for none.
    pub interval: String,
    /// Further information, such as "n = 512"; empty for none.
    pub note: String,
}

/// One of several charts side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    title: String,
    picture: String,
    table: Table,
}

/// Content of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// A chart with its table twin. Made by [`Block::chart`].
    Chart {
        /// Its title, printed as a heading.
        title: String,
        /// Its description, printed below the heading.
        description: String,
        /// The wide picture, for desktop and print.
        wide: String,
        /// The narrow picture, for phones.
        narrow: String,
        /// Its table.
        table: Table,
    },
    /// Small multiples side by side. Made by [`Block::multiples`].
    Multiples {
        /// Their common title.
        title: String,
        /// Their description.
        description: String,
        /// The charts.
        panels: Vec<Panel>,
    },
    /// A table.
    Table(Table),
    /// A paragraph.
    Paragraph(String),
    /// Definitions: conditions, terms.
    DefinitionList(Vec<(String, String)>),
    /// Preformatted text: commands, JSON.
    Code(String),
}

impl Block {
    /// The block of a chart.
    pub fn chart(chart: &impl Chart) -> Block {
        Block::Chart {
            title: chart.title().to_owned(),
            description: chart.description().to_owned(),
            wide: chart.panel(Size::Wide),
            narrow: chart.panel(Size::Narrow),
            table: chart.table(),
        }
    }

    /// Small multiples, each under its own title. Their axes should cover the same values.
    pub fn multiples(title: impl Into<String>, description: impl Into<String>, charts: &[impl Chart]) -> Block {
        let panel = |chart: &_| Panel::of(chart);
        Block::Multiples {
            title: title.into(),
            description: description.into(),
            panels: charts.iter().map(panel).collect(),
        }
    }

    fn push(&self, out: &mut String) {
        let _ = match self {
            Block::Chart { title, description, wide, narrow, table } => {
                push_chart(out, (title, description), (wide, narrow), table)
            }
            Block::Multiples { title, description, panels } => push_multiples(out, (title, description), panels),
            Block::Table(table) => write!(out, "{}", table.html()),
            Block::Paragraph(text) => write!(out, "<p>{}</p>", prose(text)),
            Block::DefinitionList(terms) => {
                out.push_str("<dl>");
                for (term, meaning) in terms {
                    let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", prose(term), prose(meaning));
                }
                write!(out, "</dl>")
            }
            Block::Code(text) => write!(out, r#"<pre tabindex="0"><code>{}</code></pre>"#, escape_lines(text)),
        };
        out.push('\n');
    }
}

fn push_chart(
    out: &mut String,
    (title, description): (&str, &str),
    (wide, narrow): (&str, &str),
    table: &Table,
) -> std::fmt::Result {
    out.push_str("<figure>");
    push_heading(out, title, description)?;
    write!(out, r#"<div class="wide">{wide}</div><div class="narrow">{narrow}</div>"#)?;
    // The heading already names the table.
    write!(out, "<details><summary>The numbers as a table</summary>{}</details></figure>", table.html())
}

fn push_heading(out: &mut String, title: &str, description: &str) -> std::fmt::Result {
    if !title.is_empty() {
        write!(out, "<h3>{}</h3>", prose(title))?;
    }
    if !description.is_empty() {
        write!(out, r#"<p class="lead">{}</p>"#, prose(description))?;
    }
    Ok(())
}

impl Panel {
    fn of(chart: &impl Chart) -> Panel {
        Panel { title: chart.title().to_owned(), picture: chart.panel(Size::Narrow), table: chart.table() }
    }
}

fn push_multiples(out: &mut String, (title, description): (&str, &str), panels: &[Panel]) -> std::fmt::Result {
    out.push_str(r#"<figure class="multiples">"#);
    push_heading(out, title, description)?;
    out.push_str(r#"<div class="panels">"#);
    for panel in panels {
        write!(out, "<div><h4>{}</h4>{}</div>", escape(&panel.title), panel.picture)?;
    }
    out.push_str("</div><details><summary>The numbers as tables</summary>");
    for panel in panels {
        write!(out, "{}", panel.table.html())?;
    }
    out.push_str("</details></figure>");
    Ok(())
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Introduction; empty for none.
    pub intro: String,
    /// Its content.
    pub blocks: Vec<Block>,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Page {
    /// What was measured.
    pub title: String,
    /// Subtitle: where, when, with what.
    pub subtitle: String,
    /// Verdict and warnings, most important first.
    pub notices: Vec<Notice>,
    /// Headline numbers.
    pub headline: Vec<Figure>,
    /// The parts.
    pub sections: Vec<Section>,
    /// Footer: version, date.
    pub footer: String,
}

/// Content security policy: only inline styles and the empty icon.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

impl Page {
    /// The whole file.
    pub fn html(&self) -> String {
        let mut out = String::with_capacity(64 * 1024);
        let title = escape(&self.title);
        let _ = write!(
            out,
            concat!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n",
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n",
                "<title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n{}{}</style>\n</head>\n<body>\n"
            ),
            POLICY,
            title,
            STYLE,
            include_str!("page.css")
        );
        let _ = write!(out, "<header><h1>{title}</h1>");
        if !self.subtitle.is_empty() {
            let _ = write!(out, r#"<p class="subtitle">{}</p>"#, prose(&self.subtitle));
        }
        out.push_str("</header>\n<main>\n");
        self.push_notices(&mut out);
        self.push_headline(&mut out);
        self.push_notes(&mut out);
        self.push_contents(&mut out);
        for (index, section) in self.sections.iter().enumerate() {
            let _ = writeln!(out, r#"<section id="s{}"><h2>{}</h2>"#, index + 1, prose(&section.title));
            if !section.intro.is_empty() {
                let _ = writeln!(out, r#"<p class="intro">{}</p>"#, prose(&section.intro));
            }
            for block in &section.blocks {
                block.push(&mut out);
            }
            out.push_str("</section>\n");
        }
        out.push_str("</main>\n");
        if !self.footer.is_empty() {
            let _ = writeln!(out, "<footer>{}</footer>", prose(&self.footer));
        }
        out.push_str("</body>\n</html>\n");
        out
    }

    /// Verdict and warnings, above every number.
    fn push_notices(&self, out: &mut String) {
        let above: Vec<&Notice> = self.notices.iter().filter(|notice| notice.level != Level::Info).collect();
        if above.is_empty() {
            return;
        }
        out.push_str(r#"<ul class="notices">"#);
        for notice in above {
            let (class, sign, word) = match notice.level {
                Level::Good | Level::Info => ("good", "✓", "Good"),
                Level::Warning => ("warning", "!", "Warning"),
                Level::Bad => ("bad", "✕", "Not valid"),
            };
            let _ = write!(
                out,
                r#"<li class="{class}"><span class="sign" aria-hidden="true">{sign}</span><p><strong>{word}.</strong> {}</p></li>"#,
                prose(&notice.text)
            );
        }
        out.push_str("</ul>\n");
    }

    /// What is good to know, below the numbers that it is about.
    fn push_notes(&self, out: &mut String) {
        let notes: Vec<&Notice> = self.notices.iter().filter(|notice| notice.level == Level::Info).collect();
        if notes.is_empty() {
            return;
        }
        out.push_str(r#"<ul class="notes">"#);
        for notice in notes {
            let _ = write!(out, "<li><strong>Note.</strong> {}</li>", prose(&notice.text));
        }
        out.push_str("</ul>\n");
    }

    fn push_headline(&self, out: &mut String) {
        if self.headline.is_empty() {
            return;
        }
        out.push_str(r#"<dl class="headline">"#);
        for figure in &self.headline {
            let _ = write!(out, r#"<div><dt>{}</dt><dd class="value">{}"#, prose(&figure.label), escape(&figure.value));
            if !figure.unit.is_empty() {
                let _ = write!(out, " <small>{}</small>", escape(&figure.unit));
            }
            out.push_str("</dd>");
            for (class, text) in [("interval", &figure.interval), ("aside", &figure.note)] {
                if !text.is_empty() {
                    let _ = write!(out, r#"<dd class="{class}">{}</dd>"#, prose(text));
                }
            }
            out.push_str("</div>");
        }
        out.push_str("</dl>\n");
    }

    fn push_contents(&self, out: &mut String) {
        if self.sections.len() < 3 {
            return;
        }
        out.push_str(r#"<nav aria-label="Contents"><ol>"#);
        for (index, section) in self.sections.iter().enumerate() {
            let _ = write!(out, r##"<li><a href="#s{}">{}</a></li>"##, index + 1, prose(&section.title));
        }
        out.push_str("</ol></nav>\n");
    }
}
