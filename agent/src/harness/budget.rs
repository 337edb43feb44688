//! What a task will cost, known from its pilot round, and how it is made to fit its time.
//!
//! The plan is settled once, from the cost of the pilot and never from the values it measured: stopping when an interval
//! looks narrow would bias its coverage.

use std::ops::Range;

/// Fewest samples of a visit that shrinking leaves.
const SAMPLES_FLOOR: u64 = 3;

/// Fewest rounds that shrinking leaves: fewer have no interval.
const ROUNDS_FLOOR: u64 = 3;

/// What one visit costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisitCost {
    /// Poison, warm-ups, checks and the host's work, nanoseconds.
    pub fixed_ns: u64,
    /// One sample with its flush, nanoseconds.
    pub sample_ns: u64,
}

impl VisitCost {
    /// Most that a visit takes, nanoseconds.
    pub fn visit_ns(self, samples_max: u64, visit_ns_max: u64) -> u64 {
        let affordable = (visit_ns_max / self.sample_ns.max(1)).max(1);
        self.fixed_ns.saturating_add(self.sample_ns.saturating_mul(samples_max.min(affordable)))
    }
}

/// The largest number of further rounds that fits `left_ns`. `further` says how many each record needs, and what one of
/// its visits costs; `round_ns` is what a round costs before its first visit.
pub fn rounds_within(
    further: &[(u64, VisitCost)],
    round_ns: u64,
    visit_ns: impl Fn(&VisitCost) -> u64,
    left_ns: u64,
) -> u64 {
    let most = further.iter().map(|(rounds, _)| *rounds).max().unwrap_or(0);
    let mut spent_ns: u64 = 0;
    for round in 1..=most {
        let visited = further.iter().filter(|(rounds, _)| *rounds >= round);
        spent_ns = visited.fold(spent_ns.saturating_add(round_ns), |sum, (_, cost)| sum.saturating_add(visit_ns(cost)));
        if spent_ns > left_ns {
            return round - 1;
        }
    }
    most
}

/// The counts in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Limits {
    /// Measuring rounds.
    pub rounds: u64,
    /// Solutions a point that are measured after screening.
    pub finalists: u64,
    /// Fewest samples of a visit.
    pub samples_min: u64,
    /// Most samples of a visit.
    pub samples_max: u64,
}

/// What is left to do, as the pilot saw it.
#[derive(Debug)]
pub struct Forecast<'a> {
    /// For each point, the cost of one visit of each candidate, best candidate first.
    pub points: &'a [Vec<VisitCost>],
    /// Allocation and fill at the start of a round, nanoseconds.
    pub round_ns: u64,
    /// Longest timed part of a visit, nanoseconds.
    pub visit_ns_max: u64,
    /// Measuring rounds that are over.
    pub rounds_done: u64,
}

impl Forecast<'_> {
    /// Upper bound of the time that is left under `limits`, nanoseconds.
    pub fn cost_ns(&self, limits: Limits) -> u64 {
        let visit = |cost: &VisitCost| cost.visit_ns(limits.samples_max, self.visit_ns_max);
        let finalists = usize::try_from(limits.finalists).unwrap_or(usize::MAX);
        let visits_ns = self
            .points
            .iter()
            .flat_map(|candidates| candidates.iter().take(finalists))
            .fold(0_u64, |total, cost| total.saturating_add(visit(cost)));
        limits.rounds.saturating_sub(self.rounds_done).saturating_mul(self.round_ns.saturating_add(visits_ns))
    }

    /// Shrinks the limits until the forecast fits `left_ns`: first samples, then finalists, then rounds. Returns the
    /// limits, and a sentence that says what was shrunk and why, where anything was.
    pub fn fit(&self, wanted: Limits, left_ns: u64) -> (Limits, Option<String>) {
        let fits = |limits: &Limits| self.cost_ns(*limits) <= left_ns;
        if fits(&wanted) {
            return (wanted, None);
        }
        let with_samples =
            |samples| Limits { samples_max: samples, samples_min: wanted.samples_min.min(samples), ..wanted };
        let smallest = with_samples(wanted.samples_max.min(SAMPLES_FLOOR));
        // Fewer of anything never cost more, so that each count can be bisected.
        let most = |counts, limits: &dyn Fn(u64) -> Limits| largest(counts, |count| fits(&limits(count))).map(limits);
        let fewer_samples = most(smallest.samples_max..wanted.samples_max, &with_samples);
        let fewer_finalists = || most(1..wanted.finalists, &|finalists| Limits { finalists, ..smallest });
        let least = Limits { finalists: wanted.finalists.min(1), ..smallest };
        let rounds_floor = wanted.rounds.min(ROUNDS_FLOOR.max(self.rounds_done));
        let fewer_rounds = || most(rounds_floor..wanted.rounds, &|rounds| Limits { rounds, ..least });
        let limits = fewer_samples
            .or_else(fewer_finalists)
            .or_else(fewer_rounds)
            .unwrap_or(Limits { rounds: rounds_floor, ..least });
        (limits, Some(self.sentence(wanted, limits, left_ns)))
    }

    /// Says what was shrunk.
    fn sentence(&self, wanted: Limits, limits: Limits, left_ns: u64) -> String {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let changed: Vec<String> = [
            ("samples a visit", limits.samples_max, wanted.samples_max),
            ("finalists a point", limits.finalists, wanted.finalists),
            ("rounds", limits.rounds, wanted.rounds),
        ]
        .into_iter()
        .filter(|(_, limit, wanted)| limit != wanted)
        .map(|(what, limit, wanted)| format!("at most {limit} {what} (planned {wanted})"))
        .collect();
        let mut text = format!(
            "the task would need {:.1} s more and has {:.1} s: {}",
            seconds(self.cost_ns(wanted)),
            seconds(left_ns),
            if changed.is_empty() { "nothing can be left out".to_owned() } else { changed.join(", ") },
        );
        let cost_ns = self.cost_ns(limits);
        if cost_ns > left_ns {
            text.push_str(&format!(
                "; even so it will take about {:.1} s, the least that gives intervals",
                seconds(cost_ns)
            ));
        }
        text
    }
}

/// The largest of these counts that fits, where what fits is a beginning of them.
fn largest(counts: Range<u64>, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (counts.start, counts.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low.checked_sub(1).filter(|count| counts.contains(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Limits = Limits { rounds: 5, finalists: 4, samples_min: 10, samples_max: 100 };

    fn forecast(points: &[Vec<VisitCost>]) -> Forecast<'_> {
        Forecast { points, round_ns: 1000, visit_ns_max: 1_000_000, rounds_done: 0 }
    }

    fn shrunk(left_ns: u64) -> Limits {
        let points = vec![vec![VisitCost { fixed_ns: 0, sample_ns: 10 }; 4]; 2];
        forecast(&points).fit(WANTED, left_ns).0
    }

    #[test]
    fn what_stays_as_planned_is_not_said_to_shrink() {
        let points = vec![vec![VisitCost { fixed_ns: 0, sample_ns: 10 }; 4]; 2];
        let said = |left_ns| forecast(&points).fit(WANTED, left_ns).1.unwrap_or_default();
        let half = said(30_000);
        assert!(half.contains("samples a visit (planned 100)"), "{half}");
        assert!(!half.contains("finalists") && !half.contains("rounds"), "{half}");
    }

    #[test]
    fn what_fits_is_left_alone_and_nothing_is_said() {
        let points = vec![vec![VisitCost { fixed_ns: 100, sample_ns: 10 }; 4]; 2];
        let cost = 5 * (1000 + 8 * (100 + 100 * 10));
        assert_eq!(forecast(&points).cost_ns(WANTED), cost);
        assert_eq!(forecast(&points).fit(WANTED, cost), (WANTED, None));
    }

    #[test]
    fn samples_shrink_first_then_finalists_then_rounds() {
        assert_eq!(shrunk(5 * (1000 + 8 * 50 * 10)), Limits { samples_max: 50, ..WANTED });
        assert_eq!(shrunk(5 * (1000 + 8 * 4 * 10)), Limits { samples_max: 4, samples_min: 4, ..WANTED });
        let floor = Limits { samples_max: 3, samples_min: 3, ..WANTED };
        assert_eq!(shrunk(5 * (1000 + 4 * 3 * 10)), Limits { finalists: 2, ..floor });
        assert_eq!(shrunk(4 * (1000 + 2 * 3 * 10)), Limits { finalists: 1, rounds: 4, ..floor });
    }

    #[test]
    fn the_least_is_kept_and_said_where_nothing_fits() {
        let points = vec![vec![VisitCost { fixed_ns: 0, sample_ns: 10 }; 4]; 2];
        let (limits, said) = forecast(&points).fit(WANTED, 1);
        assert_eq!(limits, Limits { rounds: 3, finalists: 1, samples_min: 3, samples_max: 3 });
        assert!(said.is_some_and(|text| text.contains("even so")), "shrinking must be said");
    }

    #[test]
    fn a_visit_costs_no_more_than_its_time_limit_allows() {
        let points = vec![vec![VisitCost { fixed_ns: 5, sample_ns: 400_000 }]];
        assert_eq!(forecast(&points).cost_ns(WANTED), 5 * (1000 + 5 + 800_000));
    }

    #[test]
    fn a_count_is_found_without_trying_every_one() {
        for (limit, found) in [(0, None), (2, None), (3, Some(3)), (777, Some(777)), (u64::MAX, Some(999_999))] {
            let asked = std::cell::Cell::new(0);
            let fits = |count| {
                asked.set(asked.get() + 1);
                count <= limit
            };
            assert_eq!(largest(3..1_000_000, fits), found, "up to {limit}");
            assert!(asked.get() <= 20, "asked {} times for {limit}", asked.get());
        }
        assert_eq!(largest(5..5, |_| true), None);
    }
}
