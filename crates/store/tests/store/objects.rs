//! Objects of providers: kept over a restart, replaced, bounded, aged.

use crate::clock;
use crate::folder::Folder;
use tokrate_core::Span;
use tokrate_store::{Log, LogConfig, Sqlite, StoredObject};

fn object(id: &str, kind: &str, made_unix_ms: u64) -> StoredObject {
    let (lane, target) = ("one".to_owned(), "m at http://a".to_owned());
    StoredObject { id: id.to_owned(), kind: kind.to_owned(), key: Some("ada".to_owned()), lane, target, made_unix_ms }
}

fn ids(store: &Sqlite) -> Vec<String> {
    store.objects().expect("readable").into_iter().map(|object| object.id).collect()
}

#[test]
fn an_object_is_kept_with_its_owner_and_a_later_one_of_its_name_counts() {
    let folder = Folder::new("objects");
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    let mine = StoredObject { key: None, ..object("file-1", "stored", 7) };
    store.append_objects(&[object("file-1", "stored", 5), object("resp-1", "response", 6)]).expect("room");
    store.append_objects(std::slice::from_ref(&mine)).expect("room");
    assert_eq!(store.objects().expect("readable"), [object("resp-1", "response", 6), mine]);
    assert_eq!(store.prune(7, 100).expect("writable"), 1);
    assert_eq!(ids(&store), ["file-1"]);
}

#[test]
fn the_oldest_of_a_kind_go_first() {
    let folder = Folder::new("objects-many");
    let mut store = Sqlite::open(&folder.log()).expect("a new log");
    let many: Vec<StoredObject> =
        (1..=10_002).map(|number| object(&format!("r{number}"), "response", number)).collect();
    store.append_objects(&[object("file-1", "stored", 0)]).expect("room");
    store.append_objects(&many).expect("room");
    let kept = ids(&store);
    assert_eq!((kept.len(), kept[0].as_str(), kept[1].as_str()), (10_001, "file-1", "r3"));
}

#[test]
fn the_writer_keeps_what_it_is_told_before_it_ends() {
    let folder = Folder::new("objects-log");
    let log = Log::open(LogConfig::new(folder.log(), clock::machine())).expect("a new log");
    log.remember(object("file-1", "stored", 5));
    assert!(log.flush(Span::from_secs(20)));
    assert_eq!(ids(&log.reader().expect("it is there")), ["file-1"]);
    log.remember(object("file-2", "stored", 6));
    drop(log);
    assert_eq!(ids(&Sqlite::open_reader(&folder.log()).expect("it is there")), ["file-1", "file-2"]);
}
