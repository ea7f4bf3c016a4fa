//! Packets made from ring bytes.
