//! The line of filters above a ranked page: links, so that it works without scripts.
//!
//! Invariant: a filter with a single choice is words, not a link; the current choice is marked for those who do not see colours.

use crate::html::{folder_note, name};
use crate::links::{Links, Ranked, Target};
use crate::view::View;
use crate::window::Window;
use std::fmt::Write as _;

/// More choices than this are folded.
const MAX_OPEN: usize = 8;

struct Choice {
    words: String,
    view: View,
    is_current: bool,
}

/// Writes the filters of a view.
pub(crate) fn render(out: &mut String, links: &Links<'_>, ranked: Ranked, view: &View) {
    let board = links.board;
    let choices = board.choices(view);
    out.push_str("<div class=\"filters\" role=\"group\" aria-label=\"Filters\">\n");
    let mut models =
        vec![Choice { words: "all".to_owned(), view: View { model: None, ..*view }, is_current: view.model.is_none() }];
    models.extend(choices.models.iter().map(|model| Choice {
        words: name(&board.models[*model]),
        view: View { model: Some(*model), ..*view },
        is_current: view.model == Some(*model),
    }));
    group(out, links, ranked, "Model", &models);
    let workloads = choices.workloads.iter().filter_map(|workload| {
        let is_current = view.workload == *workload;
        Some(Choice {
            words: name(&board.workloads[*workload]),
            view: board.with_workload(view, *workload)?,
            is_current,
        })
    });
    group(out, links, ranked, "Workload", &workloads.collect::<Vec<Choice>>());
    let places = choices.places.iter().filter_map(|place| {
        let is_current = view.place == *place;
        Some(Choice { words: name(&board.places[*place]), view: board.with_place(view, *place)?, is_current })
    });
    group(out, links, ranked, "Place", &places.collect::<Vec<Choice>>());
    let loads = choices.loads.iter().map(|load| Choice {
        words: load.words().to_owned(),
        view: View { load: *load, ..*view },
        is_current: view.load == *load,
    });
    group(out, links, ranked, "Load", &loads.collect::<Vec<Choice>>());
    let windows = Window::ALL.map(|window| Choice {
        words: window.words().to_owned(),
        view: View { window, ..*view },
        is_current: view.window == window,
    });
    group(out, links, ranked, "Last", &windows);
    let sources = choices.sources.iter().filter_map(|source| {
        let is_current = view.source == *source;
        Some(Choice { words: source.words().to_owned(), view: board.with_source(view, *source)?, is_current })
    });
    group(out, links, ranked, "Source", &sources.collect::<Vec<Choice>>());
    out.push_str("</div>\n");
    out.push_str(folder_note(links));
}

fn group(out: &mut String, links: &Links<'_>, ranked: Ranked, label: &str, choices: &[Choice]) {
    if choices.len() < 2 {
        return;
    }
    let mut list = String::from("<ul>");
    for choice in choices {
        let words = &choice.words;
        let target = links.to(&Target::Ranked(ranked, choice.view));
        let _ = match (choice.is_current, target) {
            (true, _) => write!(list, "<li><b aria-current=\"true\">{words}</b></li>"),
            (false, Some(address)) => write!(list, "<li><a href=\"{address}\">{words}</a></li>"),
            (false, None) => write!(list, "<li><span>{words}</span></li>"),
        };
    }
    list.push_str("</ul>");
    let current = choices.iter().find(|choice| choice.is_current).map_or("all", |choice| choice.words.as_str());
    let _ = if choices.len() > MAX_OPEN {
        let count = choices.len() - 1;
        writeln!(
            out,
            "<details class=\"filter\"><summary>{label}: <b>{current}</b> of {count}</summary>{list}</details>"
        )
    } else {
        writeln!(out, "<div class=\"filter\"><span class=\"label\">{label}</span>{list}</div>")
    };
}

/// What a view shows, as a sentence without its model: "chat-1k, asked from fra, …".
pub(crate) fn sentence(links: &Links<'_>, view: &View) -> String {
    let board = links.board;
    format!(
        "{} · from {} · {} · last {} · {}",
        name(&board.workloads[view.workload]),
        name(&board.places[view.place]),
        view.load.words(),
        view.window.words(),
        view.source.words()
    )
}
