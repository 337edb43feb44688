//! Where in reserved addresses memory is mapped, so that an access beyond it faults.
//!
//! Plain allocations cannot do this: drivers carve them out of larger mappings, so that a stray access falls into a
//! neighbour. Here addresses are reserved with a page of room on both sides, and only the middle is mapped.

use crate::device::{DeviceError, PageGuard};

/// A reservation whose middle is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device) struct Layout {
    /// Bytes before the mapped ones, and at least as many behind them.
    pub(in crate::device) page_bytes: usize,
    /// Bytes mapped, a multiple of the page.
    pub(in crate::device) mapped_bytes: usize,
    /// Bytes reserved.
    pub(in crate::device) reserved_bytes: usize,
    /// Where in the reservation the memory begins that is handed out.
    pub(in crate::device) offset_bytes: usize,
}

impl Layout {
    /// Of an allocation of `bytes`, where mappings are multiples of `page_bytes`.
    ///
    /// # Errors
    /// [`DeviceError::Launch`]: there is no such allocation.
    pub(in crate::device) fn of(bytes: u64, page_bytes: usize, guard: PageGuard) -> Result<Self, DeviceError> {
        let page_bytes = page_bytes.max(1);
        let wanted = usize::try_from(bytes).ok().filter(|wanted| *wanted > 0);
        let used = wanted.ok_or_else(|| refused("there is no such allocation"))?;
        let sizes = used.checked_next_multiple_of(page_bytes);
        let sizes = sizes.and_then(|mapped| Some((mapped, mapped.checked_add(page_bytes.checked_mul(2)?)?)));
        let (mapped_bytes, reserved_bytes) = sizes.ok_or_else(|| refused("so many bytes cannot be addressed"))?;
        let unused = match guard {
            PageGuard::None | PageGuard::Front => 0,
            PageGuard::Back => mapped_bytes - used,
        };
        Ok(Self { page_bytes, mapped_bytes, reserved_bytes, offset_bytes: page_bytes + unused })
    }
}

/// Pages cannot be guarded, and why.
pub(in crate::device) fn refused(reason: &str) -> DeviceError {
    DeviceError::Launch { what: "guarding pages".to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_touches_the_border_that_is_guarded() {
        let layout = |guard| Layout::of(5000, 4096, guard).expect("there is such an allocation");
        let front = layout(PageGuard::Front);
        assert_eq!((front.mapped_bytes, front.reserved_bytes, front.offset_bytes), (8192, 16384, 4096));
        let back = layout(PageGuard::Back);
        assert_eq!(back.offset_bytes + 5000, back.page_bytes + back.mapped_bytes, "its last byte is the last mapped");
        assert_eq!(Layout::of(4096, 4096, PageGuard::Back).map(|layout| layout.offset_bytes), Ok(4096));
        for bytes in [0, u64::MAX] {
            Layout::of(bytes, 4096, PageGuard::Front).expect_err("there is no such allocation");
        }
    }
}
