//! Compiling device sources and loading what comes out.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZero;
use std::sync::Mutex;

use fleetcal_kernels::{DeviceSource, family, program_defines};
use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::point::{Dtype, Point, Sweep};

use super::driver::{Compiler, Driver};
use crate::device::DeviceError;

/// A program holds one kernel of one family in one number format.
type Key = (Sweep, String, Dtype);

/// A program in the device's memory.
#[derive(Debug)]
pub(super) struct Loaded<D: Driver> {
    module: D::Module,
    /// SHA-256 of the source, hexadecimal.
    pub(super) source_digest: String,
    /// SHA-256 of the machine code, hexadecimal.
    pub(super) code_digest: String,
    /// Options of the compiler, its macros included.
    pub(super) compile_options: String,
}

impl<D: Driver> Loaded<D> {
    /// Finds an entry. Under lazy loading this is what brings its code to the device, so no launch does.
    pub(super) fn function(&self, driver: &D, entry: &str) -> Result<D::Function, DeviceError> {
        driver.function(&self.module, entry)
    }
}

/// Everything compiled so far, failures included: what did not compile once will not compile the next time.
#[derive(Debug)]
pub(super) struct Programs<D: Driver> {
    loaded: BTreeMap<Key, Result<Loaded<D>, DeviceError>>,
}

impl<D: Driver> Default for Programs<D> {
    fn default() -> Self {
        Self { loaded: BTreeMap::new() }
    }
}

impl<D: Driver> Programs<D> {
    /// Compiles the programs of these points that are not there yet, side by side, and loads them.
    pub(super) fn add<'a>(
        &mut self,
        driver: &D,
        compiler: &D::Compiler,
        architecture: &str,
        points: impl Iterator<Item = &'a Point>,
    ) {
        let mut wanted: Vec<Key> = points.map(key).filter(|key| !self.loaded.contains_key(key)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let compiled = compile_all(compiler, architecture, &wanted);
        for (key, program) in compiled {
            if let Entry::Vacant(place) = self.loaded.entry(key) {
                place.insert(program.and_then(|program| load(driver, program)));
            }
        }
    }

    /// The program of a point that was added.
    pub(super) fn of(&self, point: &Point) -> Result<&Loaded<D>, DeviceError> {
        let missing = || DeviceError::Compile { entry: point.to_string(), log: "it was not compiled".to_owned() };
        self.loaded.get(&key(point)).ok_or_else(missing)?.as_ref().map_err(Clone::clone)
    }
}

/// Compiled, not loaded.
struct Compiled {
    /// Its source, with the macros that were defined.
    name: String,
    image: Vec<u8>,
    source_digest: String,
    options: String,
}

/// Compiles and loads one source outside the families.
pub(super) fn build<D: Driver>(
    driver: &D,
    compiler: &D::Compiler,
    architecture: &str,
    source: &DeviceSource,
) -> Result<Loaded<D>, DeviceError> {
    load(driver, compile(compiler, architecture, source, &[])?)
}

fn key(point: &Point) -> Key {
    (point.sweep, point.kernel.clone(), point.dtype)
}

/// Compiles on as many threads as there are cores; the device is not needed for it.
fn compile_all(
    compiler: &impl Compiler,
    architecture: &str,
    wanted: &[Key],
) -> Vec<(Key, Result<Compiled, DeviceError>)> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(wanted.len());
    let queue = Mutex::new(wanted.iter());
    let next = || queue.lock().map_or(None, |mut queue| queue.next());
    std::thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            while let Some(key) = next() {
                done.push((key.clone(), compile_program(compiler, architecture, key)));
            }
            done
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    })
}

fn compile_program(
    compiler: &impl Compiler,
    architecture: &str,
    (sweep, kernel, dtype): &Key,
) -> Result<Compiled, DeviceError> {
    let Some(family) = family(*sweep) else {
        let log = format!("the sweep {sweep} has no kernels in this version");
        return Err(DeviceError::Compile { entry: kernel.clone(), log });
    };
    compile(compiler, architecture, &family.source(), &program_defines(kernel, *dtype))
}

fn compile(
    compiler: &impl Compiler,
    architecture: &str,
    source: &DeviceSource,
    defines: &[String],
) -> Result<Compiled, DeviceError> {
    let name = format!("{} [{}]", source.name, defines.join(" "));
    let compiled = compiler.compile(source, defines, architecture);
    let object = compiled.map_err(|log| DeviceError::Compile { entry: name.clone(), log })?;
    let source_digest = Sha256Digest::of(source.text.as_bytes()).to_hex();
    Ok(Compiled { name, image: object.image, source_digest, options: object.options })
}

fn load<D: Driver>(driver: &D, program: Compiled) -> Result<Loaded<D>, DeviceError> {
    let code_digest = Sha256Digest::of(&program.image).to_hex();
    let module = driver.load(&program.name, program.image)?;
    Ok(Loaded { module, source_digest: program.source_digest, code_digest, compile_options: program.options })
}
