//! Which simulated devices to make, and how they misbehave.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use fleetcal_kernels::family::family;
use fleetcal_model::point::{Sweep, UnknownName};
use fleetcal_model::throttle::ThrottleReasons;
use serde::{Deserialize, Serialize};

use super::SimModel;

/// Most simulated devices of one agent: more than any node has, and few enough that none of them costs memory.
const DEVICES_MAX: u64 = 1024;

/// Longest visit that may be asked for, milliseconds: an hour.
const VISIT_MS_MAX: u64 = 3_600_000;

/// A text that specifies no simulated devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimSpecError {
    /// It does not begin with a number of devices.
    #[error("`{text}` does not begin with a number of simulated devices, as in `2,seed=7`")]
    Devices {
        /// The text found.
        text: String,
    },
    /// A setting has no value.
    #[error("`{setting}` is no setting of simulated devices, as `seed=7` would be")]
    NoValue {
        /// The setting found.
        setting: String,
    },
    /// There is no such setting.
    #[error("simulated devices have no setting `{name}`, they have: seed, pace, visit_ms, model, fault")]
    UnknownSetting {
        /// The name found.
        name: String,
    },
    /// A setting is there twice; only faults may be.
    #[error("the setting `{name}` is there twice")]
    Repeated {
        /// Its name.
        name: String,
    },
    /// A whole number is none.
    #[error("`{name}={value}`: {source}")]
    Number {
        /// The setting.
        name: String,
        /// The value found.
        value: String,
        /// What is wrong with it.
        source: ParseIntError,
    },
    /// It asks for more than can be made.
    #[error("`{text}` asks for {what} = {value}, and {most} is the most")]
    TooMany {
        /// The text found.
        text: String,
        /// Of what.
        what: &'static str,
        /// How much of it.
        value: u64,
        /// How much there may be.
        most: u64,
    },
    /// The pace is none.
    #[error("`pace={value}` must be a number from 0 (simulated time passes at once) to 1 (as it would for real)")]
    Pace {
        /// The value found.
        value: String,
    },
    /// There is no such model.
    #[error(transparent)]
    Model(#[from] UnknownName),
    /// A fault of a kernel that no family has would never show.
    #[error("`fault={fault}`: there is no kernel `{kernel}`, there are: {known}")]
    Kernel {
        /// The fault.
        fault: String,
        /// The kernel found.
        kernel: String,
        /// Kernels that there are.
        known: String,
    },
    /// There is no such fault.
    #[error(
        "simulated devices have no fault `{text}`, they have: wrong_result:KERNEL, off_by_one:KERNEL[:ACCESS] (reads_beyond, writes_beyond, writes_before), compile:SOLUTION, unloadable:SOLUTION, oom, lost[:VISITS], hang[:VISITS], spin:SOLUTION, exit:SOLUTION, throttled:REASON[:VISITS], sensor_lost[:READINGS], foreign[:VISITS]"
    )]
    Fault {
        /// The text found.
        text: String,
    },
}

/// One element too far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrayAccess {
    /// Reads the one behind its first input, and lets it into the result if it is no number.
    ReadsBeyond,
    /// Writes the one behind its output.
    WritesBeyond,
    /// Writes the one before its output.
    WritesBefore,
}

impl StrayAccess {
    const ALL: [Self; 3] = [Self::ReadsBeyond, Self::WritesBeyond, Self::WritesBefore];

    fn name(self) -> &'static str {
        match self {
            Self::ReadsBeyond => "reads_beyond",
            Self::WritesBeyond => "writes_beyond",
            Self::WritesBefore => "writes_before",
        }
    }
}

/// A way to misbehave, on every simulated device of the agent.
///
/// Visits are calls of [`crate::device::Device::time`] on one opened device, so they count from 0 again in each worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SimFault {
    /// `wrong_result:KERNEL`: results of the kernel are wrong.
    WrongResult {
        /// The kernel, for example `triad`.
        kernel: String,
    },
    /// `off_by_one:KERNEL:ACCESS`: each launch of the kernel accesses one element outside of an array; without an access,
    /// it writes beyond. A page guard there ends the context.
    OffByOne {
        /// The kernel.
        kernel: String,
        /// What it does.
        access: StrayAccess,
    },
    /// `spin:SOLUTION`: no launch of the solution ever ends.
    Spin {
        /// The solution's name.
        solution: String,
    },
    /// `exit:SOLUTION`: the first launch of the solution ends the worker with exit code 139, as a shell reports a
    /// segmentation fault.
    Exit {
        /// The solution's name.
        solution: String,
    },
    /// `compile:SOLUTION`: the solution does not compile.
    Compile {
        /// The solution's name.
        solution: String,
    },
    /// `unloadable:SOLUTION`: the solution compiles, and its code cannot be loaded.
    Unloadable {
        /// The solution's name.
        solution: String,
    },
    /// `oom`: every allocation fails, although memory was said to be free.
    OutOfMemory,
    /// `lost:VISITS`: the context is lost after so many visits.
    Lost {
        /// Visits that end well.
        after_visits: u64,
    },
    /// `hang:VISITS`: the device never answers again after so many visits.
    Hang {
        /// Visits that end well.
        after_visits: u64,
    },
    /// `throttled:REASON:VISITS`: after so many visits its sensor gives a throttle reason. The reason is named as in
    /// messages, with `_` for spaces: `hardware_thermal_slowdown`.
    Throttled {
        /// The reason.
        reason: ThrottleReasons,
        /// Visits before it.
        from_visit: u64,
    },
    /// `sensor_lost:READINGS`: its sensor has no value any more after so many readings.
    SensorLost {
        /// Readings that end well.
        after_readings: u64,
    },
    /// `foreign:VISITS`: after so many visits its sensor sees a process of somebody else.
    Foreign {
        /// Visits before it.
        from_visit: u64,
    },
}

/// Simulated devices of an agent. As text: the number of devices, then settings, as in
/// `2,seed=7,pace=0.01,visit_ms=20,model=S2,fault=lost:3`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimSpec {
    /// How many.
    pub devices: u64,
    /// Seed of spread and noise.
    pub seed: u64,
    /// Share of simulated time that is slept for real, 0 to 1.
    pub pace: f64,
    /// Least real time of a visit, milliseconds, so that a test can interrupt one.
    pub visit_ms: u64,
    /// Their product.
    pub model: SimModel,
    /// How they misbehave.
    pub faults: Vec<SimFault>,
}

impl Default for SimSpec {
    /// No devices.
    fn default() -> Self {
        Self { devices: 0, seed: 0, pace: 0.0, visit_ms: 0, model: SimModel::S1, faults: Vec::new() }
    }
}

impl FromStr for SimSpec {
    type Err = SimSpecError;

    fn from_str(text: &str) -> Result<Self, SimSpecError> {
        let mut parts = text.split(',').map(str::trim);
        let devices = parts.next().and_then(|count| count.parse::<u64>().ok());
        let mut spec = Self {
            devices: devices
                .ok_or_else(|| SimSpecError::Devices { text: text.to_owned() })
                .and_then(|count| at_most("devices", count, DEVICES_MAX, text))?,
            ..Self::default()
        };
        let mut seen: Vec<&str> = Vec::new();
        for setting in parts {
            let (name, value) =
                setting.split_once('=').ok_or_else(|| SimSpecError::NoValue { setting: setting.to_owned() })?;
            if name != "fault" && seen.contains(&name) {
                return Err(SimSpecError::Repeated { name: name.to_owned() });
            }
            seen.push(name);
            match name {
                "seed" => spec.seed = number(name, value)?,
                "visit_ms" => spec.visit_ms = at_most("visit_ms", number(name, value)?, VISIT_MS_MAX, text)?,
                "pace" => spec.pace = pace(value)?,
                "model" => spec.model = value.parse()?,
                "fault" => spec.faults.push(value.parse()?),
                _ => return Err(SimSpecError::UnknownSetting { name: name.to_owned() }),
            }
        }
        Ok(spec)
    }
}

impl FromStr for SimFault {
    type Err = SimSpecError;

    fn from_str(text: &str) -> Result<Self, SimSpecError> {
        let unknown = || SimSpecError::Fault { text: text.to_owned() };
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let counted = |value: &str| {
            value.parse::<u64>().map_err(|source| SimSpecError::Number {
                name: "fault".to_owned(),
                value: text.to_owned(),
                source,
            })
        };
        let visits = || value.map_or(Ok(0), counted);
        match (name, value) {
            ("wrong_result", Some(kernel)) if !kernel.is_empty() => {
                Ok(Self::WrongResult { kernel: known_kernel(text, kernel)? })
            }
            ("off_by_one", Some(value)) if !value.is_empty() => {
                let (kernel, access) = value.split_once(':').unwrap_or((value, StrayAccess::WritesBeyond.name()));
                let access = StrayAccess::ALL.into_iter().find(|known| known.name() == access).ok_or_else(unknown)?;
                Ok(Self::OffByOne { kernel: known_kernel(text, kernel)?, access })
            }
            ("compile", Some(solution)) if !solution.is_empty() => Ok(Self::Compile { solution: solution.to_owned() }),
            ("unloadable", Some(solution)) if !solution.is_empty() => {
                Ok(Self::Unloadable { solution: solution.to_owned() })
            }
            ("spin", Some(solution)) if !solution.is_empty() => Ok(Self::Spin { solution: solution.to_owned() }),
            ("exit", Some(solution)) if !solution.is_empty() => Ok(Self::Exit { solution: solution.to_owned() }),
            ("oom", None) => Ok(Self::OutOfMemory),
            ("lost", _) => Ok(Self::Lost { after_visits: visits()? }),
            ("hang", _) => Ok(Self::Hang { after_visits: visits()? }),
            ("throttled", Some(value)) => {
                let (reason, visits) = value.split_once(':').unwrap_or((value, "0"));
                let reason = reason_named(reason).ok_or_else(unknown)?;
                Ok(Self::Throttled { reason, from_visit: counted(visits)? })
            }
            ("sensor_lost", _) => Ok(Self::SensorLost { after_readings: visits()? }),
            ("foreign", _) => Ok(Self::Foreign { from_visit: visits()? }),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for SimFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongResult { kernel } => write!(f, "wrong_result:{kernel}"),
            Self::OffByOne { kernel, access } => write!(f, "off_by_one:{kernel}:{}", access.name()),
            Self::Compile { solution } => write!(f, "compile:{solution}"),
            Self::Unloadable { solution } => write!(f, "unloadable:{solution}"),
            Self::Spin { solution } => write!(f, "spin:{solution}"),
            Self::Exit { solution } => write!(f, "exit:{solution}"),
            Self::OutOfMemory => f.write_str("oom"),
            Self::Lost { after_visits } => write!(f, "lost:{after_visits}"),
            Self::Hang { after_visits } => write!(f, "hang:{after_visits}"),
            Self::Throttled { reason, from_visit } => {
                write!(f, "throttled:{}:{from_visit}", reason.to_string().replace(' ', "_"))
            }
            Self::SensorLost { after_readings } => write!(f, "sensor_lost:{after_readings}"),
            Self::Foreign { from_visit } => write!(f, "foreign:{from_visit}"),
        }
    }
}

impl fmt::Display for SimSpec {
    /// What [`SimSpec`]'s `FromStr` reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { devices, seed, pace, visit_ms, model, faults } = self;
        write!(f, "{devices},seed={seed},pace={pace},visit_ms={visit_ms},model={model}")?;
        faults.iter().try_for_each(|fault| write!(f, ",fault={fault}"))
    }
}

/// The kernel of a fault, if any family has it.
fn known_kernel(fault: &str, kernel: &str) -> Result<String, SimSpecError> {
    let families = Sweep::ALL.iter().filter_map(|sweep| family(*sweep));
    let known: Vec<&str> = families.flat_map(|family| family.kernels()).copied().collect();
    if known.contains(&kernel) {
        return Ok(kernel.to_owned());
    }
    let known = known.join(", ");
    Err(SimSpecError::Kernel { fault: fault.to_owned(), kernel: kernel.to_owned(), known })
}

/// The throttle reason of this name, with `_` for spaces.
fn reason_named(name: &str) -> Option<ThrottleReasons> {
    ThrottleReasons::NAMED.iter().find(|(_, words)| words.replace(' ', "_") == name).map(|(reason, _)| *reason)
}

fn number(name: &str, value: &str) -> Result<u64, SimSpecError> {
    let wrong = |source| SimSpecError::Number { name: name.to_owned(), value: value.to_owned(), source };
    value.parse::<u64>().map_err(wrong)
}

fn at_most(what: &'static str, value: u64, most: u64, text: &str) -> Result<u64, SimSpecError> {
    if value <= most { Ok(value) } else { Err(SimSpecError::TooMany { text: text.to_owned(), what, value, most }) }
}

fn pace(value: &str) -> Result<f64, SimSpecError> {
    let pace = value.parse::<f64>().ok().filter(|pace| (0.0..=1.0).contains(pace));
    pace.ok_or_else(|| SimSpecError::Pace { value: value.to_owned() })
}

#[cfg(test)]
mod tests;
