//! Six sums of at most four variances, solved for them, none below zero.

/// What the sums say of each variance.
#[derive(Debug, Default)]
pub(super) struct Solved {
    pub(super) variances: [Option<f64>; 4],
    /// What came out below zero.
    pub(super) negative: [Option<f64>; 4],
    /// Indices of variances that sums do not tell from this one.
    pub(super) includes: [Vec<usize>; 4],
}

/// A sum is known to about this part of itself; zero sums weigh no more than those a thousandth of the largest.
const FLOOR: f64 = 1e-3;

/// Solves sums (which variances, their total) by least squares of relative errors.
pub(super) fn solve(sums: &[([bool; 4], f64)]) -> Solved {
    let rows: Vec<[f64; 4]> = sums.iter().map(|(kind, _)| kind.map(|has| if has { 1.0 } else { 0.0 })).collect();
    let appears = |column: usize| rows.iter().any(|row| row[column] > 0.0);
    let mut solved = Solved::default();
    let mut active: Vec<usize> = (0..4).filter(|&column| appears(column)).collect();
    // Of variances that sums do not tell apart, the later goes: hosts before hours before devices before repeats.
    while let Some(at) = (0..active.len()).rev().find(|&at| !is_told(&rows, &active, at)) {
        let gone = active.remove(at);
        let same = |&&kept: &&usize| rows.iter().all(|row| row[gone] <= row[kept]);
        // It is counted to the one that is always there where it is; of several, to the rarest.
        let presence = |&&kept: &&usize| rows.iter().filter(|row| row[kept] > 0.0).count();
        if let Some(&kept) = active.iter().filter(same).min_by_key(presence) {
            solved.includes[kept].push(gone);
        }
    }
    let largest = sums.iter().map(|(_, sum)| *sum).fold(0.0, f64::max);
    let weights: Vec<f64> = sums.iter().map(|(_, sum)| 1.0 / (sum + FLOOR * largest).max(f64::MIN_POSITIVE)).collect();
    let wanted: Vec<f64> = sums.iter().map(|(_, sum)| *sum).collect();
    let free = least_squares(&rows, &wanted, &weights, &active);
    for (&column, value) in active.iter().zip(free.iter().flatten()) {
        solved.negative[column] = Some(*value).filter(|value| *value < 0.0);
    }
    // With four unknowns every choice of which are zero can be tried.
    let choices = (0_u32..1 << active.len()).map(|choice| -> Vec<usize> {
        active.iter().enumerate().filter(|(at, _)| choice >> at & 1 == 1).map(|(_, column)| *column).collect()
    });
    let candidates = choices.filter_map(|columns| {
        let values = least_squares(&rows, &wanted, &weights, &columns)?;
        let is_sound = values.iter().all(|value| *value >= 0.0);
        is_sound.then(|| (misfit(&rows, &wanted, &weights, &columns, &values), columns, values))
    });
    let best = candidates.min_by(|left, right| left.0.total_cmp(&right.0));
    active.iter().for_each(|&column| solved.variances[column] = Some(0.0));
    if let Some((_, columns, values)) = best {
        columns.iter().zip(values).for_each(|(&column, value)| solved.variances[column] = Some(value));
    }
    solved
}

/// Whether the rows, on the active columns, tell the one at `at` from the rest: adding a row that holds it alone adds
/// nothing to their rank.
fn is_told(rows: &[[f64; 4]], active: &[usize], at: usize) -> bool {
    let mut matrix: Vec<Vec<f64>> = rows.iter().map(|row| active.iter().map(|&column| row[column]).collect()).collect();
    let before = rank(matrix.clone());
    matrix.push((0..active.len()).map(|column| if column == at { 1.0 } else { 0.0 }).collect());
    rank(matrix) == before
}

/// Rank of a matrix of small whole numbers.
fn rank(mut matrix: Vec<Vec<f64>>) -> usize {
    let columns = matrix.first().map_or(0, Vec::len);
    let mut rank = 0;
    for column in 0..columns {
        let Some(pivot) = (rank..matrix.len()).find(|&row| matrix[row][column].abs() > 1e-9) else { continue };
        matrix.swap(rank, pivot);
        let (above, below) = matrix.split_at_mut(rank + 1);
        for row in below {
            subtract(row, &above[rank], column);
        }
        rank += 1;
    }
    rank
}

/// Weighted least squares on some columns by normal equations; none where they are singular.
fn least_squares(rows: &[[f64; 4]], wanted: &[f64], weights: &[f64], columns: &[usize]) -> Option<Vec<f64>> {
    let size = columns.len();
    // Each row is scaled by its weight; squares of weights could overflow, so the largest is taken out.
    let largest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut normal = vec![vec![0.0; size + 1]; size];
    for ((row, sum), weight) in rows.iter().zip(wanted).zip(weights) {
        let weight = weight / largest;
        for (one, &column) in columns.iter().enumerate() {
            let scaled = row[column] * weight * weight;
            for (other, &second) in columns.iter().enumerate() {
                normal[one][other] += scaled * row[second];
            }
            normal[one][size] += scaled * sum;
        }
    }
    eliminate(normal)
}

/// Gauss's elimination with pivots.
fn eliminate(mut system: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = system.len();
    for column in 0..size {
        let largest =
            |left: &usize, right: &usize| system[*left][column].abs().total_cmp(&system[*right][column].abs());
        let pivot = (column..size).max_by(largest)?;
        system.swap(column, pivot);
        if system[column][column].abs() < 1e-14 {
            return None;
        }
        let chosen = system[column].clone();
        for (_, row) in system.iter_mut().enumerate().filter(|(at, _)| *at != column) {
            subtract(row, &chosen, column);
        }
    }
    Some((0..size).map(|row| system[row][size] / system[row][row]).collect())
}

/// Takes so much of the pivot's row from another that its entry in `column` goes.
fn subtract(row: &mut [f64], pivot: &[f64], column: usize) {
    let factor = row[column] / pivot[column];
    row.iter_mut().zip(pivot).skip(column).for_each(|(entry, of_pivot)| *entry -= factor * of_pivot);
}

fn misfit(rows: &[[f64; 4]], wanted: &[f64], weights: &[f64], columns: &[usize], values: &[f64]) -> f64 {
    let fitted = |row: &[f64; 4]| columns.iter().zip(values).map(|(&column, value)| row[column] * value).sum::<f64>();
    let residuals = rows.iter().zip(wanted).zip(weights).map(|((row, sum), weight)| (fitted(row) - sum) * weight);
    residuals.map(|residual| residual * residual).sum()
}
