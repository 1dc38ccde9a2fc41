//! The board as a set of pages: what a server answers for a path, and every file of the export.
//!
//! Invariant: [`Site::route`] and [`Site::files`] make the same pages of the same data; only links to ranked views differ.

use crate::board::Board;
use crate::data::BoardData;
use crate::html::{Frame, page, style};
use crate::links::{Links, Mode, Ranked, Target};
use crate::names::hash;
use crate::pages;
use crate::{api, badge, csv};
use std::fmt::Write as _;

/// Longest path or query that is looked at (bytes): none of ours is longer.
const MAX_ADDRESS_BYTES: usize = 2_048;

/// A page, ready to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// The status of the answer: 200, or 404 for a filter that names nothing.
    pub status: u16,
    /// Its media type.
    pub content_type: &'static str,
    /// Its content.
    pub body: Vec<u8>,
    /// Its entity tag, with quotation marks: equal for equal content.
    pub etag: String,
}

impl Page {
    fn of(status: u16, content_type: &'static str, body: String) -> Page {
        let etag = format!("\"{:016x}-{:x}\"", hash(body.as_bytes()), body.len());
        Page { status, content_type, body: body.into_bytes(), etag }
    }
}

/// A board with its pages. Make a new one when the data change.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    board: Board,
}

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json; charset=utf-8";
const CSV: &str = "text/csv; charset=utf-8";

impl Site {
    /// Works out every window and rank of the data.
    pub fn new(data: BoardData) -> Site {
        Site { board: Board::new(data) }
    }

    /// The board.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The page of a path such as `/endpoint/groq-llama.html` with a query such as `window=24h`, both as they stand in the
    /// request; `None` for a path that there is not.
    pub fn route(&self, path: &str, query: &str) -> Option<Page> {
        if path.len() > MAX_ADDRESS_BYTES || query.len() > MAX_ADDRESS_BYTES {
            return None;
        }
        match self.board.target(path, query) {
            Ok(target) => Some(self.render(&target?, Mode::Served)),
            Err(parameter) => Some(self.unknown(&parameter)),
        }
    }

    /// Every file of the export, with its path below the folder.
    pub fn files(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        let file = |target: Target| (self.board.path(&target, Mode::Files), self.render(&target, Mode::Files).body);
        self.board.exported().into_iter().map(file)
    }

    fn render(&self, target: &Target, mode: Mode) -> Page {
        let board = &self.board;
        match target {
            Target::Ranked(ranked, view) => match ranked {
                Ranked::Leaderboard => Page::of(200, HTML, pages::leaderboard::render(board, target, view, mode)),
                Ranked::Quadrants => Page::of(200, HTML, pages::quadrants::render(board, target, view, mode)),
                Ranked::Scorecard => Page::of(200, HTML, pages::scorecard::render(board, target, view, mode)),
                Ranked::Json => Page::of(200, JSON, api::json(&board.api_leaderboard(view))),
                Ranked::Csv => Page::of(200, CSV, csv::leaderboard(board, view)),
            },
            Target::Empty(Ranked::Json) => Page::of(200, JSON, api::json(&board.api_index())),
            Target::Empty(Ranked::Csv) => Page::of(200, CSV, String::new()),
            Target::Empty(_) => Page::of(200, HTML, pages::leaderboard::empty(board, target, mode)),
            Target::Model(model) => Page::of(200, HTML, pages::model::render(board, target, *model, mode)),
            Target::Provider(provider) => Page::of(200, HTML, pages::provider::render(board, target, *provider, mode)),
            Target::Endpoint(endpoint) => Page::of(200, HTML, pages::endpoint::render(board, target, *endpoint, mode)),
            Target::EndpointJson(endpoint) => Page::of(200, JSON, api::json(&board.api_endpoint(*endpoint))),
            Target::EndpointCsv(endpoint) => Page::of(200, CSV, csv::endpoint(board, *endpoint)),
            Target::Badge(endpoint) => Page::of(200, "image/svg+xml", badge::render(board, *endpoint)),
            Target::Compare => Page::of(200, HTML, pages::compare::index(board, target, mode)),
            Target::ComparePair(a, b) => Page::of(200, HTML, pages::compare::pair(board, target, (*a, *b), mode)),
            Target::Changes => Page::of(200, HTML, pages::changes::render(board, target, mode)),
            Target::ChangesJson => Page::of(200, JSON, api::json(&board.api_changes())),
            Target::Feed => Page::of(200, "application/atom+xml; charset=utf-8", pages::changes::feed(board)),
            Target::Places => Page::of(200, HTML, pages::places::render(board, target, mode)),
            Target::Method => Page::of(200, HTML, pages::method::render(board, target, mode)),
            Target::Api => Page::of(200, JSON, api::json(&board.api_index())),
            Target::Style => Page::of(200, "text/css; charset=utf-8", style()),
        }
    }

    /// The page for a filter that names nothing.
    fn unknown(&self, parameter: &str) -> Page {
        let target = crate::html::ranked(&self.board, Ranked::Leaderboard);
        let links = Links::from(&self.board, &target, Mode::Served);
        let mut out = String::from("<h1>Nothing by that name</h1>\n");
        let _ = writeln!(
            out,
            "<p>There is no {} here; it may have had no request in the last 30 days. {}</p>",
            crate::html::text(parameter),
            links.link(&target, "The whole board.")
        );
        let frame =
            Frame { title: "Not found".to_owned(), description: "Nothing by that name.".to_owned(), target: &target };
        Page::of(404, HTML, page(&links, &frame, &out))
    }
}
