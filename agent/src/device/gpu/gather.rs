//! Reading arrays back. Many short looks cost one wait for the device: a wait for each would be most of a short visit.

use fleetcal_kernels::support;

use super::driver::{Driver, Memory};
use super::launch::Ready;
use super::{GpuDevice, address_of, no_support};
use crate::device::{Array, DeviceError, PageGuard};

/// Values read back at a time: 8 MiB on the device, and as much on the host.
const GATHER_VALUES: u64 = 1 << 20;

/// Where values are gathered, and where they are copied to. The host's part is locked in memory: the copy needs no
/// detour, and no fresh pages each time.
#[derive(Debug)]
pub(super) struct Gathered<D: Driver> {
    device: D::Buffer,
    host: D::HostBuffer,
}

impl<D: Driver> Gathered<D> {
    fn new(driver: &D) -> Result<Self, DeviceError> {
        let device = driver.allocate(GATHER_VALUES * size_of::<f64>() as u64, PageGuard::None)?;
        Ok(Self { device, host: driver.allocate_on_host(GATHER_VALUES as usize)? })
    }
}

/// A stretch of one look, and where in the gathered values it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    look: usize,
    /// Its first value, of those of the look.
    first: u64,
    count: u64,
    to: u64,
}

/// Cuts looks of so many values each into batches of pieces, each batch of at most [`GATHER_VALUES`].
fn batches(counts: impl Iterator<Item = u64>) -> Vec<Vec<Piece>> {
    let mut batches = Vec::new();
    let (mut batch, mut to) = (Vec::new(), 0);
    for (look, total) in counts.enumerate() {
        let mut first = 0;
        while first < total {
            let count = (total - first).min(GATHER_VALUES - to);
            batch.push(Piece { look, first, count, to });
            (first, to) = (first + count, to + count);
            if to == GATHER_VALUES {
                batches.push(std::mem::take(&mut batch));
                to = 0;
            }
        }
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

impl<D: Driver> GpuDevice<D> {
    /// The values of each look: an array and the stride in it.
    pub(super) fn gather_looks(
        &mut self,
        looks: &[(&Array<'_, D::Buffer>, u64)],
    ) -> Result<Vec<Vec<f64>>, DeviceError> {
        let mut gathered = match self.gathered.take() {
            Some(gathered) => gathered,
            None => Gathered::new(&self.driver)?,
        };
        let count = |(array, stride): &(&Array<'_, D::Buffer>, u64)| {
            array.spec.logical_elements().div_ceil(stride.max(&1).to_owned())
        };
        let mut values: Vec<Vec<f64>> = looks.iter().map(|_| Vec::new()).collect();
        for batch in batches(looks.iter().map(count)) {
            for piece in &batch {
                self.enqueue_piece(looks, piece, gathered.device.address())?;
            }
            let total = batch.last().map_or(0, |piece| piece.to + piece.count);
            let read = self.driver.read(&gathered.device, &mut gathered.host, total as usize)?;
            for Piece { look, count, to, .. } in batch {
                values[look].extend_from_slice(&read[to as usize..(to + count) as usize]);
            }
        }
        self.gathered = Some(gathered);
        Ok(values)
    }

    /// Queues the gathering of a piece, and does not wait.
    fn enqueue_piece(
        &self,
        looks: &[(&Array<'_, D::Buffer>, u64)],
        piece: &Piece,
        address: u64,
    ) -> Result<(), DeviceError> {
        let (array, stride) = looks[piece.look];
        let stride = stride.max(1);
        let (from, to) = (address_of(array)?, address + piece.to * size_of::<f64>() as u64);
        let launch = support::gather(&self.facts, &array.spec, piece.first * stride, piece.count, stride)
            .ok_or_else(|| no_support("reading", array))?;
        let ready = Ready::<D>::new(self.support.function(&launch.entry)?, &launch, &[to, from])?;
        let enqueue = || {
            self.driver.bind()?;
            ready.enqueue(&self.driver)
        };
        enqueue().map_err(|fault| self.driver.fault(&launch.entry, fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_looks_share_a_batch_and_long_ones_are_cut() {
        let short = batches([4, 0, 6].into_iter());
        let piece = |look, first, count, to| Piece { look, first, count, to };
        assert_eq!(short, [vec![piece(0, 0, 4, 0), piece(2, 0, 6, 4)]]);
        let long = batches([8, 2 * GATHER_VALUES].into_iter());
        assert_eq!(
            long,
            [
                vec![piece(0, 0, 8, 0), piece(1, 0, GATHER_VALUES - 8, 8)],
                vec![piece(1, GATHER_VALUES - 8, GATHER_VALUES, 0)],
                vec![piece(1, 2 * GATHER_VALUES - 8, 8, 0)],
            ]
        );
        assert_eq!(batches([GATHER_VALUES].into_iter()).len(), 1, "no empty batch");
        assert!(batches(std::iter::empty()).is_empty());
    }
}
