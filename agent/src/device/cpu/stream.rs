//! The STREAM kernels over the part of one thread: plain loops that the compiler vectorises for the widest
//! instructions found, and loops whose stores go past the caches.

use super::memory::Element;

#[cfg(target_arch = "x86_64")]
mod x86;

/// The factor of scale and triad, as in `fleetcal_kernels::stream`: a power of two, so that a fused multiply-add rounds
/// like two operations.
const FACTOR: f32 = 0.5;

/// A STREAM kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    /// c = a.
    Copy,
    /// c = 0.5 a.
    Scale,
    /// c = a + b.
    Add,
    /// c = a + 0.5 b.
    Triad,
}

impl Kernel {
    /// The kernel of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "copy" => Some(Self::Copy),
            "scale" => Some(Self::Scale),
            "add" => Some(Self::Add),
            "triad" => Some(Self::Triad),
            _ => None,
        }
    }

    /// Arrays that it reads.
    pub(super) fn inputs(self) -> usize {
        match self {
            Self::Copy | Self::Scale => 1,
            Self::Add | Self::Triad => 2,
        }
    }
}

/// The widest vector instructions that this processor and its system have, of those that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instructions {
    /// What every processor of the architecture has.
    Baseline,
    /// 256-bit vectors, and fused multiply-adds.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors, and fused multiply-adds.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// Asks the processor.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let fused = is_x86_feature_detected!("fma");
            if fused && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
                return Self::Avx512;
            }
            if fused && is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    /// The name for the row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
        }
    }

    /// Whether there are stores that bypass the caches.
    pub(super) fn has_nontemporal_stores(self) -> bool {
        cfg!(target_arch = "x86_64")
    }
}

/// What the kernels need of a number format.
pub(super) trait Number: Element {
    /// Its `c = 0.5 a`.
    fn scaled(self) -> Self;
    /// Its `c = a + b`.
    fn plus(self, other: Self) -> Self;
    /// An input element, rounded to the number format.
    fn from_element(element: f64) -> Self;
    /// The kernel with stores past the caches. Where there are none, the plain one.
    fn nontemporal(kernel: Kernel, instructions: Instructions, operands: Operands<'_, Self>);
}

/// The part of one thread: equal lengths. `second` is empty for kernels that read one array.
#[derive(Debug)]
pub(super) struct Operands<'a, T> {
    pub(super) first: &'a [T],
    pub(super) second: &'a [T],
    pub(super) output: &'a mut [T],
}

macro_rules! number {
    ($float:ty, $x86:ident) => {
        impl Number for $float {
            #[inline(always)]
            fn scaled(self) -> Self {
                <$float>::from(FACTOR) * self
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            #[allow(clippy::cast_lossless, reason = "lossless for one of the two formats, exact for both")]
            fn from_element(element: f64) -> Self {
                element as $float
            }

            fn nontemporal(kernel: Kernel, instructions: Instructions, operands: Operands<'_, Self>) {
                #[cfg(target_arch = "x86_64")]
                x86::$x86(kernel, instructions, operands);
                #[cfg(not(target_arch = "x86_64"))]
                plain(kernel, instructions, operands);
            }
        }
    };
}

number!(f32, nontemporal_f32);
number!(f64, nontemporal_f64);

/// Runs a kernel with ordinary stores.
///
/// Compilers make a call of the C library's `memcpy` of the copy loop, here as in every other STREAM: beyond some size
/// it may choose stores past the caches by itself.
pub(super) fn plain<T: Number>(kernel: Kernel, instructions: Instructions, operands: Operands<'_, T>) {
    match instructions {
        Instructions::Baseline => loops(kernel, operands),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 | Instructions::Avx512 => x86::plain(kernel, instructions, operands),
    }
}

/// The loops, to be compiled anew inside each caller's set of instructions.
#[inline(always)]
fn loops<T: Number>(kernel: Kernel, operands: Operands<'_, T>) {
    let Operands { first, second, output } = operands;
    match kernel {
        Kernel::Copy => output.iter_mut().zip(first).for_each(|(to, from)| *to = *from),
        Kernel::Scale => output.iter_mut().zip(first).for_each(|(to, from)| *to = from.scaled()),
        Kernel::Add => {
            output.iter_mut().zip(first.iter().zip(second)).for_each(|(to, (left, right))| *to = left.plus(*right));
        }
        Kernel::Triad => {
            output
                .iter_mut()
                .zip(first.iter().zip(second))
                .for_each(|(to, (left, right))| *to = left.plus(right.scaled()));
        }
    }
}

/// Writes the random elements `start`, `start` + 1, … of a seed.
pub(super) fn fill_random<T: Number>(instructions: Instructions, seed: u64, start: u64, output: &mut [T]) {
    match instructions {
        Instructions::Baseline => random_loop(seed, start, output),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 | Instructions::Avx512 => x86::fill_random(instructions, seed, start, output),
    }
}

#[inline(always)]
fn random_loop<T: Number>(seed: u64, start: u64, output: &mut [T]) {
    for (element, index) in output.iter_mut().zip(start..) {
        *element = T::from_element(fleetcal_kernels::data::random_element(seed, index));
    }
}

#[cfg(test)]
mod tests;
