//! Predicts from a published constants document how long a kernel takes that moves so many bytes and computes so much.
//!
//! ```text
//! cargo run -p fleetcal-model --example predict -- constants.json BYTES [OPERATIONS BLOCKS THREADS]
//! cargo run -p fleetcal-model --example predict -- constants.json 1073741824
//! ```
//!
//! The operations are scalar ones on f32, in one launch of so many blocks of so many threads.

use std::error::Error;
use std::io::Write;

use fleetcal_model::constants::Document;
use fleetcal_model::machine::{Machine, Pipe, Request};
use fleetcal_model::point::Dtype;
use fleetcal_model::row::LaunchContext;
use fleetcal_model::score::{Kernel, Leg};
use fleetcal_model::units::{Bytes, Operations};

const USAGE: &str = "usage: predict CONSTANTS.json BYTES [OPERATIONS BLOCKS THREADS]";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (path, numbers) = arguments.split_first().ok_or(USAGE)?;
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let kernel = kernel(&numbers)?;

    // A program that knows its device asks for the class of that, and gets an error where the document is of another.
    // The origin decides what a number is worth: simulated constants predict no real device.
    let body = Document::from_json(&std::fs::read_to_string(path)?)?.body;
    let request = Request::new(body.class_id.clone()).origin(body.origin);
    let machine = Machine::load(&[&body], &request)?;

    let mut out = std::io::stdout();
    writeln!(out, "{} ({})", body.class_slug, body.origin)?;
    match machine.bound(&kernel) {
        Ok(bound) => writeln!(out, "at least  {}", bound.time)?,
        Err(why) => writeln!(out, "at least  unknown: {why}")?,
    }
    let score = machine.score(&kernel);
    for (name, leg) in [("memory", &score.memory), ("compute", &score.scalar), ("launch", &score.launch)] {
        match leg {
            Leg::NoWork => {}
            Leg::Priced(time) => writeln!(out, "{name:8}  {time}")?,
            Leg::NotPriced { reason, .. } => writeln!(out, "{name:8}  not priced: {reason}")?,
        }
    }
    match (score.time(), score.seconds()) {
        (Ok(time), _) => writeln!(out, "expected  {time}")?,
        (Err(_), Ok(time)) => writeln!(out, "expected  {time}, its launch not counted")?,
        (Err(_), Err(why)) => writeln!(out, "expected  unknown: {why}")?,
    }
    Ok(())
}

/// A kernel that reads its bytes once.
fn kernel(numbers: &[u64]) -> Result<Kernel, &'static str> {
    let moving = |bytes: u64| Kernel { read: Bytes(bytes), requested: Bytes(bytes), ..Kernel::default() };
    match *numbers {
        [bytes] => Ok(moving(bytes)),
        [bytes, operations, blocks, threads] => Ok(Kernel {
            operations: [((Pipe::Scalar, Dtype::F32), Operations(operations))].into(),
            launch_contexts: vec![LaunchContext { blocks, threads, operations }],
            ..moving(bytes)
        }),
        _ => Err(USAGE),
    }
}
