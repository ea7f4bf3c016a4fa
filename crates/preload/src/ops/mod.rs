//! Safe operations behind the hooks that are more than one step.

pub(crate) mod descriptor;
pub(crate) mod message;
pub(crate) mod option;
pub(crate) mod poll;
pub(crate) mod select;
pub(crate) mod stdio;
pub(crate) mod transfer;
pub(crate) mod uring;
