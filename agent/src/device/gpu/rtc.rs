//! Compilers that are libraries: NVRTC and hiprtc have the same calls under other names. Status codes are plain
//! integers, because newer releases add some.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use fleetcal_kernels::DeviceSource;

type Program = *mut c_void;
pub(in crate::device) type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
pub(in crate::device) type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
pub(in crate::device) type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
pub(in crate::device) type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
pub(in crate::device) type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
pub(in crate::device) type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
pub(in crate::device) type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;

/// The call that gives an output's size, and the one that gives the output.
pub(in crate::device) type Output = (Size, Text);

/// Copies a function's address out of a library, typed by where it goes; leaves the surrounding function with the
/// loader's words where it is not there.
macro_rules! function {
    ($library:expr, $name:literal) => {
        // SAFETY: the type is that of the library's header, and the library is kept as long as the pointer.
        unsafe {
            *$library.get(concat!($name, "\0").as_bytes()).map_err(|error| $crate::device::library::words(&error))?
        }
    };
}
pub(in crate::device) use function;

/// A compiler's calls. Whoever makes one keeps its library loaded for longer than it, and gives it functions that are
/// what their types say.
#[derive(Debug)]
pub(in crate::device) struct Calls {
    /// Its name, for people.
    pub(in crate::device) name: &'static str,
    pub(in crate::device) create: Create,
    pub(in crate::device) compile: Compile,
    pub(in crate::device) destroy: Destroy,
    pub(in crate::device) log: Output,
    pub(in crate::device) error_text: ErrorText,
}

impl Calls {
    /// Hands a source to the compiler.
    ///
    /// # Errors
    /// The compiler's words.
    pub(in crate::device) fn program(&self, source: &DeviceSource) -> Result<Compilation<'_>, String> {
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
        Ok(Compilation { calls: self, program, _texts: (text, name) })
    }

    fn explain(&self, code: c_int) -> String {
        // SAFETY: any code is allowed; the text is static, or null.
        let text = unsafe { (self.error_text)(code) };
        if text.is_null() {
            return format!("{} error {code}", self.name);
        }
        // SAFETY: it is not null, ends in zero, and is static.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// A program under compilation, destroyed on drop.
pub(in crate::device) struct Compilation<'a> {
    calls: &'a Calls,
    program: Program,
    /// The compiler may refer to both until the program is destroyed.
    _texts: (CString, CString),
}

impl Compilation<'_> {
    /// Compiles.
    ///
    /// # Errors
    /// The compiler's log.
    pub(in crate::device) fn compile(&self, options: &[String]) -> Result<(), String> {
        let options: Vec<CString> = options
            .iter()
            .map(|option| CString::new(option.as_str()))
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).map_err(|error| error.to_string())?;
        // SAFETY: the program is live, and so are the options, each of which ends in zero.
        let code = unsafe { (self.calls.compile)(self.program, count, pointers.as_ptr()) };
        if code == 0 {
            return Ok(());
        }
        let log = self.read(self.calls.log).map(|log| String::from_utf8_lossy(&log).trim_matches('\0').to_owned());
        Err(format!("{}: {}", self.calls.explain(code), log.unwrap_or_default()))
    }

    /// Reads one of the compiler's outputs.
    ///
    /// # Errors
    /// The compiler's words.
    pub(in crate::device) fn read(&self, (size, text): Output) -> Result<Vec<u8>, String> {
        let mut bytes = 0_usize;
        // SAFETY: the program is live and the pointer is to a live integer.
        let code = unsafe { size(self.program, &raw mut bytes) };
        if code != 0 {
            return Err(self.calls.explain(code));
        }
        let mut buffer = vec![0_u8; bytes];
        // SAFETY: the buffer has the size that the library asked for.
        let code = unsafe { text(self.program, buffer.as_mut_ptr().cast()) };
        if code != 0 {
            return Err(self.calls.explain(code));
        }
        Ok(buffer)
    }
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is live, and nobody else holds it.
        unsafe { (self.calls.destroy)(&raw mut self.program) };
    }
}
