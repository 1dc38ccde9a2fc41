//! A writer's decisions against a file of this test's own, in times that it says.

use super::*;
use proptest::prelude::*;
use std::path::PathBuf;

/// What the file does next.
#[derive(Clone, Copy, Debug)]
enum Does {
    Works,
    IsLocked,
    IsFull,
    /// It was moved, removed or replaced since.
    IsGone,
}

/// Rows by the names of their calls; what it does is written down beforehand, and then it works.
#[derive(Debug, Default)]
struct Fake {
    script: Vec<Does>,
    rows: Vec<String>,
    refusals: Vec<Refusal>,
    newest_unix_ms: Option<u64>,
    /// Rows that are too old.
    old: u64,
    pruned_before: Vec<u64>,
}

impl Fake {
    fn next(&mut self) -> Result<(), StoreError> {
        let path = PathBuf::from("LOG");
        match self.script.pop().unwrap_or(Does::Works) {
            Does::Works => Ok(()),
            Does::IsLocked => Err(StoreError::Locked { path }),
            Does::IsFull => Err(StoreError::Full { path }),
            Does::IsGone => {
                let lost_rows = self.rows.len() as u64;
                self.rows.clear();
                Err(StoreError::Displaced { path, what: "it was moved or removed", lost_rows })
            }
        }
    }
}

impl LogFile for Fake {
    fn append(&mut self, rows: &[Attempt]) -> Result<(), StoreError> {
        self.next()?;
        self.rows.extend(rows.iter().map(|row| row.call.clone()));
        Ok(())
    }

    fn append_refusals(&mut self, rows: &[Refusal]) -> Result<(), StoreError> {
        self.next()?;
        self.refusals.extend_from_slice(rows);
        Ok(())
    }

    fn watch(&mut self) -> Result<(), StoreError> {
        self.next()
    }

    fn prune(&mut self, before_unix_ms: u64, most: u64) -> Result<u64, StoreError> {
        self.next()?;
        self.pruned_before.push(before_unix_ms);
        let removed = self.old.min(most);
        self.old -= removed;
        Ok(removed)
    }

    fn newest_unix_ms(&mut self) -> Result<Option<u64>, StoreError> {
        Ok(self.newest_unix_ms)
    }
}

const RETRY: Span = Span::from_millis(500);
const NOON: u64 = 1_800_000_000_000;
const DAY_MS: u64 = 86_400_000;

fn batches(script: &[Does], retention: Option<Span>) -> Batches<Fake> {
    let file = Fake { script: script.iter().rev().copied().collect(), ..Fake::default() };
    let rules = BatchRules { batch_rows: 3, retry_every: RETRY, retention, clock_settle_time: Span::from_secs(3_600) };
    Batches::new(file, rules)
}

fn push(batches: &mut Batches<Fake>, calls: std::ops::Range<u64>) {
    calls.for_each(|n| batches.push(Attempt { call: n.to_string(), ..Attempt::default() }));
}

#[test]
fn a_batch_that_fails_is_tried_again_in_its_time_and_not_before() {
    let mut batches = batches(&[Does::Works, Does::IsFull], None);
    push(&mut batches, 0..5);
    assert!(!batches.write(Tick::ZERO, &mut || {}));
    assert_eq!((batches.counts().written, batches.held()), (3, 2));
    let at = batches.retry_at().expect("it failed");
    assert_eq!(at, Tick::ZERO + RETRY);
    assert!(!batches.write(at - Span::from_nanos(1), &mut || {}));
    assert!(batches.write(at, &mut || {}));
    assert_eq!((batches.counts().written, batches.retry_at()), (5, None));
    assert_eq!(batches.file().rows, ["0", "1", "2", "3", "4"]);
    let events = batches.take_events();
    assert!(matches!(&events[..], [WriterEvent::Working, WriterEvent::Failing(_), WriterEvent::Working]), "{events:?}");
}

#[test]
fn a_batch_that_failed_is_tried_at_once_when_somebody_asks_for_it() {
    let mut batches = batches(&[Does::IsFull], None);
    push(&mut batches, 0..1);
    assert!(!batches.write(Tick::ZERO, &mut || {}));
    assert!(!batches.write(Tick::ZERO, &mut || {}));
    batches.retry_now();
    assert!(batches.write(Tick::ZERO, &mut || {}));
}

#[test]
fn rows_that_went_with_a_displaced_file_are_lost_and_later_ones_are_kept() {
    let mut batches = batches(&[Does::Works, Does::Works, Does::IsGone], None);
    push(&mut batches, 0..6);
    assert!(batches.write(Tick::ZERO, &mut || {}));
    push(&mut batches, 6..8);
    assert!(batches.write(Tick::ZERO, &mut || {}), "without waiting");
    assert_eq!(batches.counts(), BatchCounts { written: 2, lost: 6, pruned: 0 });
    assert_eq!(batches.file().rows, ["6", "7"]);
    let events = batches.take_events();
    assert!(
        matches!(&events[..], [WriterEvent::Working, WriterEvent::Notice(notice), WriterEvent::Working] if notice.contains("up to 6 rows"))
    );
}

#[test]
fn a_file_that_vanishes_again_and_again_does_not_keep_the_writer_busy() {
    let mut batches = batches(&[Does::IsGone; 20], None);
    push(&mut batches, 0..1);
    assert!(!batches.write(Tick::ZERO, &mut || {}));
    assert_eq!(batches.file().script.len(), 18, "two attempts, then it waits");
    assert!(batches.retry_at().is_some());
}

#[test]
fn a_displaced_file_is_noticed_without_any_row() {
    let mut batches = batches(&[Does::Works, Does::Works, Does::IsGone], None);
    push(&mut batches, 0..2);
    assert!(batches.write(Tick::ZERO, &mut || {}));
    batches.maintain(Tick::ZERO, NOON);
    batches.maintain(batches.maintain_at() - Span::from_nanos(1), NOON);
    assert_eq!(batches.counts().written, 2, "not looked at yet");
    batches.maintain(batches.maintain_at(), NOON);
    assert_eq!(batches.counts(), BatchCounts { written: 0, lost: 2, pruned: 0 });
}

#[test]
fn a_clock_that_is_years_ahead_for_a_moment_removes_nothing() {
    let mut batches = batches(&[], Some(Span::from_secs(90 * 86_400)));
    batches.file.newest_unix_ms = Some(NOON);
    let minute = |n: u64| Tick::ZERO + Span::from_secs(60 * n);
    let times = [NOON, NOON + 60_000, NOON + 3_650 * DAY_MS, NOON + 3_650 * DAY_MS + 60_000, NOON + 240_000];
    for (n, wall) in (0..).zip(times) {
        batches.maintain(minute(n), wall);
    }
    let cutoffs = [NOON, NOON + 60_000, NOON + 240_000].map(|wall| wall - 90 * DAY_MS);
    assert_eq!(batches.file().pruned_before, cutoffs);
    let events = batches.take_events();
    assert!(
        matches!(&events[..], [WriterEvent::Notice(notice)] if notice.contains("87600.0 hours ahead")),
        "{events:?}"
    );
}

#[test]
fn a_clock_that_was_ahead_from_the_start_is_held_against_the_newest_row() {
    let mut batches = batches(&[], Some(Span::from_secs(90 * 86_400)));
    batches.file.newest_unix_ms = Some(NOON);
    // Its own rows bear the wrong clock; they prove nothing.
    push(&mut batches, 0..1);
    batches.write(Tick::ZERO, &mut || {});
    batches.file.newest_unix_ms = Some(NOON + 3_650 * DAY_MS);
    batches.maintain(Tick::ZERO, NOON + 3_650 * DAY_MS);
    assert!(batches.file().pruned_before.is_empty());
}

#[test]
fn old_rows_are_removed_step_by_step_without_a_pause_and_then_looked_for_each_minute() {
    let mut batches = batches(&[], Some(Span::from_secs(86_400)));
    batches.file.old = 2 * PRUNE_ROWS + 500;
    let after = |batches: &mut Batches<Fake>, at: Tick| {
        batches.maintain(at, NOON);
        batches.counts().pruned
    };
    assert_eq!(after(&mut batches, Tick::ZERO), PRUNE_ROWS);
    assert_eq!(batches.maintain_at(), Tick::ZERO, "there are more");
    assert_eq!([(); 3].map(|()| after(&mut batches, Tick::ZERO)), [4_000, 4_500, 4_500]);
    assert_eq!(batches.maintain_at(), Tick::ZERO + WATCH_EVERY);
    batches.file.old = 1;
    let minute = Tick::ZERO + PRUNE_EVERY;
    assert_eq!(after(&mut batches, minute - Span::from_nanos(1)), 4_500);
    assert_eq!(after(&mut batches, minute), 4_501);
}

#[test]
fn trouble_while_the_file_is_looked_after_is_said_and_waited_out() {
    let day = Some(Span::from_secs(86_400));
    // The first step is the look, the second the removal.
    for script in [&[Does::IsFull][..], &[Does::Works, Does::IsFull]] {
        let mut batches = batches(script, day);
        batches.maintain(Tick::ZERO, NOON);
        assert_eq!(batches.retry_at(), Some(Tick::ZERO + RETRY), "{script:?}");
        assert!(matches!(&batches.take_events()[..], [WriterEvent::Failing(_)]), "{script:?}");
    }
    let mut batches = batches(&[Does::Works, Does::Works, Does::IsGone], day);
    push(&mut batches, 0..2);
    assert!(batches.write(Tick::ZERO, &mut || {}));
    batches.maintain(Tick::ZERO, NOON);
    assert_eq!(batches.counts(), BatchCounts { written: 0, lost: 2, pruned: 0 });
    assert_eq!((batches.retry_at(), batches.maintain_at()), (None, Tick::ZERO), "the file that is there now is next");
}

#[test]
fn of_news_that_nobody_takes_the_newest_are_kept_and_none_twice_in_a_row() {
    let mut batches = batches(&[], None);
    let happened = |n: usize| WriterEvent::Notice(n.to_string());
    (0..MAX_EVENTS + 4).flat_map(|n| [happened(n), happened(n)]).for_each(|events| batches.emit(events));
    assert_eq!(batches.take_events(), (4..MAX_EVENTS + 4).map(happened).collect::<Vec<_>>());
    assert_eq!(batches.take_events(), []);
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![4 => Just(Does::Works), 1 => Just(Does::IsLocked), 1 => Just(Does::IsFull), 1 => Just(Does::IsGone)]
}

proptest! {
    #[test]
    fn every_row_is_held_written_or_lost_whatever_the_file_does(
        script in proptest::collection::vec(does(), 0..40),
        steps in proptest::collection::vec((0..4_u8, 0..8_u64, 0..2_000_u64), 0..60),
    ) {
        let mut batches = batches(&script, Some(Span::from_secs(86_400)));
        let (mut now, mut pushed) = (Tick::ZERO, 0);
        for (step, rows, later_ms) in steps {
            now += Span::from_millis(later_ms);
            match step {
                0 => { push(&mut batches, pushed..pushed + rows); pushed += rows; }
                1 => drop(batches.write(now, &mut || {})),
                2 => batches.maintain(now, NOON + now.as_nanos() / 1_000_000),
                _ => batches.retry_now(),
            }
            let counts = batches.counts();
            prop_assert_eq!(batches.held() as u64 + counts.written + counts.lost, pushed);
            prop_assert_eq!(counts.written, batches.file().rows.len() as u64);
            let numbers: Vec<u64> = batches.file().rows.iter().map(|call| call.parse().expect("a number")).collect();
            prop_assert!(numbers.is_sorted());
        }
        batches.discard();
        prop_assert_eq!(batches.counts().written + batches.counts().lost, pushed);
    }
}

#[test]
fn refusals_are_written_once_and_wait_while_the_file_fails() {
    use tokrate_record::RefusalReason;
    let refusal = || Refusal::new(NOON, RefusalReason::Unauthorized, 401);
    let mut batches = batches(&[Does::IsFull, Does::IsGone, Does::Works], None);
    assert!(batches.push_refusal(refusal()) && !batches.write_refusals(Tick::ZERO));
    assert!(batches.push_refusal(refusal()) && !batches.write_refusals(Tick::ZERO), "the retry is not due");
    assert!(batches.write_refusals(Tick::ZERO + RETRY), "written to the file that is there now");
    assert_eq!(batches.file().refusals, [Refusal { count: 2, ..refusal() }]);
    assert!(batches.write_refusals(Tick::ZERO + RETRY) && batches.file().refusals.len() == 1);
    assert!(batches.push_refusal(refusal()));
    assert_eq!((batches.discard(), batches.counts().lost), (1, 0), "no row of an attempt");
}
