//! Tables whose cells hold links, marks and small charts; on narrow screens each row becomes a block.
//!
//! Invariant: what a cell is given as text is escaped here, and as markup was made here.

use super::view::View;
use std::fmt::Write as _;
use tokrate_charts::escape;

/// A cell: markup that is safe to send.
#[derive(Clone, Debug, Default)]
pub(super) struct Html(pub String);

impl Html {
    /// Text.
    pub fn text(text: &str) -> Html {
        Html(escape(text))
    }

    /// A link with text; `to` is escaped already.
    pub fn link(to: &str, text: &str) -> Html {
        Html(format!("<a href=\"{to}\">{}</a>", escape(text)))
    }
}

/// A column.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Its heading.
    pub label: &'static str,
    /// A line below the heading, such as a unit.
    pub unit: &'static str,
    /// Whether it holds numbers.
    pub is_number: bool,
    /// The name of the order that it sorts by.
    pub sort: Option<&'static str>,
}

impl Head {
    /// A column of words.
    pub const fn words(label: &'static str) -> Head {
        Head { label, unit: "", is_number: false, sort: None }
    }

    /// A column of numbers.
    pub const fn numbers(label: &'static str, unit: &'static str) -> Head {
        Head { label, unit, is_number: true, sort: None }
    }

    /// The same, and a list can be sorted by it.
    pub const fn sorted_by(self, name: &'static str) -> Head {
        Head { sort: Some(name), ..self }
    }
}

/// A table.
pub(super) struct Grid<'a> {
    /// What it shows, for those who do not see it.
    pub caption: &'a str,
    /// The columns; the first one names the row.
    pub heads: &'a [Head],
    /// The rows.
    pub rows: Vec<Vec<Html>>,
    /// Where links of sortable columns lead.
    pub sorting: Option<Sorting<'a>>,
}

/// What links of sortable columns lead to.
pub(super) struct Sorting<'a> {
    pub view: &'a View,
    pub path: &'a str,
    /// Parameters beside those of range and filters.
    pub more: &'a [(&'a str, &'a str)],
    /// The order in force.
    pub current: &'static str,
}

impl Sorting<'_> {
    /// A link to the same in another order.
    fn link(&self, name: &'static str) -> String {
        let more = self.more.iter().copied().filter(|(other, _)| *other != "sort");
        self.view.link(self.path, &more.chain([("sort", name)]).collect::<Vec<_>>())
    }
}

impl Grid<'_> {
    /// Writes the table.
    pub fn render(&self, out: &mut String) {
        let caption = escape(self.caption);
        self.orders(out);
        let _ = write!(
            out,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table class=\"grid\"><caption>{caption}</caption><thead><tr>"
        );
        for head in self.heads {
            self.head(out, head);
        }
        out.push_str("</tr></thead><tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (index, (cell, head)) in row.iter().zip(self.heads).enumerate() {
                let class = if head.is_number { " class=\"n\"" } else { "" };
                let _ = match index {
                    0 => write!(out, "<th scope=\"row\"{class}>{}</th>", cell.0),
                    _ => write!(out, "<td{class} data-name=\"{}\">{}</td>", escape(head.label), cell.0),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>");
    }

    /// The orders by themselves, for narrow screens, which have no headings.
    fn orders(&self, out: &mut String) {
        let Some(sorting) = &self.sorting else { return };
        out.push_str("<p class=\"orders\">Sorted by");
        for (head, name) in self.heads.iter().filter_map(|head| Some((head, head.sort?))) {
            let current = if name == sorting.current { " aria-current=\"true\"" } else { "" };
            let _ = write!(out, " <a href=\"{}\"{current}>{}</a>", sorting.link(name), escape(head.label));
        }
        out.push_str("</p>");
    }

    fn head(&self, out: &mut String, head: &Head) {
        let class = if head.is_number { " class=\"n\"" } else { "" };
        let unit = if head.unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(head.unit)) };
        let label = escape(head.label);
        let _ = match (head.sort, &self.sorting) {
            (Some(name), Some(sorting)) => {
                let (aria, arrow) = match name == sorting.current {
                    true => (" aria-sort=\"descending\"", " <span aria-hidden=\"true\">↓</span>"),
                    false => ("", ""),
                };
                let link = sorting.link(name);
                write!(out, "<th scope=\"col\"{class}{aria}><a href=\"{link}\">{label}{arrow}</a>{unit}</th>")
            }
            _ => write!(out, "<th scope=\"col\"{class}>{label}{unit}</th>"),
        };
    }
}
