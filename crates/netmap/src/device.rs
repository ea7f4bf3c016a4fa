//! One open `/dev/netmap`: what its ioctls and polls answer.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringway_port::Wakers;
use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::abi::{
    self, KloopStart, NewInterface, Polling, PoolsInfo, PortHeader, PortInfo, Register, ValeList, option, reqtype,
};
use crate::bound::Binding;
use crate::kloop::{Kloop, Orders};
use crate::poll::Progress;
use crate::request::{self, Options, Request};
use crate::{info, legacy, register, vale};

/// What the caller of an ioctl has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// The device was bound: the program's descriptor becomes a copy of [`Device::descriptor`].
    Bound,
}

/// An open `/dev/netmap`, bound to a port or not. Threads may use it at once; they take turns.
#[derive(Default)]
pub struct Device {
    binding: Mutex<Option<Binding>>,
    kloop: Kloop,
}

impl Device {
    /// The device behind a descriptor that came from elsewhere.
    ///
    /// # Errors
    /// It is none of ours, or of a kind that cannot be handed on.
    pub fn adopt(fd: OwnedFd) -> Result<Device, Errno> {
        Ok(Device { binding: Mutex::new(Some(Binding::adopt(fd)?)), kloop: Kloop::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Binding>> {
        self.binding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) fn with_binding<T>(&self, look: impl FnOnce(&mut Binding) -> T) -> T {
        look(self.lock().as_mut().expect("the test has bound the device"))
    }

    /// The descriptor of what the device is bound to; it stays as long as the device.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.lock().as_ref().map(|binding| binding.port.fd().as_raw_fd())
    }

    /// One ioctl; `arg` may be any address.
    pub fn ioctl(&self, request: u32, arg: u64) -> Result<Answer, Errno> {
        match request {
            abi::NIOCCTRL => self.control(arg),
            abi::NIOCTXSYNC => self.bound(Binding::sync_tx),
            abi::NIOCRXSYNC => self.bound(Binding::sync_rx),
            abi::NIOCREGIF => legacy::regif(self, arg),
            abi::NIOCGINFO => legacy::ginfo(arg),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn bound(&self, sync: impl FnOnce(&mut Binding) -> Result<(), Errno>) -> Result<Answer, Errno> {
        sync(self.lock().as_mut().ok_or(Errno::NXIO)?).map(|()| Answer::Done)
    }

    fn control(&self, address: u64) -> Result<Answer, Errno> {
        let request = Request::read(address)?;
        let body_bytes = body_bytes(request.header.nr_reqtype).ok_or(Errno::INVAL)?;
        request.expect_body(body_bytes)?;
        let mut options = Options::read(request.header.nr_options, body_bytes)?;
        let result = self.serve(&request, &mut options);
        options.answer()?;
        result
    }

    fn serve(&self, request: &Request, options: &mut Options) -> Result<Answer, Errno> {
        let (name, body) = (&request.name, request.header.nr_body);
        if request.header.nr_reqtype == reqtype::REGISTER {
            let mut fields = Register::read(body)?;
            self.register(name, &mut fields, options)?;
            return fields.write(body).map(|()| Answer::Bound);
        }
        match request.header.nr_reqtype {
            reqtype::CSB_ENABLE => return self.enable_csb(options),
            reqtype::SYNC_KLOOP_START => return self.run_kloop(KloopStart::read(body)?, options),
            _ => options.check(&[])?,
        }
        match request.header.nr_reqtype {
            reqtype::SYNC_KLOOP_STOP => {
                self.bound(|_| Ok(()))?;
                self.kloop.stop();
            }
            reqtype::PORT_INFO_GET => {
                let mut fields = PortInfo::read(body)?;
                info::port(name, &mut fields)?;
                fields.write(body)?;
            }
            reqtype::POOLS_INFO_GET => {
                let mut fields = PoolsInfo::read(body)?;
                info::pools(name, &mut fields)?;
                fields.write(body)?;
            }
            _ => vale_request(request)?,
        }
        Ok(Answer::Done)
    }

    /// REGISTER, in either form.
    pub(crate) fn register(&self, name: &str, fields: &mut Register, options: &mut Options) -> Result<(), Errno> {
        let mut binding = self.lock();
        if binding.is_some() {
            return Err(Errno::BUSY);
        }
        *binding = Some(register::register(name, fields, options)?);
        Ok(())
    }

    fn enable_csb(&self, options: &mut Options) -> Result<Answer, Errno> {
        options.check(&[option::CSB])?;
        if self.kloop.is_running() {
            return Err(Errno::BUSY);
        }
        let mut binding = self.lock();
        register::enable_csb(binding.as_mut().ok_or(Errno::INVAL)?, options)?;
        Ok(Answer::Done)
    }

    /// Stays until another thread stops it.
    fn run_kloop(&self, request: KloopStart, options: &mut Options) -> Result<Answer, Errno> {
        options.check(&[option::SYNC_KLOOP_EVENTFDS, option::SYNC_KLOOP_MODE])?;
        let (csb, orders) = {
            let binding = self.lock();
            let binding = binding.as_ref().ok_or(Errno::NXIO)?;
            let csb = binding.csb.ok_or(Errno::INVAL)?;
            (csb, Orders::new(request.sleep_us, binding.tx.len() + binding.rx.len(), options)?)
        };
        // The program reads the options' answers while the loop runs.
        options.answer()?;
        self.kloop.run(csb, &orders, |call| call(self.lock().as_mut().ok_or(Errno::NXIO)?)).map(|()| Answer::Done)
    }

    /// Does the I/O that a poll for `events` does; returns what came. POLLERR if the device is not bound.
    pub fn poll(&self, events: PollFlags) -> PollFlags {
        self.lock().as_mut().map_or(PollFlags::ERR, |binding| binding.poll(events))
    }

    /// Like [`Device::poll`], for those who want to hear of each step ([`Device::progress`]): receives more though there are
    /// packets that were not taken.
    pub fn poll_for_edge(&self, events: PollFlags) -> PollFlags {
        self.lock().as_mut().map_or(PollFlags::ERR, |binding| binding.poll_for(events, true))
    }

    /// How far the rings are.
    pub fn progress(&self) -> Progress {
        self.lock().as_ref().map_or_else(Progress::default, Binding::progress)
    }

    /// Before a sleep: asks for a ring of the bell with this number. False if the rings must be looked at from time to
    /// time instead, because too many wait for one of them.
    pub fn arm(&self, events: PollFlags, bell: u32) -> bool {
        self.lock().as_ref().is_none_or(|binding| binding.arm(events, bell))
    }

    pub fn disarm(&self, events: PollFlags, bell: u32) {
        if let Some(binding) = &*self.lock() {
            binding.disarm(events, bell);
        }
    }

    /// What else ends a wait.
    pub fn wakers(&self) -> Wakers {
        self.lock().as_ref().map_or_else(Wakers::default, |binding| binding.port.wakers())
    }
}

/// A request about switches and their ports.
fn vale_request(request: &Request) -> Result<(), Errno> {
    let (name, body) = (&request.name, request.header.nr_body);
    match request.header.nr_reqtype {
        reqtype::VALE_LIST => {
            let mut place = ValeList::read(body)?;
            let found = vale::list(name, &mut place)?;
            request::write_name(request.address, abi::HEADER_NAME, &found)?;
            place.write(body)
        }
        reqtype::PORT_HDR_SET => vale::set_header(name, PortHeader::read(body)?.nr_hdr_len),
        reqtype::PORT_HDR_GET => PortHeader { nr_hdr_len: vale::header(name)? }.write(body),
        reqtype::VALE_NEWIF => vale::new_interface(name, &NewInterface::read(body)?),
        reqtype::VALE_DELIF => vale::delete_interface(name),
        // The port's number follows the registration.
        reqtype::VALE_ATTACH => vale::attach(name, &Register::read(body)?),
        reqtype::VALE_DETACH => vale::detach(name),
        reqtype::VALE_POLLING_ENABLE | reqtype::VALE_POLLING_DISABLE => vale::polling(name, &Polling::read(body)?),
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Bytes of a request's body; None for a request that does not exist.
fn body_bytes(kind: u16) -> Option<usize> {
    Some(match kind {
        reqtype::REGISTER => Register::BYTES,
        reqtype::PORT_INFO_GET => PortInfo::BYTES,
        reqtype::VALE_ATTACH => Register::BYTES + 8,
        reqtype::VALE_DETACH | reqtype::VALE_LIST => 8,
        reqtype::PORT_HDR_SET | reqtype::PORT_HDR_GET => 8,
        reqtype::VALE_NEWIF => 16,
        reqtype::VALE_POLLING_ENABLE | reqtype::VALE_POLLING_DISABLE => 16,
        reqtype::POOLS_INFO_GET => PoolsInfo::BYTES,
        reqtype::SYNC_KLOOP_START => 8,
        reqtype::VALE_DELIF | reqtype::SYNC_KLOOP_STOP | reqtype::CSB_ENABLE => 0,
        _ => return None,
    })
}
