//! Programs that misbehave. They are there in the tests of this crate alone: no build that people run has a way to ask
//! for one.

#![allow(unsafe_code)]

use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The variable by which a worker of a test is told what to plant: a name of [`Misdeed`] and a solution, with a colon
/// between.
pub(crate) const VARIABLE: &str = "FLEETCAL_TEST_PLANTED";
/// What a shell reports of a process that died of a segmentation fault.
const EXIT_OF_A_CRASH: i32 = 139;
/// How long a launch gives a caller that does not wait for it to show itself. One that waits costs this much.
const EAGER: Duration = Duration::from_millis(200);

/// What a program does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misdeed {
    /// Reads the element behind an input's last for the output's last.
    ReadsBeyond,
    /// Writes the element behind the output's last.
    WritesBeyond,
    /// Writes the element before the output's first.
    WritesBefore,
    /// Never ends, and lets go of no core.
    SpinsForEver,
    /// Writes to an address that is not mapped.
    WritesToNoMemory,
    /// Ends its process with exit code 139.
    Exits,
    /// Ends only once its caller goes on, or has shown that it waits.
    OutlastsAnEagerCaller,
}

/// A misdeed of one solution, or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Planted {
    pub(super) misdeed: Misdeed,
    /// Whose it is; of all without one.
    pub(super) solution: Option<String>,
}

impl Planted {
    /// What the environment asks for; nothing where it says nothing.
    pub(super) fn from_environment() -> Option<Self> {
        let words = std::env::var(VARIABLE).ok()?;
        let (name, solution) = words.split_once(':').expect("a test names a misdeed and a solution");
        let misdeed = match name {
            "spin" => Misdeed::SpinsForEver,
            "fault" => Misdeed::WritesToNoMemory,
            "exit" => Misdeed::Exits,
            _ => panic!("no test asks for `{name}`"),
        };
        Some(Self { misdeed, solution: Some(solution.to_owned()) })
    }

    /// What a solution does wrong.
    pub(super) fn of(&self, solution: &str) -> Option<Misdeed> {
        self.solution.as_ref().is_none_or(|of| of == solution).then_some(self.misdeed)
    }
}

/// Never returns.
pub(super) fn spin() {
    loop {
        hint::spin_loop();
    }
}

/// Ends the process by a segmentation fault.
pub(super) fn fault() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: a new mapping, which overlaps nothing.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), 1, ProtFlags::empty(), MapFlags::PRIVATE) };
    let page = page.expect("an address space has room for a page").cast::<u8>();
    // SAFETY: none. The page may not be written to, and the process is to die of it.
    unsafe { page.write_volatile(1) };
}

/// Ends the process.
pub(super) fn exit() {
    std::process::exit(EXIT_OF_A_CRASH);
}

static CALLER_WENT_ON: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicBool = AtomicBool::new(false);

/// Ends once the caller goes on, or after long enough to know that it waits.
pub(super) fn outlast() {
    let began = Instant::now();
    while !CALLER_WENT_ON.load(Ordering::SeqCst) && began.elapsed() < EAGER {
        hint::spin_loop();
    }
    ENDED.store(!CALLER_WENT_ON.load(Ordering::SeqCst), Ordering::SeqCst);
}

/// Says that the caller of a launch goes on; whether the launch had ended.
pub(super) fn caller_goes_on() -> bool {
    CALLER_WENT_ON.store(true, Ordering::SeqCst);
    ENDED.load(Ordering::SeqCst)
}
