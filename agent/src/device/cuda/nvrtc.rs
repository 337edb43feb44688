//! NVRTC, loaded at run time through a table of its own: `cudarc` looks for the versions of one CUDA release only, and
//! panics where it finds none. Status codes are plain integers, because newer releases add some.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;

use fleetcal_kernels::DeviceSource;

use crate::device::DeviceError;

/// Names the file to load, in front of every other place.
const PATH_VARIABLE: &str = "FLEETCAL_NVRTC";
/// Oldest release that compiles to machine code and says for which architectures.
const OLDEST_MAJOR: i32 = 12;
/// Where toolkits install it when the loader's path does not lead there.
const TOOLKIT_FOLDERS: [&str; 2] = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"];

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type ArchitectureCount = unsafe extern "C" fn(*mut c_int) -> c_int;
type Architectures = unsafe extern "C" fn(*mut c_int) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;

/// The compiler library. Calls may come from several threads, each with a program of its own.
#[derive(Debug)]
pub struct Nvrtc {
    create: Create,
    compile: Compile,
    destroy: Destroy,
    log: (Size, Text),
    cubin: (Size, Text),
    ptx: (Size, Text),
    error_text: ErrorText,
    version: (i32, i32),
    architectures: Vec<u32>,
    /// Keeps the functions above mapped; last, so that it outlives them.
    _library: libloading::Library,
}

/// What the compiler made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeObject {
    /// Machine code, or PTX with its final zero where the architecture is newer than the compiler.
    pub image: Vec<u8>,
    /// Options that it was made with, as for the compiler's command line.
    pub options: String,
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

    /// Compiles a source for an architecture such as `sm_90`: to its machine code, so that no driver recompiles it and
    /// its digest names what ran. Where the architecture is newer than the compiler, to PTX for the newest one known.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn compile(&self, source: &DeviceSource, defines: &[String], architecture: &str) -> Result<CodeObject, String> {
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
        let program = self.program(source)?;
        program.compile(&options)?;
        let image = if native { program.read(self.cubin) } else { program.read(self.ptx) }?;
        Ok(CodeObject { image, options: options.join(" ") })
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
        let program = self.program(source)?;
        program.compile(&options)?;
        Ok(String::from_utf8_lossy(&program.read(self.ptx)?).into_owned())
    }

    /// Architectures it compiles for, for example 90.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
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

/// A program under compilation, destroyed on drop.
struct Compilation<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
    /// NVRTC may refer to both until the program is destroyed.
    _texts: (CString, CString),
}

#[allow(unsafe_code)]
mod calls {
    use crate::device::library;

    use super::{
        ArchitectureCount, Architectures, CStr, CString, Compilation, DeviceSource, Nvrtc, OLDEST_MAJOR, PathBuf, Size,
        Text, Version, c_char, c_int,
    };

    /// Copies a function's address out of the library, typed by where it goes.
    macro_rules! function {
        ($library:expr, $name:literal) => {
            // SAFETY: the type is that of `nvrtc.h`, and the library is kept as long as the pointer.
            unsafe { *$library.get(concat!($name, "\0").as_bytes()).map_err(|error| error.to_string())? }
        };
    }

    impl Nvrtc {
        /// Loads one file and asks it for its version and architectures.
        pub(super) fn open(path: &PathBuf) -> Result<Self, String> {
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
                create: function!(library, "nvrtcCreateProgram"),
                compile: function!(library, "nvrtcCompileProgram"),
                destroy: function!(library, "nvrtcDestroyProgram"),
                log: (function!(library, "nvrtcGetProgramLogSize"), function!(library, "nvrtcGetProgramLog")),
                cubin: (function!(library, "nvrtcGetCUBINSize"), function!(library, "nvrtcGetCUBIN")),
                ptx: (function!(library, "nvrtcGetPTXSize"), function!(library, "nvrtcGetPTX")),
                error_text: function!(library, "nvrtcGetErrorString"),
                version: (major, minor),
                architectures: known.into_iter().filter_map(|number| u32::try_from(number).ok()).collect(),
                _library: library,
            })
        }

        /// Hands a source to the compiler.
        pub(super) fn program(&self, source: &DeviceSource) -> Result<Compilation<'_>, String> {
            let text = CString::new(source.text.as_str()).map_err(|error| error.to_string())?;
            let name = CString::new(source.name).map_err(|error| error.to_string())?;
            let mut program = std::ptr::null_mut();
            // SAFETY: both texts end in zero and live as long as the program; no headers are passed.
            let code = unsafe {
                (self.create)(&raw mut program, text.as_ptr(), name.as_ptr(), 0, std::ptr::null(), std::ptr::null())
            };
            if code != 0 {
                return Err(self.explain(code));
            }
            Ok(Compilation { nvrtc: self, program, _texts: (text, name) })
        }

        fn explain(&self, code: c_int) -> String {
            // SAFETY: any code is allowed; the text is static, or null.
            let text = unsafe { (self.error_text)(code) };
            if text.is_null() {
                return format!("NVRTC error {code}");
            }
            // SAFETY: it is not null, ends in zero, and is static.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        }
    }

    impl Compilation<'_> {
        /// Compiles; the error is the compiler's log.
        pub(super) fn compile(&self, options: &[String]) -> Result<(), String> {
            let options: Vec<CString> = options
                .iter()
                .map(|option| CString::new(option.as_str()))
                .collect::<Result<_, _>>()
                .map_err(|error| error.to_string())?;
            let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
            let count = c_int::try_from(pointers.len()).map_err(|error| error.to_string())?;
            // SAFETY: the program is live, and so are the options, each of which ends in zero.
            let code = unsafe { (self.nvrtc.compile)(self.program, count, pointers.as_ptr()) };
            if code == 0 {
                return Ok(());
            }
            let log = self.read(self.nvrtc.log).map(|log| String::from_utf8_lossy(&log).trim_matches('\0').to_owned());
            Err(format!("{}: {}", self.nvrtc.explain(code), log.unwrap_or_default()))
        }

        /// Reads one of the compiler's outputs.
        pub(super) fn read(&self, (size, text): (Size, Text)) -> Result<Vec<u8>, String> {
            let mut bytes = 0_usize;
            // SAFETY: the program is live and the pointer is to a live integer.
            let code = unsafe { size(self.program, &raw mut bytes) };
            if code != 0 {
                return Err(self.nvrtc.explain(code));
            }
            let mut buffer = vec![0_u8; bytes];
            // SAFETY: the buffer has the size that the library asked for.
            let code = unsafe { text(self.program, buffer.as_mut_ptr().cast()) };
            if code != 0 {
                return Err(self.nvrtc.explain(code));
            }
            Ok(buffer)
        }
    }

    impl Drop for Compilation<'_> {
        fn drop(&mut self) {
            // SAFETY: the program is live, and nobody else holds it.
            unsafe { (self.nvrtc.destroy)(&raw mut self.program) };
        }
    }
}
