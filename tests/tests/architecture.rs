//! The borders between crates, the sizes of files, and the paths that documents name.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each crate of the workspace may import of the workspace. Tests may import everything, nobody imports tests.
const DIRECTIONS: &[(&str, &[&str])] = &[
    ("fleetcal-model", &[]),
    ("fleetcal-kernels", &["fleetcal-model"]),
    ("fleetcal-proto", &["fleetcal-model"]),
    ("fleetcal-store", &["fleetcal-model"]),
    ("fleetcal-core", &["fleetcal-kernels", "fleetcal-model"]),
    ("fleetcal-agent", &["fleetcal-kernels", "fleetcal-model", "fleetcal-proto"]),
    (
        "fleetcal-coordinator",
        &["fleetcal-core", "fleetcal-kernels", "fleetcal-model", "fleetcal-proto", "fleetcal-store"],
    ),
    (
        "fleetcal",
        &[
            "fleetcal-agent",
            "fleetcal-coordinator",
            "fleetcal-core",
            "fleetcal-kernels",
            "fleetcal-model",
            "fleetcal-proto",
            "fleetcal-store",
        ],
    ),
];

/// Libraries that only some crates may have anywhere in their tree, and who.
const CONFINED: &[(&str, &[&str])] = &[
    ("cudarc", &["fleetcal-agent", "fleetcal"]),
    ("hip-runtime-sys", &["fleetcal-agent", "fleetcal"]),
    ("nvml-wrapper", &["fleetcal-agent", "fleetcal"]),
    ("parquet", &["fleetcal-coordinator", "fleetcal"]),
    ("rusqlite", &["fleetcal-coordinator", "fleetcal"]),
    ("tokio", &["fleetcal-agent", "fleetcal-coordinator", "fleetcal-proto", "fleetcal"]),
    ("tonic", &["fleetcal-agent", "fleetcal-coordinator", "fleetcal-proto", "fleetcal"]),
    ("prost", &["fleetcal-agent", "fleetcal-coordinator", "fleetcal-proto", "fleetcal"]),
    ("arrow-array", &["fleetcal-agent", "fleetcal-coordinator", "fleetcal-proto", "fleetcal"]),
    ("clap", &["fleetcal"]),
    ("anyhow", &["fleetcal"]),
];

/// Longest source file, lines.
const FILE_LINES_MAX: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate stands in the workspace").to_owned()
}

/// Names of all packages that `package` builds with, itself not counted; dev-dependencies left out.
fn tree(package: &str, direct_only: bool) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args([
        "tree",
        "--offline",
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    command.args(["--package", package]);
    if direct_only {
        command.args(["--depth", "1"]);
    }
    let output = command.output().expect("cargo tree runs");
    assert!(output.status.success(), "cargo tree fails: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != package)
        .map(str::to_owned)
        .collect()
}

#[test]
fn crates_import_only_what_their_border_allows() {
    for (package, allowed) in DIRECTIONS {
        let ours: Vec<_> = tree(package, true).into_iter().filter(|name| name.starts_with("fleetcal")).collect();
        for import in &ours {
            assert!(allowed.contains(&import.as_str()), "{package} imports {import}, which its border forbids");
        }
    }
}

#[test]
fn libraries_stay_in_their_rooms() {
    let trees: BTreeMap<_, _> = DIRECTIONS.iter().map(|(package, _)| (*package, tree(package, false))).collect();
    for (library, rooms) in CONFINED {
        for (package, libraries) in &trees {
            let inside = libraries.contains(*library);
            assert!(!inside || rooms.contains(package), "{package} has {library} in its tree, it belongs to {rooms:?}");
        }
    }
}

/// The build script of hip-runtime-sys links libamdhip64 wherever .cargo/config.toml does not speak for it.
#[test]
fn nothing_of_rocm_is_linked_for_any_triple() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect("the file is readable");
    let (config, deny) = (read(".cargo/config.toml"), read("deny.toml"));
    let triples: Vec<&str> = deny.split('"').filter(|text| text.contains("-linux-")).collect();
    assert!(triples.len() >= 3, "deny.toml names the triples that we build for: {triples:?}");
    for triple in triples {
        let table = format!("[target.{triple}.amdhip64]\nrustc-link-lib = []\n");
        assert!(config.contains(&table), "{triple}: the build script of hip-runtime-sys would run");
    }
}

/// Source files that git knows or would add.
fn source_files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.cu", "*.h", "*.py"])
        .output()
        .expect("git runs");
    let text = String::from_utf8(listed.stdout).expect("paths are text");
    text.lines().map(|line| root().join(line)).filter(|path| path.exists()).collect()
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let files = source_files();
    assert!(files.len() > 50, "only {} source files were found", files.len());
    for path in files {
        let lines = std::fs::read_to_string(&path).expect("a source file is readable").lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines, at most {FILE_LINES_MAX} are allowed", path.display());
        assert_ne!(path.file_name().and_then(|name| name.to_str()), Some("mod.rs"), "{} is a mod.rs", path.display());
    }
}

#[test]
fn documents_name_paths_that_exist() {
    for document in ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "docs/harness.md"] {
        let text = std::fs::read_to_string(root().join(document)).expect("the document is readable");
        let mut seen = 0;
        for quoted in text.split('`').skip(1).step_by(2) {
            let looks_like_a_path = quoted.contains('/')
                && quoted.ends_with(['/', 's', 'd', 'l', 'o', 'h', 'u', 'e', 'y', 't', 'p'])
                && !quoted.contains([' ', '*', '<', ':', '{', '$', '\n'])
                && !quoted.starts_with(['/', '.', '-', '~'])
                && TOP_LEVEL.iter().any(|top| quoted.starts_with(top));
            if looks_like_a_path {
                assert!(root().join(quoted).exists(), "{document} names `{quoted}`, which is not there");
                seen += 1;
            }
        }
        assert!(seen > 0 || document != "ARCHITECTURE.md", "{document} names no path: the test looks past them");
    }
}

/// Rows of the tables of docs/harness.md: in each a file comes before the tests that stand in it.
#[test]
fn documents_name_tests_that_exist() {
    let text = std::fs::read_to_string(root().join("docs/harness.md")).expect("the document is readable");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
    let mut tests = 0;
    for row in &rows {
        let mut source = String::new();
        for quoted in row.split('`').skip(1).step_by(2) {
            if Path::new(quoted).extension().is_some_and(|extension| extension == "rs") {
                source = std::fs::read_to_string(root().join(quoted)).unwrap_or_default();
                continue;
            }
            let is_there = source.contains(&format!("fn {quoted}("));
            assert!(is_there, "docs/harness.md names the test `{quoted}`, which is not in the file before it");
            tests += 1;
        }
    }
    let defects = rows.iter().filter(|row| row[2..].starts_with(|first: char| first.is_ascii_digit())).count();
    assert_eq!(defects, 11, "each defect has a row");
    assert!(tests > 30, "only {tests} tests were found: this test looks past them");
}

/// Folders that a path in a document begins with.
const TOP_LEVEL: &[&str] =
    &["model/", "kernels/", "proto/", "agent/", "coordinator/", "store/", "cli/", "tests/", "deploy/", "docs/"];
