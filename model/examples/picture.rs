//! Draws how the issue rate of one H200 is fitted, from rows of `tests/fixtures/h200-probe`, as SVG.
//!
//! ```text
//! cargo run -p fleetcal-model --features testing --example picture -- tests/fixtures/h200-probe/a.csv docs/issue-fit.svg
//! ```

use std::error::Error;
use std::fmt::Write as _;

use fleetcal_model::fit::regime::{RegimeRule, find};
use fleetcal_model::import::{Source, probe};
use fleetcal_model::point::Sweep;
use fleetcal_model::row::Row;
use fleetcal_model::seed::issue::{IssuePoint, fit};
use fleetcal_model::testing::h200_facts;
use fleetcal_model::units::Seconds;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// Powers of ten that the axes span: operations, and seconds.
const X: (f64, f64) = (8.0, 10.5);
const Y: (f64, f64) = (-4.6, -1.9);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (path, picture) = arguments.next().zip(arguments.next()).ok_or("usage: picture PROBE.csv PICTURE.svg")?;
    Ok(std::fs::write(picture, drawn(&std::fs::read_to_string(path)?)?)?)
}

/// The picture of a probe's samples.
fn drawn(probe: &str) -> Result<String, Box<dyn Error>> {
    let source = Source {
        device: h200_facts("GPU-a"),
        host: "host-a".to_owned(),
        name: "a".to_owned(),
        clock: "cuda_event".to_owned(),
        data_pattern: "uniform".to_owned(),
    };
    let rows = probe::rows(probe, &source)?;
    let wanted = |row: &&Row| row.work.sweep == Sweep::Issue && row.work.solution.starts_with("t32");
    let rows = rows.iter().filter(wanted).filter(|row| (row.work.m, row.work.n) == (Some(512), Some(512)));
    let points: Vec<(f64, f64)> =
        rows.filter_map(|row| Some((row.counts.scalar_ops as f64, row.timing.estimate_ns? * 1e-9))).collect();
    svg(&points)
}

fn svg(points: &[(f64, f64)]) -> Result<String, Box<dyn Error>> {
    let regime = find(points, RegimeRule::default())?;
    let timed =
        points.iter().map(|(x, y)| IssuePoint { scalar_ops: *x as u64, time: Seconds(*y), contexts: Vec::new() });
    let seed = fit(&timed.collect::<Vec<_>>(), None)?;
    let mut text = String::new();
    writeln!(
        text,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">"#
    )?;
    writeln!(text, r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>"##)?;
    for power in [8.0, 9.0, 10.0] {
        let x = horizontal(power_of_ten(power));
        writeln!(
            text,
            r##"<path d="M{x:.1} 30V350" stroke="#ddd"/><text x="{x:.1}" y="368" text-anchor="middle">1e{power}</text>"##
        )?;
    }
    for (power, label) in [(-4.0, "100 µs"), (-3.0, "1 ms"), (-2.0, "10 ms")] {
        let y = vertical(power_of_ten(power));
        writeln!(
            text,
            r##"<path d="M70 {y:.1}H620" stroke="#ddd"/><text x="64" y="{y:.1}" dy="4" text-anchor="end">{label}</text>"##
        )?;
    }
    let line = path(regime.line.intercept, regime.line.slope);
    writeln!(text, r##"<path d="{line}" fill="none" stroke="#06c" stroke-width="2"/>"##)?;
    let original = path(seed.latency.0, seed.rate.recip());
    writeln!(text, r##"<path d="{original}" fill="none" stroke="#999" stroke-width="2" stroke-dasharray="6 4"/>"##)?;
    for index in &regime.used {
        let (x, y) = points.get(*index).ok_or("a point that is not there")?;
        writeln!(text, r##"<circle cx="{:.1}" cy="{:.1}" r="5" fill="#06c"/>"##, horizontal(*x), vertical(*y))?;
    }
    for out in regime.beyond.iter().chain(&regime.dropped) {
        let (x, y) = points.get(out.index).ok_or("a point that is not there")?;
        let (x, y) = (horizontal(*x), vertical(*y));
        writeln!(
            text,
            r##"<path d="M{:.1} {:.1}l10 10m0 -10l-10 10" stroke="#c30" stroke-width="2"/>"##,
            x - 5.0,
            y - 5.0
        )?;
        writeln!(
            text,
            r##"<text x="{:.1}" y="{:.1}" fill="#c30" text-anchor="end">{:+.0}%</text>"##,
            x - 10.0,
            y,
            100.0 * out.residual / (1.0 - out.residual)
        )?;
    }
    let rates =
        [(regime.line.slope.recip(), "#06c", "the regime"), (seed.rate, "#777", "least squares over all points")];
    for (row, (rate, colour, what)) in rates.into_iter().enumerate() {
        let y = 50 + 20 * row;
        writeln!(text, r#"<text x="84" y="{y}" fill="{colour}">{what}: {:.2} Top/s</text>"#, rate / 1e12)?;
    }
    writeln!(text, r##"<text x="84" y="90" fill="#c30">past the knee, left out</text>"##)?;
    writeln!(text, r#"<text x="345" y="390" text-anchor="middle">scalar operations of a launch</text>"#)?;
    writeln!(text, "</svg>")?;
    Ok(text)
}

fn horizontal(value: f64) -> f64 {
    70.0 + 550.0 * (libm::log10(value) - X.0) / (X.1 - X.0)
}

fn vertical(value: f64) -> f64 {
    350.0 - 320.0 * (libm::log10(value) - Y.0) / (Y.1 - Y.0)
}

/// The line where it is inside of the picture.
fn path(intercept: f64, slope: f64) -> String {
    let at = |step: i32| power_of_ten(X.0 + (X.1 - X.0) * f64::from(step) / 100.0);
    let inside = |(_, y): &(f64, f64)| *y > power_of_ten(Y.0) && *y < power_of_ten(Y.1);
    let points = (0..=100).map(at).map(|x| (x, intercept + slope * x)).filter(inside);
    let points: Vec<String> = points.map(|(x, y)| format!("{:.1} {:.1}", horizontal(x), vertical(y))).collect();
    format!("M{}", points.join("L"))
}

fn power_of_ten(power: f64) -> f64 {
    libm::pow(10.0, power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_in_the_documentation_is_the_one_that_these_fits_draw() {
        let read = |path: &str| {
            let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let now = drawn(&read("tests/fixtures/h200-probe/a.csv")).expect("the probe has an issue sweep");
        let said = "docs/issue-fit.svg is another picture: draw it anew by the command at the top of this file";
        assert_eq!(now, read("docs/issue-fit.svg"), "{said}");
    }
}
