use std::collections::BTreeSet;
use std::sync::Barrier;

use fleetcal_model::constants::{Body, DOCUMENT_SCHEMA_VERSION, Envelope};
use fleetcal_model::device::ClassKey;
use fleetcal_model::fit::MODEL_VERSION;
use fleetcal_model::id::RunId;

use super::*;

fn class_key(name: &str) -> ClassKey {
    ClassKey {
        vendor: "nvidia".to_owned(),
        name: name.to_owned(),
        architecture: "sm_90".to_owned(),
        compute_units: 132,
        memory_gib: Some(140),
        memory_clock_khz: None,
        power_limit_mw: Some(700_000),
        partition_mode: None,
        ecc: Some(true),
        sockets: None,
    }
}

/// A document of a class, told from others of the class by its number of rows.
fn document(name: &str, origin: Origin, rows_total: u64) -> Document {
    let class_key = class_key(name);
    let body = Body {
        schema_version: DOCUMENT_SCHEMA_VERSION,
        model_version: MODEL_VERSION,
        score_version: None,
        class_id: class_key.id(),
        class_slug: class_key.slug(),
        class_key,
        fit_options: fleetcal_model::fit::Options::default(),
        origin,
        constants: Vec::new(),
        held_out: Vec::new(),
        rejected_rows: Vec::new(),
        rejected_devices: Vec::new(),
        class_study: Vec::new(),
        rows_total,
        rows_cut_short: 0,
        rows_digest: String::new(),
        plan_digests: BTreeSet::new(),
        run_ids: BTreeSet::new(),
        agent_versions: BTreeSet::new(),
    };
    let envelope = Envelope {
        created_utc_ns: rows_total,
        created_by: "a test".to_owned(),
        run_id: RunId::new("run-1"),
        coordinator_version: "0.0.0".to_owned(),
    };
    Document { body, envelope }
}

struct Store {
    store: FolderStore,
    folder: tempfile::TempDir,
}

fn store() -> Store {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Store { store: FolderStore::open(&folder.path().join("constants")).expect("a store"), folder }
}

impl Store {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("constants").join(name)
    }

    fn class_folder(&self, document: &Document) -> PathBuf {
        self.path(&format!("{}-{}", document.body.class_slug, &document.body.class_id.as_str()[..8]))
    }
}

#[test]
fn versions_follow_one_another_and_the_newest_is_current() {
    let kept = store();
    let [first, second] = [1, 2].map(|rows| document("NVIDIA H200", Origin::Measured, rows));
    let class = first.body.class_id.clone();
    assert_eq!(kept.store.current(&class, Origin::Measured).expect("an empty store"), None);
    assert_eq!(kept.store.publish(&first).expect("published"), Version(1));
    assert_eq!(kept.store.publish(&second).expect("published"), Version(2));

    let published = |version, document: &Document| Published { version: Version(version), document: document.clone() };
    let current = kept.store.current(&class, Origin::Measured).expect("a document");
    assert_eq!(current, Some(published(2, &second)));
    let history = kept.store.history(&class, Origin::Measured).expect("two documents");
    assert_eq!(history, [published(1, &first), published(2, &second)]);
    let folder = kept.class_folder(&first);
    assert_eq!(names(&folder).expect("the class's folder"), ["1.json", "2.json", "current.json"]);
    let shown = fs::read_to_string(folder.join("current.json")).expect("what others read");
    assert_eq!(Document::from_json(&shown).expect("a document"), second);
}

#[test]
fn publishing_the_same_body_again_is_no_new_version() {
    let kept = store();
    let first = document("NVIDIA H200", Origin::Measured, 1);
    let mut again = first.clone();
    again.envelope.created_utc_ns += 1;
    kept.store.publish(&first).expect("published");
    // As after a kill between the version and `current.json`.
    let shown = kept.class_folder(&first).join("current.json");
    fs::remove_file(&shown).expect("removed");
    assert_eq!(kept.store.publish(&again).expect("published already"), Version(1));
    assert_eq!(kept.store.history(&first.body.class_id, Origin::Measured).expect("one document").len(), 1);
    assert!(shown.exists(), "what others read was not made whole again");
}

#[test]
fn origins_never_share_a_folder() {
    let kept = store();
    let measured = document("NVIDIA H200", Origin::Measured, 1);
    let simulated = document("NVIDIA H200", Origin::Simulated, 2);
    kept.store.publish(&measured).expect("published");
    assert_eq!(kept.store.publish(&simulated).expect("published"), Version(1));
    let class = &measured.body.class_id;
    let current = |origin| kept.store.current(class, origin).expect("readable").map(|published| published.document);
    assert_eq!(current(Origin::Measured), Some(measured.clone()));
    assert_eq!(current(Origin::Simulated), Some(simulated));
    assert_eq!(current(Origin::Imported), None);
}

#[test]
fn racing_publishers_each_get_a_version_and_current_is_the_newest() {
    let kept = store();
    let publishers = 8;
    let start = Barrier::new(publishers);
    let mut versions: Vec<u64> = std::thread::scope(|scope| {
        let publish = |rows| {
            let (store, start) = (&kept.store, &start);
            scope.spawn(move || {
                start.wait();
                store.publish(&document("NVIDIA H200", Origin::Measured, rows)).expect("published").0
            })
        };
        let racing: Vec<_> = (1..=publishers as u64).map(publish).collect();
        racing.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    versions.sort_unstable();
    assert_eq!(versions, (1..=publishers as u64).collect::<Vec<_>>(), "a version was given twice or left out");
    let class = class_key("NVIDIA H200").id();
    let history = kept.store.history(&class, Origin::Measured).expect("all of them");
    let rows: BTreeSet<u64> = history.iter().map(|published| published.document.body.rows_total).collect();
    assert_eq!(rows.len(), publishers, "a document was overwritten");
    let folder = kept.class_folder(&document("NVIDIA H200", Origin::Measured, 1));
    let shown = fs::read_to_string(folder.join("current.json")).expect("what others read");
    assert_eq!(Document::from_json(&shown).ok().as_ref(), history.last().map(|published| &published.document));
    let left: Vec<_> = names(&folder).expect("readable").into_iter().filter(|name| name.starts_with('.')).collect();
    assert_eq!(left, [""; 0], "temporary files are left");
}

#[test]
fn the_list_holds_every_class_and_says_what_cannot_be_read() {
    let kept = store();
    let documents = ["NVIDIA H200", "NVIDIA H100"].map(|name| document(name, Origin::Measured, 1));
    for document in &documents {
        kept.store.publish(document).expect("published");
    }
    fs::create_dir_all(kept.path("runs")).expect("a folder of others");
    fs::write(kept.path("runs/run-1.json"), "[]").expect("a file of others");
    fs::create_dir_all(kept.path("broken-00000000")).expect("a folder");
    fs::write(kept.path("broken-00000000/1.json"), "{").expect("half a document");
    let listing = kept.store.list().expect("a listing");
    let slugs: Vec<&str> = listing.current.iter().map(|found| found.document.body.class_slug.as_str()).collect();
    assert_eq!(slugs, ["nvidia-h100-140g-700w", "nvidia-h200-140g-700w"]);
    let [problem] = &listing.problems[..] else { panic!("one problem: {:?}", listing.problems) };
    assert!(
        matches!(problem, StoreError::Document { path, .. } if path.ends_with("broken-00000000/1.json")),
        "{problem}"
    );
}

#[test]
fn a_class_that_cannot_name_a_folder_is_refused() {
    let kept = store();
    for (slug, class_id) in [("../../etc", "0123456789"), ("", "0123456789"), ("h200", "0123"), ("h200", "../../../..")]
    {
        let mut document = document("NVIDIA H200", Origin::Measured, 1);
        document.body.class_slug = slug.to_owned();
        document.body.class_id = ClassId::new(class_id);
        let refused = kept.store.publish(&document).expect_err("no folder name");
        assert!(matches!(refused, StoreError::BadClass { .. }), "{slug} {class_id}: {refused}");
    }
    assert_eq!(names(&kept.path("")).expect("readable"), [""; 0], "something was written");
}

#[test]
fn a_class_whose_digits_collide_with_another_is_refused_not_mixed() {
    let kept = store();
    let first = document("NVIDIA H200", Origin::Measured, 1);
    kept.store.publish(&first).expect("published");
    let mut other = document("NVIDIA H200", Origin::Measured, 2);
    other.body.class_id = ClassId::new(format!("{}{}", &first.body.class_id.as_str()[..8], "0".repeat(24)));
    let refused = kept.store.publish(&other).expect_err("another class lives there");
    assert!(matches!(refused, StoreError::OtherClass { .. }), "{refused}");
    assert_eq!(kept.store.history(&first.body.class_id, Origin::Measured).expect("readable").len(), 1);
}

#[test]
fn a_file_in_the_place_of_the_store_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("constants");
    fs::write(&path, "").expect("a file");
    let refused = FolderStore::open(&path).expect_err("a file is no folder");
    assert!(matches!(&refused, StoreError::Other { path: named, .. } if *named == path), "{refused}");
}
