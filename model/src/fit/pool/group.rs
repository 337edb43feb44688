//! Observations of one point and solution, over devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Observation;
use crate::fit::devices::{LEVELED_MIN, point_levels};
use crate::id::DeviceId;
use crate::statistics::median;
use crate::units::Bytes;

/// Observations of one (point, solution), over devices.
#[derive(Debug, Clone)]
pub(crate) struct Group<'a> {
    /// Its observations, those of one device together.
    pub(crate) observations: Vec<Observation<'a>>,
    /// The rate of each device, by number.
    rates: Vec<(u32, f64)>,
    /// Bytes moved by one launch, the same for all.
    pub(crate) bytes: Bytes,
    /// Median over devices of each device's median rate.
    pub(crate) class_rate: f64,
}

impl<'a> Group<'a> {
    /// Groups observations, which are in the order of their pool, by (point, solution), in the order of their names. Rows
    /// that disagree about the bytes of one point are different groups: they did not do the same work.
    pub(crate) fn all_of(observations: &[Observation<'a>]) -> Vec<Self> {
        let of_points = observations.chunk_by(|left, right| left.row.point_number == right.row.point_number);
        of_points.flat_map(Self::of_point).collect()
    }

    fn of_point(observations: &[Observation<'a>]) -> Vec<Self> {
        let same = |pair: &[Observation<'a>]| {
            Arc::ptr_eq(pair[0].row.subject(), pair[1].row.subject()) || pair[0].bytes == pair[1].bytes
        };
        if let (true, Some(first)) = (observations.windows(2).all(same), observations.first()) {
            return Self::of(observations.to_vec(), first.bytes).into_iter().collect();
        }
        let mut by_bytes: BTreeMap<Bytes, Vec<Observation<'a>>> = BTreeMap::new();
        observations.iter().for_each(|one| by_bytes.entry(one.bytes).or_default().push(*one));
        by_bytes.into_iter().filter_map(|(bytes, observations)| Self::of(observations, bytes)).collect()
    }

    fn of(observations: Vec<Observation<'a>>, bytes: Bytes) -> Option<Self> {
        let of_devices = observations.chunk_by(|left, right| left.row.device_number == right.row.device_number);
        let rate = |rows: &[Observation<'a>]| Some((rows.first()?.row.device_number, device_rate(rows)?));
        let rates: Vec<(u32, f64)> = of_devices.map(rate).collect::<Option<_>>()?;
        let class_rate = median(&rates.iter().map(|(_, rate)| *rate).collect::<Vec<_>>())?;
        Some(Self { observations, rates, bytes, class_rate })
    }

    /// How many devices measured it.
    pub(crate) fn devices(&self) -> usize {
        self.rates.len()
    }

    /// The groups that at least half as many devices measured as any other, so that a solution which only one unusual
    /// device chose does not speak for its class.
    pub(crate) fn with_quorum(groups: Vec<Self>) -> Vec<Self> {
        let most = groups.iter().map(Self::devices).max().unwrap_or(0);
        groups.into_iter().filter(|group| group.devices() * 2 >= most).collect()
    }

    /// The same rule within each size: in a class measured in shares, few devices have a size and all have some others.
    pub(crate) fn with_quorum_by_size(groups: Vec<Self>) -> Vec<Self> {
        let mut sizes: BTreeMap<Bytes, Vec<Self>> = BTreeMap::new();
        groups.into_iter().for_each(|group| sizes.entry(group.bytes).or_default().push(group));
        sizes.into_values().flat_map(Self::with_quorum).collect()
    }

    /// Groups whose rate the class has shown: of each size those with a quorum. A size that fewer than half as many devices
    /// measured as another, in a class measured in shares, counts from three devices on, with their own effects taken out.
    pub(crate) fn shown(groups: Vec<Self>) -> Vec<Self> {
        let groups = Self::with_quorum_by_size(groups);
        let most = groups.iter().map(Self::devices).max().unwrap_or(0);
        let is_share = |group: &Self| group.devices() * 2 < most;
        if !groups.iter().any(is_share) {
            return groups;
        }
        let leveled = Self::leveled(groups.clone());
        let pairs = groups.into_iter().zip(leveled);
        let shown = pairs.map(|(group, leveled)| if is_share(&group) { leveled } else { group });
        shown.filter(|group| !is_share(group) || group.devices() >= LEVELED_MIN).collect()
    }

    /// The same groups with class rates as a device at the centre shows them, where devices and groups can be told apart: the
    /// device that is the median differs from group to group, and in a class measured in shares so do all devices.
    pub(crate) fn leveled(mut groups: Vec<Self>) -> Vec<Self> {
        if Self::devices_of(&groups).len() < LEVELED_MIN {
            return groups;
        }
        let levels = point_levels(&groups.iter().map(|group| group.rates.as_slice()).collect::<Vec<_>>());
        for (group, level) in groups.iter_mut().zip(levels) {
            group.class_rate = level.unwrap_or(group.class_rate);
        }
        groups
    }

    /// The rate of the device of that number, if it measured the group.
    pub(crate) fn rate_of(&self, device: u32) -> Option<f64> {
        let at = self.rates.binary_search_by_key(&device, |(number, _)| *number).ok()?;
        self.rates.get(at).map(|(_, rate)| *rate)
    }

    /// The devices that measured any of these, by number.
    pub(crate) fn devices_of<'g>(groups: impl IntoIterator<Item = &'g Self>) -> BTreeMap<u32, &'a DeviceId>
    where
        'a: 'g,
    {
        let mut devices = BTreeMap::new();
        for one in groups.into_iter().flat_map(|group| &group.observations) {
            devices.entry(one.row.device_number).or_insert_with(|| one.device());
        }
        devices
    }
}

/// Several rows of one device for the same work: their median.
fn device_rate(rows: &[Observation<'_>]) -> Option<f64> {
    match rows {
        [only] => Some(only.rate).filter(|rate| rate.is_finite()),
        _ => median(&rows.iter().map(|row| row.rate).collect::<Vec<_>>()),
    }
}
