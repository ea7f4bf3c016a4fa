//! Sealed memfd regions: memory that a peer can write but never shrink under our feet.
//!
//! The maker seals the size (`F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL`) before anybody else sees the
//! descriptor; whoever receives one checks seals and length itself before it maps (`Region::open`).
//! Without the seals a peer could truncate the file and every access would raise SIGBUS.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// Why a descriptor is no usable region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// A system call failed.
    Os(Errno),
    /// The file's length differs from what the protocol says.
    Length { found_bytes: u64, expected_bytes: u64 },
    /// Not all of SHRINK, GROW and SEAL are set.
    Unsealed { found: u32 },
}

impl std::fmt::Display for RegionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RegionError::Os(e) => write!(f, "shared region: {e}"),
            RegionError::Length { found_bytes, expected_bytes } => {
                write!(f, "shared region has {found_bytes} bytes, expected {expected_bytes}")
            }
            RegionError::Unsealed { found } => {
                write!(f, "shared region is not sealed against resizing (seals {found:#x})")
            }
        }
    }
}

impl std::error::Error for RegionError {}

impl From<Errno> for RegionError {
    fn from(e: Errno) -> Self {
        RegionError::Os(e)
    }
}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes a zeroed memfd of `bytes` bytes and seals its size. `name` shows in `/proc/PID/maps`.
pub fn create_sealed(name: &str, bytes: usize) -> Result<OwnedFd, RegionError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // MFD_NOEXEC_SEAL is refused by kernels before 6.3.
    let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
        other => other?,
    };
    rustix::fs::ftruncate(&fd, bytes as u64)?;
    rustix::fs::fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

/// A mapped shared region. Dropping it unmaps.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Region is an address range; all access goes through atomics or raw copies that tolerate
// concurrent change, so it may move to and be used from any thread.
unsafe impl Send for Region {}
// SAFETY: as above; no method hands out references to the bytes.
unsafe impl Sync for Region {}

impl Region {
    /// Checks `fd` (length, seals) and maps its first `map_bytes` bytes for reading and writing.
    ///
    /// # Errors
    /// [`RegionError::Length`] or [`RegionError::Unsealed`] for a descriptor that breaks the protocol.
    pub fn open(fd: impl AsFd, expected_bytes: usize, map_bytes: usize) -> Result<Region, RegionError> {
        Self::open_with(fd, expected_bytes, map_bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Like [`Region::open`], for observers: the mapping is read-only.
    pub fn open_read_only(fd: impl AsFd, expected_bytes: usize) -> Result<Region, RegionError> {
        Self::open_with(fd, expected_bytes, expected_bytes, ProtFlags::READ)
    }

    fn open_with(fd: impl AsFd, expected: usize, map_bytes: usize, prot: ProtFlags) -> Result<Region, RegionError> {
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        if !seals.contains(SEALS) {
            return Err(RegionError::Unsealed { found: seals.bits() });
        }
        let found_bytes = rustix::fs::fstat(&fd)?.st_size as u64;
        if found_bytes != expected as u64 || map_bytes > expected {
            return Err(RegionError::Length { found_bytes, expected_bytes: expected as u64 });
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice; the file cannot shrink (sealed).
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), map_bytes, prot, MapFlags::SHARED, fd, 0)? };
        let base = NonNull::new(base.cast()).ok_or(RegionError::Os(Errno::NOMEM))?;
        Ok(Region { base, bytes: map_bytes })
    }

    /// Address of the first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Mapped length, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives up ownership: the mapping stays until [`Region::from_raw`] takes it back.
    pub fn into_raw(self) -> (NonNull<u8>, usize) {
        let raw = (self.base, self.bytes);
        std::mem::forget(self);
        raw
    }

    /// Takes back what [`Region::into_raw`] gave.
    ///
    /// # Safety
    /// The pair must come from `into_raw` and be taken back once only.
    pub unsafe fn from_raw(base: NonNull<u8>, bytes: usize) -> Region {
        Region { base, bytes }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; nobody keeps references into it past the Region's life.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_region_opens_and_shares_bytes() {
        let fd = create_sealed("ringway-test", 8192).unwrap();
        let (a, b) = (Region::open(&fd, 8192, 4096).unwrap(), Region::open(&fd, 8192, 8192).unwrap());
        drop(fd);
        // SAFETY: both addresses are inside live mappings of 4096 bytes at least.
        unsafe {
            b.base().as_ptr().add(3000).write_volatile(7);
            assert_eq!(a.base().as_ptr().add(3000).read_volatile(), 7);
        }
    }

    #[test]
    fn wrong_length_and_missing_seals_are_refused() {
        let fd = create_sealed("ringway-test", 4096).unwrap();
        assert!(matches!(Region::open(&fd, 8192, 8192), Err(RegionError::Length { .. })));
        let bare = rustix::fs::memfd_create("bare", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&bare, 4096).unwrap();
        assert!(matches!(Region::open(&bare, 4096, 4096), Err(RegionError::Unsealed { .. })));
    }
}
