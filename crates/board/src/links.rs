//! Addresses: what each page is called, on a server and in a folder.
//!
//! All links are relative, so that a board works below any path and from `file:`. Ranked pages take their view as parameters on
//! a server; in a folder each view that is exported is a file. Invariant: a link to a view that is not exported is never written.

use crate::board::Board;
use crate::view::View;

/// Where the pages will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Behind a server that answers [`crate::Site::route`].
    Served,
    /// Files in a folder.
    Files,
}

/// A ranked page in one of its forms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Ranked {
    Leaderboard,
    Quadrants,
    Scorecard,
    Json,
    Csv,
}

impl Ranked {
    pub(crate) const ALL: [Ranked; 5] =
        [Ranked::Leaderboard, Ranked::Quadrants, Ranked::Scorecard, Ranked::Json, Ranked::Csv];

    fn file(self) -> (&'static str, &'static str) {
        match self {
            Ranked::Leaderboard => ("index", "html"),
            Ranked::Quadrants => ("quadrants", "html"),
            Ranked::Scorecard => ("scorecard", "html"),
            Ranked::Json => ("api/v1/leaderboard", "json"),
            Ranked::Csv => ("leaderboard", "csv"),
        }
    }
}

/// Everything that has an address. Endpoints, models and providers are indices of the board's names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Target {
    Ranked(Ranked, View),
    /// The ranked page of a board without data.
    Empty(Ranked),
    Model(usize),
    Provider(usize),
    Endpoint(usize),
    EndpointJson(usize),
    EndpointCsv(usize),
    Badge(usize),
    Compare,
    ComparePair(usize, usize),
    Changes,
    ChangesJson,
    Feed,
    Places,
    Method,
    Api,
    Style,
}

/// How many parameters a view may have that differ from the usual one to be exported as a leaderboard; of others one.
const MAX_EXPORTED_PARAMETERS: usize = 2;

impl Board {
    /// Whether a page is written as a file.
    pub(crate) fn is_exported(&self, target: &Target) -> bool {
        match target {
            Target::Ranked(ranked, view) => {
                let most = if *ranked == Ranked::Leaderboard { MAX_EXPORTED_PARAMETERS } else { 1 };
                let reordered = view.sort != crate::view::Sort::ALL[0];
                self.query(view).len() <= if *ranked == Ranked::Leaderboard || !reordered { most } else { 0 }
            }
            Target::ComparePair(a, b) => a < b && self.shared_model(*a, *b).is_some(),
            _ => true,
        }
    }

    /// The address of a target below the root of the board.
    pub(crate) fn path(&self, target: &Target, mode: Mode) -> String {
        match target {
            Target::Ranked(ranked, view) => self.ranked_path(*ranked, view, mode),
            Target::Empty(ranked) => {
                let (stem, ending) = ranked.file();
                format!("{stem}.{ending}")
            }
            Target::Model(index) => format!("model/{}.html", self.models[*index].slug),
            Target::Provider(index) => format!("provider/{}.html", self.providers[*index].slug),
            Target::Endpoint(index) => format!("endpoint/{}.html", self.endpoints[*index].slug),
            Target::EndpointJson(index) => format!("api/v1/endpoint/{}.json", self.endpoints[*index].slug),
            Target::EndpointCsv(index) => format!("endpoint/{}.csv", self.endpoints[*index].slug),
            Target::Badge(index) => format!("badge/{}.svg", self.endpoints[*index].slug),
            Target::Compare => "compare.html".to_owned(),
            Target::ComparePair(a, b) => {
                format!("compare/{}~{}.html", self.endpoints[*a].slug, self.endpoints[*b].slug)
            }
            Target::Changes => "changes.html".to_owned(),
            Target::ChangesJson => "api/v1/changes.json".to_owned(),
            Target::Feed => "changes.atom".to_owned(),
            Target::Places => "places.html".to_owned(),
            Target::Method => "methodology.html".to_owned(),
            Target::Api => "api/v1/index.json".to_owned(),
            Target::Style => "style.css".to_owned(),
        }
    }

    fn ranked_path(&self, ranked: Ranked, view: &View, mode: Mode) -> String {
        let (stem, ending) = ranked.file();
        let query = self.query(view);
        let joined = |sign: &str, between: &str| {
            query.iter().map(|(name, value)| format!("{name}{sign}{value}")).collect::<Vec<_>>().join(between)
        };
        match mode {
            _ if query.is_empty() => format!("{stem}.{ending}"),
            Mode::Served => format!("{stem}.{ending}?{}", joined("=", "&")),
            Mode::Files => format!("{stem}/{}.{ending}", joined("-", "~")),
        }
    }

    /// The target of an address: `Ok(None)` for one that does not exist.
    ///
    /// # Errors
    /// A parameter of a ranked page whose value names nothing.
    pub(crate) fn target(&self, path: &str, query: &str) -> Result<Option<Target>, String> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = if path.is_empty() { "index.html" } else { path };
        let parameters = crate::view::parameters(query);
        for ranked in Ranked::ALL {
            let (stem, ending) = ranked.file();
            if path.strip_prefix(stem).is_some_and(|rest| rest.strip_prefix('.') == Some(ending)) {
                let view = self.view(&parameters)?;
                return Ok(Some(view.map_or(Target::Empty(ranked), |view| Target::Ranked(ranked, view))));
            }
        }
        let fixed = [
            Target::Compare,
            Target::Changes,
            Target::ChangesJson,
            Target::Feed,
            Target::Places,
            Target::Method,
            Target::Api,
            Target::Style,
        ];
        if path == "compare.html" {
            return self.compared(&parameters);
        }
        if let Some(target) = fixed.into_iter().find(|target| self.path(target, Mode::Served) == path) {
            return Ok(Some(target));
        }
        Ok(self.named_target(path))
    }

    fn compared(&self, parameters: &std::collections::BTreeMap<String, String>) -> Result<Option<Target>, String> {
        let index = |name: &str| match parameters.get(name).filter(|slug| !slug.is_empty()) {
            None => Ok(None),
            Some(slug) => self.endpoints.by_slug(slug).map(Some).ok_or_else(|| format!("{name}={slug}")),
        };
        Ok(Some(match (index("a")?, index("b")?) {
            (Some(a), Some(b)) if a != b => Target::ComparePair(a.min(b), a.max(b)),
            _ => Target::Compare,
        }))
    }

    fn named_target(&self, path: &str) -> Option<Target> {
        let slug = |folder: &str, ending: &str| path.strip_prefix(folder)?.strip_suffix(ending);
        let endpoint = |text: &str| self.endpoints.by_slug(text);
        if let Some(name) = slug("model/", ".html") {
            return self.models.by_slug(name).map(Target::Model);
        }
        if let Some(name) = slug("provider/", ".html") {
            return self.providers.by_slug(name).map(Target::Provider);
        }
        if let Some(name) = slug("endpoint/", ".html") {
            return endpoint(name).map(Target::Endpoint);
        }
        if let Some(name) = slug("api/v1/endpoint/", ".json") {
            return endpoint(name).map(Target::EndpointJson);
        }
        if let Some(name) = slug("endpoint/", ".csv") {
            return endpoint(name).map(Target::EndpointCsv);
        }
        if let Some(name) = slug("badge/", ".svg") {
            return endpoint(name).map(Target::Badge);
        }
        let (a, b) = slug("compare/", ".html")?.split_once('~')?;
        let (a, b) = (endpoint(a)?, endpoint(b)?);
        (a != b).then(|| Target::ComparePair(a.min(b), a.max(b)))
    }

    /// A model that both endpoints offer.
    pub(crate) fn shared_model(&self, a: usize, b: usize) -> Option<usize> {
        let of = |endpoint: usize| self.entries.iter().filter(move |e| e.endpoint == endpoint).map(|e| e.model);
        of(a).find(|model| of(b).any(|other| other == *model))
    }

    /// Everything that is exported.
    pub(crate) fn exported(&self) -> Vec<Target> {
        let mut all = vec![Target::Style, Target::Compare, Target::Changes, Target::ChangesJson];
        all.extend([Target::Feed, Target::Places, Target::Method, Target::Api]);
        match self.default_view() {
            None => all.extend(Ranked::ALL.map(Target::Empty)),
            Some(usual) => all.extend(self.exported_views(&usual)),
        }
        all.extend((0..self.models.len()).map(Target::Model));
        all.extend((0..self.providers.len()).map(Target::Provider));
        for index in 0..self.endpoints.len() {
            all.extend([Target::Endpoint(index), Target::EndpointJson(index), Target::EndpointCsv(index)]);
            all.push(Target::Badge(index));
        }
        all.extend(self.exported_pairs());
        all
    }

    fn exported_views(&self, usual: &View) -> Vec<Target> {
        let mut views = vec![*usual];
        // Each round changes one more parameter of those before.
        for _ in 0..MAX_EXPORTED_PARAMETERS {
            let next: Vec<View> = views.iter().flat_map(|view| self.neighbours(view)).collect();
            views.extend(next);
            views.sort_unstable();
            views.dedup();
        }
        let targets =
            Ranked::ALL.into_iter().flat_map(|ranked| views.iter().map(move |view| Target::Ranked(ranked, *view)));
        targets.filter(|target| self.is_exported(target)).collect()
    }

    /// Pairs of endpoints of one model.
    fn exported_pairs(&self) -> Vec<Target> {
        let mut pairs: Vec<Target> = Vec::new();
        let mut by_model: Vec<Vec<usize>> = vec![Vec::new(); self.models.len()];
        for entry in &self.entries {
            if !by_model[entry.model].contains(&entry.endpoint) {
                by_model[entry.model].push(entry.endpoint);
            }
        }
        for members in by_model.iter().filter(|members| members.len() <= MAX_COMPARED) {
            for (place, a) in members.iter().enumerate() {
                pairs.extend(members[place + 1..].iter().map(|b| Target::ComparePair(*a.min(b), *a.max(b))));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }
}

/// Models with more endpoints than this have no exported comparisons: pairs grow with the square.
pub(crate) const MAX_COMPARED: usize = 16;

/// Writes links from one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links<'a> {
    pub(crate) board: &'a Board,
    pub(crate) mode: Mode,
    /// Folders above the page.
    depth: usize,
}

impl<'a> Links<'a> {
    /// The links of the page of a target.
    pub(crate) fn from(board: &'a Board, target: &Target, mode: Mode) -> Links<'a> {
        let path = board.path(target, mode);
        let folders = path.split('?').next().unwrap_or_default().matches('/').count();
        Links { board, mode, depth: folders }
    }

    /// The address of a target, escaped for an attribute; `None` for a page that is not exported.
    pub(crate) fn to(&self, target: &Target) -> Option<String> {
        if self.mode == Mode::Files && !self.board.is_exported(target) {
            return None;
        }
        let path = self.board.path(target, self.mode).replace('&', "&amp;");
        Some(format!("{}{path}", "../".repeat(self.depth)))
    }

    /// The address of a target that every board has.
    pub(crate) fn always(&self, target: &Target) -> String {
        self.to(target).unwrap_or_default()
    }

    /// A link with text that is escaped already; only the text where there is no page.
    pub(crate) fn link(&self, target: &Target, html: &str) -> String {
        match self.to(target) {
            Some(address) => format!(r#"<a href="{address}">{html}</a>"#),
            None => html.to_owned(),
        }
    }
}
