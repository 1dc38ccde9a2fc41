//! What the view shows at several moments of a run and in several terminals.

use crate::Look;
use crate::draw::draw;
use crate::state::*;
use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;

const LOOK: Look = Look { colour: true, unicode: true };

fn screen(live: &Live, columns: u16, rows: u16, look: Look) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal in memory");
    terminal.draw(|frame| draw(live, look, frame.area(), frame.buffer_mut())).expect("it cannot fail");
    let text = terminal.backend().to_string();
    let lines = text.lines().map(|line| line.trim_matches('"').trim_end());
    lines.collect::<Vec<&str>>().join("\n").trim_end().to_owned() + "\n"
}

fn level(amount: f64, throughput: f64) -> Level {
    Level {
        name: closed(amount),
        rounds: 1,
        throughput: Some(throughput),
        p50: Some(0.18 + 0.004 * amount),
        p99: Some(0.22 + 0.011 * amount),
        speed: Some(throughput / amount),
        failed: 0,
        is_valid: true,
    }
}

fn closed(amount: f64) -> LevelName {
    LevelName { text: format!("c = {amount}"), amount }
}

fn row(name: &str, unit: Unit, values: [f64; 4], n: u64) -> FigureRow {
    let [p50, p90, p99, worst] = values;
    FigureRow { name: name.to_owned(), unit, at: Some(Quantiles { p50, p90, p99, worst, n }) }
}

/// In the fourth level of six.
fn in_a_level() -> Live {
    let levels = [(1.0, 80.0), (2.0, 156.0), (4.0, 298.0)].map(|(amount, all)| level(amount, all));
    Live {
        targets: vec![Target { name: "openai/gpt-5-mini".to_owned(), levels: levels.to_vec(), alarm: None }],
        present: Some(Present {
            target: 0,
            name: closed(8.0),
            number: 4,
            of: 6,
            round: 1,
            seconds: 12.4,
            share: 0.52,
            counts: Counts {
                answered: 120,
                in_flight: 8,
                per_second: Some(4.31),
                throughput: Some(552.0),
                ..Counts::default()
            },
            figures: vec![
                row("TTFT", Unit::Seconds, [0.212, 0.261, 0.322, 0.402], 112),
                row("Chunk gap", Unit::Seconds, [0.0123, 0.0151, 0.0204, 0.0871], 14_203),
                row("Output speed", Unit::TokensPerSecond, [81.2, 74.5, 66.0, 61.3], 112),
                row("E2E", Unit::Seconds, [1.82, 2.03, 2.31, 2.4], 112),
            ],
            client: Client {
                cpu: Some(0.06),
                threads: 1,
                timer_lag: Some(0.000_12),
                error: Some("TTFT 31.0 µs, gaps 12.0 µs (p99) at c = 4".to_owned()),
            },
            ..Present::default()
        }),
        seconds: 61.2,
        left: Some(49.0),
        ..Live::default()
    }
}

fn with(change: impl FnOnce(&mut Live, &mut Present)) -> Live {
    let mut live = in_a_level();
    let mut present = live.present.take().expect("there is a level");
    change(&mut live, &mut present);
    Live { present: Some(present), ..live }
}

fn start() -> Live {
    with(|live, present| {
        (live.targets[0].levels, live.seconds, live.left) = (Vec::new(), 0.2, None);
        (present.number, present.name, present.seconds, present.share) = (1, closed(1.0), 0.2, 0.0);
        present.counts = Counts { in_flight: 1, ..Counts::default() };
        present.figures.iter_mut().for_each(|row| row.at = None);
        present.client = Client::default();
    })
}

#[test]
fn the_start_of_a_run() {
    insta::assert_snapshot!("start", screen(&start(), 80, 24, LOOK));
}

#[test]
fn within_a_level_in_terminals_of_four_sizes() {
    for (columns, rows) in [(60, 16), (80, 24), (120, 40), (200, 50)] {
        insta::assert_snapshot!(format!("level_{columns}x{rows}"), screen(&in_a_level(), columns, rows, LOOK));
    }
    let ascii = screen(&in_a_level(), 80, 24, Look { colour: false, unicode: false });
    assert!(ascii.is_ascii(), "{ascii}");
    insta::assert_snapshot!("level_ascii", ascii);
}

#[test]
fn a_search_for_the_knee() {
    let live = with(|live, present| {
        live.targets[0].levels.extend([(16.0, 700.0), (32.0, 720.0)].map(|(amount, all)| level(amount, all)));
        live.notes = vec![
            "the highest load that keeps TTFT p99 < 400 ms: 16 kept it, 32 missed it".to_owned(),
            "concurrency 24: halfway between a load that was met and one that was missed".to_owned(),
        ];
        (present.name, present.number, present.of) = (closed(24.0), 6, 6);
        present.counts.throughput = Some(712.0);
        (live.left, present.share) = (None, 0.81);
    });
    insta::assert_snapshot!("search", screen(&live, 80, 30, LOOK));
}

#[test]
fn a_run_until_figures_are_known() {
    let live = with(|live, present| {
        live.notes = vec![
            "TTFT p50 ± 2 % at c = 4: reached, ± 1.7 %".to_owned(),
            "TTFT p50 ± 2 % at c = 8: ± 3.4 %, about 210 more requests".to_owned(),
        ];
        (present.number, present.of, present.round) = (9, 14, 5);
    });
    insta::assert_snapshot!("until", screen(&live, 80, 24, LOOK));
}

/// A server that fails, a provider that limits, and a client that is the limit.
fn trouble() -> Live {
    with(|live, present| {
        present.counts = Counts { failed: 21, limited: 7, ..present.counts };
        present.errors =
            vec![("server_error".to_owned(), 17), ("rate_limited".to_owned(), 7), ("timed_out".to_owned(), 4)];
        present.wait = Some(40.0);
        present.client.cpu = Some(0.97);
        live.targets[0].levels[2].is_valid = false;
        live.targets[0].levels[2].failed = 3;
        live.targets[0].alarm =
            Some(Alarm { level: "c = 4".to_owned(), why: "ITL p99 of 6.00 ms could be off by 500 µs".to_owned() });
    })
}

#[test]
fn errors_and_a_client_that_is_the_limit() {
    insta::assert_snapshot!("trouble_60x16", screen(&trouble(), 60, 16, LOOK));
    insta::assert_snapshot!("trouble_80x30", screen(&trouble(), 80, 30, LOOK));
}

#[test]
fn two_targets() {
    let live = with(|live, present| {
        let levels = [(1.0, 61.0), (2.0, 118.0), (4.0, 221.0), (8.0, 240.0)].map(|(amount, all)| level(amount, all));
        live.targets.push(Target { name: "vllm/qwen-7b".to_owned(), levels: levels.to_vec(), alarm: None });
        present.beside = vec![
            "engine: 8 running, 2 waiting, cache 31 %".to_owned(),
            "H100 0: 87 % busy, 412 W of 700 W, 61.2 GB".to_owned(),
        ];
    });
    insta::assert_snapshot!("two_targets", screen(&live, 100, 36, LOOK));
}

#[test]
fn a_limit_of_costs_that_is_near() {
    let live = with(|live, _| live.money = Some(Money { spent: 0.0463, limit: Some(0.05) }));
    insta::assert_snapshot!("money", screen(&live, 80, 24, LOOK));
}

#[test]
fn the_end_of_a_run_and_an_interrupt() {
    let live = with(|live, present| {
        (live.doing, live.left, present.counts.in_flight, present.share) = (Doing::Ended, None, 0, 1.0);
        live.targets[0].levels.push(level(8.0, 552.0));
    });
    insta::assert_snapshot!("end", screen(&live, 80, 24, LOOK));
    let interrupted = Live { is_interrupted: true, ..in_a_level() };
    assert!(screen(&interrupted, 80, 24, LOOK).contains("interrupted; writing what was measured"));
}

#[test]
fn without_colour_nothing_is_lost_and_no_cell_has_a_colour() {
    let area = Rect::new(0, 0, 80, 30);
    let drawn = |colour| {
        let mut cells = Buffer::empty(area);
        draw(&trouble(), Look { colour, unicode: true }, area, &mut cells);
        cells
    };
    let (plain, coloured) = (drawn(false), drawn(true));
    assert!(plain.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(coloured.content().iter().any(|cell| cell.fg == Color::Red));
    assert!(plain.content().iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)), "an alarm stands out");
    let text = |cells: &Buffer| cells.content().iter().map(|cell| cell.symbol().to_owned()).collect::<String>();
    assert_eq!(text(&plain), text(&coloured));
}

#[test]
fn no_size_of_terminal_is_too_small_and_none_is_drawn_over() {
    let empty = Live::default();
    for columns in (0..130).step_by(3) {
        for rows in 0..45 {
            let whole = Rect::new(0, 0, columns + 2, rows + 2);
            for live in [&empty, &start(), &trouble()] {
                let mut cells = Buffer::empty(whole);
                draw(live, LOOK, Rect::new(1, 1, columns, rows), &mut cells);
                let is_border = |x, y| x == 0 || y == 0 || x == whole.right() - 1 || y == whole.bottom() - 1;
                let outside = whole.positions().filter(|at| is_border(at.x, at.y));
                assert!(outside.into_iter().all(|at| cells[at].symbol() == " "), "{columns}x{rows}");
            }
        }
    }
}
