//! What a kernel family says of itself: points, buffers, counts, solutions, launches and the reference.
//!
//! A family is data and pure functions. It never loads a device library: backends read what it says and act.

use std::collections::BTreeMap;

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, TimingMode};

use crate::contraction::Contraction;
use crate::data::InputData;
use crate::number;

/// A point that a family cannot measure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// The family has no kernel of that name.
    #[error("{sweep} has no kernel `{kernel}`, it has: {known}")]
    UnknownKernel {
        /// The family.
        sweep: Sweep,
        /// The name found.
        kernel: String,
        /// The names there are.
        known: String,
    },
    /// The family does not do that number format.
    #[error("{sweep} does not measure {dtype}, it measures: {known}")]
    UnsupportedDtype {
        /// The family.
        sweep: Sweep,
        /// The format found.
        dtype: Dtype,
        /// The formats it has.
        known: String,
    },
    /// A size is missing.
    #[error("{sweep}/{kernel} needs the size `{size}`")]
    MissingSize {
        /// The family.
        sweep: Sweep,
        /// The kernel.
        kernel: String,
        /// The size's name.
        size: String,
    },
    /// A size cannot be used.
    #[error("{size} = {value} cannot be used: {reason}")]
    BadSize {
        /// The size's name.
        size: String,
        /// Its value.
        value: u64,
        /// What it must be.
        reason: String,
    },
}

/// What a buffer of a launch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferRole {
    /// Filled with data of this seed before the rounds; read by the kernel.
    Input {
        /// Seed of [`crate::data::InputData`].
        seed: u64,
    },
    /// Poisoned before each solution; written by the kernel.
    Output,
    /// What launches of one solution leave for each other. A kernel that reads it before it has written it must do with
    /// whatever is there; nobody looks at it after.
    Scratch,
}

/// Rows of an array with gaps between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Elements of one row that are used.
    pub elements: u64,
    /// Elements from the start of a row to the start of the next: those beyond `elements` belong to nobody, and a right
    /// kernel neither reads nor writes them.
    pub pitch_elements: u64,
}

/// One array of a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferSpec {
    /// Its name in the kernel's formula.
    pub name: &'static str,
    /// What it is for.
    pub role: BufferRole,
    /// Its number format.
    pub dtype: Dtype,
    /// Its length, elements, gaps between rows included.
    pub elements: u64,
    /// Its rows; none where it is one row without gaps.
    pub rows: Option<Rows>,
}

impl BufferSpec {
    /// Its size, bytes.
    pub fn bytes(&self) -> u64 {
        self.elements.saturating_mul(self.dtype.bytes())
    }

    /// What it holds under a pattern; none where nothing is filled in.
    pub fn input(&self, pattern: DataPattern) -> Option<InputData> {
        let BufferRole::Input { seed } = self.role else { return None };
        let row_elements = self.rows.map_or(self.elements, |rows| rows.pitch_elements);
        Some(InputData { pattern, seed, dtype: self.dtype, row_elements, first_element: 0 })
    }

    /// Seed of what it is filled with; none where it is written.
    pub fn input_seed(&self) -> Option<u64> {
        match self.role {
            BufferRole::Input { seed } => Some(seed),
            BufferRole::Output | BufferRole::Scratch => None,
        }
    }

    /// Elements that are not in gaps between rows.
    pub fn logical_elements(&self) -> u64 {
        let Some(Rows { elements, pitch_elements }) = self.rows else { return self.elements };
        let pitch = pitch_elements.max(1);
        (self.elements / pitch).saturating_mul(elements).saturating_add((self.elements % pitch).min(elements))
    }

    /// Where in the array the logical element `index` lies: gaps before it are skipped.
    pub fn position(&self, index: u64) -> u64 {
        let Some(Rows { elements, pitch_elements }) = self.rows else { return index };
        let elements = elements.max(1);
        (index / elements).saturating_mul(pitch_elements).saturating_add(index % elements)
    }

    /// The gaps between its rows, as rows of an array that starts so many elements later; none where it has no gaps.
    pub fn gaps(&self) -> Option<(u64, Self)> {
        let Rows { elements, pitch_elements } = self.rows?;
        let gap = pitch_elements.checked_sub(elements).filter(|gap| *gap > 0)?;
        let left = self.elements.checked_sub(elements).filter(|left| *left > 0)?;
        Some((elements, Self { elements: left, rows: Some(Rows { elements: gap, pitch_elements }), ..self.clone() }))
    }
}

/// One argument of a launch, in the order of the kernel's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// The address of the point's buffer with this index in [`Family::buffers`].
    Buffer(usize),
    /// A 64-bit unsigned number.
    U64(u64),
}

/// One launch of one solution, as a GPU backend needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Name of the kernel in the compiled source.
    pub entry: String,
    /// Blocks of the grid, one-dimensional.
    pub blocks: u64,
    /// Threads a block, one-dimensional.
    pub threads: u64,
    /// Its arguments.
    pub arguments: Vec<Argument>,
}

/// A size of a family's points, as plans name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeSpec {
    /// Its name.
    pub name: &'static str,
    /// The values that a plan means which leaves it out. None where it must be given, or where
    /// [`Family::complete`] finds it.
    pub defaults: &'static [u64],
    /// Whether a plan may leave it out.
    pub optional: bool,
}

/// Text to compile, in the portable dialect (CUDA and HIP).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSource {
    /// File name for the compiler's messages.
    pub name: &'static str,
    /// The text, its header in front: needs no include path.
    pub text: String,
}

/// Macros to define when a family's source is compiled for one kernel in one number format. A program holds no other
/// entries, so that a plan compiles only what it measures, and programs compile side by side.
pub fn program_defines(kernel: &str, dtype: Dtype) -> [String; 2] {
    [format!("FLEETCAL_KERNEL_{kernel}"), format!("FLEETCAL_DTYPE_{dtype}")]
}

/// A kernel family.
pub trait Family: Sync {
    /// Its sweep.
    fn sweep(&self) -> Sweep;

    /// Kernels by name, in the order they are listed to people.
    fn kernels(&self) -> &'static [&'static str];

    /// Number formats it measures.
    fn dtypes(&self) -> &'static [Dtype];

    /// Whether the kernel exists in the number format: not every kernel does all of the family's.
    fn supports(&self, kernel: &str, dtype: Dtype) -> bool {
        self.kernels().contains(&kernel) && self.dtypes().contains(&dtype)
    }

    /// The sizes of its points, in the order in which a plan crosses them.
    fn sizes(&self) -> &'static [SizeSpec];

    /// Arrays of the kernel with the smallest footprint, for plans that want arrays beyond every cache.
    fn arrays_min(&self) -> u64 {
        2
    }

    /// The sizes of a point, of those that a plan gives: what it leaves out and has no default is derived here.
    fn complete(&self, sizes: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        sizes
    }

    /// The values of a size that a plan means which leaves it out, where it wants these kernels alone.
    fn default_values(&self, _kernels: &[String], size: &SizeSpec) -> &'static [u64] {
        size.defaults
    }

    /// Sizes of a point that every device runs in no time: for checks of results, not for times.
    fn small_sizes(&self) -> &'static [(&'static str, u64)];

    /// A point of these sizes.
    fn small_point(&self, kernel: &str, dtype: Dtype) -> Point {
        let sizes = self.small_sizes().iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        Point { sweep: self.sweep(), kernel: kernel.to_owned(), dtype, sizes }
    }

    /// Whether the point can be measured at all, on any device.
    ///
    /// # Errors
    /// What about it cannot be used.
    fn check(&self, point: &Point) -> Result<(), PointError>;

    /// The point's arrays.
    fn buffers(&self, point: &Point) -> Vec<BufferSpec>;

    /// Exact counts of one run of a solution: all of its launches together.
    fn counts(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Counts;

    /// Variants that can serve the point on the device, in a fixed order. Empty where the device has nothing to run it
    /// with: [`Family::declined`] then says what is missing.
    fn solutions(&self, point: &Point, device: &DeviceFacts) -> Vec<Solution>;

    /// Why the device has no solution of the point.
    fn declined(&self, point: &Point, device: &DeviceFacts) -> String {
        format!("{}/{} is unsupported on {}", point.sweep, point.kernel, device.backend.name())
    }

    /// The text that holds the entries of these points' solutions: compiled once for each kernel and number format,
    /// under [`program_defines`].
    fn source(&self) -> DeviceSource;

    /// The launches of a solution, one after the other. Never empty. On the host there is no entry to name: the backend
    /// reads the solution's parameters, and blocks are threads.
    fn launches(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Vec<Launch>;

    /// How its launches have to be timed, where that is what the point asks for; else the harness chooses.
    fn timing_mode(&self, _point: &Point) -> Option<TimingMode> {
        None
    }

    /// Most elements of an output that a check should look at: the right value of one may cost the host a whole sum.
    fn checked_elements_max(&self, _point: &Point) -> u64 {
        u64::MAX
    }

    /// What is right in one output buffer where inputs hold this pattern. `buffer` indexes [`Family::buffers`].
    fn reference(&self, point: &Point, pattern: DataPattern, buffer: usize) -> Reference;
}

/// The right value of each element of one output, in the arithmetic of the point's number format, and the error that a
/// right kernel may show; elements count from the array's first, gaps between rows included. What only depends on the
/// point is looked up once: a check asks for tens of thousands of elements while the device waits.
pub type Reference = Box<dyn Fn(u64) -> Expected>;

/// A right value, and how near to it is right enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// The value.
    pub value: f64,
    /// Largest [`Expected::error`] of a right kernel.
    pub relative_tolerance: f64,
}

impl Expected {
    /// A value that a kernel may miss by what its number format lets pass: what a family without a tighter bound expects.
    pub fn within_format(value: f64, dtype: Dtype) -> Self {
        Self { value, relative_tolerance: number::tolerance(dtype) }
    }

    /// How far off a value is: |found − value| / (|found| + |value| + 1), as the Tensile client has it: relative for large
    /// values, absolute for small ones. The same number, the same infinity, and no number where none is right are off by
    /// nothing; any other that is not finite is off by infinity.
    pub fn error(&self, found: f64) -> f64 {
        let Self { value, .. } = *self;
        if found == value || found.is_nan() && value.is_nan() {
            return 0.0;
        }
        if !found.is_finite() || !value.is_finite() {
            return f64::INFINITY;
        }
        // Halves, so that no sum leaves the format.
        (found / 2.0 - value / 2.0).abs() / (found.abs() / 2.0 + value.abs() / 2.0 + 0.5)
    }
}

/// The family of a sweep, or `None` while the sweep has no kernels yet.
pub fn family(sweep: Sweep) -> Option<&'static dyn Family> {
    match sweep {
        Sweep::Stream => Some(&crate::stream::Stream),
        Sweep::Cache => Some(&crate::cache::Cache),
        Sweep::WorkingSet => Some(&Contraction::WORKING_SET),
        Sweep::Issue => Some(&Contraction::ISSUE),
        Sweep::Launch => Some(&Contraction::LAUNCH),
        Sweep::Peak => Some(&crate::peak::Peak),
        Sweep::Reduce => Some(&crate::reduce::Reduce),
        Sweep::Latency => Some(&crate::latency::Latency),
        Sweep::Scan => Some(&crate::scan::Scan),
        Sweep::Onchip => Some(&crate::onchip::Onchip),
        Sweep::Transfer => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_and_what_is_not_finite_is_right_or_wholly_wrong() {
        let error = |value, found| Expected::within_format(value, Dtype::F32).error(found);
        assert_eq!(
            (error(2.0, 2.0), error(1.0, 0.0), error(0.0, 1.0), error(1e9, -1e9)),
            (0.0, 0.5, 0.5, 2e9 / (2e9 + 1.0))
        );
        assert_eq!((error(f64::NAN, f64::NAN), error(f64::INFINITY, f64::INFINITY)), (0.0, 0.0));
        for (value, found) in [
            (f64::NAN, 1.0),
            (1.0, f64::NAN),
            (f64::INFINITY, 1.0),
            (1.0, f64::INFINITY),
            (f64::INFINITY, f64::NEG_INFINITY),
        ] {
            assert_eq!(error(value, found), f64::INFINITY, "{found} is no {value}");
        }
        assert!(error(1e300, -1e300) > 0.5, "sums beyond the format are no excuse");
    }

    #[test]
    fn rows_and_gaps_share_every_element_between_them() {
        for (elements, rows) in
            [(20, Some((3, 5))), (18, Some((3, 5))), (3, Some((3, 5))), (20, Some((5, 5))), (20, None)]
        {
            let rows = rows.map(|(elements, pitch_elements)| Rows { elements, pitch_elements });
            let spec = BufferSpec { name: "a", role: BufferRole::Output, dtype: Dtype::F32, elements, rows };
            let mut owners = vec![0; 20];
            let mut own = |spec: &BufferSpec, start: u64| {
                (0..spec.logical_elements()).for_each(|index| owners[(start + spec.position(index)) as usize] += 1);
            };
            own(&spec, 0);
            if let Some((start, gaps)) = spec.gaps() {
                own(&gaps, start);
            }
            assert_eq!(owners.iter().sum::<u64>(), elements, "{spec:?}");
            assert!(owners.iter().all(|count| *count <= 1), "{spec:?}: {owners:?}");
        }
    }
}
