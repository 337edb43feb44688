//! The calibration TSV of OCANNL, and the configuration lines that its fit gives back.
//!
//! One line is one admitted timing of a routine, summed over its kernels:
//! `backend, digest, routine, label, measured_ms, model_ms, kernels, flops, bytes, flops_approx, bytes_approx, opaque`; an older
//! form has no `routine`. Such rows name no device, so they feed the original's envelope, [`crate::seed::envelope`], and
//! nothing else. Lines of yet older forms and damaged ones are passed over and counted.

use crate::seed::envelope::{Envelope, EnvelopeRow, Leg, fit, printed};
use crate::units::Seconds;

/// Configuration key of the compute leg, flop/s.
pub const PEAK_FLOPS_KEY: &str = "model_peak_flops";
/// Configuration key of the memory leg, B/s.
pub const PEAK_MEMORY_BANDWIDTH_KEY: &str = "model_peak_memory_bandwidth";

/// What a text holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calibration {
    /// Rows by backend, both in the order of their first appearance.
    pub backends: Vec<(String, Vec<EnvelopeRow>)>,
    /// Numbers of the lines that are none, from 1, each in its own text.
    pub malformed: Vec<usize>,
}

impl Calibration {
    /// Reads a text. Empty lines and lines that begin with `#` are no rows.
    pub fn parse(text: &str) -> Self {
        let mut calibration = Self::default();
        for (index, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            match parse(line) {
                Some((backend, row)) => {
                    calibration.join(Self { backends: vec![(backend, vec![row])], ..Self::default() })
                }
                None => calibration.malformed.push(index + 1),
            }
        }
        calibration
    }

    /// Adds the rows of another text behind those of this one.
    pub fn join(&mut self, other: Self) {
        for (backend, rows) in other.backends {
            match self.backends.iter_mut().find(|(known, _)| *known == backend) {
                Some((_, known)) => known.extend(rows),
                None => self.backends.push((backend, rows)),
            }
        }
        self.malformed.extend(other.malformed);
    }
}

fn parse(line: &str) -> Option<(String, EnvelopeRow)> {
    let fields: Vec<&str> = line.trim_end_matches(['\r', '\n']).split('\t').collect();
    let (backend, label, rest) = match fields[..] {
        [backend, digest, routine, label, ref rest @ ..] if rest.len() == 8 => {
            (backend, format!("{routine}/{label} ({digest})"), rest)
        }
        [backend, digest, label, ref rest @ ..] if rest.len() == 8 => (backend, format!("{label} ({digest})"), rest),
        _ => return None,
    };
    let &[measured_ms, model_ms, kernels, flops, bytes, flops_approximate, bytes_approximate, opaque] = rest else {
        return None;
    };
    let seconds = |text: &str| text.parse::<f64>().ok().map(|ms| Seconds(ms / 1e3));
    let flag = |text: &str| text.parse::<bool>().ok();
    let row = EnvelopeRow {
        label,
        time: seconds(measured_ms)?,
        bound: if model_ms.is_empty() { None } else { Some(seconds(model_ms)?) },
        kernels: kernels.parse().ok()?,
        flops: flops.parse().ok()?,
        bytes: bytes.parse().ok()?,
        flops_exact: !flag(flops_approximate)?,
        bytes_exact: !flag(bytes_approximate)?,
        opaque: flag(opaque)?,
    };
    Some((backend.to_owned(), row))
}

/// The envelope of one backend's rows as configuration lines, with the rows that bind it in comments. `margin` multiplies
/// both peaks. Keys are those of one backend: lines of several do not belong into one file.
pub fn configuration(backend: &str, rows: &[EnvelopeRow], margin: f64) -> String {
    let Envelope { compute, memory, slack, violations, opaque_rows, approximate_rows } = fit(rows);
    let label = |index: usize| rows.get(index).map_or("", |row| row.label.as_str());
    let mut lines = vec![format!(
        "# {backend}: {} rows, {opaque_rows} opaque, {approximate_rows} with an approximate count",
        rows.len()
    )];
    let mut leg = |key: &str, leg: Option<Leg>| match leg {
        Some(Leg { peak, witness }) => {
            lines.push(format!("# shown by {}", label(witness)));
            lines.push(format!("{key}={}", printed(peak, margin)));
        }
        None => lines.push(format!("# no scoreable row constrains {key}")),
    };
    leg(PEAK_FLOPS_KEY, compute);
    leg(PEAK_MEMORY_BANDWIDTH_KEY, memory);
    if let Some(slack) = slack {
        lines.push(format!("# both raised by {:.6} for {}", slack.factor, label(slack.witness)));
    }
    if !violations.is_empty() {
        let labels: Vec<&str> = violations.iter().map(|index| label(*index)).collect();
        lines.push(format!("# faster than the envelope that was in force: {}", labels.join(", ")));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The original's golden rows, in both forms.
    const GOLDEN: &str = "cc\td1\tr1\tcopy_preset\t2.0\t\t1\t0\t16000000\tfalse\tfalse\tfalse\n\
        cc\td2\tmatmul bs=64\t4.0\t5.0\t1\t2000000000\t3000000\tfalse\tfalse\tfalse\n\
        cc\td3\tr3\tmasked fringe\t1.0\t2.5\t1\t50000000000\t1000000\ttrue\tfalse\tfalse\n\
        cc\td4\tr4\tstaged\t1.0\t\t1\t1000000\t1000000\tfalse\tfalse\ttrue\n\
        toy\td5\tr5\tfissioned fused\t10.0\t9.0\t3\t5000000\t400000000\tfalse\tfalse\tfalse\n";

    #[test]
    fn golden_rows_give_the_configuration_of_the_original() {
        let calibration = Calibration::parse(GOLDEN);
        assert_eq!(calibration.malformed, Vec::<usize>::new());
        let [(cc, cc_rows), (toy, toy_rows)] = &calibration.backends[..] else { panic!("{calibration:?}") };
        assert_eq!(
            configuration(cc, cc_rows, 1.0),
            "# cc: 4 rows, 1 opaque, 1 with an approximate count\n\
             # shown by matmul bs=64 (d2)\nmodel_peak_flops=5.000010e11\n\
             # shown by r1/copy_preset (d1)\nmodel_peak_memory_bandwidth=8.000016e9\n\
             # faster than the envelope that was in force: matmul bs=64 (d2)\n"
        );
        let toy = configuration(toy, toy_rows, 1.0);
        assert!(toy.contains("model_peak_flops=1.000002e9\n") && toy.contains("bandwidth=8.000016e10\n"), "{toy}");
        assert!(toy.contains("# both raised by 2.000000 for r5/fissioned fused (d5)\n"), "{toy}");
        assert!(configuration("cc", cc_rows, 2.0).contains("model_peak_flops=1.000002e12\n"), "the margin multiplies");
    }

    #[test]
    fn malformed_lines_are_counted_and_passed_over() {
        let good = "cc\td\tl\t1\t\t1\t1\t1\tfalse\tfalse\tfalse";
        let short = good.replace("\tfalse\tfalse\tfalse", "\tfalse\tfalse");
        let text = format!(
            "# a comment\n{good}\n{short}\n{}\n{}\n\n{good}\textra\tmore\n",
            good.replace("\t1\t\t", "\tfast\t\t"),
            good.replace("\tfalse\tfalse\tfalse", "\tmaybe\tfalse\tfalse"),
        );
        let calibration = Calibration::parse(&text);
        assert_eq!(calibration.malformed, [3, 4, 5, 7]);
        assert_eq!(calibration.backends.iter().map(|(_, rows)| rows.len()).sum::<usize>(), 1);
        assert!(configuration("none", &[], 1.0).contains("# no scoreable row constrains model_peak_flops\n"));
    }
}
