//! What the threads of a team do to arrays, each to its own share.

#![allow(unsafe_code)]

use std::ops::Range;

use fleetcal_kernels::data::{Formula, InputData};
use fleetcal_kernels::{BufferRole, Rows};
use fleetcal_model::point::Dtype;

use super::memory::{Element, View};
#[cfg(test)]
use super::planted::{self, Misdeed};
use super::pool::{Member, Pool};
use super::stream::{self, Instructions, Kernel, Number, Operands};
use super::{CpuBuffer, failed};
use crate::device::{Array, DeviceError};

/// Shares begin at multiples of a cache line within their array, so that no two threads write to one line.
const LINE_BYTES: usize = 64;

/// A kernel with the settings of a solution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    pub(super) kernel: Kernel,
    pub(super) dtype: Dtype,
    pub(super) instructions: Instructions,
    pub(super) threads: usize,
    pub(super) nontemporal: bool,
    /// Bytes of each array that a thread takes in its turn; 0 if each has one contiguous share.
    pub(super) chunk_bytes: usize,
    /// What it does wrong, for tests of what looks for such.
    #[cfg(test)]
    pub(super) misdeed: Option<Misdeed>,
}

/// A program and the arrays that it runs on, checked.
#[derive(Debug)]
pub(super) struct Task {
    program: Program,
    output: View,
    inputs: Vec<View>,
}

impl Task {
    /// # Errors
    /// [`DeviceError::Launch`] if the arrays are not those of the program.
    pub(super) fn new(program: Program, arrays: &[Array<'_, CpuBuffer>]) -> Result<Self, DeviceError> {
        let wrong = |reason: &str| failed("launching a kernel", reason);
        let (mut outputs, mut inputs) = (Vec::new(), Vec::new());
        for array in arrays {
            if array.spec.dtype != program.dtype {
                return Err(wrong(&format!("array `{}` is not of {}", array.spec.name, program.dtype)));
            }
            match array.spec.role {
                BufferRole::Output => outputs.push(View::of(array)?),
                BufferRole::Input { .. } => inputs.push(View::of(array)?),
                BufferRole::Scratch => {}
            }
        }
        let (Some(output), 0) = (outputs.pop(), outputs.len()) else {
            return Err(wrong("it writes one array, and did not get one"));
        };
        if inputs.len() != program.kernel.inputs() {
            return Err(wrong(&format!("it reads {} arrays, and got {}", program.kernel.inputs(), inputs.len())));
        }
        if inputs.iter().any(|input| input.elements() != output.elements()) {
            return Err(wrong("its arrays differ in length"));
        }
        if inputs.iter().any(|input| input.overlaps(&output)) {
            return Err(wrong("the array that it writes overlaps one that it reads"));
        }
        output.touch();
        Ok(Self { program, output, inputs })
    }

    /// Runs the share of one thread.
    pub(super) fn run(&self, member: &Member<'_>) {
        match self.program.dtype {
            Dtype::F32 => self.run_as::<f32>(member.index()),
            Dtype::F64 => self.run_as::<f64>(member.index()),
            // `Program`s are made of points that their family has checked, and it knows these two.
            Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::I32 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => {}
        }
    }

    fn run_as<T: Number>(&self, thread: usize) {
        let Program { kernel, instructions, threads, nontemporal, chunk_bytes, .. } = self.program;
        for part in shares(self.output.elements(), size_of::<T>(), threads, chunk_bytes, thread) {
            let [first, second] = [self.inputs.first(), self.inputs.get(1)].map(|input| match input {
                // SAFETY: nobody writes to inputs during a job: the only array written overlaps none of them, and the
                // device runs one job at a time.
                Some(view) => unsafe { view.read::<T>(part.clone()) },
                None => &[],
            });
            // SAFETY: the shares of two threads are disjoint, and no input overlaps the output.
            let output = unsafe { self.output.write::<T>(part) };
            let operands = Operands { first, second, output };
            if nontemporal {
                T::nontemporal(kernel, instructions, operands);
            } else {
                stream::plain(kernel, instructions, operands);
            }
        }
        #[cfg(test)]
        if thread == 0 {
            self.misbehave::<T>();
        }
    }

    /// What the program does wrong, if it does.
    #[cfg(test)]
    fn misbehave<T: Number>(&self) {
        let elements = self.output.elements() as isize;
        match self.program.misdeed {
            None => {}
            Some(Misdeed::SpinsForEver) => planted::spin(),
            Some(Misdeed::WritesToNoMemory) => planted::fault(),
            Some(Misdeed::Exits) => planted::exit(),
            Some(Misdeed::OutlastsAnEagerCaller) => planted::outlast(),
            Some(Misdeed::WritesBeyond) => self.output.write_stray(elements, T::from_element(7.0)),
            Some(Misdeed::WritesBefore) => self.output.write_stray(-1, T::from_element(7.0)),
            Some(Misdeed::ReadsBeyond) => {
                if let Some(input) = self.inputs.first() {
                    self.output.write_stray(elements - 1, input.read_stray::<T>(elements));
                }
            }
        }
    }
}

/// Fills an array with input data; every page is touched first by the thread that will use it.
///
/// # Errors
/// [`DeviceError::Launch`] if the array is outside its buffer, or of a number format that the backend does not do.
pub(super) fn fill(
    pool: &mut Pool,
    instructions: Instructions,
    array: &Array<'_, CpuBuffer>,
    data: InputData,
) -> Result<(), DeviceError> {
    match array.spec.dtype {
        Dtype::F32 => fill_as::<f32>(pool, instructions, array, data),
        Dtype::F64 => fill_as::<f64>(pool, instructions, array, data),
        Dtype::I32 => fill_whole(pool, array, data),
        other @ (Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2) => {
            Err(failed("filling an array", &format!("the cpu backend has no arrays of {other}")))
        }
    }
}

fn fill_as<T: Number>(
    pool: &mut Pool,
    instructions: Instructions,
    array: &Array<'_, CpuBuffer>,
    data: InputData,
) -> Result<(), DeviceError> {
    let view = View::of(array)?;
    view.touch();
    let formula = data.formula();
    pool.execute(pool.size(), move |member| {
        for part in shares(view.elements(), view.element_bytes(), member.team_size(), 0, member.index()) {
            let start = data.first_element.wrapping_add(part.start as u64);
            // SAFETY: the shares of two threads are disjoint, and this job is the only one.
            let output = unsafe { view.write(part) };
            fill_part::<T>(instructions, &data, &formula, start, output);
        }
        Ok(())
    })
}

/// Whole numbers, element by element.
fn fill_whole(pool: &mut Pool, array: &Array<'_, CpuBuffer>, data: InputData) -> Result<(), DeviceError> {
    let view = View::of(array)?;
    view.touch();
    pool.execute(pool.size(), move |member| {
        for part in shares(view.elements(), view.element_bytes(), member.team_size(), 0, member.index()) {
            let start = part.start as u64;
            // SAFETY: the shares of two threads are disjoint, and this job is the only one.
            let output = unsafe { view.write::<u32>(part) };
            for (index, to) in (start..).zip(output) {
                *to = (data.rounded_element(index) as i32).cast_unsigned();
            }
        }
        Ok(())
    })
}

/// Writes the elements `start`, `start` + 1, … of a pattern.
fn fill_part<T: Number>(instructions: Instructions, data: &InputData, formula: &Formula, start: u64, output: &mut [T]) {
    match formula {
        Formula::Random => stream::fill_random::<T>(instructions, data.seed, start, output),
        Formula::Identity => {
            let row = data.row_elements.max(1);
            let element = |index: u64| T::from_element(f64::from(index / row == index % row));
            (start..).zip(output).for_each(|(index, to)| *to = element(index));
        }
        // Arrays of numbers hold none.
        Formula::Chain(_) => {}
        Formula::Periodic { values, repeat } => {
            let values: Vec<T> = values.iter().map(|value| T::from_element(*value)).collect();
            let length = values.len() as u64;
            for (index, to) in (start..).zip(output) {
                // The remainder is below a length in memory.
                *to = values[(index / repeat % length) as usize];
            }
        }
    }
}

/// Sets every element of an array to the same bits.
///
/// # Errors
/// [`DeviceError::Launch`] if the array is outside its buffer.
pub(super) fn set_bits(pool: &mut Pool, array: &Array<'_, CpuBuffer>, bits: u64) -> Result<(), DeviceError> {
    let view = View::of(array)?;
    view.touch();
    let [one, two, three, four, ..] = bits.to_le_bytes();
    let rows = array.spec.rows;
    pool.execute(pool.size(), move |member| {
        match view.element_bytes() {
            1 => set_rows(&view, rows, member, one),
            2 => set_rows(&view, rows, member, u16::from_le_bytes([one, two])),
            4 => set_rows(&view, rows, member, u32::from_le_bytes([one, two, three, four])),
            _ => set_rows(&view, rows, member, bits),
        }
        Ok(())
    })
}

/// Sets everything outside of gaps.
fn set_rows<T: Element>(view: &View, rows: Option<Rows>, member: &Member<'_>, value: T) {
    let Some(Rows { elements, pitch_elements }) = rows else { return set(view, member, value) };
    let words = |elements: u64| usize::try_from(elements).unwrap_or(usize::MAX);
    let (length, pitch) = (words(elements), words(pitch_elements).max(1));
    for start in (0..view.elements()).step_by(pitch).skip(member.index()).step_by(member.team_size().max(1)) {
        let part = start..start.saturating_add(length).min(view.elements());
        // SAFETY: rows do not overlap, each belongs to one thread, and this job is the only one.
        unsafe { view.write::<T>(part) }.fill(value);
    }
}

/// Writes memory that nobody reads, so that it drives everything else out of the caches.
pub(super) fn overwrite(words: &View, member: &Member<'_>) {
    if member.index() == 0 {
        words.touch();
    }
    set(words, member, u64::MAX);
}

fn set<T: Element>(view: &View, member: &Member<'_>, value: T) {
    for part in shares(view.elements(), view.element_bytes(), member.team_size(), 0, member.index()) {
        // SAFETY: the shares of two threads are disjoint, and this job is the only one.
        unsafe { view.write::<T>(part) }.fill(value);
    }
}

/// Reads every `stride`-th element outside of gaps.
///
/// # Errors
/// [`DeviceError::Launch`] if the array is outside its buffer, or of a number format that the backend does not do.
pub(super) fn gather(array: &Array<'_, CpuBuffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
    let view = View::of(array)?;
    let stride = usize::try_from(stride).unwrap_or(usize::MAX).max(1);
    let all = 0..view.elements();
    // Positions lie inside the array, and so below a length in memory.
    let positions = (0..array.spec.logical_elements()).step_by(stride).map(|index| array.spec.position(index) as usize);
    match array.spec.dtype {
        Dtype::F32 => {
            // SAFETY: no job runs: the caller has the device for itself, and the buffer is not shared between threads.
            let all = unsafe { view.read::<f32>(all) };
            Ok(positions.map(|at| f64::from(all[at])).collect())
        }
        Dtype::F64 => {
            // SAFETY: as above.
            let all = unsafe { view.read::<f64>(all) };
            Ok(positions.map(|at| all[at]).collect())
        }
        Dtype::I32 => {
            // SAFETY: as above.
            let all = unsafe { view.read::<u32>(all) };
            Ok(positions.map(|at| f64::from(all[at].cast_signed())).collect())
        }
        other @ (Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2) => {
            Err(failed("reading an array", &format!("the cpu backend has no arrays of {other}")))
        }
    }
}

/// The parts of an array that one of `threads` threads works on: its contiguous share, or every `threads`-th chunk.
/// A thread beyond the last has none.
fn shares(
    elements: usize,
    element_bytes: usize,
    threads: usize,
    chunk_bytes: usize,
    thread: usize,
) -> impl Iterator<Item = Range<usize>> {
    let threads = threads.max(1);
    let line = (LINE_BYTES / element_bytes.max(1)).max(1);
    let wanted = if chunk_bytes == 0 { elements.div_ceil(threads) } else { chunk_bytes / element_bytes.max(1) };
    let length = wanted.max(1).checked_next_multiple_of(line).unwrap_or(usize::MAX);
    let first = if thread < threads { thread.saturating_mul(length) } else { elements };
    (first..elements)
        .step_by(length.saturating_mul(threads))
        .map(move |start| start..elements.min(start.saturating_add(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_element_once_and_start_at_lines() {
        for (elements, threads, chunk_bytes) in
            [(1 << 15, 2, 0), (1 << 15, 3, 4096), (1000, 7, 0), (1000, 7, 100), (5, 8, 0), (64, 1, 1), (0, 2, 0)]
        {
            let mut owners = vec![0_u32; elements];
            for thread in 0..threads + 2 {
                for part in shares(elements, 8, threads, chunk_bytes, thread) {
                    assert!(thread < threads, "thread {thread} of {threads} must stay idle");
                    assert_eq!(part.start % 8, 0, "a share of {elements}/{threads}/{chunk_bytes} starts inside a line");
                    owners[part].iter_mut().for_each(|count| *count += 1);
                }
            }
            assert!(owners.iter().all(|count| *count == 1), "{elements} over {threads} by {chunk_bytes}: {owners:?}");
        }
    }
}
