//! hiprtc, AMD's compiler as a library, loaded at run time.

use std::ffi::{OsString, c_int};
use std::path::{Path, PathBuf};

use fleetcal_kernels::DeviceSource;

use super::runtime::TOOLKIT_FOLDER;
use crate::device::DeviceError;
use crate::device::gpu::rtc::{Calls, Output, Version, function};
use crate::device::gpu::{CodeObject, Compiler};
use crate::device::library;

/// Names the file to load, and then no other is.
const PATH_VARIABLE: &str = "FLEETCAL_HIPRTC";
/// Names of the library, newest first: it has been one of its own since ROCm 5.
const NAMES: [&str; 4] = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"];

/// The compiler library. Calls may come from several threads, each with a program of its own.
#[derive(Debug)]
pub struct Hiprtc {
    calls: Calls,
    code: Output,
    version: (i32, i32),
}

/// Files to try, in order: the one that somebody named and no other; else the runtime, where somebody named that; else
/// the library's own, and the runtime, which had the compiler in it before.
fn candidates(named: Option<OsString>, runtime: &Path, runtime_is_named: bool) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![PathBuf::from(named)];
    }
    let own = NAMES.iter().map(PathBuf::from);
    let beside = NAMES.iter().map(|name| PathBuf::from(TOOLKIT_FOLDER).join(name));
    let mut files: Vec<PathBuf> = own.chain(beside).collect();
    files.insert(if runtime_is_named { 0 } else { files.len() }, runtime.to_owned());
    files
}

impl Hiprtc {
    /// Loads the compiler of a HIP runtime, which was loaded from this file; `runtime_is_named` if somebody named it.
    ///
    /// # Errors
    /// [`DeviceError::Library`]: it is not there, or lacks calls.
    pub fn load(runtime: &Path, runtime_is_named: bool) -> Result<Self, DeviceError> {
        let named = std::env::var_os(PATH_VARIABLE);
        Self::load_of(&candidates(named, runtime, runtime_is_named))
    }

    fn load_of(files: &[PathBuf]) -> Result<Self, DeviceError> {
        let mut first_reason = None;
        for candidate in files {
            match Self::open(candidate) {
                Ok(hiprtc) => return Ok(hiprtc),
                Err(reason) => _ = first_reason.get_or_insert(reason),
            }
        }
        let reason = first_reason.unwrap_or_default();
        let advice = format!("is ROCm's hiprtc installed? {PATH_VARIABLE} can name its file");
        Err(DeviceError::Library { library: "libhiprtc".to_owned(), reason: format!("{reason} ({advice})") })
    }

    /// Its release, major and minor.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }
}

/// Architectures are named like `gfx90a` or `gfx90a:sramecc+:xnack-`.
impl Compiler for Hiprtc {
    fn compile(&self, source: &DeviceSource, defines: &[String], architecture: &str) -> Result<CodeObject, String> {
        let mut options = vec![format!("--offload-arch={architecture}"), "-std=c++17".to_owned(), "-O3".to_owned()];
        options.extend(defines.iter().map(|define| format!("-D{define}")));
        let program = self.calls.program(source)?;
        program.compile(&options)?;
        Ok(CodeObject { image: program.read(self.code)?, options: options.join(" ") })
    }
}

#[allow(unsafe_code)]
impl Hiprtc {
    /// Loads one file and asks it for its version.
    fn open(path: &Path) -> Result<Self, String> {
        // Never unloaded: the compiler and its threads do not bear it.
        let library: &'static libloading::Library = Box::leak(Box::new(library::open(path)?));
        let version: Version = function!(library, "hiprtcVersion");
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: both pointers are to live integers.
        let code = unsafe { version(&raw mut major, &raw mut minor) };
        if code != 0 {
            return Err(format!("{} does not say its version: hiprtc error {code}", path.display()));
        }
        Ok(Self {
            calls: Calls {
                name: "hiprtc",
                create: function!(library, "hiprtcCreateProgram"),
                compile: function!(library, "hiprtcCompileProgram"),
                destroy: function!(library, "hiprtcDestroyProgram"),
                log: (function!(library, "hiprtcGetProgramLogSize"), function!(library, "hiprtcGetProgramLog")),
                error_text: function!(library, "hiprtcGetErrorString"),
            },
            code: (function!(library, "hiprtcGetCodeSize"), function!(library, "hiprtcGetCode")),
            version: (major, minor),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_is_the_only_one_and_a_named_runtime_comes_first() {
        let runtime = Path::new("/lib/libamdhip64.so.5");
        assert_eq!(candidates(Some("/x/librtc.so".into()), runtime, true), [PathBuf::from("/x/librtc.so")]);
        assert_eq!(candidates(None, runtime, true).first().map(PathBuf::as_path), Some(runtime));
        for named in [None, Some(OsString::new())] {
            let files = candidates(named, runtime, false);
            assert_eq!(files.first(), Some(&PathBuf::from("libhiprtc.so.7")));
            assert_eq!(files.last().map(PathBuf::as_path), Some(runtime), "before ROCm 5 the runtime had it");
        }
    }

    #[test]
    fn a_compiler_that_is_not_there_is_said_with_what_to_do() {
        let error = Hiprtc::load_of(&["libhiprtc-there-is-none.so".into()]).expect_err("there is none").to_string();
        for said in ["libhiprtc cannot be used", "libhiprtc-there-is-none.so", PATH_VARIABLE] {
            assert!(error.contains(said), "{error}");
        }
    }
}
