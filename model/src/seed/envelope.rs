//! The roofline envelope: for each leg the largest rate that a row demonstrates.
//!
//! A demonstrated floor, not a certified maximum: raising a peak only weakens a bound, understating it breaks the bound.

use super::is_time;
use crate::units::Seconds;

/// Printed values are raised by this before they are cut to seven digits, so that cutting cannot fall below the floor.
const PRINTED_RAISE: f64 = 2e-6;

/// One timed routine.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvelopeRow {
    /// What it is called as a witness.
    pub label: String,
    /// Measured time.
    pub time: Seconds,
    /// Bound of the model in force when it was measured.
    pub bound: Option<Seconds>,
    /// Kernels of the routine.
    pub kernels: u64,
    /// Operations.
    pub flops: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether the operations are exact; else they are an upper bound.
    pub flops_exact: bool,
    /// Whether the bytes are exact; else they are an upper bound.
    pub bytes_exact: bool,
    /// Whether counts may be too low: such a row constrains nothing.
    pub opaque: bool,
}

/// One leg of the envelope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leg {
    /// The peak: operations or bytes per second.
    pub peak: f64,
    /// Index of the row that shows it; the first of equals.
    pub witness: usize,
}

/// A row of several kernels that the legs by themselves do not admit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FissionSlack {
    /// Both peaks were multiplied by this; above 1.
    pub factor: f64,
    /// Index of the row that asks for it; the first of equals.
    pub witness: usize,
}

/// What rows say of a machine's two peaks.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Operations per second; none where no row with exact operations was timed.
    pub compute: Option<Leg>,
    /// Bytes per second; none where no row with exact bytes was timed.
    pub memory: Option<Leg>,
    /// Why both were raised, if they were.
    pub slack: Option<FissionSlack>,
    /// Indices of rows whose bound in force was above their time though both their counts are exact: the envelope then
    /// in force understated the machine.
    pub violations: Vec<usize>,
    /// Rows whose counts may be too low.
    pub opaque_rows: usize,
    /// Rows that are not opaque, and of which a count is an upper bound.
    pub approximate_rows: usize,
}

impl EnvelopeRow {
    fn is_timed(&self) -> bool {
        !self.opaque && is_time(self.time.0)
    }

    fn is_exact(&self) -> bool {
        self.flops_exact && self.bytes_exact
    }
}

/// Fits both legs.
///
/// A leg is the maximum of count over time, over rows that are timed and whose count is exact and positive; exactness is
/// asked for each leg by itself. Maxima of legs do not admit every routine of several kernels, whose bound sums
/// maxima of kernels: where such a row with exact counts ran faster than the sum of its legs, both peaks are raised by
/// that factor. A time that is zero, negative or not finite constrains nothing.
pub fn fit(rows: &[EnvelopeRow]) -> Envelope {
    let mut compute = leg(rows, |row| row.flops_exact.then_some(row.flops));
    let mut memory = leg(rows, |row| row.bytes_exact.then_some(row.bytes));
    let slack = compute.zip(memory).and_then(|(compute, memory)| {
        let slack = fission_slack(rows, compute.peak, memory.peak)?;
        // A peak beyond the numbers would be none.
        [compute, memory].iter().all(|leg| (leg.peak * slack.factor).is_finite()).then_some(slack)
    });
    if let Some(slack) = slack {
        for leg in [&mut compute, &mut memory].into_iter().flatten() {
            leg.peak *= slack.factor;
        }
    }
    let violates =
        |row: &EnvelopeRow| !row.opaque && row.is_exact() && row.bound.is_some_and(|bound| bound.0 > row.time.0);
    let indices = rows.iter().enumerate().filter(|(_, row)| violates(row)).map(|(index, _)| index);
    Envelope {
        compute,
        memory,
        slack,
        violations: indices.collect(),
        opaque_rows: rows.iter().filter(|row| row.opaque).count(),
        approximate_rows: rows.iter().filter(|row| !row.opaque && !row.is_exact()).count(),
    }
}

/// A peak as configuration files hold it: seven digits, never below the peak. `margin` multiplies it.
///
/// ```
/// assert_eq!(fleetcal_model::seed::envelope::printed(5e11, 1.0), "5.000010e11");
/// ```
pub fn printed(peak: f64, margin: f64) -> String {
    format!("{:.6e}", peak * margin * (1.0 + PRINTED_RAISE))
}

fn leg(rows: &[EnvelopeRow], exact_count: impl Fn(&EnvelopeRow) -> Option<u64>) -> Option<Leg> {
    let mut best: Option<Leg> = None;
    for (witness, row) in rows.iter().enumerate().filter(|(_, row)| row.is_timed()) {
        let Some(count) = exact_count(row).filter(|count| *count > 0) else { continue };
        let peak = count as f64 / row.time.0;
        if peak.is_finite() && best.is_none_or(|best| peak > best.peak) {
            best = Some(Leg { peak, witness });
        }
    }
    best
}

fn fission_slack(rows: &[EnvelopeRow], flops_per_second: f64, bytes_per_second: f64) -> Option<FissionSlack> {
    let mut largest: Option<FissionSlack> = None;
    let split = |row: &&EnvelopeRow| row.is_timed() && row.is_exact() && row.kernels > 1;
    for (witness, row) in rows.iter().enumerate().filter(|(_, row)| split(row)) {
        let legs_s = row.flops as f64 / flops_per_second + row.bytes as f64 / bytes_per_second;
        let factor = legs_s / row.time.0;
        if factor > largest.map_or(1.0, |largest| largest.factor) {
            largest = Some(FissionSlack { factor, witness });
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, ms: f64, bound_ms: Option<f64>, kernels: u64, flops: u64, bytes: u64) -> EnvelopeRow {
        EnvelopeRow {
            label: label.to_owned(),
            time: Seconds(ms / 1e3),
            bound: bound_ms.map(|ms| Seconds(ms / 1e3)),
            kernels,
            flops,
            bytes,
            flops_exact: true,
            bytes_exact: true,
            opaque: false,
        }
    }

    /// Golden vectors of the original's own test (`envelope_fitting`).
    fn golden() -> [EnvelopeRow; 4] {
        [
            row("copy_preset", 2.0, None, 1, 0, 16_000_000),
            row("matmul bs=64", 4.0, Some(5.0), 1, 2_000_000_000, 3_000_000),
            EnvelopeRow { flops_exact: false, ..row("masked fringe", 1.0, Some(2.5), 1, 50_000_000_000, 1_000_000) },
            EnvelopeRow { opaque: true, ..row("staged", 1.0, None, 1, 1_000_000, 1_000_000) },
        ]
    }

    #[test]
    fn the_golden_rows_give_the_printed_digits() {
        let rows = golden();
        let envelope = fit(&rows);
        let (compute, memory) = envelope.compute.zip(envelope.memory).expect("both legs");
        assert_eq!(
            (printed(compute.peak, 1.0), printed(memory.peak, 1.0)),
            ("5.000010e11".into(), "8.000016e9".into())
        );
        assert_eq!((&*rows[compute.witness].label, &*rows[memory.witness].label), ("matmul bs=64", "copy_preset"));
        assert_eq!(envelope.slack, None);
        assert_eq!((envelope.violations, envelope.opaque_rows, envelope.approximate_rows), (vec![1], 1, 1));
    }

    #[test]
    fn a_row_of_several_kernels_raises_both_peaks() {
        let envelope = fit(&[row("fissioned fused", 10.0, Some(9.0), 3, 5_000_000, 400_000_000)]);
        let (compute, memory) = envelope.compute.zip(envelope.memory).expect("both legs");
        assert_eq!(
            (printed(compute.peak, 1.0), printed(memory.peak, 1.0)),
            ("1.000002e9".into(), "8.000016e10".into())
        );
        assert_eq!(envelope.slack, Some(FissionSlack { factor: 2.0, witness: 0 }));
        assert!(envelope.violations.is_empty());
    }

    #[test]
    fn exactness_is_asked_for_each_leg() {
        let rows = [EnvelopeRow { flops_exact: false, ..row("fringe", 1.0, None, 1, 50_000_000_000, 1_000_000) }];
        let envelope = fit(&rows);
        assert_eq!((envelope.compute, envelope.memory), (None, Some(Leg { peak: 1e9, witness: 0 })));
    }

    #[test]
    fn times_that_are_none_constrain_nothing() {
        for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let envelope = fit(&[row("odd", ms, None, 1, 100, 100)]);
            assert_eq!((envelope.compute, envelope.memory), (None, None), "{ms} ms");
        }
        assert_eq!(fit(&[]).violations, Vec::<usize>::new());
    }

    #[test]
    fn the_first_of_equal_rows_is_the_witness() {
        let envelope = fit(&[row("one", 1.0, None, 1, 10, 10), row("two", 1.0, None, 1, 10, 10)]);
        assert_eq!(envelope.compute.map(|leg| leg.witness), Some(0));
    }
}
