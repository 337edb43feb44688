//! `fleetcal fit`: constants from files alone.

#![allow(clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;

use fleetcal_tests::processes::{output, workspace_root};
use serde_json::Value;
use tempfile::TempDir;

fn fixture(name: &str) -> String {
    workspace_root().join("tests/fixtures").join(name).display().to_string()
}

/// The documents that a command prints, and what it says beside.
fn documents(arguments: &[&str]) -> (Vec<Value>, String) {
    let ended = output(&[&["fit", "--output", "json"], arguments].concat());
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{arguments:?} said:\n{said}");
    (serde_json::from_slice(&ended.stdout).expect("documents are JSON"), said)
}

/// Exit code of a command, and what it says.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let ended = output(&[&["fit"], arguments].concat());
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

fn copy(from: &str, to: &Path) -> String {
    fs::copy(fixture(from), to).expect("a fixture can be copied");
    to.display().to_string()
}

#[test]
fn parquet_alone_gives_the_document_that_the_run_gave() {
    let committed = fs::read_to_string(fixture("h200/constants.json")).expect("a committed document");
    let committed: Value = serde_json::from_str(&committed).expect("it is JSON");
    let (found, _) = documents(&[&fixture("h200")]);
    assert_eq!(found.len(), 1, "one class");
    assert_eq!(found[0]["body"], committed["body"]);
    assert_eq!(found[0]["envelope"]["created_by"], "fleetcal fit");
}

#[test]
fn a_pattern_a_folder_and_a_copy_are_the_same_rows() {
    let folder = TempDir::new().expect("a temporary folder");
    let below = folder.path().join("run/deep");
    fs::create_dir_all(&below).expect("folders can be made");
    copy("h200/stream-standard.parquet", &below.join("one.parquet"));
    copy("h200/stream-standard.parquet", &folder.path().join("two.parquet"));
    let pattern = folder.path().join("**/*.parquet").display().to_string();
    let (by_pattern, said) = documents(&[&pattern]);
    assert!(said.contains("further copies, left out: 4500 rows"), "{said}");
    let (by_folder, _) = documents(&[&folder.path().display().to_string()]);
    let (by_name, _) = documents(&[&fixture("h200")]);
    assert_eq!(by_pattern[0]["body"], by_name[0]["body"]);
    assert_eq!(by_folder[0]["body"], by_name[0]["body"]);
}

#[test]
fn rows_of_the_probe_say_imported_and_are_never_fitted_with_measured_ones() {
    let probes: Vec<String> = ["a", "b", "d-first"].map(|name| fixture(&format!("h200-probe/{name}.csv"))).into();
    let names: Vec<&str> = probes.iter().map(String::as_str).collect();
    let (found, _) = documents(&names);
    let [document] = &found[..] else { panic!("three devices of one class: {found:?}") };
    assert_eq!(document["body"]["origin"], "imported");
    let top = document["body"]["constants"].as_array().expect("constants").iter();
    let top = top.filter(|constant| constant["name"] == "memory_bandwidth").filter_map(|one| one["value"].as_f64());
    let top = top.fold(0.0, f64::max);
    assert!((top / 4.38e12 - 1.0).abs() < 0.005, "triad of the three reads 4.379, 4.396 and 4.380e12 B/s: {top}");

    let (code, said) = refused(&[names[0], &fixture("h200")]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("measured and imported") && said.contains("--origin"), "{said}");
    let (chosen, _) = documents(&[names[0], &fixture("h200"), "--origin", "measured"]);
    assert_eq!(chosen[0]["body"]["origin"], "measured");
}

#[test]
fn a_constant_is_explained_from_its_rows_and_the_originals_fits_can_be_had() {
    let probe = fixture("h200-probe/a.csv");
    let ended = output(&["fit", &probe, "--explain", "issue_rate solution=t32_b64 m=512 n=512"]);
    let (text, said) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{said}");
    for words in ["points: 5 of 8", "beyond_knee", "The original's fit", "What it is: "] {
        assert!(text.contains(words), "`{words}` is not in:\n{text}");
    }
    let (code, said) = refused(&[&probe, "--explain", "speed"]);
    assert!(code == Some(4) && said.contains("no constant `speed` is among: cache_"), "{code:?}: {said}");

    let value = |mode: &str| {
        let (found, _) = documents(&[&probe, "--mode", mode]);
        let constants = found[0]["body"]["constants"].as_array().expect("constants").iter();
        let mut rates = constants.filter(|constant| {
            constant["name"] == "issue_rate"
                && constant["condition"]["solution"] == "t32_b64"
                && constant["condition"]["m"] == "512"
        });
        rates.next().and_then(|rate| rate["value"].as_f64()).expect("a rate")
    };
    let (robust, original) = (value("robust"), value("seed"));
    assert!((robust / 3.67e12 - 1.0).abs() < 0.02, "the first five points say 3.67e12 op/s: {robust}");
    assert!((original / 2.24e12 - 1.0).abs() < 0.01, "least squares over all of them says 2.24e12 op/s: {original}");
}

#[test]
fn files_that_hold_no_rows_are_named() {
    let folder = TempDir::new().expect("a temporary folder");
    let damaged = folder.path().join("damaged.parquet");
    fs::write(&damaged, "PAR1 and no more").expect("a file can be written");
    let (code, said) = refused(&[&damaged.display().to_string()]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("damaged.parquet was skipped"), "{said}");
    // One whole file beside it is enough.
    copy("h200/stream-standard.parquet", &folder.path().join("whole.parquet"));
    let ended = output(&["fit", "--output", "json", &folder.path().display().to_string()]);
    let said = String::from_utf8_lossy(&ended.stderr);
    let found: Vec<Value> = serde_json::from_slice(&ended.stdout).expect("documents are JSON");
    assert!(found.len() == 1 && said.contains("damaged.parquet was skipped"), "{said}");
    assert_eq!(ended.status.code(), Some(8), "a script must hear that rows are missing: {said}");

    let probe = folder.path().join("probe.csv");
    copy("h200-probe/a.csv", &probe);
    let (code, said) = refused(&[&probe.display().to_string()]);
    assert!(code == Some(5) && said.contains("probe.toml cannot be read"), "{code:?}: {said}");
    copy("h200-probe/a.toml", &folder.path().join("probe.toml"));
    fs::write(&probe, "sweep,kernel\n").expect("a file can be written");
    let (code, said) = refused(&[&probe.display().to_string()]);
    assert!(code == Some(5) && said.contains("the first line is `sweep,kernel`"), "{code:?}: {said}");

    for missing in ["no-such-file.parquet", "no-such/*.parquet", "[", "docs"] {
        let (code, said) = refused(&[missing]);
        assert_eq!(code, Some(4), "{missing}: {said}");
    }
    let (code, said) = refused(&[&fixture("h200"), "--class", "mi300"]);
    assert!(code == Some(4) && said.contains("no row is left"), "{code:?}: {said}");
}

#[test]
fn calibration_rows_give_configuration_lines_of_one_backend() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("rows.tsv");
    let line =
        |backend: &str, bytes: u64| format!("{backend}\td\tr\tcopy\t2.0\t\t1\t0\t{bytes}\tfalse\tfalse\tfalse\n");
    let text = [line("cc", 16_000_000), "damaged\n".to_owned(), line("cuda", 32_000_000)].concat();
    fs::write(&path, text).expect("a file can be written");
    let path = path.display().to_string();

    let ended = output(&["fit", &path, "--calibration-backend", "cuda"]);
    let (lines, said) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success() && said.contains("1 malformed line skipped, the first is line 2"), "{said}");
    assert!(lines.contains("model_peak_memory_bandwidth=1.600003e10\n") && !lines.contains("# cc"), "{lines}");
    assert!(lines.contains("# no scoreable row constrains model_peak_flops\n"), "{lines}");

    let (code, said) = refused(&[&path, "--calibration-backend", "metal"]);
    assert!(code == Some(4) && said.contains("there are: cc, cuda"), "{code:?}: {said}");
    let (code, said) = refused(&[&path, &fixture("h200")]);
    assert!(code == Some(4) && said.contains("fit them apart"), "{code:?}: {said}");
}
