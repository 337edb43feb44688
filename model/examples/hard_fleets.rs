//! What fits make of hard fleets: a fifth of the devices slow by 10 to 40%, 5% of samples spiked threefold, an hour
//! throttled by 15%; and of clean ones.
//!
//! ```text
//! cargo run --release -p fleetcal-model --example hard_fleets
//! ```

use std::io::{self, Write};

use fleetcal_model::fit::Options;
use fleetcal_model::fit::bandwidth;
use fleetcal_model::fit::class::{Cause, ClassRule, study};
use fleetcal_model::fit::humps::Humps;
use fleetcal_model::fit::pool::Pool;
use fleetcal_model::testing::fleet::{Fleet, FleetSpec};

/// What came of the fleets of one spec.
#[derive(Default)]
struct Tally {
    floor_errors: Vec<f64>,
    rate_errors: Vec<f64>,
    latency_errors: Vec<f64>,
    slow: usize,
    found: usize,
    healthy: usize,
    alarms: usize,
    causes_right: usize,
    two_humps: usize,
    fleets: usize,
    not_fitted: usize,
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for devices in [16, 64, 256] {
        report(&mut out, &format!("clean, {devices} devices"), &FleetSpec::clean(devices), 6_400 / devices)?;
    }
    for devices in [16, 32, 64, 128, 256] {
        report(&mut out, &format!("hard, {devices} devices"), &FleetSpec::hard(devices), 12_800 / devices)?;
    }
    for devices in [16, 64, 256] {
        let (told, untold) = (FleetSpec::two_humps(devices), FleetSpec::untold_humps(devices));
        report(&mut out, &format!("hard, two firmwares, {devices} devices"), &told, 6_400 / devices)?;
        report(&mut out, &format!("hard, two humps of one firmware, {devices} devices"), &untold, 6_400 / devices)?;
    }
    Ok(())
}

fn report(out: &mut impl Write, name: &str, spec: &FleetSpec, fleets: usize) -> io::Result<()> {
    let mut tally = Tally::default();
    (0..fleets as u64).for_each(|seed| tally.add(spec, &Fleet::simulate(spec, seed)));
    let percent = |part: usize, whole: usize| part as f64 / whole.max(1) as f64 * 100.0;
    let errors = |errors: &mut Vec<f64>| {
        errors.sort_by(f64::total_cmp);
        let at = |part: f64| errors.get((part * errors.len() as f64) as usize).or(errors.last()).copied();
        let [middle, high, most] = [at(0.5), at(0.95), at(1.0)].map(|error| error.unwrap_or(f64::INFINITY) * 100.0);
        format!("{middle:.2} {high:.2} {most:.2}")
    };
    writeln!(out, "{name}: {} fleets, {} not fitted", tally.fleets, tally.not_fitted)?;
    writeln!(
        out,
        "  error %, median, 95%, largest: asymptote {}, floor {}, latency {}",
        errors(&mut tally.rate_errors),
        errors(&mut tally.floor_errors),
        errors(&mut tally.latency_errors)
    )?;
    writeln!(
        out,
        "  slow found {:.2}% of {}, healthy called {:.3}% of {}, capped or bad told right {:.2}%, two humps {}",
        percent(tally.found, tally.slow),
        tally.slow,
        percent(tally.alarms, tally.healthy),
        tally.healthy,
        percent(tally.causes_right, tally.found),
        tally.two_humps
    )
}

impl Tally {
    fn add(&mut self, spec: &FleetSpec, fleet: &Fleet) {
        self.fleets += 1;
        let Ok(pool) = Pool::new(&fleet.rows) else { return };
        let fit = bandwidth::fit(&pool, &Options::default());
        let (floor, asymptote) = (fit.floors.first(), fit.asymptotes.first());
        let off = |found: f64, truth: f64| (found / truth - 1.0).abs();
        // The largest size's own rate is the floor's truth: it has a latency too.
        let elements = spec.elements.iter().max().copied().unwrap_or(1);
        let bytes = fleetcal_model::testing::stream_bytes("triad", elements) as f64;
        let at_largest = bytes / (bytes / spec.rate + spec.latency_ns * 1e-9);
        if let Some(Ok(floor)) = floor.map(|fitted| &fitted.outcome) {
            self.floor_errors.push(off(floor.bandwidth.0, at_largest));
        }
        match asymptote.map(|fitted| &fitted.outcome) {
            Some(Ok(found)) => {
                self.rate_errors.push(off(found.bandwidth.0, spec.rate));
                let latency = found.latency.map_or(0.0, |latency| latency.0);
                self.latency_errors.push(off(latency, spec.latency_ns * 1e-9));
            }
            Some(Err(_)) | None => self.not_fitted += 1,
        }
        let study = study(&pool, ClassRule::default());
        self.two_humps += study.families.iter().filter(|family| matches!(family.humps, Humps::Two { .. })).count();
        self.slow += fleet.slow.len();
        self.healthy += spec.devices - fleet.slow.len();
        for evidence in study.outliers(ClassRule::default()) {
            if !fleet.slow.contains_key(evidence.device) {
                self.alarms += 1;
                continue;
            }
            self.found += 1;
            let is_capped = matches!(evidence.families[0].cause, Some(Cause::Clock { .. }));
            self.causes_right += usize::from(is_capped == fleet.capped.contains(evidence.device));
        }
    }
}
