//! How often classes of one hump are called two-humped, and how often classes of two are found.
//!
//! ```text
//! cargo run --release -p fleetcal-model --example humps
//! ```

use std::io::{self, Write};

use fleetcal_model::fit::humps::{FALSE_POSITIVES, HumpRule, Humps, dip, find, limit};
use fleetcal_model::testing::Random;

const SIZES: [usize; 10] = [8, 12, 16, 24, 32, 64, 128, 256, 512, 1024];
/// Classes of a cell; a quarter of them from 256 devices on.
const CLASSES: usize = 2_000;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    if std::env::args().any(|argument| argument == "--limits") {
        return limits(&mut out);
    }
    writeln!(
        out,
        "devices  one hump, called two (%): normal uniform skewed heavy | two humps, found (%), share x sigmas"
    )?;
    let two = [(0.5, 5.0), (0.5, 6.0), (0.5, 8.0), (0.3, 6.0), (0.3, 8.0), (0.2, 6.0), (0.2, 10.0)];
    for devices in &SIZES[2..] {
        let mut random = Random::new(*devices as u64);
        let one: [fn(&mut Random) -> f64; 4] = [
            |random| 0.01 * random.normal(),
            |random| 0.03 * random.uniform(),
            |random| -0.01 * libm::log(random.uniform()),
            |random| 0.003 * random.normal() / random.normal(),
        ];
        write!(out, "{devices:7} ")?;
        for draw in one {
            write!(out, " {:6.2}", percent(*devices, &mut random, |random, _| draw(random)))?;
        }
        write!(out, " |")?;
        for (share, apart) in two {
            let found = percent(*devices, &mut random, |random, part| {
                0.005 * (random.normal() + if part < share { apart } else { 0.0 })
            });
            write!(out, " {share}x{apart}: {found:5.1}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Part of simulated classes that are called two-humped; `draw` is told the part of devices before this one.
fn percent(devices: usize, random: &mut Random, draw: impl Fn(&mut Random, f64) -> f64) -> f64 {
    let classes = if devices >= 256 { CLASSES / 4 } else { CLASSES };
    let mut called = 0;
    for _ in 0..classes {
        let effect = |device: usize, random: &mut Random| Some(draw(random, (device as f64 + 0.5) / devices as f64));
        let effects: Vec<Option<f64>> = (0..devices).map(|device| effect(device, random)).collect();
        called += usize::from(matches!(find(&effects, HumpRule::default()), Humps::Two { .. }));
    }
    called as f64 / classes as f64 * 100.0
}

/// The table of limits that the crate holds, simulated anew from uniform devices.
fn limits(out: &mut impl Write) -> io::Result<()> {
    for devices in SIZES {
        let draws = if devices > 128 { 20_000 } else { 100_000 };
        let mut random = Random::new(devices as u64);
        let mut dips: Vec<f64> = (0..draws)
            .map(|_| {
                let mut values: Vec<f64> = (0..devices).map(|_| random.uniform()).collect();
                values.sort_by(f64::total_cmp);
                dip(&values) * (devices as f64).sqrt()
            })
            .collect();
        dips.sort_by(f64::total_cmp);
        let at = ((1.0 - FALSE_POSITIVES) * draws as f64) as usize;
        let held = limit(devices) * (devices as f64).sqrt();
        writeln!(out, "({devices}, {:.4}), held {held:.4}, median {:.4}", dips[at], dips[draws / 2])?;
    }
    Ok(())
}
