//! What did not end well, in words: rows that were measured for constants and say nothing, counted by how they ended and
//! why.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_model::constants::{Document, RejectedRow};
use fleetcal_model::fit::pool::{RejectReason, cause};

use super::{counted, note, were};

/// Causes of one kind that are spelled out; the rest is counted.
const CAUSES_MAX: usize = 3;

/// Says of every kind of bad end how many rows had it, and why, the most frequent cause first.
pub(crate) fn outcomes(documents: &[Document]) {
    let rows: Vec<&RejectedRow> = documents.iter().flat_map(|document| &document.body.rejected_rows).collect();
    sentences(&rows).iter().for_each(|sentence| note(sentence));
}

fn sentences(rows: &[&RejectedRow]) -> Vec<String> {
    let mut kinds: BTreeMap<RejectReason, Vec<&RejectedRow>> = BTreeMap::new();
    for row in rows {
        kinds.entry(row.reason).or_default().push(row);
    }
    kinds.into_iter().filter_map(|(kind, rows)| Some(sentence(heading(kind, &rows)?, &rows))).collect()
}

/// What happened to so many rows; nothing of those that ended well and say nothing for a reason of the fit's.
fn heading(kind: RejectReason, all: &[&RejectedRow]) -> Option<String> {
    let rows = counted(all.len() as u64, "row");
    let was = were(all.len() as u64);
    Some(match kind {
        RejectReason::WrongResult => format!("WRONG RESULTS in {rows}"),
        RejectReason::Invalid => format!("{} could not run ({rows})", solutions(all)),
        RejectReason::Skipped => format!("{rows} {was} skipped"),
        RejectReason::Throttled => format!("{rows} {was} throttled"),
        RejectReason::Contended => format!("{rows} {was} contended by other processes"),
        RejectReason::NoEstimate => format!("{rows} ended without an estimate"),
        RejectReason::OutlierDevice => format!("{rows} of devices that stand apart from their class {was} left out"),
        RejectReason::SmallerGroup => format!("{rows} of the smaller of two groups of devices {was} left out"),
        RejectReason::OutlierHour => format!("{rows} of hours that stand apart for all devices {was} left out"),
        RejectReason::Residual => format!("{rows} far off the line of the others {was} left out"),
        RejectReason::Opaque
        | RejectReason::NoRate
        | RejectReason::BytesNotExact
        | RejectReason::SmallFootprint
        | RejectReason::BeyondKnee
        | RejectReason::LaunchBound
        | RejectReason::SlowBelowCache
        | RejectReason::Starved => return None,
    })
}

/// How many solutions of how many points these rows are of, and which where it is one.
fn solutions(rows: &[&RejectedRow]) -> String {
    let (mut points, mut solutions) = (BTreeSet::new(), BTreeSet::new());
    for row in rows {
        let mut words = name(row).split(' ');
        points.extend(words.next());
        solutions.extend(words.next());
    }
    let one_or = |names: &BTreeSet<&str>, what: &str| match names.first() {
        Some(name) if names.len() == 1 => format!("{what} {name}"),
        _ => counted(names.len() as u64, what),
    };
    format!("{} of {}", one_or(&solutions, "solution"), one_or(&points, "point"))
}

fn sentence(heading: String, rows: &[&RejectedRow]) -> String {
    let mut causes: BTreeMap<&str, (usize, &RejectedRow)> = BTreeMap::new();
    for row in rows {
        causes.entry(cause(&row.detail)).or_insert((0, row)).0 += 1;
    }
    let mut causes: Vec<(&str, (usize, &RejectedRow))> = causes.into_iter().collect();
    causes.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let spelled = causes.iter().take(CAUSES_MAX).map(|(cause, (count, first))| match count {
        1 if *cause == first.detail => first.detail.clone(),
        1 => format!("{}: {cause}", name(first)),
        _ if *cause == first.detail => format!("{cause} ({count} times)"),
        _ => format!("{count} times {cause}, first of {}", name(first)),
    });
    let mut sentence = format!("{heading}: {}", spelled.collect::<Vec<_>>().join("; "));
    if let Some(others) = causes.len().checked_sub(CAUSES_MAX).filter(|others| *others > 0) {
        sentence.push_str(&format!("; and {}", counted(others as u64, "other cause")));
    }
    sentence
}

/// Which row it is: what its particulars say before they say how it ended.
fn name(row: &RejectedRow) -> &str {
    row.detail.split(", ").next().unwrap_or(&row.detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rows: &[(RejectReason, &str)]) -> Vec<String> {
        let row = |(reason, detail): &(RejectReason, &str)| RejectedRow {
            row_id: "row".into(),
            reason: *reason,
            detail: (*detail).to_owned(),
            residual: None,
        };
        let rows: Vec<RejectedRow> = rows.iter().map(row).collect();
        sentences(&rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn every_bad_end_is_counted_with_its_causes_most_frequent_first() {
        let heat = "software thermal slowdown";
        let throttled = |point: &str, why: &str| format!("{point} s on GPU-1, it ended as throttled: {why}");
        let rows = [throttled("a", "power brake"), throttled("b", heat), throttled("c", heat)];
        let mut all: Vec<(RejectReason, &str)> =
            rows.iter().map(|row| (RejectReason::Throttled, row.as_str())).collect();
        all.push((RejectReason::WrongResult, "d s on GPU-1, it ended as failed: c[7] is NaN"));
        all.push((RejectReason::SmallFootprint, "it fits the cache"));
        assert_eq!(
            said(&all),
            [
                "WRONG RESULTS in 1 row: d s on GPU-1: c[7] is NaN",
                "3 rows were throttled: 2 times software thermal slowdown, first of b s on GPU-1; a s on GPU-1: power \
                 brake",
            ]
        );
    }

    #[test]
    fn many_causes_are_not_a_wall_of_text() {
        let details: Vec<String> =
            (0..9).map(|index| format!("p{index} s on G, it ended as invalid: {index}")).collect();
        let rows: Vec<(RejectReason, &str)> =
            details.iter().map(|text| (RejectReason::Invalid, text.as_str())).collect();
        let said = said(&rows);
        assert!(
            said[0].starts_with("solution s of 9 points could not run (9 rows): p0 s on G")
                && said[0].ends_with("; and 6 other causes")
        );
        assert_eq!(said.len(), 1);
    }

    /// One solution that does not compile is one cause, though every row's reason names its own point.
    #[test]
    fn solutions_that_cannot_run_are_counted_with_their_points() {
        let detail = |point: &str, solution: &str| {
            format!(
                "{point} {solution} on GPU-1, it ended as invalid: {point} {solution} does not compile: no such type"
            )
        };
        let details = [detail("a", "s1"), detail("b", "s1"), detail("b", "s2")];
        let rows: Vec<(RejectReason, &str)> =
            details.iter().map(|text| (RejectReason::Invalid, text.as_str())).collect();
        assert_eq!(
            said(&rows),
            [
                "2 solutions of 2 points could not run (3 rows): 3 times does not compile: no such type, first of a s1 on \
              GPU-1"
            ]
        );
        let [one] = &said(&rows[..1])[..] else { panic!("one kind of end") };
        assert_eq!(*one, "solution s1 of point a could not run (1 row): a s1 on GPU-1: does not compile: no such type");
    }
}
