//! The emulated HIP device (`tests/emulator/README.md`), built by the C++ compiler of this machine.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use fleetcal_model::digest::Sha256Digest;

/// What is built of `tests/emulator`.
#[derive(Debug)]
pub struct Emulator {
    /// Stands in for libamdhip64 and for hiprtc.
    pub library: PathBuf,
    /// Speaks to a HIP library by lines, see `driver.cpp`.
    pub driver: PathBuf,
}

impl Emulator {
    /// Builds it, once for each state of its sources. `None` where there is no C++ compiler, which is then said.
    ///
    /// # Panics
    /// If it does not build, or if there is no compiler and `FLEETCAL_REQUIRE` names `c++`.
    pub fn build() -> Option<&'static Self> {
        static BUILT: OnceLock<Option<Emulator>> = OnceLock::new();
        BUILT.get_or_init(built).as_ref()
    }

    /// Gives the driver a script; its answers, one for each line, and what the library says on standard error.
    ///
    /// # Panics
    /// If the driver dies or leaves a line without an answer.
    pub fn drive(&self, folder: &Path, script: &str, environment: &[(&str, String)]) -> (Vec<String>, String) {
        let mut command = Command::new(&self.driver);
        command.arg(&self.library).current_dir(folder).envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the driver starts");
        let mut input = child.stdin.take().expect("its input is piped");
        // It may answer more than a pipe holds before it has read all.
        let script_owned = script.to_owned();
        let writer = std::thread::spawn(move || input.write_all(script_owned.as_bytes()));
        let output = child.wait_with_output().expect("the driver ends");
        writer.join().expect("the writer ends").expect("the driver reads its whole script");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let answers: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        assert!(output.status.success(), "{}: {answers:?} {said}", output.status);
        assert_eq!(answers.len(), script.lines().count(), "each line has an answer: {answers:?} {said}");
        (answers, said)
    }
}

/// The folder of its sources.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("emulator")
}

/// The C++ compiler: what `CXX` names, or `c++`.
fn compiler() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned())
}

fn built() -> Option<Emulator> {
    if let Err(error) = Command::new(compiler()).arg("--version").output() {
        let required = std::env::var("FLEETCAL_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|tool| tool == "c++"), "FLEETCAL_REQUIRE names c++: {error}");
        println!("skipped: no C++ compiler to build the emulator with: {error}");
        return None;
    }
    let units = units();
    let text: Vec<u8> = files(&sources()).iter().flat_map(|path| fs::read(path).unwrap_or_default()).collect();
    // Beside the tests that use it: …/target/debug/emulator.
    let binary = std::env::current_exe().expect("a test knows its own path");
    let parent = binary.ancestors().nth(2).expect("tests lie in target/debug/deps").join("emulator");
    let folder = parent.join(&Sha256Digest::of(&text).to_hex()[..16]);
    let made = Emulator { library: folder.join("libfleetcal_emulator.so"), driver: folder.join("driver") };
    if folder.exists() {
        return Some(made);
    }
    fs::create_dir_all(&parent).expect("the folder can be made");
    // Under a name of its own until it is whole: other tests may build at the same time.
    let draft = tempfile::tempdir_in(&parent).expect("a folder for the build");
    let library = draft.path().join("libfleetcal_emulator.so");
    let define = format!("-DFLEETCAL_EMULATOR_SOURCES=\"{}\"", sources().display());
    let flags = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-Wall", "-Wextra", &define];
    let link = ["-Wl,-soname,libfleetcal_emulator.so", "-Wl,--no-undefined"];
    compile(Command::new(compiler()).args(flags).args(link).args(units).args(["-ldl", "-o"]).arg(library));
    let driver = [sources().join("driver.cpp"), "-o".into(), draft.path().join("driver"), "-ldl".into()];
    compile(Command::new(compiler()).args(["-std=c++17", "-O1"]).args(driver));
    // Whoever comes second finds the same there.
    if fs::rename(draft.path(), &folder).is_ok() {
        let _renamed = draft.keep();
    }
    Some(made)
}

fn compile(command: &mut Command) {
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "the emulator: {}", String::from_utf8_lossy(&output.stderr));
}

/// What the library is compiled from.
fn units() -> Vec<PathBuf> {
    let in_folder = |folder: &str| files(&sources().join(folder));
    let all = ["runtime", "hip", "rtc"].into_iter().flat_map(in_folder);
    all.filter(|path| path.extension().is_some_and(|extension| extension == "cpp")).collect()
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the emulator's sources are there");
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort_unstable();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
