//! The HIP runtime, loaded at run time through a table of its own. docs/hip-abi.md lists the calls.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::{Path, PathBuf};

use hip_runtime_sys::{hipMemAccessDesc, hipMemAllocationProp};

use super::status::Fault;
use crate::device::library;

/// Names the file to load, and then no other is.
pub(super) const PATH_VARIABLE: &str = "FLEETCAL_HIP";
/// Names of the library, newest first: packages without headers have only the numbered ones.
const NAMES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// Where ROCm installs it when the loader's path does not lead there.
pub(super) const TOOLKIT_FOLDER: &str = "/opt/rocm/lib";

/// Streams, events, modules, functions, graphs, physical memory.
pub(super) type Handle = *mut c_void;
/// What copies the architecture's name, among much else, into a structure.
type GetProperties = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// Declares a structure of functions, and how it is taken out of a library: all of them, or the first that is missing.
macro_rules! table {
    ($(#[$about:meta])* $table:ident { $($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)* }) => {
        $(#[$about])*
        #[derive(Debug)]
        pub(super) struct $table {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            fn of(library: &libloading::Library) -> Result<Self, String> {
                // SAFETY: the types are those of `hip_runtime_api.h`, where enumerations and status codes are ints, and
                // the library is never unloaded.
                unsafe {
                    Ok(Self {
                        $($field: *library.get(concat!($name, "\0").as_bytes()).map_err(|error| library::words(&error))?,)*
                    })
                }
            }
        }
    };
}

table! {
    /// What there is no doing without.
    Calls {
        initialise = "hipInit": fn(c_uint) -> c_int;
        version = "hipRuntimeGetVersion": fn(*mut c_int) -> c_int;
        error_name = "hipGetErrorName": fn(c_int) -> *const c_char;
        error_text = "hipGetErrorString": fn(c_int) -> *const c_char;
        count_devices = "hipGetDeviceCount": fn(*mut c_int) -> c_int;
        set_device = "hipSetDevice": fn(c_int) -> c_int;
        name = "hipDeviceGetName": fn(*mut c_char, c_int, c_int) -> c_int;
        total_memory = "hipDeviceTotalMem": fn(*mut usize, c_int) -> c_int;
        attribute = "hipDeviceGetAttribute": fn(*mut c_int, c_int, c_int) -> c_int;
        memory_info = "hipMemGetInfo": fn(*mut usize, *mut usize) -> c_int;
        allocate = "hipMalloc": fn(*mut *mut c_void, usize) -> c_int;
        free = "hipFree": fn(*mut c_void) -> c_int;
        allocate_on_host = "hipHostMalloc": fn(*mut *mut c_void, usize, c_uint) -> c_int;
        free_on_host = "hipHostFree": fn(*mut c_void) -> c_int;
        copy = "hipMemcpyAsync": fn(*mut c_void, *const c_void, usize, c_int, Handle) -> c_int;
        create_stream = "hipStreamCreateWithFlags": fn(*mut Handle, c_uint) -> c_int;
        destroy_stream = "hipStreamDestroy": fn(Handle) -> c_int;
        synchronize = "hipStreamSynchronize": fn(Handle) -> c_int;
        create_event = "hipEventCreateWithFlags": fn(*mut Handle, c_uint) -> c_int;
        destroy_event = "hipEventDestroy": fn(Handle) -> c_int;
        record = "hipEventRecord": fn(Handle, Handle) -> c_int;
        query = "hipEventQuery": fn(Handle) -> c_int;
        elapsed = "hipEventElapsedTime": fn(*mut f32, Handle, Handle) -> c_int;
        load_module = "hipModuleLoadData": fn(*mut Handle, *const c_void) -> c_int;
        unload_module = "hipModuleUnload": fn(Handle) -> c_int;
        function = "hipModuleGetFunction": fn(*mut Handle, Handle, *const c_char) -> c_int;
        launch = "hipModuleLaunchKernel": fn(
            Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void
        ) -> c_int;
    }
}

table! {
    /// Launches that travel as one.
    Graphs {
        begin_capture = "hipStreamBeginCapture": fn(Handle, c_int) -> c_int;
        end_capture = "hipStreamEndCapture": fn(Handle, *mut Handle) -> c_int;
        instantiate = "hipGraphInstantiate": fn(*mut Handle, Handle, *mut Handle, *mut c_char, usize) -> c_int;
        launch = "hipGraphLaunch": fn(Handle, Handle) -> c_int;
        destroy_executable = "hipGraphExecDestroy": fn(Handle) -> c_int;
        destroy = "hipGraphDestroy": fn(Handle) -> c_int;
    }
}

table! {
    /// Addresses apart from memory.
    VirtualMemory {
        reserve = "hipMemAddressReserve": fn(*mut *mut c_void, usize, usize, *mut c_void, c_ulonglong) -> c_int;
        free = "hipMemAddressFree": fn(*mut c_void, usize) -> c_int;
        create = "hipMemCreate": fn(*mut Handle, usize, *const hipMemAllocationProp, c_ulonglong) -> c_int;
        release = "hipMemRelease": fn(Handle) -> c_int;
        map = "hipMemMap": fn(*mut c_void, usize, usize, Handle, c_ulonglong) -> c_int;
        unmap = "hipMemUnmap": fn(*mut c_void, usize) -> c_int;
        set_access = "hipMemSetAccess": fn(*mut c_void, usize, *const hipMemAccessDesc, usize) -> c_int;
        granularity = "hipMemGetAllocationGranularity": fn(*mut usize, *const hipMemAllocationProp, c_int) -> c_int;
    }
}

/// The library, with the calls found in it. It is never unloaded: threads of its own may run on.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) calls: Calls,
    pub(super) graphs: Option<Graphs>,
    /// Brings a graph to the device before its first launch.
    pub(super) upload_graph: Option<unsafe extern "C" fn(Handle, Handle) -> c_int>,
    pub(super) virtual_memory: Option<VirtualMemory>,
    /// The calls that give properties, newest first.
    pub(super) properties: Vec<GetProperties>,
    pub(super) driver_version: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    pub(super) uuid: Option<unsafe extern "C" fn(*mut c_char, c_int) -> c_int>,
    pub(super) pci_address: Option<unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int>,
    /// The version of an emulator, where it is one.
    pub(super) emulator: Option<c_int>,
    /// The file that it was loaded from, as it was named.
    pub(super) path: PathBuf,
}

/// Files to try, in order. A file that somebody named is the only one.
pub(super) fn candidates(named: Option<OsString>, names: &[&str]) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![PathBuf::from(named)];
    }
    let beside = names.iter().map(|name| PathBuf::from(TOOLKIT_FOLDER).join(name));
    names.iter().map(PathBuf::from).chain(beside).collect()
}

impl Runtime {
    /// Loads the first of the library's files that can be used.
    ///
    /// # Errors
    /// Why the first of them cannot.
    pub(super) fn load() -> Result<Self, String> {
        Self::load_of(&candidates(std::env::var_os(PATH_VARIABLE), &NAMES))
    }

    /// Loads the first of these files that can be used.
    ///
    /// # Errors
    /// Why the first of those that are there cannot, else why the first of all cannot be loaded.
    pub(super) fn load_of(files: &[PathBuf]) -> Result<Self, String> {
        let (mut absent, mut broken) = (None, None);
        for path in files {
            match library::open(path) {
                Ok(library) => match Self::of(library, path) {
                    Ok(runtime) => return Ok(runtime),
                    Err(reason) => _ = broken.get_or_insert(format!("{} cannot be used: {reason}", path.display())),
                },
                Err(reason) => _ = absent.get_or_insert(reason),
            }
        }
        let advice = format!("is ROCm installed? {PATH_VARIABLE} can name the file");
        Err(broken.unwrap_or_else(|| format!("{} ({advice})", absent.unwrap_or_default())))
    }

    fn of(library: libloading::Library, path: &Path) -> Result<Self, String> {
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        /// A function that may be missing.
        macro_rules! optional {
            ($kind:ty, $name:literal) => {
                // SAFETY: the type is that of the prototype in docs/hip-abi.md.
                unsafe { library.get::<$kind>(concat!($name, "\0").as_bytes()) }.ok().map(|found| *found)
            };
        }
        let properties = [
            optional!(GetProperties, "hipGetDevicePropertiesR0600"),
            optional!(GetProperties, "hipGetDevicePropertiesR0000"),
            optional!(GetProperties, "hipGetDeviceProperties"),
        ];
        let emulator = optional!(unsafe extern "C" fn() -> c_int, "fleetcal_emulator_version");
        Ok(Self {
            calls: Calls::of(library)?,
            graphs: Graphs::of(library).ok(),
            upload_graph: optional!(unsafe extern "C" fn(Handle, Handle) -> c_int, "hipGraphUpload"),
            virtual_memory: VirtualMemory::of(library).ok(),
            properties: properties.into_iter().flatten().collect(),
            driver_version: optional!(unsafe extern "C" fn(*mut c_int) -> c_int, "hipDriverGetVersion"),
            uuid: optional!(unsafe extern "C" fn(*mut c_char, c_int) -> c_int, "hipDeviceGetUuid"),
            pci_address: optional!(unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int, "hipDeviceGetPCIBusId"),
            // SAFETY: it takes nothing and gives an int.
            emulator: emulator.map(|version| unsafe { version() }),
            path: path.to_owned(),
        })
    }

    /// The fault of a status code, unless it says success.
    pub(super) fn check(&self, code: c_int) -> Result<(), Fault> {
        if code == 0 { Ok(()) } else { Err(self.fault(code)) }
    }

    /// The value that a call has written, where it succeeded.
    pub(super) fn written<T>(&self, mut value: T, call: impl FnOnce(*mut T) -> c_int) -> Result<T, Fault> {
        self.check(call(&raw mut value))?;
        Ok(value)
    }

    fn fault(&self, code: c_int) -> Fault {
        let text = |call: unsafe extern "C" fn(c_int) -> *const c_char| {
            // SAFETY: any code is allowed; the text is static, or null.
            let text = unsafe { call(code) };
            // SAFETY: where it is not null it ends in zero and is static.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = text(self.calls.error_name).unwrap_or_else(|| format!("HIP error {code}"));
        let words = text(self.calls.error_text).map_or_else(|| name.clone(), |words| format!("{name} ({words})"));
        Fault { code, words }
    }
}
