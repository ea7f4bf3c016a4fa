//! Starting programs under the library.

pub(crate) mod autostart;
pub(crate) mod detach;
pub(crate) mod library;
pub(crate) mod outcome;
pub(crate) mod program;
pub(crate) mod supervise;
