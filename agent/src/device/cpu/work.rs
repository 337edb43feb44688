//! What the threads of a team do to arrays, each to its own share.

#![allow(unsafe_code)]

use std::ops::Range;

use fleetcal_kernels::BufferRole;
use fleetcal_kernels::data::InputData;
use fleetcal_model::point::Dtype;
use fleetcal_model::policy::DataPattern;

use super::memory::{Element, View};
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
        other @ (Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::I32 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2) => {
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
    pool.execute(pool.size(), move |member| {
        for part in shares(view.elements(), view.element_bytes(), member.team_size(), 0, member.index()) {
            let start = u64::try_from(part.start).unwrap_or(u64::MAX);
            // SAFETY: the shares of two threads are disjoint, and this job is the only one.
            let output = unsafe { view.write(part) };
            if data.pattern == DataPattern::Random {
                stream::fill_random::<T>(instructions, data.seed, start, output);
            } else {
                (start..).zip(output).for_each(|(index, element)| *element = T::from_element(data.element(index)));
            }
        }
        Ok(())
    })
}

/// Sets every element of an array to the same bits.
///
/// # Errors
/// [`DeviceError::Launch`] if the array is outside its buffer.
pub(super) fn set_bits(pool: &mut Pool, array: &Array<'_, CpuBuffer>, bits: u64) -> Result<(), DeviceError> {
    let view = View::of(array)?;
    view.touch();
    let [one, two, three, four, ..] = bits.to_le_bytes();
    pool.execute(pool.size(), move |member| {
        match view.element_bytes() {
            1 => set(&view, member, one),
            2 => set(&view, member, u16::from_le_bytes([one, two])),
            4 => set(&view, member, u32::from_le_bytes([one, two, three, four])),
            _ => set(&view, member, bits),
        }
        Ok(())
    })
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

/// Reads every `stride`-th element.
///
/// # Errors
/// [`DeviceError::Launch`] if the array is outside its buffer, or of a number format that the backend does not do.
pub(super) fn gather(array: &Array<'_, CpuBuffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
    let view = View::of(array)?;
    let stride = usize::try_from(stride).unwrap_or(usize::MAX).max(1);
    let all = 0..view.elements();
    match array.spec.dtype {
        // SAFETY: no job runs: the caller has the device for itself, and the buffer is not shared between threads.
        Dtype::F32 => Ok(unsafe { view.read::<f32>(all) }.iter().step_by(stride).copied().map(f64::from).collect()),
        // SAFETY: as above.
        Dtype::F64 => Ok(unsafe { view.read::<f64>(all) }.iter().step_by(stride).copied().collect()),
        other @ (Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::I32 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2) => {
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
