//! libringway.so

mod copy;
mod lock;
mod real;
mod registry;
mod signals;
mod sys;
mod thread;
