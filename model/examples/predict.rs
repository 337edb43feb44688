//! Predicts from a published constants document how long a kernel takes that moves so many bytes and does little else.
//!
//! ```text
//! cargo run -p fleetcal-model --example predict -- constants.json 1073741824
//! ```

use std::error::Error;
use std::io::Write;

use fleetcal_model::constants::{Document, MEMORY_BANDWIDTH};
use fleetcal_model::units::{Bytes, BytesPerSecond};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: predict CONSTANTS.json BYTES")?;
    let bytes = Bytes(arguments.next().ok_or("usage: predict CONSTANTS.json BYTES")?.parse()?);

    let body = Document::from_json(&std::fs::read_to_string(&path)?)?.body;
    // The origin decides what a number is worth: simulated constants predict no real device.
    // One that holds while neighbours are idle; else one of which that is not known.
    let alone = body.constant(MEMORY_BANDWIDTH, &[("neighbours", "alone")]);
    let constant =
        alone.or_else(|| body.constant(MEMORY_BANDWIDTH, &[])).ok_or("the document has no memory_bandwidth")?;
    let value = constant.value.ok_or_else(|| constant.reason.clone().unwrap_or_default())?;

    let bandwidth = BytesPerSecond(value);
    let (class, origin, time) = (&body.class_slug, body.origin, bytes / bandwidth);
    writeln!(std::io::stdout(), "{class} ({origin}, {bandwidth}): {bytes} take {time}")?;
    Ok(())
}
