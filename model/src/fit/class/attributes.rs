//! What devices have that may explain how they differ.

use super::{by_device, first, median_of};
use crate::fit::attribute::{Attribute, bands};
use crate::fit::record::{Reading, Record};

/// The first row's text of each device, and bands of what was measured.
pub(super) fn of(rows: &[&Record], devices: usize) -> Vec<Attribute> {
    let measured = [
        ("core_clock_khz", Reading::CoreClockKhz),
        ("memory_clock_khz", Reading::MemoryClockKhz),
        ("power_mw", Reading::PowerMilliwatts),
    ];
    let of_devices = by_device(rows, devices);
    let band = |(name, reading): &(&str, Reading)| {
        let medians: Vec<Option<f64>> = of_devices.iter().map(|rows| median_of(rows, *reading)).collect();
        bands(name, &medians)
    };
    texts(&of_devices).into_iter().chain(measured.iter().filter_map(band)).collect()
}

/// The first row's text of each device, of rows by device: what is known without measuring.
pub(super) fn texts(of_devices: &[Vec<&Record>]) -> Vec<Attribute> {
    type Text = fn(&Record) -> Option<String>;
    let texts: [(&str, Text); 5] = [
        ("driver", |row| row.device().driver.clone()),
        ("host", |row| Some(row.device().host.clone())),
        ("rack", |row| row.device().rack.clone()),
        ("slot", |row| slot(row.device().pci_bdf.as_deref()?)),
        ("vbios", |row| row.device().vbios.clone()),
    ];
    let firsts: Vec<Option<&Record>> = of_devices.iter().map(|rows| first(rows)).collect();
    let text = |(name, read): &(&str, Text)| {
        let levels = firsts.iter().map(|first| first.and_then(read)).collect();
        Attribute { name: (*name).to_owned(), levels }
    };
    texts.iter().map(text).collect()
}

/// Bus and device of a PCI address, without its domain: the place within a host.
fn slot(bdf: &str) -> Option<String> {
    let mut parts = bdf.rsplitn(3, ':');
    let (device, bus) = (parts.next()?, parts.next()?);
    Some(format!("{bus}:{device}"))
}
