//! Copying an NIOCCTRL request: header, body and the chain of options, bounded to 4096 bytes together; and writing the
//! answers back.

use std::ops::Range;

use ringway_mem::user;
use rustix::io::Errno;

use crate::abi::{self, Header, OPTION_STATUS_AT, OptionHeader, REQUEST_BYTES_MAX, option};

/// What an option's status is until somebody has dealt with it.
const NOT_SUPPORTED: u32 = Errno::OPNOTSUPP.raw_os_error() as u32;

/// One option, copied.
pub(crate) struct RequestOption {
    address: u64,
    pub(crate) kind: u32,
    /// The whole option, its header included.
    pub(crate) bytes: Vec<u8>,
    status: u32,
}

/// The options of a request in the order of the chain. Dropping it writes no answers; [`Options::answer`] does.
pub(crate) struct Options(Vec<RequestOption>);

/// A header, copied.
pub(crate) struct Request {
    /// Where the program has it.
    pub(crate) address: u64,
    pub(crate) header: Header,
    pub(crate) name: String,
}

impl Request {
    /// # Errors
    /// `EFAULT`; `EINVAL` for a version that is not 14 or 15, after the right one was written into the header.
    pub(crate) fn read(address: u64) -> Result<Request, Errno> {
        let mut bytes = [0; Header::BYTES];
        user::read(address, &mut bytes)?;
        let mut header = Header::from_bytes(&bytes);
        if !abi::VERSIONS.contains(&header.nr_version) {
            header.nr_version = abi::NETMAP_API;
            user::write(address, &header.nr_version.to_ne_bytes())?;
            return Err(Errno::INVAL);
        }
        Ok(Request { address, header, name: name(&bytes[abi::HEADER_NAME]) })
    }

    /// Checks that there is a body exactly if the request has one, of `bytes` bytes.
    pub(crate) fn expect_body(&self, bytes: usize) -> Result<(), Errno> {
        if (self.header.nr_body != 0) == (bytes > 0) { Ok(()) } else { Err(Errno::INVAL) }
    }
}

/// A name from a fixed field, cut before its last byte.
pub(crate) fn name(field: &[u8]) -> String {
    let field = &field[..field.len() - 1];
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// Writes a name into a fixed field of a program's structure, cut before its last byte.
pub(crate) fn write_name(address: u64, field: Range<usize>, name: &str) -> Result<(), Errno> {
    let mut bytes = vec![0; field.len()];
    let len = name.len().min(field.len() - 1);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    user::write(address.wrapping_add(field.start as u64), &bytes)
}

impl Options {
    pub(crate) fn none() -> Options {
        Options(vec![])
    }

    /// Copies the chain from `first` on; `body_bytes` of the request are taken already.
    ///
    /// # Errors
    /// `EFAULT`; `EMSGSIZE` for a chain (a loop, too) that is longer than a request may be.
    pub(crate) fn read(first: u64, body_bytes: usize) -> Result<Options, Errno> {
        let mut left = REQUEST_BYTES_MAX - Header::BYTES - body_bytes;
        let (mut options, mut address) = (vec![], first);
        while address != 0 {
            let header = OptionHeader::read(address)?;
            let bytes = bytes_of(&header)?;
            left = left.checked_sub(bytes).ok_or(Errno::MSGSIZE)?;
            let mut copy = vec![0; bytes];
            user::read(address, &mut copy)?;
            options.push(RequestOption { address, kind: header.nro_reqtype, bytes: copy, status: NOT_SUPPORTED });
            address = header.nro_next;
        }
        let mut options = Options(options);
        options.refuse_duplicates();
        Ok(options)
    }

    fn refuse_duplicates(&mut self) {
        let kinds: Vec<u32> = self.0.iter().map(|option| option.kind).collect();
        for option in self.0.iter_mut().filter(|option| is_known(option.kind)) {
            if kinds.iter().filter(|kind| **kind == option.kind).count() > 1 {
                option.status = Errno::INVAL.raw_os_error() as u32;
            }
        }
    }

    /// The option of this kind, if there is one and it is not yet refused.
    pub(crate) fn find(&self, kind: u32) -> Option<&RequestOption> {
        self.0.iter().find(|option| option.kind == kind && option.status == NOT_SUPPORTED)
    }

    /// What became of the option of this kind.
    pub(crate) fn settle(&mut self, kind: u32, result: Result<(), Errno>) {
        let status = result.err().map_or(0, |errno| errno.raw_os_error() as u32);
        self.0.iter_mut().filter(|option| option.kind == kind).for_each(|option| option.status = status);
    }

    /// The first reason why the request cannot be done as its options ask, if these kinds are all that it knows.
    pub(crate) fn check(&self, known: &[u32]) -> Result<(), Errno> {
        let refused = |option: &&RequestOption| option.status != NOT_SUPPORTED || !known.contains(&option.kind);
        match self.0.iter().find(refused) {
            Some(option) if option.status != 0 => Err(Errno::from_raw_os_error(option.status as i32)),
            _ => Ok(()),
        }
    }

    /// Writes each option's status back.
    pub(crate) fn answer(&self) -> Result<(), Errno> {
        let status_at = |option: &RequestOption| option.address.wrapping_add(OPTION_STATUS_AT);
        self.0.iter().try_for_each(|option| user::write(status_at(option), &option.status.to_ne_bytes()))
    }
}

impl RequestOption {
    /// The bytes, if there are as many as the caller knows there must be.
    pub(crate) fn array<const N: usize>(&self) -> Result<&[u8; N], Errno> {
        self.bytes.first_chunk().ok_or(Errno::INVAL)
    }
}

fn is_known(kind: u32) -> bool {
    (option::EXTMEM..=option::OFFSETS).contains(&kind)
}

/// Length of an option. Only the one with an array says its own; one that nobody knows is its header.
fn bytes_of(header: &OptionHeader) -> Result<usize, Errno> {
    match header.nro_reqtype {
        option::EXTMEM => Ok(24 + 8 + abi::PoolsInfo::BYTES),
        option::SYNC_KLOOP_EVENTFDS => {
            let bytes = usize::try_from(header.nro_size).map_err(|_| Errno::MSGSIZE)?;
            if bytes < OptionHeader::BYTES { Err(Errno::INVAL) } else { Ok(bytes) }
        }
        option::CSB => Ok(40),
        option::SYNC_KLOOP_MODE => Ok(32),
        option::OFFSETS => Ok(abi::Offsets::BYTES),
        _ => Ok(OptionHeader::BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(nro_next: u64, nro_reqtype: u32, nro_size: u64) -> Vec<u8> {
        let header = OptionHeader { nro_next, nro_reqtype, nro_status: 0, nro_size };
        let mut bytes = header.to_bytes().to_vec();
        bytes.resize(256, 0);
        bytes
    }

    fn status(bytes: &[u8]) -> i32 {
        i32::from_ne_bytes(bytes[12..16].try_into().unwrap())
    }

    #[test]
    fn unknown_options_are_answered_with_eopnotsupp() {
        let bytes = option(0, 1234, 77);
        let options = Options::read(bytes.as_ptr() as u64, 56).unwrap();
        assert_eq!(options.check(&[option::CSB]), Err(Errno::OPNOTSUPP));
        options.answer().unwrap();
        assert_eq!(status(&bytes), Errno::OPNOTSUPP.raw_os_error());
    }

    #[test]
    fn a_loop_or_a_chain_too_long_is_emsgsize() {
        let mut bytes = option(0, 1234, 0);
        let address = bytes.as_ptr() as u64;
        bytes[..8].copy_from_slice(&address.to_ne_bytes());
        assert_eq!(Options::read(address, 56).err(), Some(Errno::MSGSIZE));
        let large = option(0, option::SYNC_KLOOP_EVENTFDS, 1 << 40);
        assert_eq!(Options::read(large.as_ptr() as u64, 8).err(), Some(Errno::MSGSIZE));
    }

    #[test]
    fn duplicates_are_einval_each() {
        let first = option(0, option::CSB, 0);
        let second = option(first.as_ptr() as u64, option::CSB, 0);
        let options = Options::read(second.as_ptr() as u64, 56).unwrap();
        assert_eq!(options.check(&[option::CSB]), Err(Errno::INVAL));
        options.answer().unwrap();
        assert_eq!([status(&first), status(&second)], [Errno::INVAL.raw_os_error(); 2]);
    }

    #[test]
    fn wild_addresses_are_efault() {
        assert_eq!(Options::read(0x10, 56).err(), Some(Errno::FAULT));
        let bytes = option(0x800, 1234, 0);
        assert_eq!(Options::read(bytes.as_ptr() as u64, 56).err(), Some(Errno::FAULT));
        assert_eq!(Request::read(0x10).err(), Some(Errno::FAULT));
    }
}
