//! NVRTC, loaded at run time through a table of its own: `cudarc` looks for the versions of one CUDA release only, and
//! panics where it finds none.

use std::ffi::c_int;
use std::path::PathBuf;

use fleetcal_kernels::DeviceSource;

use crate::device::DeviceError;
use crate::device::gpu::rtc::{Calls, Output, Version, function};
use crate::device::gpu::{CodeObject, Compiler};
use crate::device::library;

/// Names the file to load, in front of every other place.
const PATH_VARIABLE: &str = "FLEETCAL_NVRTC";
/// Oldest release that compiles to machine code and says for which architectures.
const OLDEST_MAJOR: i32 = 12;
/// Where toolkits install it when the loader's path does not lead there.
const TOOLKIT_FOLDERS: [&str; 2] = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"];

type ArchitectureCount = unsafe extern "C" fn(*mut c_int) -> c_int;
type Architectures = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The compiler library. Calls may come from several threads, each with a program of its own.
#[derive(Debug)]
pub struct Nvrtc {
    calls: Calls,
    cubin: Output,
    ptx: Output,
    version: (i32, i32),
    architectures: Vec<u32>,
    /// Keeps the functions above mapped; last, so that it outlives them.
    _library: libloading::Library,
}

impl Nvrtc {
    /// Loads the newest release that a driver of CUDA `driver_major` can run the code of: a driver takes machine code
    /// of its own major release and older ones.
    ///
    /// # Errors
    /// [`DeviceError::Library`]: it is not there, or too old.
    pub fn load(driver_major: i32) -> Result<Self, DeviceError> {
        let mut first_reason = None;
        for candidate in candidates(driver_major) {
            match Self::open(&candidate) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(reason) => _ = first_reason.get_or_insert(reason),
            }
        }
        let reason = first_reason.unwrap_or_else(|| format!("CUDA {driver_major} is older than CUDA {OLDEST_MAJOR}"));
        // From CUDA 13 on the package has no suffix.
        let package = if driver_major >= 13 { "nvidia-cuda-nvrtc" } else { "nvidia-cuda-nvrtc-cu12" };
        let advice = format!("install it (`pip install {package}`), and name its file in {PATH_VARIABLE}");
        Err(DeviceError::Library { library: "libnvrtc".to_owned(), reason: format!("{reason}; {advice}") })
    }

    /// Its release, major and minor.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles to PTX, which people and tests can read.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn compile_to_ptx(
        &self,
        source: &DeviceSource,
        defines: &[String],
        architecture: &str,
    ) -> Result<String, String> {
        let mut options = vec![format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned()];
        options.extend(defines.iter().map(|define| format!("-D{define}")));
        let program = self.calls.program(source)?;
        program.compile(&options)?;
        Ok(String::from_utf8_lossy(&program.read(self.ptx)?).into_owned())
    }

    /// Architectures it compiles for, for example 90.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }
}

/// Architectures are named like `sm_90`. A source is compiled to machine code, so that no driver recompiles it and its
/// digest names what ran; where the architecture is newer than the compiler, to PTX for the newest one known.
impl Compiler for Nvrtc {
    fn compile(&self, source: &DeviceSource, defines: &[String], architecture: &str) -> Result<CodeObject, String> {
        let number = architecture
            .trim_start_matches("sm_")
            .parse::<u32>()
            .map_err(|error| format!("`{architecture}` is no CUDA architecture: {error}"))?;
        let native = self.architectures.contains(&number);
        let target = if native {
            architecture.to_owned()
        } else {
            let nearest = self.architectures.iter().filter(|known| **known < number).max();
            let nearest = nearest.ok_or_else(|| format!("this NVRTC knows no architecture up to {architecture}"))?;
            format!("compute_{nearest}")
        };
        let mut options = vec![format!("--gpu-architecture={target}"), "--std=c++17".to_owned()];
        options.extend(defines.iter().map(|define| format!("-D{define}")));
        let program = self.calls.program(source)?;
        program.compile(&options)?;
        let image = if native { program.read(self.cubin) } else { program.read(self.ptx) }?;
        Ok(CodeObject { image, options: options.join(" ") })
    }
}

/// Files to try, in order. The loader's path comes before toolkits' folders.
fn candidates(driver_major: i32) -> Vec<PathBuf> {
    let names: Vec<String> = (OLDEST_MAJOR..=driver_major).rev().map(|major| format!("libnvrtc.so.{major}")).collect();
    let mut files: Vec<PathBuf> = std::env::var_os(PATH_VARIABLE).map(PathBuf::from).into_iter().collect();
    files.extend(names.iter().map(PathBuf::from));
    files.extend(
        TOOLKIT_FOLDERS.iter().flat_map(|folder| names.iter().map(move |name| PathBuf::from(folder).join(name))),
    );
    files
}

#[allow(unsafe_code)]
impl Nvrtc {
    /// Loads one file and asks it for its version and architectures.
    fn open(path: &PathBuf) -> Result<Self, String> {
        let library = library::open(path)?;
        let version: Version = function!(library, "nvrtcVersion");
        let (mut major, mut minor): (c_int, c_int) = (0, 0);
        // SAFETY: both pointers are to live integers.
        let code = unsafe { version(&raw mut major, &raw mut minor) };
        if code != 0 || major < OLDEST_MAJOR {
            return Err(format!("{} is release {major}.{minor}, {OLDEST_MAJOR}.0 is needed", path.display()));
        }
        let count_known: ArchitectureCount = function!(library, "nvrtcGetNumSupportedArchs");
        let list_known: Architectures = function!(library, "nvrtcGetSupportedArchs");
        let mut count: c_int = 0;
        // SAFETY: the pointer is to a live integer.
        let code = unsafe { count_known(&raw mut count) };
        let mut known: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the buffer has room for as many integers as the library said it has architectures.
        if code != 0 || known.is_empty() || unsafe { list_known(known.as_mut_ptr()) } != 0 {
            return Err(format!("{} does not say which architectures it knows", path.display()));
        }
        Ok(Self {
            calls: Calls {
                name: "NVRTC",
                create: function!(library, "nvrtcCreateProgram"),
                compile: function!(library, "nvrtcCompileProgram"),
                destroy: function!(library, "nvrtcDestroyProgram"),
                log: (function!(library, "nvrtcGetProgramLogSize"), function!(library, "nvrtcGetProgramLog")),
                error_text: function!(library, "nvrtcGetErrorString"),
            },
            cubin: (function!(library, "nvrtcGetCUBINSize"), function!(library, "nvrtcGetCUBIN")),
            ptx: (function!(library, "nvrtcGetPTXSize"), function!(library, "nvrtcGetPTX")),
            version: (major, minor),
            architectures: known.into_iter().filter_map(|number| u32::try_from(number).ok()).collect(),
            _library: library,
        })
    }
}
