//! The [CSB cells](crate::csb) of one port in a region of their own, which the port's user makes and whoever serves the
//! port maps as well.
//!
//! ```text
//!   page 0   tx ring 0: program -> server 64, server -> program 64 | tx ring 1 ... 15 | rx ring 0 ... 15
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::csb::{AppCell, ServerCell};
use crate::fabric::SWITCH_RINGS_MAX;
use crate::pool::PAGE_BYTES;
use crate::region::{self, Region, RegionError};

/// What the two sides of one ring tell each other.
#[repr(C)]
#[derive(Debug)]
pub struct RingCells {
    pub app: AppCell,
    pub server: ServerCell,
}

const RINGS: usize = SWITCH_RINGS_MAX as usize;
const _: () = assert!(size_of::<RingCells>() == 128 && 2 * RINGS * size_of::<RingCells>() == PAGE_BYTES);

/// The cells of a port's rings, mapped.
#[derive(Debug)]
pub struct Cells {
    region: Region,
    fd: OwnedFd,
}

impl Cells {
    /// Makes the cells of a port whose rings are empty.
    ///
    /// # Errors
    /// No memory.
    pub fn create() -> Result<Cells, RegionError> {
        Cells::attach(region::create_sealed("ringway-cells", PAGE_BYTES)?)
    }

    /// Maps those that another process made.
    ///
    /// # Errors
    /// A descriptor that is none of cells.
    pub fn attach(fd: OwnedFd) -> Result<Cells, RegionError> {
        Ok(Cells { region: Region::open(&fd, PAGE_BYTES, PAGE_BYTES)?, fd })
    }

    /// The sealed memfd, to hand to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Those of a tx ring; none from ring 16 on.
    #[inline]
    pub fn tx(&self, ring: usize) -> Option<&RingCells> {
        self.all()[..RINGS].get(ring)
    }

    /// Those of an rx ring.
    #[inline]
    pub fn rx(&self, ring: usize) -> Option<&RingCells> {
        self.all()[RINGS..].get(ring)
    }

    /// All cells, those of tx rings first.
    #[inline]
    pub fn all(&self) -> &[RingCells; 2 * RINGS] {
        // SAFETY: the region is one page, aligned as pages are, and the cells fill it (asserted above); they are atomics,
        // for which zero is valid, and which anybody may change at any time.
        unsafe { self.region.base().cast().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same_cells() {
        let ours = Cells::create().unwrap();
        let theirs = Cells::attach(ours.fd().try_clone_to_owned().unwrap()).unwrap();
        ours.tx(3).unwrap().app.publish(7, 8);
        theirs.rx(15).unwrap().server.publish(1, 2);
        assert_eq!((theirs.tx(3).unwrap().app.read(), ours.rx(15).unwrap().server.read()), ((7, 8), (1, 2)));
        assert!(ours.tx(16).is_none() && ours.rx(16).is_none());
        let short = region::create_sealed("short", 64).unwrap();
        assert!(Cells::attach(short).is_err());
    }
}
