//! What a kernel does, as counts: the input of bounds and scores.

use std::collections::BTreeMap;

use crate::machine::Pipe;
use crate::point::Dtype;
use crate::row::{Counts, LaunchContext, Row};
use crate::units::{Bytes, Operations};

/// Counts of one kernel.
///
/// The default is a kernel that does nothing, exactly counted, launched once: set what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Distinct bytes that it reads.
    pub read: Bytes,
    /// Distinct bytes that it writes.
    pub written: Bytes,
    /// Bytes that its blocks read, each block's re-reads by other blocks included. What exceeds `read` are re-reads.
    pub requested: Bytes,
    /// Bytes that a block reads times resident blocks: what competes for the cache. Needed only where there are re-reads.
    pub working_set: Option<Bytes>,
    /// Operations by pipe and number format.
    pub operations: BTreeMap<(Pipe, Dtype), Operations>,
    /// Parallel contexts, with the scalar operations of each. Needed only where there are scalar operations.
    pub launch_contexts: Vec<LaunchContext>,
    /// Launches that it takes.
    pub launches: u64,
    /// Whether the byte counts are exact; else they are upper bounds.
    pub bytes_exact: bool,
    /// Whether the operation counts are exact; else they are upper bounds.
    pub operations_exact: bool,
    /// Whether counts may be too low. Such a kernel has bounds, and no score.
    pub opaque: bool,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            read: Bytes(0),
            written: Bytes(0),
            requested: Bytes(0),
            working_set: None,
            operations: BTreeMap::new(),
            launch_contexts: Vec::new(),
            launches: 1,
            bytes_exact: true,
            operations_exact: true,
            opaque: false,
        }
    }
}

impl Kernel {
    /// What a row says that one launch did. Several kernels of one launch count as one, with their counts summed: its
    /// bound is at most the sum of theirs.
    pub fn of_row(row: &Row) -> Self {
        Self::of_counts(&row.counts, row.work.dtype)
    }

    /// The same of the counts of a row in that number format.
    pub(crate) fn of_counts(counts: &Counts, dtype: Dtype) -> Self {
        let written = counts.bytes_written.min(counts.bytes_distinct);
        // Floating-point operations that are not those of tensor units are scalar, where nobody counted them apart.
        let scalar_ops = counts.scalar_ops.max(counts.flops.saturating_sub(counts.tensor_ops));
        let operations = [(Pipe::Scalar, scalar_ops), (Pipe::Tensor, counts.tensor_ops)];
        let operations = operations.into_iter().filter(|(_, count)| *count > 0);
        Self {
            read: Bytes(counts.bytes_distinct - written),
            written: Bytes(written),
            requested: Bytes(counts.bytes_requested),
            working_set: counts.working_set_bytes.map(Bytes),
            operations: operations.map(|(pipe, count)| ((pipe, dtype), Operations(count))).collect(),
            launch_contexts: counts.launch_contexts.clone(),
            launches: counts.kernels.max(1),
            bytes_exact: counts.bytes_exact,
            operations_exact: counts.ops_exact,
            opaque: counts.opaque,
        }
    }

    /// Bytes that must come from or go to main memory once, whatever the cache does.
    pub fn compulsory(&self) -> Bytes {
        Bytes(self.read.0.saturating_add(self.written.0))
    }

    /// Bytes that are read again.
    pub fn reread(&self) -> Bytes {
        Bytes(self.requested.0.saturating_sub(self.read.0))
    }

    /// Operations of a pipe, by number format; formats without any are left out.
    pub(crate) fn operations_of(&self, pipe: Pipe) -> impl Iterator<Item = (Dtype, Operations)> {
        let of_pipe = move |(&(of, dtype), &count): (&(Pipe, Dtype), &Operations)| {
            (of == pipe && count.0 > 0).then_some((dtype, count))
        };
        self.operations.iter().filter_map(of_pipe)
    }
}
