//! Addresses on the PCI bus, in the forms in which vendors' libraries want them.

/// An address with its domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciAddress {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl PciAddress {
    /// Reads `DOMAIN:BUS:DEVICE.FUNCTION`, all hexadecimal, such as `0000:65:00.0`; `None` where the text is no
    /// address.
    pub fn parse(text: &str) -> Option<Self> {
        let part = |text: &str, most: u32| u32::from_str_radix(text, 16).ok().filter(|value| *value <= most);
        let byte = |text: &str, most: u8| part(text, u32::from(most)).and_then(|value| u8::try_from(value).ok());
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        Some(Self {
            domain: part(domain, u32::MAX)?,
            bus: byte(bus, 0xff)?,
            device: byte(device, 0x1f)?,
            function: byte(function, 0x7)?,
        })
    }

    /// The 64-bit identity of ROCm SMI: domain << 32 | bus << 8 | device << 3 | function.
    pub fn rocm_smi_id(self) -> u64 {
        u64::from(self.domain) << 32 | self.on_bus()
    }

    /// The bit field of AMD SMI: domain << 16 | bus << 8 | device << 3 | function.
    pub fn amd_smi_bdf(self) -> u64 {
        u64::from(self.domain) << 16 | self.on_bus()
    }

    fn on_bus(self) -> u64 {
        u64::from(self.bus) << 8 | u64::from(self.device) << 3 | u64::from(self.function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_the_identities_of_the_libraries() {
        for (text, rocm, amd) in [
            ("0000:65:00.0", 0x6500, 0x6500),
            ("00000001:c1:1f.7", 0x1_0000_c1ff, 0x1_c1ff),
            ("FFFFFFFF:FF:1F.7", 0xffff_ffff_0000_ffff, 0xffff_ffff_ffff),
        ] {
            let address = PciAddress::parse(text).expect(text);
            assert_eq!((address.rocm_smi_id(), address.amd_smi_bdf()), (rocm, amd), "{text}");
        }
        for wrong in ["", "65:00.0", "0000:65:00", "0000:165:00.0", "0000:65:20.0", "0000:65:00.8", "0000:xx:00.0"] {
            assert_eq!(PciAddress::parse(wrong), None, "{wrong}");
        }
    }
}
