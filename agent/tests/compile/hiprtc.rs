//! As much of hiprtc as compiling takes.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};

use fleetcal_kernels::DeviceSource;

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

/// hiprtc has a library of its own from ROCm 6 on.
const NAMES: [&str; 5] = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so", "libamdhip64.so.5", "libamdhip64.so"];

/// The compiler.
pub(crate) struct Hiprtc {
    library: libloading::Library,
}

impl Hiprtc {
    /// Loads it.
    pub(crate) fn load() -> Result<Self, String> {
        let mut reason = String::new();
        for name in NAMES {
            // SAFETY: loading the library runs AMD's own initialisers and nothing else.
            match unsafe { libloading::Library::new(name) } {
                Ok(library) => return Ok(Self { library }),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(format!("hiprtc cannot be loaded: {reason}"))
    }

    /// Compiles to a code object; the error is the compiler's log.
    pub(crate) fn compile(
        &self,
        source: &DeviceSource,
        defines: &[String],
        architecture: &str,
    ) -> Result<Vec<u8>, String> {
        let text = CString::new(source.text.as_str()).expect("sources have no zeros");
        let name = CString::new(source.name).expect("names have no zeros");
        let mut options = vec![format!("--offload-arch={architecture}"), "-std=c++17".to_owned()];
        options.extend(defines.iter().map(|define| format!("-D{define}")));
        let options: Vec<CString> = options.into_iter().map(|option| CString::new(option).expect("no zeros")).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).expect("few options");
        let mut program: Program = std::ptr::null_mut();
        // SAFETY: types are those of `hiprtc.h`; texts and options live and end in zero; the program is destroyed once.
        unsafe {
            let create = self.function::<Create>("hiprtcCreateProgram");
            let code = create(&raw mut program, text.as_ptr(), name.as_ptr(), 0, std::ptr::null(), std::ptr::null());
            assert_eq!(code, 0, "hiprtc refuses the source {}", source.name);
            let code = self.function::<Compile>("hiprtcCompileProgram")(program, count, pointers.as_ptr());
            let result = if code == 0 {
                Ok(self.read(program, "hiprtcGetCodeSize", "hiprtcGetCode"))
            } else {
                let log = self.read(program, "hiprtcGetProgramLogSize", "hiprtcGetProgramLog");
                Err(String::from_utf8_lossy(&log).into_owned())
            };
            self.function::<Destroy>("hiprtcDestroyProgram")(&raw mut program);
            result
        }
    }

    /// # Safety
    /// `Function` is the type of the function with that name.
    unsafe fn function<Function: Copy>(&self, name: &str) -> Function {
        // SAFETY: the caller says so.
        *unsafe { self.library.get(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// # Safety
    /// The program is live, and the names are a matching pair.
    unsafe fn read(&self, program: Program, size: &str, text: &str) -> Vec<u8> {
        let mut bytes = 0;
        // SAFETY: the caller says so; the buffer has the size that the library asks for.
        unsafe {
            assert_eq!(self.function::<Size>(size)(program, &raw mut bytes), 0, "{size}");
            let mut buffer = vec![0_u8; bytes];
            assert_eq!(self.function::<Text>(text)(program, buffer.as_mut_ptr().cast()), 0, "{text}");
            buffer
        }
    }
}
