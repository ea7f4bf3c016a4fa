//! libringway.so
